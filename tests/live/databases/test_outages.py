"""A store that is away: an arm in time, no call that waits for ever, and errors that say what to do."""

import contextlib
import os
import sqlite3
import threading
import time
from functools import partial

import psycopg
import pytest
from server import admin, away, name_of

import sameluck as sl
from sameluck.live.calls import settings
from sameluck.live.databases import sqlite
from sameluck.live.databases.postgres_errors import connection_error

SMALL = sl.Experiment(policies={"a": "ucb1", "b": "uniform"}, arms=2, horizon=50, replications=2)
SOON = 20.0  # seconds: far below a wait without a deadline, far above one with 0.2


def timed(call):
    begin = time.monotonic()
    return call(), time.monotonic() - begin


class TestPostgres:
    @pytest.fixture
    def live(self, postgres_url):
        with sl.open(postgres_url, timeout=60) as store:
            store.start("trial", SMALL)
        with sl.open(postgres_url, timeout=0.2) as store:
            live = store.load("trial")
            while not live.assign("warm").enrolled:  # a slow machine
                pass
            yield live

    def test_a_server_that_is_away_costs_no_user_the_arm(self, postgres_server, postgres_url, live):
        id = live.assign("warm", strict=True).id
        with away(postgres_server, postgres_url):
            answer, seconds = timed(lambda: live.assign("ann"))
            assert answer == (None, "0", False, "UNAVAILABLE")
            assert seconds < SOON
            with pytest.raises(sl.Unavailable, match="not currently accepting connections"):
                live.assign("ann", strict=True)
            live.assign("ann")
            # Three failures: from now on one call a second is tried.
            answers, seconds = timed(lambda: [live.assign(n).reason for n in range(1_000)])
            assert set(answers) == {"UNAVAILABLE"}
            assert seconds < SOON
            for _ in range(2):
                with pytest.raises(sl.Unavailable, match="not currently accepting connections"):
                    live.reward(id, 1.0)
        until = time.monotonic() + 60
        while not live.assign("bob").enrolled:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert live.reward(id, 1.0).value == 1.0

    @pytest.mark.slow
    def test_a_disabled_fallback_arm_is_not_shown_meanwhile(
        self, postgres_server, postgres_url, live
    ):
        with sl.open(postgres_url, timeout=0.2) as store:
            other = store.load("trial")
            live.disable_arm("0", fallback="1", reason="broken")
            while not other.assign("eve").enrolled:  # a slow machine; from now on it knows
                pass
            with away(postgres_server, postgres_url):
                assert live.assign("ann") == (None, "1", False, "UNAVAILABLE")
                assert other.assign("ann") == (None, "1", False, "UNAVAILABLE")

    def test_a_disabled_fallback_arm_is_looked_for_again_after_a_failure(self, postgres_url, live):
        with sl.open(postgres_url) as store:
            other = store.load("trial")
            live.disable_arm("0", fallback="1", reason="broken")

            def fail(transaction):
                other.enrolment._assign_each(transaction, ["0" * 32], [])
                other.enrolment.use_fallback(0)  # as if it had failed before
                raise sl.Unplayable("a policy")

            with pytest.raises(sl.Unplayable):
                other.open_replications.database.write(fail)
            other.assign("eve")
            assert other.enrolment.not_enrolled("").arm == "1"

    @pytest.mark.parametrize("prepared", [True, False])
    def test_a_lock_of_another_session_does_not_hold_up_users(
        self, postgres_server, postgres_url, live, prepared
    ):
        if not prepared:  # the statements of a new connection are, while the table is locked
            with away(postgres_server, postgres_url):
                pass
        with psycopg.connect(postgres_url) as other:
            other.execute("LOCK TABLE entry IN ACCESS EXCLUSIVE MODE")
            for unit in range(6):
                answer, seconds = timed(lambda unit=unit: live.assign(unit))
                assert answer.reason == "UNAVAILABLE"
                assert seconds < SOON
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            until = time.monotonic() + 30
            while other.execute(waiting).fetchone() != (0,):  # the server gives up by itself
                assert time.monotonic() < until
                time.sleep(0.05)
        live.settings.after_fork()  # forget the failures
        until = time.monotonic() + 60
        while not live.assign("ann").enrolled:
            assert time.monotonic() < until

    def test_a_lock_of_another_session_is_named_to_who_stops_an_arm(
        self, postgres_url, live, monkeypatch
    ):
        monkeypatch.setattr(settings, "CALL_SECONDS", 0.2)
        calls = [live.pause, partial(live.stop, drain=False), partial(live.disable_arm, 1)]
        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT 1 FROM experiment FOR UPDATE")
            for call in calls:
                with pytest.raises(sl.Unavailable, match="another session holds a lock"):
                    call()
        monkeypatch.undo()
        live.disable_arm(1)
        assert live.status()[1] == "running"

    def test_tables_that_are_gone_do_not_come_back_by_waiting(self, postgres_url, live):
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute("ALTER TABLE entry RENAME TO gone")
            with pytest.raises(sl.Misconfigured, match=r'"entry" does not exist.*; tables were'):
                live.assign("ann", strict=True)
            assert live.assign("ann").reason == "UNAVAILABLE"

    def test_a_role_that_may_only_read_is_no_outage(self, postgres_server, postgres_url, live):
        name = name_of(postgres_url)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DROP ROLE IF EXISTS looks; CREATE ROLE looks LOGIN")
            connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO looks")
        try:
            with sl.open(postgres_url.replace("postgres@", "looks@"), timeout=60) as store:
                watched = store.load("trial")
                with pytest.raises(
                    sl.Misconfigured, match=r"permission denied .*; grant the right"
                ):
                    watched.assign("ann", strict=True)
                with pytest.raises(sl.Misconfigured, match="permission denied"):
                    watched.pause()
                assert watched.assign("ann").reason == "UNAVAILABLE"
        finally:
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                connection.execute("DROP OWNED BY looks")
            assert name
            admin(postgres_server, "DROP ROLE looks")

    def test_too_many_connections_and_a_changed_password(self, postgres_server, postgres_url, live):
        """Each says what it is, while the store is open and when one is opened."""
        name, rules = name_of(postgres_url), postgres_server.folder / "data" / "pg_hba.conf"
        before = rules.read_text()
        url = postgres_url.replace("postgres@", "guest:first@")
        admin(postgres_server, "CREATE ROLE guest LOGIN SUPERUSER PASSWORD 'first'")
        try:
            rules.write_text(f"host all guest 127.0.0.1/32 scram-sha-256\n{before}")
            admin(postgres_server, "SELECT pg_reload_conf()")
            time.sleep(0.2)
            with sl.open(url, connections=1, timeout=0.2) as store:
                served = store.load("trial")
                admin(postgres_server, "ALTER ROLE guest PASSWORD 'second'")
                with psycopg.connect(postgres_url) as other:
                    kill = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'guest'"
                    other.execute(kill)
                assert served.assign("ann").reason == "UNAVAILABLE"
                with pytest.raises(sl.Misconfigured, match="was the password changed"):
                    served.assign("ann", strict=True)
            with pytest.raises(sl.Misconfigured, match="was the password changed"):
                sl.open(url)
            admin(
                postgres_server,
                "ALTER ROLE guest NOSUPERUSER",
                f"ALTER DATABASE {name} CONNECTION LIMIT 0",
            )
            with pytest.raises(sl.Unavailable, match="all its connections are taken") as caught:
                sl.open(url.replace("first", "second"))
            assert not isinstance(caught.value, sl.Misconfigured)
        finally:
            rules.write_text(before)
            admin(
                postgres_server,
                f"ALTER DATABASE {name} CONNECTION LIMIT -1",
                "DROP ROLE guest",
                "SELECT pg_reload_conf()",
            )


@pytest.mark.parametrize(
    ("text", "remedy", "permanent"),
    [
        ('FATAL:  password authentication failed for user "me"', "was the password changed", True),
        ('FATAL:  role "me" does not exist', "is the user's name right", True),
        ('FATAL:  database "shop" does not exist', "create it", True),
        ('FATAL:  no pg_hba.conf entry for host "::1"', "pg_hba.conf", True),
        ("FATAL:  sorry, too many clients already", "max_connections", False),
        ("FATAL:  remaining connection slots are reserved for roles", "max_connections", False),
        ("FATAL:  the database system is starting up", "wait", False),
        ("Connection refused", "does the server run", False),
    ],
)
def test_a_refused_connection_says_what_to_do(text, remedy, permanent):
    error = connection_error(psycopg.OperationalError(f"connection failed: {text}\nmore"))
    assert isinstance(error, sl.Misconfigured) == permanent
    assert remedy in str(error)
    assert "\n" not in str(error)


class TestSqlite:
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'shop.db'}?synchronous=normal"

    def test_a_call_that_waits_for_others_gives_up(self, url):
        begun, go = threading.Event(), threading.Event()

        def slow(_):
            begun.set()
            assert go.wait(60)

        with sl.open(url, timeout=0.2) as store:
            live = store.start("trial", SMALL)
            other = threading.Thread(target=store.database.write, args=[slow])
            other.start()
            assert begun.wait(30)
            answer, seconds = timed(lambda: live.assign("ann"))
            assert answer == (None, "0", False, "UNAVAILABLE")
            assert seconds < SOON
            go.set()
            other.join()
            assert live.assign("ann").enrolled
            assert (live.status().users, live.status().voided) == (1, 0)

    @pytest.mark.slow
    def test_another_program_that_holds_the_file(self, url, tmp_path, monkeypatch):
        monkeypatch.setattr(sqlite, "BUSY_SECONDS", 60.0)
        with sl.open(url, timeout=0.2) as store:
            live = store.start("trial", SMALL)
            with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as other:
                other.execute("BEGIN IMMEDIATE")
                answer, seconds = timed(lambda: live.assign("ann"))
                assert answer.reason == "UNAVAILABLE"
                assert seconds < SOON
                with pytest.raises(sl.Unavailable, match="database is locked"):
                    live.assign("ann", strict=True)
            assert live.assign("ann").enrolled

    @pytest.mark.default_timeout
    def test_a_quarter_of_a_second_is_the_default(self, url, tmp_path, monkeypatch):
        monkeypatch.setattr(sqlite, "BUSY_SECONDS", 60.0)
        with sl.open(url) as store:
            live = store.start("trial", SMALL)
            with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as other:
                other.execute("BEGIN IMMEDIATE")
                answer, seconds = timed(lambda: live.assign("ann"))
                assert answer.reason == "UNAVAILABLE"
                assert 0.2 < seconds < SOON

    def test_a_closed_store_is_the_callers_mistake(self, url):
        with sl.open(url) as store:
            live = store.start("trial", SMALL)
        with pytest.raises(sl.Closed, match="the store is closed"):
            live.assign("ann")

    @pytest.mark.parametrize("parent", ["serves", "has closed it"])
    def test_a_forked_process(self, url, parent):
        """It may write once its parent does not; each of its calls, not only the first, finds out."""
        store = sl.open(url, timeout=60)
        live = store.start("trial", SMALL)
        live.assign("ann")
        reading, writing = os.pipe()
        closed, close = os.pipe()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os.read(closed, 1)
                for _ in range(2):
                    try:
                        answer = live.assign("ann", strict=True).reason
                    except sl.Misconfigured as error:
                        answer = str(error)
                os.write(writing, answer.encode())
            os._exit(0)
        os.close(writing)
        if parent == "has closed it":
            store.close()
        os.write(close, b"!")
        with os.fdopen(reading) as output:
            found = output.read()
        os.waitpid(child, 0)
        if parent == "has closed it":
            assert found == "STICKY"
        else:
            assert found.startswith("the store was opened before this process was forked, and its")
            assert "post_fork" in found
            assert live.assign("bob").enrolled
            store.close()

    def test_a_store_in_memory_is_not_that_of_a_forked_process(self):
        with sl.open("sqlite://") as store:
            live = store.start("trial", SMALL)
            child = os.fork()
            if child == 0:
                code = 1
                with contextlib.suppress(BaseException):
                    try:
                        live.assign("ann", strict=True)
                    except sl.Misconfigured:
                        code = 0
                os._exit(code)
            assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("timeout", [0, -1, "soon", float("nan"), True])
def test_a_timeout_is_a_number_of_seconds(timeout):
    with pytest.raises(sl.Invalid, match="timeout must be"):
        sl.open("sqlite://", timeout=timeout)
