"""Schema versions: a newer one is refused, an older one migrated, a foreign database left alone."""

import contextlib
import sqlite3
from itertools import count
from pathlib import Path

import psycopg
import pytest
from contract.scenario import Scenario, assert_finished

import sameluck as sl
from sameluck.live.databases import sqlite, statements
from sameluck.live.databases.statements import migrations

WIDER = "ALTER TABLE experiment ADD COLUMN note TEXT NOT NULL DEFAULT '';"
NARROWER = "CREATE TABLE remark (text TEXT NOT NULL);"
BROKEN = "CREATE TABLE remark (text TEXT NOT NULL);\nINSERT INTO nowhere VALUES (1);"

NEWEST = max(migrations())


@pytest.fixture
def later(monkeypatch):
    """A later sameluck, whose schema has more steps; and this one again."""

    def has(*steps):
        more = {**migrations(), **dict(enumerate(steps, start=NEWEST + 1))}
        for module in (statements, sqlite):
            monkeypatch.setattr(module, "migrations", lambda: more)

    return has


@pytest.fixture(params=["sqlite", pytest.param("empty_postgres", marks=pytest.mark.slow)])
def url(request):
    """URL of an empty database, on SQLite and on PostgreSQL."""
    return request.getfixturevalue(f"{request.param}_url")


def ask(url, question):
    """Return the contents of a database, read without sameluck."""
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(path_of(url))) as connection, connection:
            return connection.execute(question).fetchall()
    with psycopg.connect(url) as connection:
        cursor = connection.execute(question)
        return cursor.fetchall() if cursor.description else []


def path_of(url):
    return url.removeprefix("sqlite:///").partition("?")[0]


def version_of(url):
    ((version,),) = ask(url, "SELECT version FROM schema_version")
    return version


def begun(url):
    """A store with an experiment that is under way; closed."""
    scenario = Scenario(lambda clock: sl.open(url, clock=clock))
    live = scenario.start()
    for _ in range(10):
        scenario.serve(live)
    scenario.close()
    return scenario, live


def goes_on(scenario, live):
    live = scenario.reopen(live)
    scenario.finish(live)
    assert_finished(live)
    scenario.close()


def test_steps_have_no_gaps():
    assert sorted(migrations()) == list(range(1, len(migrations()) + 1))


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_schema_is_refused(url, read_only):
    begun(url)
    ask(url, f"UPDATE schema_version SET version = {NEWEST + 1}")

    with pytest.raises(sl.Invalid, match=f"schema version {NEWEST + 1}, .* upgrade sameluck"):
        sl.open(url, read_only=read_only)

    assert version_of(url) == NEWEST + 1


def test_an_older_schema_is_migrated(url, later):
    scenario, live = begun(url)
    later(WIDER, NARROWER)

    goes_on(scenario, live)

    assert version_of(url) == NEWEST + 2
    assert ask(url, "SELECT note FROM experiment") == [("",)]
    assert ask(url, "SELECT * FROM remark") == []


def test_a_new_database_gets_all_steps(url, later):
    later(WIDER, NARROWER)

    scenario, live = begun(url)

    assert version_of(url) == NEWEST + 2
    goes_on(scenario, live)


def test_an_older_schema_is_not_migrated_by_who_only_reads(url, later):
    begun(url)
    later(WIDER)

    with pytest.raises(sl.Invalid, match=f"reads {NEWEST + 1}; open it for writing"):
        sl.open(url, read_only=True)

    assert version_of(url) == NEWEST


def test_a_migration_that_fails_changes_nothing(url, later, monkeypatch):
    scenario, live = begun(url)
    later(WIDER, BROKEN)
    with pytest.raises(sl.Invalid, match="nowhere") as caught:
        sl.open(url)
    assert "\n" not in str(caught.value)
    assert version_of(url) == NEWEST
    monkeypatch.undo()

    goes_on(scenario, live)


def test_before_a_migration_sqlite_is_copied(sqlite_url, later, monkeypatch, tmp_path):
    """A store opened on the copy has the old schema and goes on."""
    scenario, live = begun(sqlite_url)
    later(WIDER)
    goes_on(scenario, live)
    monkeypatch.undo()
    with pytest.raises(sl.Invalid, match="upgrade"):
        sl.open(sqlite_url)

    (copy,) = tmp_path.glob(f"*.before-{NEWEST + 1}")
    with sl.open(f"sqlite:///{copy}") as store:
        restored = store.load("trial")
        assert restored.status().settled == 10
        assert restored.assign("ann").enrolled


def test_no_copy_without_a_migration(sqlite_url, tmp_path):
    goes_on(*begun(sqlite_url))

    assert not list(tmp_path.glob("*before*"))


def test_an_empty_sqlite_file_is_as_good_as_none(sqlite_url, tmp_path):
    (tmp_path / "ledger.db").touch()

    goes_on(*begun(sqlite_url))


@pytest.mark.parametrize(
    "theirs",
    [
        "CREATE TABLE experiment (id INTEGER PRIMARY KEY, mine TEXT)",
        "CREATE TABLE schema_version (number TEXT)",
        "CREATE TABLE schema_version (version INTEGER)",
        "CREATE TABLE schema_version AS SELECT 'one' AS version",
        "CREATE TABLE schema_version AS SELECT 1 AS version UNION SELECT 2",
    ],
)
def test_a_foreign_database_is_left_alone(url, theirs):
    ask(url, theirs)
    before = everything(url)

    for read_only in (False, True):
        with pytest.raises(sl.Invalid) as caught:
            sl.open(url, read_only=read_only)
        assert "\n" not in str(caught.value)

    assert everything(url) == before


def everything(url):
    if url.startswith("sqlite"):
        with open(path_of(url), "rb") as file:
            return file.read()
    tables = ask(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    return [(table, ask(url, f'SELECT * FROM "{table}"')) for (table,) in tables]


def test_other_tables_of_a_postgres_database_do_not_matter(empty_postgres_url):
    ask(empty_postgres_url, "CREATE TABLE invoices (id INTEGER)")

    goes_on(*begun(empty_postgres_url))

    assert ask(empty_postgres_url, "SELECT * FROM invoices") == []


def test_an_empty_file_is_looked_at_in_vain(tmp_path):
    (tmp_path / "new.db").touch()
    with pytest.raises(sl.Unknown, match=r"no experiment was ever started in '.*new\.db'"):
        sl.open(f"sqlite:///{tmp_path / 'new.db'}", read_only=True)


def test_an_empty_postgresql_database_is_looked_at_in_vain(empty_postgres_url):
    with pytest.raises(sl.Unknown, match="no experiment was ever started in this database"):
        sl.open(empty_postgres_url, read_only=True)


RECORDED = Path(__file__).parents[2] / "recorded" / "ledger_schema_1.sql"


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_a_ledger_of_an_earlier_schema_is_counted_and_goes_on(url, version):
    """One experiment with a default reward, a void and a pause; one with a log."""
    script = migrations()[1] + RECORDED.read_text()
    if version == 2:
        script += migrations()[2] + "UPDATE schema_version SET version = 2;"
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(path_of(url))) as connection:
            connection.executescript(script)
    else:
        with psycopg.connect(url) as connection:
            connection.execute(statements.for_postgres(script))

    scenario = Scenario(lambda clock: sl.open(url, clock=clock))
    scenario._units = count(100)  # others than those recorded
    live = scenario.store.load("trial")
    status = live.status()
    assert (status.status, status.reason) == ("paused", "maintenance")
    assert (status.users, status.settled, status.waiting, status.wanted) == (14, 13, 1, 2)
    assert (status.defaulted, status.voided, status.imported) == (1, 1, 0)
    assert (status.opened, status.complete, status.prefix) == (3, 1, 1)
    log = scenario.store.load("log").status()
    assert (log.imported, log.settled, log.complete) == (7, 0, 1)
    assert [change.what for change in live.history()] == ["started", "policy versions recorded"]
    live.resume()
    scenario.clock.advance(86_400)
    scenario.finish(live)
    assert live.status().status == "complete"
    assert live.verify() == 3
    assert scenario.start(name="third").id == 3
    scenario.close()
