"""Transactions of PostgreSQL: values, results, and the state after a failure."""

import enum
import math
import os
import signal
import threading
import time

import numpy as np
import psycopg
import pytest

import sameluck as sl
from sameluck.live.databases.postgres import Postgres
from sameluck.live.databases.postgres_connection import DeadlineConnection
from sameluck.live.databases.rows import AnswerRow, ExperimentRow, NumberRow, TextRow
from sameluck.live.databases.statements import numbered_for_list

START = {"definition": "", "fingerprints": "{}", "options": "", "salt": "", "streams": 1, "now": 0}


class Colour(enum.StrEnum):
    RED = "red"


@pytest.fixture
def database(postgres_url):
    database = Postgres(postgres_url, connections=1)
    yield database
    database.close()


@pytest.fixture
def connection(postgres_url, database):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def configured(postgres_url):
    """A connection as a pool of ours makes it."""
    with DeadlineConnection.connect(postgres_url, autocommit=True) as connection:
        yield connection


def names(database):
    return [name for (name,) in database.read(lambda t: t.fetch_all(TextRow, "names"))]


def server_process(database):
    (pid,) = database.read(lambda t: t.connection.execute("SELECT pg_backend_pid()").fetchone())
    return pid


class TestValues:
    @pytest.mark.parametrize(
        "value",
        [0.0, -0.0, 0.1 + 0.2, 5e-324, -1.7976931348623157e308, 1e16, 1 / 3],
        ids=repr,
    )
    def test_floats_come_back_to_the_bit(self, configured, value):
        echoed = self.echo(configured, "double precision", value)
        assert echoed == value
        assert math.copysign(1, echoed) == math.copysign(1, value)

    @pytest.mark.parametrize("value", [0, -1, 2**63 - 1, -(2**63)])
    def test_whole_numbers(self, configured, value):
        assert self.echo(configured, "bigint", value) == value

    @pytest.mark.parametrize("value", ["", "plain", 'it\'s \\ "quoted"\n\t', "ä 🎲", "$1; --"])
    def test_text(self, configured, value):
        assert self.echo(configured, "text", value) == value

    @pytest.mark.parametrize("value", [np.str_('"a"'), Colour.RED, np.float64(1 / 3)], ids=repr)
    def test_subclasses_are_as_their_bases(self, configured, value):
        sql_type = "text" if isinstance(value, str) else "double precision"
        assert self.echo(configured, sql_type, value) == value

    @pytest.mark.parametrize("value", [True, False, None])
    def test_truth(self, configured, value):
        assert self.echo(configured, "boolean", value) is value

    def echo(self, configured, sql_type, value):
        """Return the value as the server has received it."""
        configured.send(f"SELECT CAST($1 AS {sql_type})", [value])
        return configured.rows(tuple, configured.receive()[-1])[0][0]

    @pytest.mark.parametrize(
        ("parameter", "values"),
        [
            ("value", [0.0, -0.0, 0.1 + 0.2, 5e-324, -1.7976931348623157e308, None]),
            ("now", [0, -1, 2**63 - 1, -(2**63), None]),
            (
                "unit",
                ["", "NULL", "null", "{a,b}", 'it\'s \\ "quoted"\n\t', "ä 🎲", "$1; --", None],
            ),
            ("complete", [True, False, None]),
        ],
    )
    def test_lists(self, configured, parameter, values):
        """One statement for a list returns what it returns for each; no row where it has none."""
        listed = numbered_for_list(f"SELECT :{parameter} AS found WHERE :{parameter} IS NOT NULL")
        configured.send(listed.text, [values])
        rows = configured.rows(tuple, configured.receive()[-1])
        expected = [(n, value) for n, value in enumerate(values, start=1) if value is not None]
        assert repr(rows) == repr(expected)

    def test_nothing_is_cut_off_at_a_nul(self, database):
        with pytest.raises(sl.Invalid, match="cannot contain NUL"):
            database.write(lambda t: t.execute("start", name="a\0b", **START))
        assert names(database) == []


def test_statements_between_the_rows_of_another(database):
    """More rows than are fetched at once."""

    def fill(transaction):
        transaction.execute_many("start", [{"name": f"n{k}", **START} for k in range(3)])
        row = transaction.fetch_one(ExperimentRow, "experiment", name="n0")
        insert = "INSERT INTO answer SELECT %s, 'r' || k, k FROM generate_series(1, 45000) k"
        transaction.connection.execute(insert, [row.id])
        return row.id

    def look(transaction):
        matching = 0
        for reason, calls in transaction.iterate(AnswerRow, "answers", experiment=id):
            if calls % 9_000 == 0:
                assert transaction.fetch_one(ExperimentRow, "experiment", name="n1").name == "n1"
            matching += reason == f"r{calls}"
        return matching

    id = database.write(fill)
    assert database.read(look) == 45_000
    assert database.write(look) == 45_000


class TestFailures:
    def test_of_a_row_whose_experiment_is_deleted_meanwhile(self, database):
        """It is run again, and finds out."""
        runs = []

        def work(transaction):
            runs.append(1)
            if len(runs) == 1:
                transaction.execute("disable_arm", experiment=999, arm=0)
            return transaction.find(ExperimentRow, "experiment_now", experiment=999)

        assert database.write(work) is None
        assert len(runs) == 2

    def test_of_a_statement_whose_result_is_not_read(self, database):
        before = server_process(database)

        def work(transaction):
            transaction.execute("start", name="a", **START)
            transaction.execute("disable_arm", experiment=999, arm=-1)  # no such one
            transaction.execute("start", name="b", **START)

        with pytest.raises(sl.Diverged):
            database.write(work)
        assert names(database) == []
        database.write(lambda t: t.execute("start", name="c", **START))
        assert names(database) == ["c"]
        assert server_process(database) == before

    def test_of_a_statement_that_was_sent_earlier(self, database):
        def work(transaction):
            transaction.execute("disable_arm", experiment=999, arm=-1)
            return transaction.fetch_one(NumberRow, "start", name="a", **START)

        with pytest.raises(sl.Diverged):
            database.write(work)
        assert names(database) == []

    def test_of_the_work_itself(self, database):
        before = server_process(database)

        def work(transaction):
            transaction.execute("start", name="a", **START)
            raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            database.write(work)
        assert names(database) == []
        assert server_process(database) == before

    def test_of_the_connection(self, database, connection):
        """Work on a lost connection is run again on another."""
        attempts = []

        def work(transaction):
            transaction.execute("start", name="a", **START)
            attempts.append(server_process_of(transaction))
            if len(attempts) == 1:
                connection.execute("SELECT pg_terminate_backend(%s)", attempts)
            transaction.execute("start", name="b", **START)

        database.write(work)
        assert names(database) == ["a", "b"]
        assert len(set(attempts)) == 2


def server_process_of(transaction):
    (pid,) = transaction.connection.execute("SELECT pg_backend_pid()").fetchone()
    return pid


class TestWaiting:
    @pytest.fixture
    def taken(self, connection):
        """Another connection holds lock 7."""
        connection.execute("SELECT pg_advisory_lock(7)")
        yield connection
        connection.execute("SELECT pg_advisory_unlock(7)")

    def test_does_not_hold_up_other_threads(self, database, taken):
        def work(transaction):
            transaction.lock("7")
            return transaction.find(TextRow, "names")

        waiting = threading.Thread(target=database.write, args=[work])
        waiting.start()
        begin, steps = time.monotonic(), 0
        while time.monotonic() < begin + 0.3:
            time.sleep(0.001)
            steps += 1
        assert waiting.is_alive()
        taken.execute("SELECT pg_advisory_unlock(7)")
        waiting.join(30)
        taken.execute("SELECT pg_advisory_lock(7)")
        assert steps > 10

    def test_for_one_who_falls_silent_ends(self, postgres_url):
        """A process that freezes in the midst of a call: the server may take back what it holds."""
        name = postgres_url.rpartition("/")[2]
        begun, go, attempts = threading.Event(), threading.Event(), []

        def work(transaction):
            transaction.lock("7")
            transaction.find(TextRow, "names")
            attempts.append(len(attempts))
            begun.set()
            assert go.wait(60)

        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = 300")
            database = Postgres(postgres_url, connections=1)
            frozen = threading.Thread(target=database.write, args=[work])
            frozen.start()
            assert begun.wait(60)
            other.execute("SET statement_timeout = 30000")
            other.execute("SELECT pg_advisory_lock(7)")
            other.execute("SELECT pg_advisory_unlock(7)")
            go.set()
            frozen.join(60)
            database.close()
        assert attempts == [0, 1]

    def test_ends_with_ctrl_c(self, database, taken):
        """And the next transaction is not disturbed by what was left behind."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        begun = threading.Event()

        def interrupt():
            assert begun.wait(60)
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)

        def work(transaction):
            transaction.execute("start", name="mine", **START)
            transaction.lock("7")
            begun.set()
            transaction.find(TextRow, "names")

        other = threading.Thread(target=interrupt)
        other.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                database.write(work)
        finally:
            other.join()
            signal.signal(signal.SIGINT, before)
        taken.execute("SELECT pg_advisory_unlock(7)")
        database.write(lambda t: t.execute("start", name="yours", **START))
        taken.execute("SELECT pg_advisory_lock(7)")
        assert names(database) == ["yours"]
