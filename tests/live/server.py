"""A PostgreSQL server of our own: a throw-away cluster that leaves nothing behind, however we end."""

import contextlib
import functools
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
)
MEMORY = Path("/dev/shm")
ROOM = 2**30  # bytes in memory that a cluster may take
SECONDS_TO_START = 60
ATTEMPTS = 5

# Runs beside the server until it gets the word to end, or until the process that started it is gone.
GUARD = """
read -r _
pid=$(head -n 1 data/postmaster.pid 2>/dev/null) && kill -INT "$pid" 2>/dev/null &&
    while [ -e data/postmaster.pid ]; do sleep 0.02; done
rm -rf "$PWD"
"""


class NoServer(Exception):
    """There is no PostgreSQL to start, or it did not start."""


def binaries():
    """The folder of `initdb` and `postgres`: the one on the PATH, else the newest installed."""
    on_path = shutil.which("postgres")
    folders = [Path(on_path).resolve().parent] if on_path else []
    for place in PLACES:
        folders += sorted(Path("/").glob(place[1:]), key=_version, reverse=True)
    for folder in folders:
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
            return folder
    raise NoServer(
        "these tests start a PostgreSQL server of their own and found no `initdb` and `postgres`, neither on the "
        f"PATH nor in {', '.join(PLACES)}; install them: apt-get install postgresql, or brew install postgresql"
    )


class Server:
    """A running server: `url(database)` for every user of this machine, the superuser is postgres."""

    def __init__(self, folder, port, pid):
        self.folder = folder
        self.port = port
        self.pid = pid

    def url(self, database="postgres", *, by_socket=False):
        """How to reach a database, over TCP or over the unix socket."""
        if by_socket:
            return f"postgresql://postgres@/{database}?host={self.folder}&port={self.port}"
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"


@contextlib.contextmanager
def running(*, fsync=False):
    """A server with an empty cluster; without fsync it survives its clients' death, not a power cut."""
    programs = binaries()
    folder = Path(tempfile.mkdtemp(prefix="sameluck-pg-", dir=place(fsync=fsync)))
    account = _unprivileged()
    if account:
        os.chown(folder, account["user"], account["group"])
    # A session of its own: Ctrl-C is for the tests, which then end the server.
    options = {"cwd": folder, "start_new_session": True, **account}
    guard = subprocess.Popen(["/bin/sh", "-c", GUARD], stdin=subprocess.PIPE, **options)
    process = None
    try:
        _create(programs, folder, options)
        process, port = _start(programs, folder, options, fsync=fsync)
        yield Server(folder, port, process.pid)
    finally:
        # A line, not only the end of file: a forked child may still hold the pipe open.
        guard.communicate(b"end\n")
        if process:
            process.wait()


# In the database itself, when nothing is connected to it any more.
EMPTY = """
DO $$ DECLARE schema text; BEGIN
    FOR schema IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', schema);
    END LOOP;
    CREATE SCHEMA public;
    GRANT USAGE ON SCHEMA public TO PUBLIC;  -- as in a new database
END $$
"""


# What a test may have changed but for rows: columns, indexes, privileges, functions and triggers.
SCHEMA = """
WITH ours AS (
    SELECT oid, nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
)
SELECT
    (SELECT array_agg((nspname, relname, relacl, attname, atttypid, attnotnull) ORDER BY relname, attnum)::text
     FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid JOIN ours ON ours.oid = relnamespace
     WHERE NOT attisdropped),
    (SELECT count(*) FROM pg_proc JOIN ours ON ours.oid = pronamespace),
    (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal)
"""
TABLES = """
SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') FROM pg_tables
WHERE schemaname !~ '^pg_' AND schemaname <> 'information_schema' AND tablename <> 'schema_version'
"""


class Databases:
    """Empty databases of a server. To empty one takes a fifth of the time it takes to make one.

    Those that have the tables of this version, without rows, take a fifth of that again.
    """

    def __init__(self, server):
        self.server = server
        self.numbers = itertools.count(1)
        self.free = []
        self.free_with_tables = []
        self.schema = None

    def __enter__(self):
        import psycopg

        self.connect = functools.partial(psycopg.connect, autocommit=True)
        self.connection = self.connect(self.server.url())
        return self

    def __exit__(self, *_):
        self.connection.close()

    def take(self):
        """The name of an empty database."""
        if self.free:
            return self.free.pop()
        name = f"test_{next(self.numbers)}"
        self.connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return name

    def give_back(self, name):
        """End every connection to a database, undo its settings and empty it."""
        self._disconnect(name)
        with self.connect(self.server.url(name)) as connection:
            connection.execute(EMPTY)
        self.free.append(name)

    def _disconnect(self, name):
        self.connection.execute(f"ALTER DATABASE {name} RESET ALL")
        # Without its timeout: PostgreSQL waits in steps of 100 ms.
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        until = time.monotonic() + SECONDS_TO_START
        while self.connection.execute(others, [name]).fetchone() and time.monotonic() < until:
            time.sleep(0.002)

    def take_with_tables(self):
        """The name of a database that a store has opened, without rows."""
        import sameluck

        if self.free_with_tables:
            return self.free_with_tables.pop()
        name = self.take()
        sameluck.open(self.server.url(name)).close()
        if self.schema is None:
            with self.connect(self.server.url(name)) as connection:
                self.schema = connection.execute(SCHEMA).fetchone()
        return name

    def give_back_with_tables(self, name):
        """Delete the rows; empty the database if more than rows was changed."""
        self._disconnect(name)
        with self.connect(self.server.url(name)) as connection:
            if unchanged := connection.execute(SCHEMA).fetchone() == self.schema:
                (tables,) = connection.execute(TABLES).fetchone()
                connection.execute(f"TRUNCATE {tables} RESTART IDENTITY")
        if unchanged:
            self.free_with_tables.append(name)
        else:
            self.give_back(name)


def admin(server, *commands):
    """Run commands as the superuser."""
    import psycopg

    with psycopg.connect(server.url(), autocommit=True) as connection:
        for command in commands:
            connection.execute(command)


def name_of(url):
    """The name of a database."""
    return url.rpartition("/")[2]


@contextlib.contextmanager
def away(server, url):
    """The database takes no connections, and the present ones are gone."""
    name = name_of(url)
    allow = "UPDATE pg_database SET datallowconn = {} WHERE datname = '{}'"
    kill = f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'"
    admin(server, allow.format("false", name), kill)
    try:
        yield
    finally:
        admin(server, allow.format("true", name))


@contextlib.contextmanager
def frozen(pid):
    """A process and its children are stopped, as on a machine that hangs."""
    children = [
        int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat") if _parent(path) == pid
    ]
    for process in (pid, *children):
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in (pid, *children):
            os.kill(process, signal.SIGCONT)


def _parent(stat):
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended
        return None


def _version(folder):
    digits = "".join(letter if letter.isdigit() else " " for letter in folder.parent.name)
    return [int(number) for number in digits.split()]


def _unprivileged():
    """Whom to run as: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def place(*, fsync):
    """Where to make files: on disk if they are to be durable, else in memory if there is room for them."""
    # Not TMPDIR: a socket's path must be short, and the server's user must be able to enter.
    if fsync or not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < ROOM:
        return "/tmp"
    return MEMORY  # most of the work of a new database is to make its files


def _create(programs, folder, options):
    command = [programs / "initdb", "--pgdata=data", "--username=postgres", "--auth=trust"]
    command += ["--encoding=UTF8", "--locale=C", "--no-sync"]
    with (folder / "log").open("wb") as log:
        code = subprocess.call(command, stdout=log, stderr=log, **options)
    if code:
        raise NoServer(f"initdb ended with code {code}: {(folder / 'log').read_text()}")


def _start(programs, folder, options, *, fsync):
    """Start the server and wait until it takes connections: the process and its port."""
    for _ in range(ATTEMPTS):
        port = _free_port()
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": port,
            "unix_socket_directories": folder,
            "max_connections": 100,
            "max_locks_per_transaction": 512,  # to drop many schemas at once
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            "max_wal_size": "1GB" if fsync else "128MB",
        }
        command = [programs / "postgres", "-D", "data"]
        command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, **options)
        if _ready(folder, process):
            return process, port
        # Another process may have taken the port since we chose it.
    raise NoServer(f"PostgreSQL did not start: {(folder / 'log').read_text()}")


def _ready(folder, process):
    """Wait until the server's own file says ready; false when it ended instead."""
    until = time.monotonic() + SECONDS_TO_START
    while process.poll() is None:
        with contextlib.suppress(FileNotFoundError):
            lines = (folder / "data" / "postmaster.pid").read_text().splitlines()
            if lines[7:] and lines[7].strip() == "ready":
                return True
        if time.monotonic() > until:
            process.kill()
        time.sleep(0.01)
    return False


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
