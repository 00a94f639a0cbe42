"""The file of a SQLite database: the right to write it, and whether it is still the one at its path.

The right to write is a lock of the file itself, so that no other name of it and no file beside it matters. POSIX
drops every lock that a process has on a file, SQLite's too, when the process closes any handle of that file. So a
handle is closed only when no store of this process has the file open.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import TypeAlias

from sameluck.errors import Invalid, Unavailable
from sameluck.files import lock, release

Identity: TypeAlias = tuple[int, int]  # device and inode
LOCKED_BYTE = 1 << 60  # on Windows; no database is as long
MAGIC = b"SQLite format 3\0"  # a database begins so
IN_WAL_MODE = b"\2\2"  # bytes 18 and 19; a backup does not have them
OUT_OF_HANDLES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class _Opened:
    """A file that stores of this process have open."""

    def __init__(self) -> None:
        self.stores = 0
        self.handle: int | None = None
        self.locked = False


_opened: dict[Identity, _Opened] = {}
_guard = threading.Lock()


def _forget_in_child() -> None:
    """After a fork: the locks are the parent's, and end with it only if the child has no handle of them."""
    global _guard  # noqa: PLW0603 it may have been locked when the process was forked
    _guard = threading.Lock()
    for one in _opened.values():
        if one.handle is not None:
            os.close(one.handle)
    _opened.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


class SqliteFile:
    """A file that one store has open."""

    def __init__(self, path: Path, *, write: bool) -> None:
        self.path = path
        self._process = os.getpid()
        self._write = write
        with _guard:
            if write:
                self.identity = self._lock()
            else:
                self.identity = _identity(path)
            _opened.setdefault(self.identity, _Opened()).stores += 1
        self._log_path = Path(f"{os.path.realpath(path)}-wal")  # SQLite follows symlinks
        self._log: Identity | None = None
        self._written = (0, 0)  # when the file was last changed, and its size
        self._changes = 0  # that SQLite has counted in it
        self._header = threading.Lock()

    def _lock(self) -> Identity:
        opened = _opened.get(_identity_or_none(self.path) or (-1, -1))
        handle = opened.handle if opened else None
        if opened is None or handle is None:
            handle = self._open()
        identity = _identity(handle)
        opened = _opened.get(identity) or _Opened()
        try:
            if opened.locked:
                raise BlockingIOError
            lock(handle, wait=False, at=LOCKED_BYTE)
        except OSError:
            if opened.stores:
                opened.handle = handle
            else:
                os.close(handle)
            raise Unavailable(
                f"{str(self.path)!r} is being written by another process or store; let that one serve, open it with "
                "read_only=True (status, results and doctor do), or use PostgreSQL for several processes"
            ) from None
        opened.handle, opened.locked = handle, True
        _opened[identity] = opened
        return identity

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
        except OSError as error:
            check_handles(str(self.path))
            message = f"cannot open {str(self.path)!r} for writing: {error.strerror}"
            raise Invalid(message) from None

    def watch_log(self) -> None:
        """Remember the write-ahead log, which exists once the database is open for writing."""
        self._log = _identity_or_none(self._log_path)

    def check(self) -> None:
        """Raise `Unavailable` if the path has another file than the one that is open, or none."""
        found = self._check(self.path, self.identity)
        if self._log is not None:
            if (found.st_mtime_ns, found.st_size) != self._written:
                self._check_header(found)
            self._check(self._log_path, self._log)

    def _check_header(self, found: os.stat_result) -> None:
        """Raise `Unavailable` if somebody has written another database into the file, as `cp` does.

        SQLite itself writes the file when it empties the log, and the changes that it counts never become fewer.
        """
        handle = _opened[self.identity].handle
        if handle is None or not hasattr(os, "pread"):
            return
        with self._header:
            header = os.pread(handle, 28, 0)
            changes = int.from_bytes(header[24:28], "big")
            if header[:16] != MAGIC or header[18:20] != IN_WAL_MODE or changes < self._changes:
                raise Unavailable(
                    f"{str(self.path)!r} was overwritten while it was open: nothing was or will be acknowledged. "
                    "Close the store, move the file away with its -wal and -shm, and restore a backup"
                )
            self._changes, self._written = changes, (found.st_mtime_ns, found.st_size)

    def _check(self, path: Path, identity: Identity) -> os.stat_result:
        try:
            found = os.stat(path)
            if (found.st_dev, found.st_ino) == identity:
                return found
            what = "was replaced by another file"
        except FileNotFoundError:
            what = "was deleted or moved"
        except OSError as error:
            what = f"cannot be found any more ({error.strerror})"
        raise Unavailable(
            f"{str(path)!r} {what} while it was open: nothing was or will be acknowledged. Put the file back, or let "
            "the other one be, and open the store again"
        )

    def close(self) -> None:
        """Let another store write; called once no connection of this store is open."""
        if os.getpid() != self._process:
            return  # they are the parent's
        with _guard:
            opened = _opened[self.identity]
            opened.stores -= 1
            if self._write and opened.handle is not None:
                release(opened.handle, at=LOCKED_BYTE)
                opened.locked = False
            if opened.stores == 0:
                del _opened[self.identity]
                if opened.handle is not None:
                    os.close(opened.handle)


def check_handles(name: str) -> None:
    """Raise `Unavailable` if this process, or the machine, has no file handle left: SQLite does not say so."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        if error.errno in OUT_OF_HANDLES:
            raise Unavailable(
                f"cannot open {name!r}: {error.strerror}; close files, or raise the limit (ulimit -n)"
            ) from None


def _identity(file: Path | int) -> Identity:
    found = os.stat(file)
    return found.st_dev, found.st_ino


def _identity_or_none(path: Path) -> Identity | None:
    try:
        return _identity(path)
    except OSError:
        return None
