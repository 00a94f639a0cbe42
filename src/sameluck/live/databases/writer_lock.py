"""The right to write a SQLite file: a lock on a file beside it, held by one store of one process.

The operating system releases it when the process ends, however it ends. It is `flock`, or a locked byte on Windows.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

from sameluck.errors import Invalid, Unavailable


def acquire(path: Path) -> int:
    """Lock a database; returns the handle to release."""
    try:
        handle = os.open(path.with_name(path.name + ".writer"), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise Invalid(f"cannot open {str(path)!r} for writing: {error.strerror}") from None
    try:
        _lock(handle)
    except OSError:
        os.close(handle)
        raise Unavailable(
            f"{str(path)!r} is being written by another process or store; let that one serve, open it with "
            "read_only=True (status, results and doctor do), or use PostgreSQL for several processes"
        ) from None
    return handle


def _lock(handle: int) -> None:
    try:
        fcntl = import_module("fcntl")
    except ImportError:  # Windows
        msvcrt = import_module("msvcrt")
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def release(handle: int) -> None:
    """Unlock a database."""
    try:
        import_module("fcntl")
    except ImportError:  # Windows, where closing alone may unlock it only later
        msvcrt = import_module("msvcrt")
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
    os.close(handle)
