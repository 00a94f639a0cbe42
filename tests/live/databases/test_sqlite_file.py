"""File of a SQLite database: its write lock, with `fcntl` and as on Windows, and a file that is moved or lost."""

import contextlib
import os
import resource
import shutil
import sqlite3
import sys
import types
from pathlib import Path

import pytest

import sameluck as sl
from sameluck.live.databases.sqlite_file import LOCKED_BYTE, SqliteFile

SMALL = sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=50, replications=1)


class Windows(types.ModuleType):
    """Locks bytes as msvcrt does: by file, for one handle, at the handle's position."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self):
        super().__init__("msvcrt")
        self.owners = {}

    def locking(self, handle, mode, count):
        assert count == 1
        inode = os.fstat(handle).st_ino
        owner = self.owners.get(inode)
        if mode == self.LK_UNLCK:
            if owner != handle:
                raise PermissionError("not locked")
            del self.owners[inode]
        elif owner is not None:
            raise PermissionError("locked by another handle")
        else:
            self.owners[inode] = handle


@pytest.fixture(params=["fcntl", "msvcrt"])
def platform(request, monkeypatch):
    if request.param == "msvcrt":
        monkeypatch.setitem(sys.modules, "fcntl", None)
        monkeypatch.setitem(sys.modules, "msvcrt", Windows())
        seek = os.lseek
        # Windows locks bytes far beyond the end; some file systems of Linux cannot even seek to them.
        monkeypatch.setattr(
            os, "lseek", lambda handle, at, how: seek(handle, at % LOCKED_BYTE, how)
        )
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "shop.db"


@pytest.fixture
def live(path):
    with sl.open(f"sqlite:///{path}") as store:
        yield store.start("trial", SMALL)


@pytest.mark.usefixtures("platform")
def test_one_store_writes_at_a_time(path):
    url = f"sqlite:///{path}"
    with sl.open(url) as first:
        for _ in range(2):  # a store that is refused leaves the lock as it is
            with pytest.raises(
                sl.Unavailable, match="is being written by another process or store"
            ):
                sl.open(url)
        first.start("trial", SMALL)
        with sl.open(url, read_only=True) as reader:
            assert reader.names() == ["trial"]
    with sl.open(url) as second:
        assert second.names() == ["trial"]


@pytest.mark.usefixtures("platform")
def test_a_file_that_is_no_database_is_unlocked_again(path):
    path.write_text("no database " * 100)
    with pytest.raises(sl.Invalid, match="cannot open"):
        sl.open(f"sqlite:///{path}")
    SqliteFile(path, write=True).close()


@pytest.mark.usefixtures("platform")
def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(sl.Invalid, match=r"cannot open .* for writing: No such file"):
        sl.open(f"sqlite:///{tmp_path / 'nowhere' / 'shop.db'}")


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_another_name_of_the_file_admits_nobody_else(tmp_path, path, live, link):
    link(path, tmp_path / "other.db")
    with pytest.raises(sl.Unavailable, match="is being written by another process or store"):
        sl.open(f"sqlite:///{tmp_path / 'other.db'}")
    assert live.assign("ann").enrolled


def test_no_file_beside_the_database_is_the_lock(path, live):
    for file in path.parent.glob("shop.db.*"):
        file.unlink()
    with pytest.raises(sl.Unavailable, match="is being written by another process or store"):
        sl.open(f"sqlite:///{path}")


def test_a_forked_child_does_not_keep_the_lock(path):
    store = sl.open(f"sqlite:///{path}")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent is done
        os._exit(0)
    try:
        os.close(reading)
        with pytest.raises(sl.Unavailable, match="is being written"):
            sl.open(f"sqlite:///{path}")
        store.close()
        sl.open(f"sqlite:///{path}").close()
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def test_a_refused_store_leaves_the_locks_of_sqlite_alone(path, live):
    """Closing a handle of the file would drop them: another process could then remove the write-ahead log."""
    with pytest.raises(sl.Unavailable):
        sl.open(f"sqlite:///{path}")
    with sl.open(f"sqlite:///{path}", read_only=True):
        pass
    inode = os.stat(path).st_ino
    handles = "".join(
        file.read_text() for file in Path("/proc/self/fdinfo").iterdir() if file.exists()
    )
    mine = [line for line in handles.splitlines() if "lock:" in line and f":{inode} " in line]
    assert sorted(line.split()[2] for line in mine) == ["FLOCK", "POSIX"], mine


def moved(path):
    path.rename(path.with_name("away.db"))


def replaced(path):
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").rename(path)


def without_its_log(path):
    path.with_name("shop.db-wal").unlink()


def replaced_by_a_link(path):
    moved(path)
    shutil.copy(path.with_name("away.db"), path.with_name("copy.db"))
    path.symlink_to(path.with_name("copy.db"))


def overwritten_by_a_backup(path):
    with sl.open(f"sqlite:///{path.with_name('other.db')}") as store:
        store.backup(path.with_name("other.backup"))
    shutil.copy(path.with_name("other.backup"), path)


def emptied(path):
    path.write_bytes(b"")


LOSSES = {
    os.unlink: "was deleted or moved",
    moved: "was deleted or moved",
    replaced: "was replaced by another file",
    without_its_log: "shop.db-wal' was deleted or moved",
    replaced_by_a_link: "was replaced by another file",
    overwritten_by_a_backup: "was overwritten while it was open",
    emptied: "was overwritten while it was open",
}


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)
def test_nothing_is_acknowledged_once_the_file_is_gone(path, live, lose):
    assignment = live.assign("ann")
    lose(path)
    for call in (
        lambda: live.reward(assignment.id, 1.0),
        lambda: live.assign("bob", strict=True),
        live.pause,
        live.status,
        lambda: live.describe(assignment.id),
    ):
        with pytest.raises(sl.Unavailable, match=LOSSES[lose]) as caught:
            call()
        assert "shop.db" in str(caught.value)
    assert live.assign("bob").reason == "UNAVAILABLE"


def test_an_error_that_is_kept_does_not_keep_the_file_open(path):
    with sl.open(f"sqlite:///{path}") as store:
        live = store.start("trial", SMALL)
        live.status()
        moved(path)
        with pytest.raises(sl.Unavailable) as error:
            live.status()
    # The traceback in `error` keeps the variables of its frames alive.
    handles = [os.path.realpath(handle) for handle in Path("/proc/self/fd").iterdir()]
    assert not any("away.db" in handle for handle in handles), error


def close_readers(database):
    while database._idle:
        database._idle.pop().close()


def test_a_file_that_is_moved_while_a_reader_opens_it(path, live, monkeypatch):
    database = live.open_replications.database
    close_readers(database)
    check = database._file.check

    def then_move():
        check()
        monkeypatch.undo()
        moved(path)

    monkeypatch.setattr(database._file, "check", then_move)
    with pytest.raises(sl.Unavailable, match="was deleted or moved while it was open"):
        live.status()


def test_a_copy_of_the_file_itself_is_not_written_over_it_unnoticed(path):
    """Though what others do with SQLite while it serves is fine: to empty the log, and to make the file smaller."""
    with sl.open(f"sqlite:///{path}") as store:
        live = store.start("trial", SMALL)
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint")
            shutil.copy(path, path.with_name("earlier.db"))
            store.start("second", SMALL)
            other.execute("VACUUM")
            other.execute("PRAGMA wal_checkpoint")
        assignment = live.assign("ann")
        assert assignment.enrolled
        shutil.copy(path.with_name("earlier.db"), path)
        with pytest.raises(sl.Unavailable, match="was overwritten while it was open"):
            live.status()
        with pytest.raises(sl.Unavailable):  # SQLite may be the first to notice
            live.reward(assignment.id, 1.0)


def test_a_store_opens_again_once_the_file_is_back(path):
    with sl.open(f"sqlite:///{path}") as store:
        live = store.start("trial", SMALL)
        assignment = live.assign("ann")
        moved(path)
        with pytest.raises(sl.Unavailable):
            live.reward(assignment.id, 1.0)
        path.with_name("away.db").rename(path)
        assert live.reward(assignment.id, 1.0).value == 1.0
    with sl.open(f"sqlite:///{path}") as store:
        assert store.load("trial").describe(assignment.id).value == 1.0


@pytest.fixture
def no_handles():
    """This process can open no further file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The handles below 3 are the standard streams, always in use: files closed meanwhile free none of them.
    yield lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_out_of_file_handles_is_not_the_callers_mistake(path, live, no_handles):
    assignment = live.assign("ann")
    close_readers(live.open_replications.database)
    no_handles()
    calls = (
        lambda: sl.open(f"sqlite:///{path}"),
        lambda: sl.open(f"sqlite:///{path}", read_only=True),
        lambda: live.describe(assignment.id),
    )
    for call in calls:
        with pytest.raises(sl.Unavailable, match=r"(Too many open files.*ulimit|being written)"):
            call()


def test_another_file_at_the_path_can_be_opened(path):
    with sl.open(f"sqlite:///{path}") as store:
        store.start("trial", SMALL)
        path.unlink()
        with pytest.raises(sl.Unavailable):
            store.names()
        for file in path.parent.glob("shop.db-*"):
            file.unlink()
        with sl.open(f"sqlite:///{path}") as other:
            assert other.names() == []
            other.start("second", SMALL)
    with sl.open(f"sqlite:///{path}") as again:
        assert again.names() == ["second"]
