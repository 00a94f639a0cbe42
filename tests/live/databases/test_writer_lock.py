"""The right to write a SQLite file, with `fcntl` and, as on Windows, without."""

import os
import sys
import types

import pytest

import sameluck as sl
from sameluck.files import unlock
from sameluck.live.databases import sqlite


class Windows(types.ModuleType):
    """Locks bytes as msvcrt does: by file, for one handle, at the handle's position."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self):
        super().__init__("msvcrt")
        self.owners = {}

    def locking(self, handle, mode, count):
        assert count == 1
        place = os.fstat(handle).st_ino, os.lseek(handle, 0, os.SEEK_CUR)
        owner = self.owners.get(place)
        if mode == self.LK_UNLCK:
            if owner != handle:
                raise PermissionError("not locked")
            del self.owners[place]
        elif owner is not None:
            raise PermissionError("locked by another handle")
        else:
            self.owners[place] = handle


@pytest.fixture(params=["fcntl", "msvcrt"])
def platform(request, monkeypatch):
    if request.param == "msvcrt":
        monkeypatch.setitem(sys.modules, "fcntl", None)
        monkeypatch.setitem(sys.modules, "msvcrt", Windows())
    return request.param


@pytest.mark.usefixtures("platform")
def test_one_store_writes_at_a_time(tmp_path):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    with sl.open(url) as first:
        for _ in range(2):  # a store that is refused leaves the lock as it is
            with pytest.raises(
                sl.Unavailable, match="is being written by another process or store"
            ):
                sl.open(url)
        small = sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=2, replications=1)
        first.start("trial", small)
        with sl.open(url, read_only=True) as reader:
            assert reader.names() == ["trial"]
    with sl.open(url) as second:
        assert second.names() == ["trial"]


@pytest.mark.usefixtures("platform")
def test_a_file_that_is_no_database_is_unlocked_again(tmp_path):
    path = tmp_path / "text.db"
    path.write_text("no database " * 100)
    with pytest.raises(sl.Invalid, match="cannot open"):
        sl.open(f"sqlite:///{path}")
    unlock(sqlite.acquire_writer_lock(path))


@pytest.mark.usefixtures("platform")
def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(sl.Invalid, match=r"cannot open .* for writing: No such file"):
        sl.open(f"sqlite:///{tmp_path / 'nowhere' / 'shop.db'}")
