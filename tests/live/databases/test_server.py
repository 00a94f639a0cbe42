"""Tests of live experiments start a real server of their own, which is gone afterwards."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
import server


def ask(url, question):
    with psycopg.connect(url) as connection:
        return connection.execute(question).fetchone()[0]


def test_is_a_postgres(postgres_url):
    assert ask(postgres_url, "SELECT version()").startswith("PostgreSQL")
    assert ask(postgres_url, "SHOW server_encoding") == "UTF8"


def test_every_url_is_an_empty_database_of_its_own(new_postgres_url):
    first, second = new_postgres_url(), new_postgres_url()
    assert first != second
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE mine (x int)")
    assert ask(first, "SELECT to_regclass('mine') IS NOT NULL")
    assert ask(second, "SELECT to_regclass('mine') IS NULL")


def test_a_database_that_is_given_back_is_empty_again(postgres_databases):
    name = postgres_databases.take()
    url = postgres_databases.server.url(name)
    with psycopg.connect(url, autocommit=True) as left_open:
        left_open.execute("CREATE TABLE mine (x int)")
        left_open.execute("CREATE SCHEMA other CREATE TABLE theirs (x int)")
        left_open.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")

        postgres_databases.give_back(name)

        with pytest.raises(psycopg.OperationalError):
            left_open.execute("SELECT 1")
    assert postgres_databases.take() == name
    assert ask(url, "SELECT count(*) FROM pg_class WHERE relname IN ('mine', 'theirs')") == 0
    assert ask(url, "SELECT count(*) FROM pg_namespace WHERE nspname = 'other'") == 0
    assert ask(url, "SHOW default_transaction_read_only") == "off"
    postgres_databases.give_back(name)


def test_both_ways_lead_to_the_same_server(postgres_server):
    question = "SELECT pg_postmaster_start_time()"
    by_tcp = ask(postgres_server.url(), question)
    assert ask(postgres_server.url(by_socket=True), question) == by_tcp


def test_does_not_run_as_root(postgres_server):
    # The server writes this file itself, so its owner is whom the server runs as.
    written = postgres_server.folder / "data" / "postmaster.pid"
    assert written.read_text().splitlines()[0] == str(postgres_server.pid)
    assert written.stat().st_uid != 0


@pytest.mark.slow
@pytest.mark.parametrize("fsync", [False, True])
def test_fsync_is_a_choice_and_nothing_is_left(fsync):
    with server.running(fsync=fsync) as started:
        assert ask(started.url(), "SHOW fsync") == ("on" if fsync else "off")
        assert ask(started.url(), "SHOW max_connections") == "100"
    assert not started.folder.exists()
    assert not alive(started.pid)


@pytest.mark.slow
def test_ends_when_the_tests_are_killed():
    script = "import server, time\nwith server.running() as s: print(s.folder, s.pid, flush=True); time.sleep(600)"
    here = Path(server.__file__).parent
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=here, stdout=subprocess.PIPE, text=True
    ) as tests:
        folder, pid = tests.stdout.readline().split()
        assert alive(int(pid))
        tests.send_signal(signal.SIGKILL)
    until = time.monotonic() + 30
    while Path(folder).exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(folder).exists()


def test_without_binaries_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(server, "PLACES", ())
    with pytest.raises(server.NoServer, match="apt-get install postgresql"):
        server.binaries()


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
