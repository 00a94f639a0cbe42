"""Backups: consistent while the store serves, of either database into a file, and back into either."""

import contextlib
import resource
import shutil
import sqlite3
import threading

import psycopg
import pytest
import server
from contract.scenario import FIVE, START, Scenario, assert_finished, options

import sameluck as sl
from sameluck.live.rehearsal import VirtualClock

OTHERS = sl.Gaussian((3.0, 2.0, 1.0))  # the rewards of users after a backup was restored


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def other_url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/restored.db?synchronous=normal"
    return request.getfixturevalue("new_postgres_url")()


def scenario_of(url):
    return Scenario(lambda clock: sl.open(url, clock=clock))


def rows(live, scenario):
    from sameluck.live.databases.rows import EventRow, HistoryRow

    events = [tuple(row) for row in scenario.rows(live, EventRow, "events")]
    return events, [tuple(row) for row in scenario.rows(live, HistoryRow, "history")]


@pytest.mark.slow
def test_a_backup_made_while_users_are_served_is_one_moment(url, other_url, tmp_path):
    """It continues as the original does, with the runs of the simulation."""
    scenario = scenario_of(url)
    live = scenario.start(FIVE, replications=6, options=options(open_replications=3))
    live.disable_arm(2)
    live.enable_arm(2)
    stop, enough, paid = threading.Event(), threading.Event(), []

    def serve():
        while not stop.is_set() and scenario.serve(live).enrolled:
            paid.append(1)
            if len(paid) == 20:
                enough.set()

    thread = threading.Thread(target=serve)
    thread.start()
    assert enough.wait(60)
    before = len(paid)
    scenario.store.backup(tmp_path / "one.backup")
    after = len(paid) + 1
    stop.set()
    thread.join()
    scenario.finish(live)
    assert_finished(live)
    scenario.close()

    sl.restore(tmp_path / "one.backup", other_url)
    restored = scenario_of(other_url)
    again = restored.store.load("trial")
    assert before <= again.status().settled <= after
    assert [change.what for change in again.history()] == ["started", "arm disabled", "arm enabled"]
    restored._units = scenario._units
    waiting = [row[8] for row in rows(again, restored)[1] if row[4] == "assigned"]
    restored.finish(again, waiting=waiting)
    assert_finished(again)
    restored.close()


def test_a_copy_is_equal(url, other_url, tmp_path):
    scenario = scenario_of(url)
    live = scenario.start()
    for _ in range(10):
        scenario.serve(live)
    expected, status = rows(live, scenario), live.status()
    live.enrolment.flush()
    scenario.store.backup(str(tmp_path / "one.backup"))
    scenario.close()
    assert [file.name for file in tmp_path.glob("one.backup*")] == ["one.backup"]
    sl.restore(tmp_path / "one.backup", other_url)
    restored = scenario_of(other_url)
    again = restored.store.load("trial")
    assert (rows(again, restored), again.status()) == (expected, status)
    restored.close()


def test_a_process_that_serves_while_a_backup_is_restored(postgres_url, tmp_path):
    """It forgets what it remembers of entries that are gone, even where the ledger has become as long again."""
    old, clock = scenario_of(postgres_url), VirtualClock(START)
    live = old.start(replications=4, options=options(open_replications=2))
    for _ in range(4):
        old.serve(live)
    old.store.backup(tmp_path / "old.backup")
    while live.runs().replications < 2:
        old.serve(live)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(server.EMPTY)
    sl.restore(tmp_path / "old.backup", postgres_url)
    new = Scenario(lambda _: sl.open(postgres_url, clock=clock))
    new._units = old._units
    again = new.store.load(live.name)
    while again.runs().replications < 2:
        new.serve(again, OTHERS)
    assert live.runs().rewards.tolist() == again.runs().rewards.tolist()
    while again.status().status == "running":
        old.serve(live, OTHERS)
        new.serve(again, OTHERS)
    assert live.verify() == 4
    assert live.runs().rewards.tolist() == again.runs().rewards.tolist()
    old.close()
    new.close()


def test_what_exists_is_not_overwritten(url, other_url, tmp_path):
    scenario = scenario_of(url)
    scenario.start()
    scenario.store.backup(tmp_path / "one.backup")
    with pytest.raises(sl.Invalid, match="exists already"):
        scenario.store.backup(tmp_path / "one.backup")
    scenario.close()
    sl.restore(tmp_path / "one.backup", other_url)
    with pytest.raises(sl.Conflict, match=r"exists already|has experiments"):
        sl.restore(tmp_path / "one.backup", other_url)


def test_the_log_of_a_file_that_was_moved_away_is_not_applied_to_another(tmp_path):
    """SQLite would, and the restored file would be malformed."""
    path, backup = tmp_path / "shop.db", tmp_path / "one.backup"
    with sl.open(f"sqlite:///{path}?synchronous=normal") as store:
        store.backup(backup)
        for end in ("-wal", "-shm", "-journal"):
            (left := tmp_path / f"two.backup{end}").touch()
            with pytest.raises(sl.Conflict, match=rf"two.backup{end}' belongs to the database"):
                store.backup(tmp_path / "two.backup")
            left.unlink()
    path.rename(tmp_path / "damaged.db")
    for end in ("-wal", "-shm", "-journal"):
        (left := tmp_path / f"shop.db{end}").touch()
        with pytest.raises(sl.Conflict, match=rf"shop.db{end}' belongs to the database that was"):
            sl.restore(backup, f"sqlite:///{path}")
        left.rename(tmp_path / f"damaged.db{end}")
    sl.restore(backup, f"sqlite:///{path}")


@contextlib.contextmanager
def no_room():
    """No file may grow beyond some pages, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * 4_096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_on_a_disk_without_room_the_file_is_named_and_nothing_is_left(tmp_path):
    url, folder = f"sqlite:///{tmp_path}/shop.db", tmp_path / "full"
    folder.mkdir()
    with sl.open(url) as store:
        store.backup(tmp_path / "one.backup")
        with (
            no_room(),
            pytest.raises(sl.Invalid, match=r"cannot write '.*full/two.backup': .*disk"),
        ):
            store.backup(folder / "two.backup")
    with no_room(), pytest.raises(sl.Invalid, match=r"cannot write '.*full/shop.db': .*disk"):
        sl.restore(tmp_path / "one.backup", f"sqlite:///{folder}/shop.db")
    assert list(folder.iterdir()) == []


def test_what_is_no_backup(tmp_path):
    url = f"sqlite:///{tmp_path}/restored.db"
    with pytest.raises(sl.Unknown, match="no backup"):
        sl.restore(tmp_path / "nothing", url)
    (tmp_path / "text").write_text("no database " * 100)
    with pytest.raises(sl.Invalid, match="is not a backup"):
        sl.restore(tmp_path / "text", url)
    with sl.open("sqlite://") as store, pytest.raises(sl.Invalid, match="in memory"):
        store.backup(tmp_path / "empty")
    with pytest.raises(sl.Invalid, match="in memory"):
        sl.restore(tmp_path / "text", "sqlite://")
    assert not (tmp_path / "restored.db").exists()


def test_a_copied_file_lacks_what_is_in_the_log(tmp_path):
    """Why `cp` is no backup."""
    scenario = scenario_of(f"sqlite:///{tmp_path}/shop.db")
    live = scenario.start()
    for _ in range(10):
        scenario.serve(live)
    shutil.copy(tmp_path / "shop.db", tmp_path / "copy.db")
    scenario.store.backup(tmp_path / "one.backup")
    found = {}
    for name in ("copy.db", "one.backup"):
        question = "SELECT count(*) FROM entry WHERE state = 'settled'"
        opened = contextlib.closing(sqlite3.connect(tmp_path / name))
        with opened as connection, contextlib.suppress(sqlite3.Error):
            (found[name],) = connection.execute(question).fetchone()
    assert found["one.backup"] == 10
    assert found.get("copy.db", 0) < 10
    scenario.close()
