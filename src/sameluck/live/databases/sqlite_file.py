"""File of a SQLite database: its write lock, and checks that it is still the file at its path.

The write lock is a lock of the file itself, so it holds for every name of the file. POSIX drops all locks that a
process has on a file, SQLite's too, when the process closes any handle of that file. So a handle is closed only when
no store of this process has the file open.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import TypeAlias

from sameluck.errors import Closed, Invalid, Unavailable
from sameluck.files import lock, release

Identity: TypeAlias = tuple[int, int]  # device and inode
LOCKED_BYTE = 1 << 60  # on Windows; beyond the end of every database
MAGIC = b"SQLite format 3\0"  # first bytes of a database
IN_WAL_MODE = b"\2\2"  # bytes 18 and 19 of a database in WAL mode, which a backup is not
OUT_OF_HANDLES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class _Opened:
    """State of a file that stores of this process have open."""

    def __init__(self) -> None:
        self.stores = 0
        self.handle: int | None = None
        self.locked = False


_opened: dict[Identity, _Opened] = {}
_guard = threading.Lock()


def _forget_in_child() -> None:
    """Close the parent's handles after a fork: its locks would outlive it as long as the child has a handle."""
    global _guard  # noqa: PLW0603 another thread may have held the lock when the process was forked
    _guard = threading.Lock()
    for opened in _opened.values():
        if opened.handle is not None:
            os.close(opened.handle)
    _opened.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


class SqliteFile:
    """A file that a store has open."""

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
        self._written = (0, 0)  # time of the last change and size of the file
        self._changes = 0  # SQLite's change counter in the file
        self._header = threading.Lock()

    def _lock(self) -> Identity:
        # A handle that another store of this process has is used again: closing a second one would drop its locks.
        opened = _opened.get(_identity_or_none(self.path) or (-1, -1))
        handle = opened.handle if opened else None
        if opened is None or handle is None:
            handle = self._open()
        identity = _identity(handle)
        opened = _opened.get(identity) or _Opened()
        try:
            if opened.locked:  # the operating system would grant a second lock to the same process
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
        """Remember the identity of the write-ahead log, which exists once the database is open for writing."""
        self._log = _identity_or_none(self._log_path)

    def check(self) -> None:
        """Raise `Unavailable` if the path no longer leads to the open file."""
        status = self._check(self.path, self.identity)
        if self._log is not None:
            if (status.st_mtime_ns, status.st_size) != self._written:
                self._check_header(status)
            self._check(self._log_path, self._log)

    def _check_header(self, status: os.stat_result) -> None:
        """Raise `Unavailable` if a program such as `cp` has written another database into the file.

        SQLite itself writes the file when it empties the log; its change counter never decreases.
        """
        # The guard keeps another thread from closing the file meanwhile: its handle could then be another file's.
        with self._header, _guard:
            opened = _opened.get(self.identity)
            if opened is None:
                raise Closed("the store is closed")
            if opened.handle is None or not hasattr(os, "pread"):
                return
            header = os.pread(opened.handle, 28, 0)
            changes = int.from_bytes(header[24:28], "big")
            if header[:16] != MAGIC or header[18:20] != IN_WAL_MODE or changes < self._changes:
                raise Unavailable(
                    f"{str(self.path)!r} was overwritten while it was open: nothing was or will be acknowledged. "
                    "Close the store, move the file away with its -wal and -shm, and restore a backup"
                )
            self._changes, self._written = changes, (status.st_mtime_ns, status.st_size)

    def _check(self, path: Path, identity: Identity) -> os.stat_result:
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) == identity:
                return status
            change = "was replaced by another file"
        except FileNotFoundError:
            change = "was deleted or moved"
        except OSError as error:
            change = f"cannot be found any more ({error.strerror})"
        raise Unavailable(
            f"{str(path)!r} {change} while it was open: nothing was or will be acknowledged. Put the file back, or "
            "keep the new one, and open the store again"
        )

    def close(self) -> None:
        """Release the write lock, after every connection of the store is closed."""
        if os.getpid() != self._process:
            return  # the handles are the parent's
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
    """Raise `Unavailable` if no file handle is left: SQLite's own message does not say so."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        if error.errno in OUT_OF_HANDLES:
            raise Unavailable(
                f"cannot open {name!r}: {error.strerror}; close files, or raise the limit (ulimit -n)"
            ) from None


def _identity(file: Path | int) -> Identity:
    status = os.stat(file)
    return status.st_dev, status.st_ino


def _identity_or_none(path: Path) -> Identity | None:
    try:
        return _identity(path)
    except OSError:
        return None
