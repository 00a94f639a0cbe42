"""PostgreSQL: several processes serve one experiment.

Every change of a replication holds the row lock of that replication; entries are assigned with SKIP LOCKED, so
callers do not wait for one another there. READ COMMITTED and explicit locks suffice: what a policy does depends only
on rows under the lock, and the unique indexes would prevent a double assignment or a double reward even if that were
wrong. A transaction that fails by a race, a deadlock or a lost connection is run again: all work is idempotent.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from sameluck.errors import Closed, Invalid, Misconfigured, Unavailable, optional
from sameluck.live.calls.clock import SteadyClock
from sameluck.live.calls.deadline import seconds_left
from sameluck.live.databases.base import (
    Work,
    check_schema,
    contradiction,
    for_postgres,
)
from sameluck.live.databases.pipeline import DeadlineExceeded, Pipeline
from sameluck.live.databases.postgres_errors import (
    connection_error,
    first_line,
    message_of,
    unavailable,
)
from sameluck.live.databases.postgres_transaction import (
    TIMEOUT,
    PostgresTransaction,
    RetryTransaction,
)

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")

ATTEMPTS = 12
CLOCK_SECONDS = 10.0  # until the server's clock is looked at again
PLAN_SECONDS = 10.0  # that the plan of a statement is kept: tables that were empty may have grown
CLOSE_SECONDS = 0.5  # for connections that are being made
LONG = 1_000.0  # seconds; a call with more has no deadline on the server
_MIGRATION_LOCK = 0x5A11C  # the advisory lock under which the schema is made

_of_parents: list[object] = []  # pools that must not be closed in a forked process
_reopening = Lock()


class _LastUsedFirst(deque["Connection"]):
    """The idle connections of a pool, which takes the first and appends those that are given back.

    By itself it would use all of them in turn, however few are needed; each has a process of the server, with its own
    plans and caches.
    """

    append = deque.appendleft


class Postgres:
    """A PostgreSQL database, through a pool of connections."""

    kind = "postgresql"

    def __init__(self, url: str, *, connections: int = 8, read_only: bool = False) -> None:
        self._psycopg = optional("psycopg", "postgres")
        self._psycopg_pool = optional("psycopg_pool", "postgres")
        self.url = url
        self.read_only = read_only
        self.clock = SteadyClock()  # set by that of the server
        self._next_look = 0.0
        self._process = os.getpid()
        self._most = connections
        try:
            self._psycopg.conninfo.conninfo_to_dict(url)
        except self._psycopg.Error as error:
            raise Invalid(f"not a PostgreSQL address: {first_line(error)}") from None
        self._connect_once()
        self._open_pool()
        try:
            self._prepare_database()
        except BaseException:
            self.close()
            raise

    def _open_pool(self) -> None:
        self._no_connection: Exception | None = None  # why the last attempt to connect failed
        # Connections with our statements prepared, and when these are planned again.
        self._prepared: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
        self._pool = self._psycopg_pool.ConnectionPool(
            self.url,
            connection_class=self._recording_connections(),
            min_size=1,
            max_size=self._most,
            open=False,
            timeout=TIMEOUT,
            reconnect_timeout=TIMEOUT,  # or it would try ever more rarely while the server is down
            kwargs={
                "autocommit": True,
                "client_encoding": "utf8",
                "prepare_threshold": None,  # it would drop ours with its own when a transaction is rolled back
            },
        )
        self._pool._pool = _LastUsedFirst()
        self._pool.open()
        self._process = (
            os.getpid()
        )  # last: another thread of a forked process may look at it meanwhile

    def _recording_connections(self) -> type[Connection]:
        """Connections that keep why one could not be made: the pool says only that it took too long."""
        database, psycopg = self, self._psycopg

        class Recording(psycopg.Connection):  # type: ignore[name-defined, misc]
            @classmethod
            def connect(cls, *arguments: object, **settings: object) -> Connection:
                try:
                    made = super().connect(*arguments, **settings)
                except psycopg.Error as error:
                    database._no_connection = error
                    raise
                database._no_connection = None
                return made

        return Recording

    def _connect_once(self) -> None:
        """Raise `Unavailable` for a wrong address at once rather than after a timeout."""
        try:
            self._psycopg.connect(self.url, connect_timeout=10).close()
        except self._psycopg.Error as error:
            raise connection_error(error) from None

    def _prepare_database(self) -> None:
        try:
            self._attempt(self._migrate)
        except self._psycopg.errors.InsufficientPrivilege as error:
            raise Misconfigured(
                f"this PostgreSQL user may not use the database: {first_line(error)}; grant it, or "
                "use another user"
            ) from error
        except self._psycopg.ProgrammingError as error:
            raise Invalid(
                f"the database was not made by sameluck, or its schema cannot be brought up to date; nothing was "
                f"changed: {first_line(error)}"
            ) from error
        except self._psycopg.Error as error:
            raise unavailable(error) from error

    def _migrate(self) -> None:
        connection = self._take_connection()
        try:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [_MIGRATION_LOCK])
                version = _schema_version(connection)
                if self.read_only and version == 0 and _has_table(connection, "experiment"):
                    raise Invalid(
                        "the database has a table experiment that sameluck did not make; choose another"
                    )
                for step in check_schema("this database", version, read_only=self.read_only):
                    connection.execute(for_postgres(step).encode())
        finally:
            self._pool.putconn(connection)

    def write(self, work: Work[T]) -> T:
        """Run the work as one transaction; again if it failed by a race."""
        if self.read_only:
            raise Invalid("the store was opened read-only; open it without read_only to change it")
        return self._run(work, "BEGIN")

    def read(self, work: Work[T]) -> T:
        """Run the work on one consistent state."""
        return self._run(work, "BEGIN_READING")

    def _run(self, work: Work[T], begin: str) -> T:
        try:
            return self._attempt(partial(self._once, work, begin))
        except self._psycopg.IntegrityError as error:
            raise contradiction(error) from error
        except self._psycopg.errors.UntranslatableCharacter as error:
            raise Invalid(message_of(error)) from error
        except self._psycopg.Error as error:  # no permission, say
            raise unavailable(error) from error

    def _attempt(self, once: Callable[[], T]) -> T:
        errors = self._psycopg.errors
        again = (
            errors.SerializationFailure,
            errors.DeadlockDetected,
            errors.UniqueViolation,
            errors.ForeignKeyViolation,  # what it refers to was deleted meanwhile
            errors.IdleInTransactionSessionTimeout,
            errors.InvalidSqlStatementName,  # the connection has lost our statements
            errors.DuplicatePreparedStatement,
            self._psycopg.OperationalError,
            DeadlineExceeded,
            RetryTransaction,
        )
        for attempt in range(ATTEMPTS):
            try:
                return once()
            except again as error:
                pause = random.random() * 0.002 * 2 ** min(attempt, 8)
                if attempt == ATTEMPTS - 1 or seconds_left() <= pause:
                    raise unavailable(error) from error
                time.sleep(pause)
        raise AssertionError

    def _take_connection(self) -> Connection:
        if os.getpid() != self._process:
            self._reopen_after_fork()
        free = self._pool.get_stats().get("pool_available")
        try:
            if free or threading.current_thread() is not threading.main_thread():
                return self._pool.getconn(seconds_left(TIMEOUT))
            return self._wait_for_connection(seconds_left(TIMEOUT))
        except self._psycopg_pool.PoolClosed as error:
            raise Closed(f"the store is closed: {first_line(error)}") from None
        except self._psycopg_pool.PoolTimeout:
            if self._no_connection is not None:
                raise connection_error(self._no_connection) from None
            raise Unavailable(
                f"PostgreSQL: all {self._most} connections of this store are busy, or the server does not answer; "
                "open the store with more connections if it is the former"
            ) from None

    def _reopen_after_fork(self) -> None:
        """A forked process has connections of its own: parent and child would share one socket."""
        with _reopening:
            if os.getpid() != self._process:
                _of_parents.append(self._pool)
                self._open_pool()

    def _wait_for_connection(self, seconds: float) -> Connection:
        """A connection that another thread waits for.

        Ctrl-C would leave our place in the pool's queue, and the next connection would be lost.
        """
        future: Future[Connection] = Future()

        def wait() -> None:
            try:
                future.set_result(self._pool.getconn(seconds))
            except Exception as error:
                future.set_exception(error)

        try:
            threading.Thread(target=wait, daemon=True).start()
            return future.result()
        except BaseException:
            future.add_done_callback(
                lambda done: done.exception() or self._pool.putconn(done.result())
            )
            raise

    def _once(self, work: Work[T], begin: str) -> T:
        connection = self._take_connection()
        pipeline = Pipeline(connection)
        statements = PostgresTransaction(connection, pipeline)
        committed = False
        try:
            now = time.monotonic()
            if connection not in self._prepared:
                pipeline.prepare(_seconds_for_server())
                self._prepared[connection] = now + PLAN_SECONDS
            if now >= self._next_look:
                self._look_at_clock(pipeline)
            pipeline.send(begin, {})
            if begin == "BEGIN":
                pipeline.send("plan_by_index", {})
            if now >= self._prepared[connection]:
                pipeline.send("plan_again", {})
                self._prepared[connection] = now + PLAN_SECONDS
            pipeline.time_out(_seconds_for_server())
            result = work(statements)
            statements.pipeline.send("COMMIT", {})
            pipeline.leave()
            committed = True
        except BaseException as error:
            self._roll_back(connection, pipeline, error)
            raise
        else:
            return result
        finally:
            statements.end(committed=committed)
            self._pool.putconn(connection)

    def _look_at_clock(self, pipeline: Pipeline) -> None:
        before = time.monotonic()
        ((microseconds,),) = pipeline.rows("clock", [{}])  # type: ignore[misc]
        after = time.monotonic()
        self.clock.set(int(microseconds) / 1e6, (before + after) / 2)  # type: ignore[arg-type]
        self._next_look = after + CLOCK_SECONDS

    def _roll_back(self, connection: Connection, pipeline: Pipeline, error: BaseException) -> None:
        """Roll back; a connection in an unknown state is closed, and the pool replaces it."""
        errors = self._psycopg.errors
        lost_statements = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
        # After Ctrl-C, or when the time is over, there is none to wait for results.
        if not isinstance(error, Exception) or isinstance(
            error, (*lost_statements, DeadlineExceeded)
        ):
            connection.close()
            return
        try:
            pipeline.abandon()
            connection.execute("ROLLBACK")
        except DeadlineExceeded:
            connection.close()
        except self._psycopg.Error:
            connection.close()
            # A server that went down closed the other connections too; one that hangs must not keep this call.
            threading.Thread(target=self._pool.check, daemon=True).start()

    def close(self) -> None:
        """Close every connection, unless they belong to the process that this one was forked from."""
        if os.getpid() == self._process:
            self._pool.close(CLOSE_SECONDS)


def _seconds_for_server() -> float | None:
    left = seconds_left(LONG)
    return left if left < LONG else None


def _has_table(connection: Connection, table: str) -> bool:
    return connection.execute("SELECT to_regclass(%s)", [table]).fetchall() != [(None,)]


def _schema_version(connection: Connection) -> int:
    if not _has_table(connection, "schema_version"):
        return 0
    versions = connection.execute("SELECT version FROM schema_version").fetchall()
    if len(versions) != 1 or not isinstance(versions[0][0], int):
        raise Invalid(
            "the database has a table schema_version that sameluck did not make; choose another"
        )
    return int(versions[0][0])
