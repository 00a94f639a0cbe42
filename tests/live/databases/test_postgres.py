"""PostgreSQL keeps the contract; several stores, as several processes have them, serve one experiment."""

import itertools
import os
import random
import signal
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import urlsplit

import psycopg
import pytest
from contract import StoreContract
from contract.scenario import ENVIRONMENT, FIVE, START, Scenario, assert_finished, options
from users import Users, assert_same, finish

import sameluck as sl
from nonempty import nonempty
from sameluck.errors import Closed
from sameluck.live.calls.timing import looking
from sameluck.live.databases import postgres
from sameluck.live.databases.postgres_transaction import lock_number
from sameluck.live.databases.rows import TextRow
from sameluck.live.state.replications import OpenReplications
from sameluck.live.users.enrolment import NewAssignment

LOCKS = {
    "lock_assignment": "SELECT 1 FROM assignment WHERE id = %(assignment)s FOR UPDATE",
    "lock_experiment": "SELECT 1 FROM experiment WHERE id = %(experiment)s FOR NO KEY UPDATE",
}
KILL = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class TestPostgres(StoreContract):
    @pytest.fixture
    def open_store(self, postgres_url):
        return lambda clock: sl.open(postgres_url, clock=clock)


def kill_everybody(url):
    """End every connection to a database but one's own; how many that were."""
    with psycopg.connect(url, autocommit=True) as connection:
        return len(connection.execute(KILL).fetchall())


@pytest.fixture
def scenarios(postgres_url):
    """Three stores on one database, each with connections of its own, as three processes have them."""
    clock = sl.VirtualClock(START)
    opened = []
    units = itertools.count()
    for _ in range(3):
        scenario = Scenario(lambda _: sl.open(postgres_url, clock=clock, connections=4))
        scenario.clock, scenario._units = clock, units
        opened.append(scenario)
    yield opened
    for scenario in opened:
        scenario.close()


def everywhere(scenarios, name="trial"):
    return [scenario.store.load(name) for scenario in scenarios]


def until_it_answers(call, *arguments):
    while True:
        try:
            return call(*arguments)
        except sl.Unavailable:
            continue


def serve_to_the_end(scenario, live):
    while True:
        answer = until_it_answers(partial(live.assign, strict=True), scenario.unit())
        if answer.reason == "NOT_RUNNING":
            return
        if answer.id is not None:
            until_it_answers(scenario.pay, live, answer.id)


class TestSeveralProcesses:
    @pytest.mark.parametrize("design", ["replay", "naive"])
    def test_take_turns(self, scenarios, design):
        """Assigned by one, rewarded by another, ticked by the third, in any order."""
        scenarios[0].start(FIVE, design=design, options=options(open_replications=2))
        served, generator, pending = everywhere(scenarios), random.Random(1), []
        reason = ""
        while reason != "NOT_RUNNING":
            id, _, _, reason = generator.choice(served).assign(scenarios[0].unit())
            if id is not None:
                pending.append(id)
            if pending and (id is None or generator.random() < 0.4):
                id = pending.pop(generator.randrange(len(pending)))
                scenarios[0].pay(generator.choice(served), id)
                assert scenarios[0].pay(generator.choice(served), id).duplicate
            generator.choice(served).tick()
        for live in served:
            assert_finished(live)

    def test_serve_at_the_same_time(self, scenarios):
        scenarios[0].start(FIVE, replications=6, options=options(open_replications=3))
        served = everywhere(scenarios)
        with ThreadPoolExecutor(6) as pool:
            calls = {
                pool.submit(serve_to_the_end, *pair)
                for pair in zip(scenarios, served, strict=True)
                for _ in range(2)
            }
            assert len(calls) == 6
            for call in calls:
                call.result(timeout=120)
        for live in served:
            assert_finished(live)

    def test_a_unit_is_known_to_all(self, scenarios):
        scenarios[0].start(options=options(open_replications=1))
        answers = [live.assign("ann") for live in everywhere(scenarios)]
        assert {answer.id for answer in answers} == {answers[0].id}
        assert [answer.reason for answer in answers] == ["ASSIGNED", "STICKY", "STICKY"]

    @pytest.mark.parametrize("design", ["replay", "naive"])
    def test_a_challenger_joins_for_all(self, scenarios, design):
        scenarios[0].start(FIVE, design=design)
        served = everywhere(scenarios)
        for _ in range(10):
            for scenario, live in zip(scenarios, served, strict=True):
                scenario.serve(live)
        served[1].add_policy("late", "epsilon_greedy(epsilon=0.5)")
        for scenario, live in zip(scenarios, served, strict=True):
            for _ in range(10):
                scenario.serve(live)
        for live in nonempty(served):
            scenarios[0].finish(live)
            assert_finished(live)
            assert "late" in live.experiment.policies

    def test_a_pause_holds_for_all(self, scenarios):
        scenarios[0].start()
        first, second, _ = everywhere(scenarios)
        first.pause()
        assert second.assign("ann").reason == "NOT_RUNNING"
        second.resume()
        assert first.assign("ann").enrolled

    def test_a_stop_after_replications_holds_for_all(self, scenarios):
        scenarios[0].start(replications=9, options=options(open_replications=2))
        first, second, third = everywhere(scenarios)
        first.stop(after_replications=5)
        with ThreadPoolExecutor(2) as pool:
            calls = [
                pool.submit(serve_to_the_end, *pair)
                for pair in zip(scenarios[1:], (second, third), strict=True)
            ]
            for call in calls:
                call.result(timeout=120)
        for live in (first, second, third):
            assert (live.status().status, live.status().opened) == ("stopped", 5)
            expected = sl.simulate(live.experiment, ENVIRONMENT, replications=range(5), workers=1)
            assert_same(live.runs(), expected)

    def test_of_two_that_start_one_name_one_wins(self, scenarios):
        with ThreadPoolExecutor(3) as pool:
            started = [pool.submit(scenario.start) for scenario in scenarios]
            failures = [start.exception(timeout=60) for start in started]
        lost = [error for error in failures if error is not None]
        assert [error.code for error in lost] == ["name_taken"] * 2
        assert scenarios[0].store.names() == ["trial"]
        (live, *_) = everywhere(scenarios)
        scenarios[0].finish(live)
        assert_finished(live)

    def test_make_the_schema_once(self, empty_postgres_url):
        together = threading.Barrier(4)

        def opened(_):
            together.wait()
            return sl.open(empty_postgres_url, connections=2)

        with ThreadPoolExecutor(4) as pool:
            stores = list(pool.map(opened, range(4)))
        for store in nonempty(stores):
            assert store.names() == []
            store.close()


class TestLostConnections:
    def test_between_calls(self, postgres_url):
        """More of them than there are attempts: a server that was restarted ends all."""
        with sl.open(postgres_url, connections=15) as store:
            together = threading.Barrier(15)

            def used(transaction):
                together.wait(30)
                return transaction.fetch_all(TextRow, "names")

            with ThreadPoolExecutor(15) as pool:
                list(pool.map(lambda _: store.database.read(used), range(15)))
            assert kill_everybody(postgres_url) == 15
            assert store.names() == []
            kill_everybody(postgres_url)
            small = sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=2, replications=1)
            assert store.start("trial", small).assign("ann").enrolled

    def test_in_the_midst_of_calls(self, postgres_url, scenarios):
        scenarios[0].start(FIVE, replications=5, options=options(open_replications=3))
        served = everywhere(scenarios)
        with ThreadPoolExecutor(3) as pool:
            calls = [
                pool.submit(serve_to_the_end, *pair) for pair in zip(scenarios, served, strict=True)
            ]
            killed, pause = 0, 0.1
            while not all(call.done() for call in calls):
                killed += kill_everybody(postgres_url)
                threading.Event().wait(pause)
                pause *= 1.2  # a busy machine must be able to keep up
            for call in calls:
                call.result()
        assert killed > 3
        for live in served:
            assert_finished(live)


def made(live, unit):
    return NewAssignment(live.assign(unit).id, live.enrolment.unit_hash(unit))


def test_an_assignment_is_voided_once_the_call_that_made_it_has_ended(postgres_url):
    """While the server is still busy with that call, nobody knows whether the assignment was made."""
    with sl.open(postgres_url, clock=sl.VirtualClock(START)) as store:
        live = Scenario(lambda _: store).start()
        unanswered = made(live, "unit")
        with psycopg.connect(postgres_url) as busy:
            busy.execute("SELECT pg_advisory_xact_lock(%s)", [lock_number(unanswered.unit_hash)])
            live.enrolment.mark_undelivered([unanswered])
            assert live.assign("other").enrolled
            assert live.status().voided == 0
        assert live.assign("third").enrolled
        assert live.status().voided == 1


def test_units_are_voided_once_calls_for_them_have_ended(postgres_url):
    """The commit of a process that was killed may be under way, although the unit does not look enrolled."""
    with sl.open(postgres_url, timeout=30) as store:
        live = Scenario(lambda _: store).start()
        with psycopg.connect(postgres_url) as busy:
            number = lock_number(live.enrolment.unit_hash("unit"))
            busy.execute("SELECT pg_advisory_xact_lock(%s)", [number])
            voiding = threading.Thread(target=live.void_units, args=[["unit"]])
            voiding.start()
            voiding.join(0.3)
            assert voiding.is_alive()
        voiding.join(30)
        assert not voiding.is_alive()


def test_a_unit_that_returns_while_its_assignment_is_voided_gets_another(postgres_url, monkeypatch):
    """Its first call had no answer in time, so that its assignment is voided; the next one is told what counts."""
    voiding, void = threading.Event(), OpenReplications.void

    def slow(*arguments):
        voiding.set()
        time.sleep(0.3)
        return void(*arguments)

    with sl.open(postgres_url, timeout=30) as store:
        experiment = sl.Experiment(
            policies={"a": "ucb1", "b": "uniform"}, arms=2, horizon=9, replications=9
        )
        live = store.start("trial", experiment)
        live.enrolment.mark_undelivered([made(live, "unit")])
        monkeypatch.setattr(OpenReplications, "void", slow)
        other = threading.Thread(target=live.assign, args=["other"])
        other.start()
        assert voiding.wait(30)
        delivered = live.assign("unit")
        other.join()
        assert live.reward(delivered.id, 1.0).applied


@pytest.mark.parametrize("lock", ["lock_assignment", "lock_experiment"])
def test_a_list_of_units_waits_for_no_reward_that_may_wait_for_it(postgres_url, lock):
    """A reward locks its assignment, and then the experiment if the replication is complete."""
    with sl.open(postgres_url, timeout=10) as store, psycopg.connect(postgres_url) as reward:
        live = Scenario(lambda _: store).start()
        id = live.assign("returns").id
        reward.execute(LOCKS[lock], {"assignment": id, "experiment": live.id})
        answers = live.assign_many(["new", "returns"], strict=True)
        assert [answer.reason for answer in answers] == ["ASSIGNED", "STICKY"]


def test_visits_are_counted_without_a_wait_for_a_unit_that_another_call_has_locked(postgres_url):
    """The other call may change the unit's row and wait for a unit of this call."""
    visits = "SELECT visits FROM arrival WHERE unit = %s"
    clock = sl.VirtualClock(START)
    with (
        sl.open(postgres_url, clock=clock, timeout=10) as store,
        psycopg.connect(postgres_url) as other,
    ):
        live = Scenario(lambda _: store).start()
        unit_hash = made(live, "unit").unit_hash
        live.assign("unit")
        other.execute("SELECT pg_advisory_xact_lock(%s)", [lock_number(unit_hash)])
        other.execute("UPDATE arrival SET visits = visits + 10 WHERE unit = %s", [unit_hash])
        clock.advance(2)
        assert live.assign("second", strict=True).enrolled
        other.commit()
        clock.advance(2)
        assert live.assign("third", strict=True).enrolled
        assert other.execute(visits, [unit_hash]).fetchone() == (12,)


class TestAddresses:
    @pytest.mark.parametrize("part", ["port", "database", "user"])
    def test_no_server(self, postgres_url, part):
        parts = urlsplit(postgres_url)
        wrong = {
            "port": f"postgresql://me:secret@127.0.0.1:1{parts.path}",
            "database": postgres_url.replace(parts.path, "/nowhere"),
            "user": postgres_url.replace("postgres@", "nobody:secret@"),
        }
        with pytest.raises(sl.Unavailable, match="cannot connect to PostgreSQL: ") as caught:
            sl.open(wrong[part])
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(
        "url", ["postgresql://host/x?nonsense=1", "postgresql://host/%zz", "postgresql://[::1/x"]
    )
    def test_not_an_address(self, url):
        with pytest.raises(sl.Invalid, match="not a PostgreSQL address") as caught:
            sl.open(url)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("connections", [0, -1, 1.5, True, "8"])
    def test_how_many_connections(self, postgres_url, connections):
        with pytest.raises(sl.Invalid, match="connections must be a whole number"):
            sl.open(postgres_url, connections=connections)


def test_one_connection_is_enough(postgres_url):
    scenario = Scenario(lambda clock: sl.open(postgres_url, clock=clock, connections=1))
    live = scenario.start()
    with ThreadPoolExecutor(4) as pool:
        for call in [pool.submit(serve_to_the_end, scenario, live) for _ in range(4)]:
            call.result(timeout=60)
    assert_finished(live)
    scenario.close()


def test_read_only_changes_nothing(postgres_url):
    scenario = Scenario(lambda clock: sl.open(postgres_url, clock=clock))
    live = scenario.start()
    id = scenario.enrol(live)
    with sl.open(postgres_url, read_only=True) as reader:
        watched = reader.load("trial")
        assert watched.describe(id).status == "assigned"
        assert watched.status().users == 1
        for call in (lambda: watched.assign("bob"), lambda: watched.reward(id, 1), watched.pause):
            with pytest.raises(sl.Invalid, match="opened read-only"):
                call()
    scenario.close()


def test_nothing_works_after_closing(postgres_url):
    scenario = Scenario(lambda clock: sl.open(postgres_url, clock=clock))
    live = scenario.start()
    id = scenario.enrol(live)
    scenario.close()
    scenario.close()
    for call in (
        scenario.store.names,
        lambda: live.assign("ann"),
        lambda: live.reward(id, 1.0),
        live.tick,
        live.runs,
        live.status,
    ):
        with pytest.raises(sl.Unavailable, match="closed"):
            call()


def configured(url, *settings):
    """Say how a database's server behaves."""
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in settings:
            connection.execute(f"ALTER DATABASE {urlsplit(url).path[1:]} SET {setting}")


class TestConfiguredServers:
    @pytest.mark.parametrize("digits", [0, -15])
    def test_floats_are_kept_to_the_bit_however_they_are_shown(self, postgres_url, digits):
        configured(postgres_url, f"extra_float_digits = {digits}")
        experiment = sl.Experiment(policies={"a": "uniform"}, arms=2, horizon=8, replications=2)
        users = Users(experiment, sl.Gaussian((0.0, 1.0)))
        with sl.open(postgres_url) as store:
            live = store.start("trial", experiment)
            id = live.assign(0).id
            value = users.reward(live, id)
            live.reward(id, value)
            assert struct.pack("d", live.describe(id).value) == struct.pack("d", value)
            finish(live, users)
            assert_same(live.runs(), users.simulated())

    @pytest.mark.parametrize("level", ["serializable", "repeatable read"])
    def test_transactions_are_as_isolated_as_they_need(self, postgres_url, level):
        configured(postgres_url, f"default_transaction_isolation = '{level}'")
        with sl.open(postgres_url) as store:
            level_used = store.database.write(
                lambda t: t.connection.execute("SHOW transaction_isolation").fetchone()
            )
        assert level_used == ("read committed",)

    def test_a_read_only_server(self, postgres_url):
        sl.open(postgres_url).close()
        configured(postgres_url, "default_transaction_read_only = on")
        small = sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=2, replications=1)
        with (
            sl.open(postgres_url) as store,
            pytest.raises(sl.Unavailable, match=r"read-only transaction; is this a standby, or"),
        ):
            store.start("trial", small)

    def test_a_read_only_server_without_our_tables(self, empty_postgres_url):
        configured(empty_postgres_url, "default_transaction_read_only = on")
        with pytest.raises(
            sl.Unavailable, match=r"cannot execute CREATE TABLE .*is this a standby"
        ):
            sl.open(empty_postgres_url)

    @pytest.mark.slow
    def test_a_transaction_that_thinks_for_too_long(self, postgres_url, monkeypatch):
        """It is run again, perhaps it was the machine; then the setting is named."""
        configured(postgres_url, "idle_in_transaction_session_timeout = '200ms'")
        attempts = []

        def slow(transaction):
            transaction.fetch_all(TextRow, "names")
            attempts.append(1)
            threading.Event().wait(1.0 if len(attempts) <= slowly else 0)
            return transaction.fetch_all(TextRow, "names")

        with sl.open(postgres_url) as store:
            slowly = 1
            assert store.database.read(slow) == []
            assert len(attempts) == 2
            slowly = 100
            monkeypatch.setattr(postgres, "ATTEMPTS", 2)
            with pytest.raises(sl.Unavailable, match="raise idle_in_transaction_session_timeout"):
                store.database.read(slow)

    def test_an_encoding_that_lacks_a_character(self, postgres_server):
        with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1'")
            small = sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=2, replications=1)
            try:
                with sl.open(postgres_server.url("latin")) as store:
                    with pytest.raises(sl.Invalid, match="make the database with ENCODING 'UTF8'"):
                        store.start("🎲", small)
                    store.start("ä", small)
                    assert store.names() == ["ä"]
            finally:
                connection.execute("DROP DATABASE latin WITH (FORCE)")


@pytest.mark.parametrize("command", ["DEALLOCATE ALL", "DISCARD ALL"])
def test_a_connection_that_forgot_our_statements_is_replaced(postgres_url, command):
    """A pooler gives a session to several clients, and psycopg does not know."""
    with sl.open(postgres_url, connections=1) as store:

        def forget(transaction):
            transaction.find(TextRow, "names")
            transaction.connection.execute("COMMIT")
            transaction.connection.pgconn.exec_(command.encode())

        store.database.read(forget)
        assert store.database.read(lambda t: t.find(TextRow, "names")) is None
        assert store.database.read(lambda t: t.find(TextRow, "names")) is None


def test_a_forked_process_opens_connections_of_its_own(postgres_url):
    small = sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=2, replications=1)
    with sl.open(postgres_url, connections=1, timeout=60) as store:
        live = store.start("trial", small)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                answers = str((store.names(), live.assign("child").reason, store.names()))
                os.write(writing, answers.encode())
            finally:
                store.close()
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as output:
            assert output.read() == "(['trial'], 'ASSIGNED', ['trial'])"
        os.waitpid(child, 0)
        assert live.assign("child").reason == "STICKY"
        before = store.database._pool.get_stats()["connections_num"]
        assert store.names() == ["trial"]
        assert store.database._pool.get_stats()["connections_num"] == before


def test_ctrl_c_while_waiting_for_a_connection_loses_none(postgres_url):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    locked, free = threading.Event(), threading.Event()

    def hold(transaction):
        transaction.find(TextRow, "names")
        locked.set()
        free.wait(30)

    with sl.open(postgres_url, connections=1) as store:
        other = threading.Thread(target=store.database.read, args=[hold])
        timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
        try:
            other.start()
            assert locked.wait(30)
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                store.names()
        finally:
            timer.join()
            signal.signal(signal.SIGINT, before)
            free.set()
            other.join(30)
        assert store.names() == []
        assert store.names() == []


def test_a_lost_connection_does_not_keep_a_call_waiting_for_another_one_that_hangs(postgres_url):
    database = postgres.Postgres(postgres_url, connections=3)
    together = threading.Barrier(2)

    def process(transaction):
        return transaction.connection.execute("SELECT pg_backend_pid()").fetchone()[0]

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: database.read(lambda _: together.wait(10)), range(2)))
    lost, hanging = (database.read(process) for _ in range(2))  # the pool takes turns
    awake = threading.Timer(20, os.kill, (hanging, signal.SIGCONT))
    os.kill(hanging, signal.SIGSTOP)
    try:
        os.kill(lost, signal.SIGTERM)
        awake.start()
        assert database.read(process) not in (lost, hanging)
        assert awake.is_alive()
    finally:
        awake.cancel()
        os.kill(hanging, signal.SIGCONT)
        database.close()


def test_only_writing_is_planned_by_indexes_alone(postgres_url):
    database = postgres.Postgres(postgres_url, connections=1)

    def settings(transaction):
        query = "SELECT current_setting('enable_hashjoin'), current_setting('jit')"
        return transaction.connection.execute(query).fetchone()

    try:
        shown = [call(settings) for call in (database.read, database.write, database.read)]
        assert shown == [("on", "on"), ("off", "off"), ("on", "on")]
    finally:
        database.close()


def test_looks_keep_no_other_call_from_a_connection(postgres_url):
    begun, may_end = threading.Barrier(4), threading.Event()

    def hold(transaction):
        transaction.find(TextRow, "names")
        begun.wait(30)
        may_end.wait(30)

    def look():
        with looking():
            store.database.read(hold)

    with sl.open(postgres_url, connections=1) as store:
        looks = [threading.Thread(target=look) for _ in range(3)]
        for thread in looks:
            thread.start()
        begun.wait(30)
        assert store.names() == []
        store.check_writable()
        may_end.set()
        for thread in looks:
            thread.join()
    with looking(), pytest.raises(Closed):
        store.names()
