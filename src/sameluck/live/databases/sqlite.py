"""SQLite: one file, one writing process, group commit.

Concurrent callers queue their work. The first caller, the leader, runs the whole queue as one transaction, so that
all share one wait for the disk (group commit). Without it 16 threads served 249 users per second instead of 1,030
(medians of three interleaved runs on two busy cores), so this layer stays beside the call queue. With
`synchronous=FULL` an acknowledged change survives a power cut. A lock of the file prevents a second writing process:
two writers in WAL mode can corrupt a database of SQLite 3.7.0 to 3.51.2. A transaction is acknowledged only if the
file at the path is still the file that was written. Readers have their own connections and block nobody.

At most one caller leads, and only the leader uses the writing connection. `_mutex` protects the queue and the fields
about the leader; it is never held while a transaction runs. A caller that finds a leader waits at its job's gate. The
leader opens the gate of every job that it has run, and then the gate of the next job in the queue, whose caller leads
next. So a gate opens once: the job is finished, or its caller must lead.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import copy_context
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from sameluck.errors import Closed, Invalid, Misconfigured, SameluckError, Unavailable
from sameluck.live.calls.timing import SteadyClock, deadline, seconds_left
from sameluck.live.databases.base import Row, SqlValue, Values, Work, contradiction, deleted
from sameluck.live.databases.sqlite_file import SqliteFile, check_handles
from sameluck.live.databases.statements import check_schema, migrations, numbered, statements

T = TypeVar("T")

MAX_JOBS = 256  # in one transaction
GATHER_SECONDS = 0.001  # for which a leader waits for other callers
BUSY_SECONDS = 5.0  # for which another program may hold the file
# Parameters by number: SQLite binds them faster than by name.
_STATEMENTS = {name: numbered(source.text, "?") for name, source in statements().items()}
_REMEDIES = {
    sqlite3.SQLITE_FULL: "; make room on the disk",
    sqlite3.SQLITE_IOERR: "; the disk fails, or its file system has become read-only: see the machine's log",
    sqlite3.SQLITE_READONLY: "; the file has become read-only: check its permissions and its file system",
}

# A forked process keeps its parent's connections alive: closing them would release the parent's file locks.
_parent_connections: list[object] = []
_reopening = Lock()


class SqliteTransaction:
    """A connection that runs statements by name; SQLite has one writer, so that locks are not needed."""

    hold_lock = None  # transactions take turns

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.rollback_functions: list[Callable[[], object]] = []
        self.deferred: list[Callable[[], object]] = []
        self.on_rollback, self.defer = self.rollback_functions.append, self.deferred.append

    def run_work(self, work: Work[T]) -> T:
        """Return the result of work after the writes that it has deferred."""
        result = work(self)
        self._flush()
        return result

    def _flush(self) -> None:
        # All are taken out first: a statement of a deferred write runs what is deferred before it.
        while deferred := self.deferred.copy():
            self.deferred.clear()
            for write in deferred:
                write()

    def _execute(self, name: str, values: Values) -> sqlite3.Cursor:
        if self.deferred:
            self._flush()
        text, names = _STATEMENTS[name]
        return self.connection.execute(text, tuple(map(values.__getitem__, names)))

    def fetch_one(self, row_class: type[Row], name: str, /, **values: SqlValue) -> Row:
        row = self.find(row_class, name, **values)
        if row is None:
            raise deleted()
        return row

    def find(self, row_class: type[Row], name: str, /, **values: SqlValue) -> Row | None:
        cursor = self._execute(name, values)
        cells = cursor.fetchone()
        cursor.close()  # an unfinished statement would keep the transaction open
        # `tuple.__new__`, since a NamedTuple's own constructor is a Python function and slower.
        return None if cells is None else tuple.__new__(row_class, cells)

    def find_many(
        self, row_class: type[Row], name: str, /, rows: Sequence[Values]
    ) -> list[Row | None]:
        return [self.find(row_class, name, **values) for values in rows]

    def fetch_all(self, row_class: type[Row], name: str, /, **values: SqlValue) -> list[Row]:
        return [tuple.__new__(row_class, cells) for cells in self._execute(name, values)]

    def iterate(self, row_class: type[Row], name: str, /, **values: SqlValue) -> Iterator[Row]:
        return map(partial(tuple.__new__, row_class), self._execute(name, values))

    def execute(self, name: str, /, **values: SqlValue) -> None:
        self._execute(name, values)

    def execute_many(self, name: str, /, rows: Iterable[Values]) -> None:
        self._flush()
        text, names = _STATEMENTS[name]
        self.connection.executemany(text, ([row[key] for key in names] for row in rows))

    def lock(self, hashes: Sequence[str]) -> None:
        pass

    def try_lock(self, hashes: Sequence[str]) -> list[bool]:
        return [True] * len(hashes)


class _Job:
    """Work in the queue, and its result."""

    __slots__ = ("context", "deadline", "error", "finished", "gate", "result", "work")

    def __init__(self, work: Work[object]) -> None:
        self.work = work
        self.context = copy_context()  # the caller's, since another thread may run the work
        self.deadline = deadline()
        self.finished = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.gate = Lock()
        self.gate.acquire()  # another thread releases it, once


class Sqlite:
    """A SQLite file, or a database in memory if no path is given."""

    kind = "sqlite"

    def __init__(
        self, path: str | None, *, read_only: bool = False, synchronous: str = "full"
    ) -> None:
        # Absolute, since a program may change its working directory. Symlinks are not resolved: they may change too.
        self.path = None if path is None else Path(path).absolute()
        self._process = os.getpid()
        self.read_only = read_only
        self.clock = SteadyClock()
        self.synchronous = synchronous
        self._queue: deque[_Job] = deque()
        self._mutex = Lock()
        self._no_leader = threading.Condition(self._mutex)
        self._gathered = threading.Condition(self._mutex)  # the leader has enough jobs to begin
        self._expected_jobs = 0  # as many as in the last transaction and after it
        self._awaited_jobs = 0  # for which the leader waits; 0 if it does not
        self._leading = False
        self._next_leader: _Job | None = None  # chosen, but not yet leading
        self._closed = False
        self._idle: list[sqlite3.Connection] = []  # readers' connections
        self._file: SqliteFile | None = None
        if self.path is None and read_only:
            raise Invalid("a database in memory is empty; open it without read_only")
        if self.path is not None and (self.path.name == "" or os.path.isdir(self.path)):
            raise Invalid(f"a SQLite database is a file, {str(self.path)!r} is a folder")
        with contextlib.ExitStack() as on_error:
            if self.path is not None and (not read_only or self.path.exists()):
                self._file = SqliteFile(self.path, write=not read_only)
                on_error.callback(self._file.close)
            if read_only:
                with self._reading(refused=Invalid) as connection:
                    check_schema(repr(str(self.path)), schema_version(connection), read_only=True)
            else:
                self._writer = self._connect(str(self.path or ":memory:"), self._prepare_writer)
                if self._file is not None:
                    self._file.watch_log()
            on_error.pop_all()

    def _connect(
        self,
        address: str,
        prepare: Callable[[sqlite3.Connection], None],
        *,
        uri: bool = False,
        refused: type[SameluckError] = Invalid,
    ) -> sqlite3.Connection:
        with contextlib.ExitStack() as on_error:
            try:
                connection = sqlite3.connect(
                    address,
                    isolation_level=None,
                    check_same_thread=False,
                    uri=uri,
                    cached_statements=200,
                )
                on_error.callback(connection.close)
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute(f"PRAGMA busy_timeout = {round(1_000 * BUSY_SECONDS)}")
                prepare(connection)
            except sqlite3.Error as error:
                name = str(self.path)
                check_handles(name)
                error_class = Unavailable if is_transient(error) else refused
                raise error_class(f"cannot open {name!r} as a SQLite database: {error}") from None
            on_error.pop_all()
        return connection

    def _prepare_writer(self, connection: sqlite3.Connection) -> None:
        # First, so that nothing is changed in a file that another program has made.
        check_schema(repr(str(self.path)), schema_version(connection), read_only=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self.synchronous}")
        connection.execute("PRAGMA secure_delete = ON")  # erased rows are overwritten
        migrate(connection, self.path)
        connection.execute("PRAGMA busy_timeout = 20")  # `_begin` tries again

    def _prepare_reader(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT 1 FROM sqlite_master")

    def write(self, work: Work[T]) -> T:
        """Run the work as one transaction, together with everything else in the queue."""
        if self.read_only:
            raise Invalid(
                f"{self.path} was opened read-only; open it without read_only to change it"
            )
        job = _Job(work)
        try:
            self._take_turn(job)
        except BaseException:
            # Ctrl-C or a timeout: other callers must not wait for this one to lead.
            self._withdraw(job)
            raise
        if job.error is not None:
            raise job.error
        return job.result

    def _take_turn(self, job: _Job) -> None:
        """Wait until a leader has run the job, or lead."""
        self._reopen_if_forked()
        with self._mutex:
            if self._closed:
                raise Closed("the store is closed")
            self._queue.append(job)
            # The lead is claimed under the mutex, so that of two callers who arrive together one waits.
            waits, self._leading = self._leading, True
            if not waits:
                self._next_leader = job
            if 0 < self._awaited_jobs <= len(self._queue):
                self._gathered.notify()
        if waits and not job.gate.acquire(timeout=min(seconds_left(), threading.TIMEOUT_MAX)):
            raise Unavailable("SQLite did not answer in time: other calls of this store take long")
        if not job.finished:
            self._lead(job)

    def _withdraw(self, job: _Job) -> None:
        """Take a job out of the queue; if its caller was to lead next, choose another leader."""
        with self._mutex:
            if job in self._queue:
                self._queue.remove(job)
            following = self._choose_leader() if self._next_leader is job else None
        if following is not None:
            following.gate.release()

    def _choose_leader(self) -> _Job | None:
        """Return the job whose caller leads next, None if the queue is empty; the mutex must be held."""
        self._next_leader = self._queue[0] if self._queue else None
        self._leading = self._next_leader is not None
        if not self._leading:
            self._no_leader.notify_all()
        return self._next_leader

    def _lead(self, leader: _Job) -> None:
        """Run the jobs in the queue, wake their callers and pass the lead on, whatever happens."""
        batch: list[_Job] = []
        try:
            self._gather(batch)
            jobs = batch
            while jobs:
                jobs = self._try(jobs)
        finally:
            for job in batch:
                if not job.finished:
                    job.error, job.finished = Unavailable("interrupted; nothing was changed"), True
            # Before any gate opens: a caller that is woken may call again, and must find the next leader chosen.
            with self._mutex:
                # An interrupt in `_gather` may have left jobs of the batch in the queue.
                while self._queue and self._queue[0].finished:
                    self._queue.popleft()
                self._expected_jobs = len(batch) + len(self._queue)
                following = self._choose_leader()
            for job in batch:
                if job is not leader:
                    job.gate.release()
            if following is not None:
                following.gate.release()

    def _gather(self, batch: list[_Job]) -> None:
        """Move the jobs to run from the queue to `batch`; wait a moment for as many callers as the last time.

        The wait makes fewer commits. It also keeps other threads from competing for the interpreter while the leader
        runs, which would cost more than the wait.
        """
        with self._mutex:
            if len(self._queue) < self._expected_jobs:
                self._awaited_jobs = self._expected_jobs
                self._gathered.wait_for(
                    lambda: len(self._queue) >= self._awaited_jobs, GATHER_SECONDS
                )
                self._awaited_jobs = 0
            batch.extend(islice(self._queue, MAX_JOBS))
            self._next_leader = None
            for _ in batch:
                self._queue.popleft()

    def _try(self, jobs: list[_Job]) -> list[_Job]:
        """Run jobs as one transaction and return those to run again.

        A job that fails before it has written anything leaves the transaction as it was, so the other jobs go on.
        After a write the transaction is rolled back and the other jobs are run again, which rarely happens.
        """
        connection = self._writer
        transaction = SqliteTransaction(connection)
        try:
            self._begin(jobs)
            for job in jobs:
                before = connection.total_changes
                try:
                    job.result, job.error = job.context.run(transaction.run_work, job.work), None
                except Exception as error:
                    job.error = unavailable(error)
                    changed = connection.total_changes != before or transaction.deferred
                    if changed or not connection.in_transaction:
                        self._roll_back(transaction)
                        job.finished = True
                        return [other for other in jobs if other is not job]
            connection.execute("COMMIT")
            # Nothing is acknowledged if the file was moved or replaced: the commit went to another file.
            if self._file is not None:
                self._file.check()
        except BaseException as error:
            self._roll_back(transaction)
            for job in jobs:
                job.error, job.finished = unavailable(error), True
            if not isinstance(error, Exception):
                raise
            return []
        for job in jobs:
            job.finished = True
        return []

    def _begin(self, jobs: list[_Job]) -> None:
        """Begin a transaction; while another program writes to the file, try again until a job has no time left."""
        until = min(time.monotonic() + BUSY_SECONDS, *(job.deadline for job in jobs))
        while not self._writer.in_transaction:
            try:
                # Not a plain BEGIN: a transaction that begins with a read cannot write once another program has.
                self._writer.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                    raise

    def _roll_back(self, transaction: SqliteTransaction) -> None:
        # First, even if the rollback fails: caches must not keep what was derived from rows that are not durable.
        for function in transaction.rollback_functions:
            function()
        with contextlib.suppress(sqlite3.Error):
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    def read(self, work: Work[T]) -> T:
        """Run the work on a consistent snapshot."""
        if self.path is None:
            return self.write(work)
        with self._reading() as connection:
            try:
                connection.execute("BEGIN")
                return work(SqliteTransaction(connection))
            except sqlite3.Error as error:
                raise Unavailable(f"SQLite could not read {str(self.path)!r}: {error}") from error

    @contextlib.contextmanager
    def _reading(self, refused: type[SameluckError] = Unavailable) -> Iterator[sqlite3.Connection]:
        """Lend a reader's connection; there are as many as callers have ever read at the same time.

        `refused` is the error for a file that is not a database; the file of an open store was a database before.
        """
        self._reopen_if_forked()
        with self._mutex:
            if self._closed:
                raise Closed("the store is closed")
        if self._file is not None:
            self._file.check()
        with self._mutex:
            idle = self._idle.pop() if self._idle else None
        if idle is None:
            url = f"{Path(self.path or '').resolve().as_uri()}?mode=ro"
            try:
                idle = self._connect(url, self._prepare_reader, uri=True, refused=refused)
            except Unavailable:
                if self._file is not None:
                    self._file.check()  # the file may have been moved in this moment
                raise
        with contextlib.ExitStack() as unless_kept:
            unless_kept.callback(idle.close)
            yield idle
            # An open snapshot would keep the writer from emptying the write-ahead log.
            idle.rollback()
            with self._mutex:
                if not self._closed:
                    self._idle.append(idle)
                    unless_kept.pop_all()

    def _reopen_if_forked(self) -> None:
        """Open the file in a forked process: SQLite forbids the use of the parent's connections."""
        if os.getpid() == self._process:
            return
        forked = "the store was opened before this process was forked"
        if self.path is None:
            raise Misconfigured(f"{forked}, and it is in memory; use a file")
        with _reopening:
            if os.getpid() == self._process:  # another thread has done it
                return
            try:
                reopened = Sqlite(
                    str(self.path), read_only=self.read_only, synchronous=self.synchronous
                )
            except Unavailable:
                raise Misconfigured(
                    f"{forked}, and its parent writes {str(self.path)!r}; open it after the fork (in gunicorn: "
                    "without --preload, or in post_fork), or use PostgreSQL for several processes"
                ) from None
            _parent_connections.append(dict(vars(self)))
            vars(self).update(vars(reopened))

    def close(self) -> None:
        """Close every connection once the queue is empty, and let another process write."""
        if os.getpid() != self._process:
            return  # the connections are the parent's
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            self._no_leader.wait_for(lambda: not self._leading)
            readers, self._idle = self._idle, []
        for connection in readers:
            connection.close()
        if not self.read_only:
            self._writer.close()
        if self._file is not None:
            self._file.close()


def schema_version(connection: sqlite3.Connection) -> int:
    """Return the schema's version, 0 for an empty database."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if not tables:
        return 0
    versions = []
    if "schema_version" in tables:
        with contextlib.suppress(sqlite3.OperationalError):  # another program's table of that name
            versions = connection.execute("SELECT version FROM schema_version").fetchall()
    if len(versions) != 1 or not isinstance(versions[0][0], int):
        raise Invalid("this SQLite database was not made by sameluck; choose another file")
    return int(versions[0][0])


def migrate(connection: sqlite3.Connection, path: Path | None) -> None:
    """Back up the file and bring the schema up to date in one transaction; raise `Invalid` for a newer schema."""
    version = schema_version(connection)
    steps = check_schema(repr(str(path)), version, read_only=False)
    if version > 0 and steps and path is not None:
        backup = path.with_name(f"{path.name}.before-{max(migrations())}")
        with contextlib.closing(sqlite3.connect(backup)) as copy:
            connection.backup(copy)
    if steps:
        connection.executescript("\n".join(["BEGIN IMMEDIATE;", *steps, "COMMIT;"]))


def unavailable(error: BaseException) -> BaseException:
    """Return the error for callers of a transaction that an error has ended."""
    if isinstance(error, sqlite3.IntegrityError):
        return contradiction(error)
    if isinstance(error, sqlite3.Error):
        remedy = _REMEDIES.get(_code(error), "")
        return Unavailable(f"SQLite could not write, nothing was changed: {error}{remedy}")
    if isinstance(error, Exception):
        return error
    return Unavailable("interrupted; nothing was changed")


def is_transient(error: sqlite3.Error) -> bool:
    """Return True if opening may succeed later: the disk is full or fails, or another program holds the file."""
    return _code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY)


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
