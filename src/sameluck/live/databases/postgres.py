"""PostgreSQL: several processes serve one experiment.

Every change of a replication holds the replication's row lock. Entries are assigned with SKIP LOCKED, so callers do
not wait for each other there. READ COMMITTED and explicit locks suffice, since policies depend only on rows under the
lock. Unique indexes would prevent a double assignment or a double reward even if that were wrong. `statements.sql`
gives the lock order. A transaction that fails by a race, a deadlock or a lost connection is run again: all work is
idempotent.
"""

from __future__ import annotations

import atexit
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import Any, Self, TypeAlias, TypeVar
from weakref import WeakSet

import psycopg
import psycopg_pool

from sameluck.errors import Closed, Invalid, Misconfigured, Unavailable
from sameluck.live.calls.timing import SteadyClock, is_look, seconds_left
from sameluck.live.databases.base import Work, contradiction
from sameluck.live.databases.postgres_connection import DeadlineConnection
from sameluck.live.databases.postgres_errors import (
    DeadlineExceeded,
    connection_error,
    first_line,
    message_of,
    unavailable,
)
from sameluck.live.databases.postgres_transaction import PostgresTransaction, RetryTransaction
from sameluck.live.databases.rows import NumberRow
from sameluck.live.databases.statements import check_schema, for_postgres

T = TypeVar("T")
ConnectionPool: TypeAlias = psycopg_pool.ConnectionPool[DeadlineConnection]

ATTEMPTS = 12
CLOCK_SECONDS = 10.0  # between two readings of the server's clock
PLAN_SECONDS = 10.0  # lifetime of a plan: tables that were empty when it was made may have grown
CLOSE_SECONDS = 0.5  # to wait for connections that are being made
CONNECTION_SECONDS = 5.0  # to wait for a connection of the pool
LOOK_CONNECTIONS = 8  # beside the pool's, for calls inside `looking`; closed when not used
# After which the server ends the session of a call for a user whose process has stopped and holds locks. Policies
# compute between two statements, so it must not be short.
IDLE_SECONDS = 2.0
MAX_TIMEOUT = 1_000.0  # seconds; a call with more time has no timeout on the server
BEGIN_WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED"  # the server's default may be another level
BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
LOST_STATEMENTS = (  # a connection pooler gave the session's prepared statements to another client
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.DuplicatePreparedStatement,
)
RETRIED_ERRORS = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.UniqueViolation,
    psycopg.errors.ForeignKeyViolation,  # the row that it refers to was deleted meanwhile
    psycopg.errors.IdleInTransactionSessionTimeout,
    *LOST_STATEMENTS,
    psycopg.OperationalError,
    DeadlineExceeded,
    RetryTransaction,
)
_MIGRATION_LOCK = 0x5A11C  # advisory lock that one process holds while it makes the schema

# A forked process keeps a reference to its parent's pool: the pool's finalizer would close the parent's sockets.
_parent_pools: list[object] = []
_reopening = Lock()
_databases: WeakSet[Postgres] = WeakSet()


@atexit.register
def _close_databases() -> None:
    """Close what the program leaves open: at shutdown a pool's finalizer can no longer join its threads."""
    for database in list(_databases):
        database.close()


class Postgres:
    """A PostgreSQL database, through a pool of connections."""

    kind = "postgresql"

    def __init__(self, url: str, *, connections: int = 8, read_only: bool = False) -> None:
        self.url = url
        self.read_only = read_only
        self.clock = SteadyClock()  # set to the server's clock
        self._next_clock_reading = 0.0
        self._process = os.getpid()
        self._max_connections = connections
        try:
            psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error as error:
            raise Invalid(f"not a PostgreSQL address: {first_line(error)}") from None
        try:  # a wrong address fails at once instead of after the pool's timeout
            psycopg.connect(url, connect_timeout=10).close()
        except psycopg.Error as error:
            raise connection_error(error) from None
        self._open_pool()
        _databases.add(self)
        try:
            self._prepare_database()
        except BaseException:
            self.close()
            raise

    def _open_pool(self) -> None:
        self._connection_failure: Exception | None = None  # of the last attempt to connect
        self._pool = self._new_pool(1, self._max_connections)
        self._look_pool: ConnectionPool | None = None  # opened by the first look
        self._pool.open()
        # Set last: another thread of a forked process must not take the new pool before it is open.
        self._process = os.getpid()

    def _new_pool(self, least: int, most: int) -> ConnectionPool:
        return ConnectionPool(
            self.url,
            connection_class=self._connection_class(),
            min_size=least,
            max_size=most,
            open=False,
            timeout=CONNECTION_SECONDS,
            # A longer time would let the pool wait ever longer between attempts while the server is down.
            reconnect_timeout=CONNECTION_SECONDS,
            kwargs={"autocommit": True, "client_encoding": "utf8"},
        )

    @property
    def _current_pool(self) -> ConnectionPool:
        """Pool of the current call; a look that takes long keeps no user or operator waiting for a connection."""
        if not is_look() or self._pool.closed:
            return self._pool
        with _reopening:
            if self._look_pool is None:
                self._look_pool = self._new_pool(0, LOOK_CONNECTIONS)
                self._look_pool.open()
        return self._look_pool

    def _connection_class(self) -> type[DeadlineConnection]:
        """Return a class that records why a connection failed: the pool reports only a timeout."""
        database = self

        class RecordingConnection(DeadlineConnection):
            @classmethod
            def connect(cls, *arguments: Any, **settings: Any) -> Self:
                try:
                    connection = super().connect(*arguments, **settings)
                except psycopg.Error as error:
                    database._connection_failure = error
                    raise
                database._connection_failure = None
                return connection

        return RecordingConnection

    def _prepare_database(self) -> None:
        try:
            self._attempt(self._migrate)
        except psycopg.errors.InsufficientPrivilege as error:
            raise Misconfigured(
                f"this PostgreSQL user may not use the database: {first_line(error)}; grant it, or "
                "use another user"
            ) from error
        except psycopg.ProgrammingError as error:
            raise Invalid(
                f"the database was not made by sameluck, or its schema cannot be brought up to date; nothing was "
                f"changed: {first_line(error)}"
            ) from error
        except psycopg.Error as error:
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
            connection.pool.putconn(connection)

    def write(self, work: Work[T]) -> T:
        """Run the work as one transaction, several times if it fails by a race."""
        if self.read_only:
            raise Invalid("the store was opened read-only; open it without read_only to change it")
        return self._run(work, BEGIN_WRITING)

    def read(self, work: Work[T]) -> T:
        """Run the work on a consistent snapshot."""
        return self._run(work, BEGIN_READING)

    def _run(self, work: Work[T], begin: str) -> T:
        try:
            return self._attempt(partial(self._once, work, begin))
        except psycopg.IntegrityError as error:
            raise contradiction(error) from error
        except psycopg.Error as error:
            # psycopg itself rejects a text with a NUL character; this error has no code.
            bad_text = isinstance(error, psycopg.DataError) and error.sqlstate in (None, "22P05")
            raise (Invalid(message_of(error)) if bad_text else unavailable(error)) from error

    def _attempt(self, once: Callable[[], T]) -> T:
        """Run a transaction until it succeeds, fails for good, or the time of the call is over."""
        for attempt in range(ATTEMPTS):
            try:
                return once()
            except RETRIED_ERRORS as error:
                # A random pause: two transactions that have met in a deadlock must not meet again.
                pause = random.random() * 0.002 * 2 ** min(attempt, 8)
                if attempt == ATTEMPTS - 1 or seconds_left() <= pause:
                    raise unavailable(error) from error
                time.sleep(pause)
        raise AssertionError

    def _take_connection(self) -> DeadlineConnection:
        if os.getpid() != self._process:
            with _reopening:  # parent and child must not share a socket
                if os.getpid() != self._process:
                    _parent_pools.extend([self._pool, self._look_pool])
                    self._open_pool()
        try:
            pool = self._current_pool
            has_idle = pool.get_stats().get("pool_available")
            if has_idle or threading.current_thread() is not threading.main_thread():
                connection = pool.getconn(seconds_left(CONNECTION_SECONDS))
            else:
                connection = self._wait_for_connection(pool, seconds_left(CONNECTION_SECONDS))
        except psycopg_pool.PoolClosed as error:
            raise Closed(f"the store is closed: {first_line(error)}") from None
        except psycopg_pool.PoolTimeout:
            if self._connection_failure is not None:
                raise connection_error(self._connection_failure) from None
            raise Unavailable(
                f"PostgreSQL: all {pool.max_size} connections of this store are busy, or the server "
                "does not answer; open the store with more connections if they are busy"
            ) from None
        connection.pool = pool
        return connection

    def _wait_for_connection(self, pool: ConnectionPool, seconds: float) -> DeadlineConnection:
        """Return a connection that another thread waits for.

        Ctrl-C in the main thread would leave its request in the pool's queue; the connection given to that request
        would be lost.
        """
        future: Future[DeadlineConnection] = Future()

        def wait() -> None:
            try:
                future.set_result(pool.getconn(seconds))
            except Exception as error:
                future.set_exception(error)

        try:
            threading.Thread(target=wait, daemon=True).start()
            return future.result()
        except BaseException:
            future.add_done_callback(partial(_give_back, pool))
            raise

    def _once(self, work: Work[T], begin: str) -> T:
        connection = self._take_connection()
        transaction = PostgresTransaction(connection)
        committed = False
        try:
            self._begin(connection, transaction, begin)
            result = work(transaction)
            transaction.commit()
            committed = True
        except BaseException as error:
            self._roll_back(connection, transaction, error)
            raise
        else:
            return result
        finally:
            # Once the outcome is known: another call must not use a cached state that may have to be dropped.
            transaction.end(committed=committed)
            connection.pool.putconn(connection)

    def _begin(
        self, connection: DeadlineConnection, transaction: PostgresTransaction, begin: str
    ) -> None:
        connection.send(begin)
        now, seconds = time.monotonic(), seconds_left(MAX_TIMEOUT)
        # The server gives up by itself: a wait for a lock must not outlive the call.
        limit = str(round(1_000 * seconds) + 1) if seconds < MAX_TIMEOUT else None
        is_writing = begin == BEGIN_WRITING
        # Only with a deadline: an operator's change may compute for minutes between two statements.
        idle = str(round(1_000 * IDLE_SECONDS)) if limit and is_writing else None
        transaction.execute(
            "set_server_options", milliseconds=limit, idle=idle, by_index=is_writing
        )
        if now >= connection.planned_until:
            transaction.execute("plan_again")
            connection.planned_until = now + PLAN_SECONDS
        if now >= self._next_clock_reading:
            self._read_clock(transaction)

    def _read_clock(self, transaction: PostgresTransaction) -> None:
        before = time.monotonic()
        microseconds = transaction.fetch_one(NumberRow, "server_clock").number
        after = time.monotonic()
        # The server read its clock between the two moments: the error is at most half of the round trip.
        self.clock.set(microseconds / 1e6, (before + after) / 2)
        self._next_clock_reading = after + CLOCK_SECONDS

    def _roll_back(
        self, connection: DeadlineConnection, transaction: PostgresTransaction, error: BaseException
    ) -> None:
        """Roll back; a connection in an unknown state is closed, and the pool replaces it."""
        # After Ctrl-C, or when the time is over, nobody waits for the results of statements already sent.
        lost = (*LOST_STATEMENTS, DeadlineExceeded)
        if isinstance(error, lost) or not isinstance(error, Exception):
            connection.close()
            return
        try:
            transaction.roll_back()
        except DeadlineExceeded:
            connection.close()
        except psycopg.Error:
            connection.close()
            # A server that went down has closed the other connections too. They are checked in a thread, since a
            # connection that hangs must not delay this call.
            threading.Thread(target=connection.pool.check, daemon=True).start()

    def close(self) -> None:
        """Close every connection, except in a forked process that uses none of its own."""
        if os.getpid() == self._process:
            for pool in filter(None, (self._pool, self._look_pool)):
                pool.close(CLOSE_SECONDS)


def _give_back(pool: ConnectionPool, future: Future[DeadlineConnection]) -> None:
    if future.exception() is None:
        pool.putconn(future.result())


def _has_table(connection: DeadlineConnection, table: str) -> bool:
    return connection.execute("SELECT to_regclass(%s)", [table]).fetchall() != [(None,)]


def _schema_version(connection: DeadlineConnection) -> int:
    if not _has_table(connection, "schema_version"):
        return 0
    versions = connection.execute("SELECT version FROM schema_version").fetchall()
    if len(versions) != 1 or not isinstance(versions[0][0], int):
        raise Invalid(
            "the database has a table schema_version that sameluck did not make; choose another"
        )
    return int(versions[0][0])
