"""Removed data is gone from every table, and from the file."""

import contextlib
import sqlite3

import psycopg
from contract.scenario import FIVE, Scenario, options

import sameluck as sl
from sameluck.live.databases.backups import TABLES
from sameluck.live.databases.rows import ExperimentRow

KEPT = {"change", "schema_version", "api_key", "process_clock"}  # of no experiment, or its history


def scenario_of(url):
    return Scenario(lambda clock: sl.open(url, clock=clock))


def tables(url):
    """Every table that sameluck made, with its rows as text."""
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///").partition("?")[0]
        question = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        connection = contextlib.closing(sqlite3.connect(path))
    else:
        question = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        connection = psycopg.connect(url)
    with connection as one:
        names = [name for (name,) in one.execute(question).fetchall()]
        return {name: one.execute(f"SELECT * FROM {name}").fetchall() for name in names}


def test_a_backup_has_every_table(url):
    with sl.open(url):
        assert {*tables(url)} == {*TABLES, "schema_version", "process_clock"}


def test_nothing_of_a_deleted_experiment_is_left(url):
    """A table of a later version has to be deleted too."""
    scenario = scenario_of(url)
    live = scenario.start(FIVE, options=options(traffic_share=0.9))
    for _ in range(60):
        scenario.serve(live)
        live.assign("unit 0")
    live.disable_arm(2)
    live.stop(drain=False)
    scenario.store.delete("trial")
    scenario.close()
    assert {name for name, rows in tables(url).items() if rows} <= KEPT


def test_deleting_takes_a_time_that_is_proportional(sqlite_url):
    """Every statement finds the rows that refer to those it deletes by an index."""
    with sl.open(sqlite_url) as store:
        connection = store.database.write(lambda t: t.connection)
        references = {
            "reward_event WHERE assignment = 'a'": "one_applied_reward",
            "assignment WHERE experiment = 1 AND replication = 1 AND owner = 0 AND arm = 0 AND position = 0": (
                "one_live_assignment_an_entry"
            ),
            "assignment WHERE experiment = 1 AND unit = 'a'": "one_enrolment_a_unit",
            "entry WHERE experiment = 1 AND replication = 1": "PRIMARY KEY",
        }
        for rows, index in references.items():
            ((*_, plan),) = connection.execute(f"EXPLAIN QUERY PLAN SELECT 1 FROM {rows}")
            assert plan.startswith("SEARCH")
            assert index in plan


def test_the_hash_of_an_erased_unit_is_not_in_the_file(sqlite_url, tmp_path):
    scenario = scenario_of(sqlite_url)
    live = scenario.start(FIVE)
    given = live.assign("ann")
    scenario.pay(live, given.id)
    gone = [live.enrolment.unit_hash("ann").encode(), given.id.encode()]
    for _ in range(20):
        scenario.serve(live)
    live.erase("ann")
    scenario.close()
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    assert [text for text in gone if text in content] == []


def test_a_salt_that_was_destroyed_is_not_in_the_file(sqlite_url, tmp_path):
    scenario = scenario_of(sqlite_url)
    live = scenario.start()
    scenario.finish(live)
    (row,) = scenario.rows(live, ExperimentRow, "experiment_now")
    salt = row.salt.encode()
    live.forget_units()
    scenario.close()
    (file,) = tmp_path.iterdir()
    assert salt not in file.read_bytes()


def test_another_process_that_flushes_visits_brings_no_unit_back(postgres_url):
    """It counts visits in memory for a second; the unit is erased meanwhile."""
    scenario = scenario_of(postgres_url)
    live = scenario.start(FIVE)
    other = scenario.store.load("trial")
    other.assign("ann")
    other.assign("ann")
    assert live.erase("ann") == 1
    other.enrolment.flush()
    code = live.enrolment.unit_hash("ann")
    scenario.close()
    assert [name for name, rows in tables(postgres_url).items() if code in str(rows)] == []


def test_several_processes_exclude_the_same_units(postgres_url):
    """A unit that one has turned away is turned away by the other."""
    scenario = scenario_of(postgres_url)
    live = scenario.start({"ucb": "ucb1"}, options=options(open_replications=1))
    with sl.open(postgres_url, clock=scenario.clock) as store:
        other = store.load("trial")
        waiting = other.assign("bob").id
        assert live.assign("ann").reason == "NO_OPEN_SLOT"
        scenario.pay(other, waiting)
        assert other.assign("ann").reason == "EXCLUDED"
        assert live.assign("carl").enrolled
    scenario.close()
