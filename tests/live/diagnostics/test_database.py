"""What the doctor says about a database."""

import contextlib
import sqlite3

import pytest

import sameluck as sl
from sameluck.live.diagnostics import database


def start(url):
    store = sl.open(url)
    experiment = sl.Experiment(
        policies={"a": "ucb1", "b": "uniform"}, arms=2, horizon=4, replications=2
    )
    return store, store.start("x", experiment)


def test_a_sound_file_is_fine(tmp_path):
    store, _ = start(f"sqlite:///{tmp_path / 'a.db'}?synchronous=normal")
    with store:
        checks = database.examine(store)
    assert [check.name for check in checks] == ["sqlite", "journal", "integrity", "schema"]
    assert {check.verdict for check in checks} == {"fine"}
    assert checks[-1].details == {"version": 4}


def test_memory_does_not_last():
    store, _ = start("sqlite://")
    with store:
        verdicts = {check.name: check.verdict for check in database.examine(store)}
    assert verdicts["journal"] == "watch"


@pytest.mark.parametrize(
    ("version", "warned"),
    [((3, 6, 23), False), ((3, 7, 0), True), ((3, 51, 2), True), ((3, 51, 3), False)],
)
def test_versions_that_bear_only_one_writer_are_named(version, warned):
    check = database._sqlite_version(version)
    assert check.verdict == "fine"
    assert ("let no other program write" in check.sentence) == warned


def test_what_is_wrong_is_an_alarm_with_a_remedy():
    damaged = database._integrity(["row 3 missing from index", "more"])
    assert damaged.verdict == "alarm"
    assert "row 3 missing from index" in damaged.sentence
    assert database._journal("delete").verdict == "alarm"
    assert database._schema(0).verdict == "alarm"
    off = database._durability({"fsync": "off", "synchronous_commit": "on"})
    assert off.verdict == "alarm"
    assert off.sentence.startswith("fsync is off")
    assert "Turn it on" in off.sentence
    assert (
        "Turn them on" in database._durability({"fsync": "off", "full_page_writes": "off"}).sentence
    )


def test_a_damaged_file_is_found(tmp_path):
    path = tmp_path / "a.db"
    store, live = start(f"sqlite:///{path}?synchronous=normal")
    with store:
        for user in range(20):
            live.reward(live.assign(user).id, 1.0)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, '''wanted''', '''settled''') WHERE name = 'entry_wanted'"
        )
    with sl.open(f"sqlite:///{path}", read_only=True) as store:
        checks = {check.name: check.verdict for check in database.examine(store)}
    assert checks["integrity"] == "alarm"
