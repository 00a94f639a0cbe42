"""The right to write a SQLite file: a lock on a file beside it, held by one store of one process."""

from __future__ import annotations

import os
from pathlib import Path

from sameluck.errors import Invalid, Unavailable
from sameluck.files import lock, unlock


def acquire(path: Path) -> int:
    """Lock a database; returns the handle to release."""
    try:
        handle = os.open(path.with_name(path.name + ".writer"), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise Invalid(f"cannot open {str(path)!r} for writing: {error.strerror}") from None
    try:
        lock(handle, wait=False)
    except OSError:
        os.close(handle)
        raise Unavailable(
            f"{str(path)!r} is being written by another process or store; let that one serve, open it with "
            "read_only=True (status, results and doctor do), or use PostgreSQL for several processes"
        ) from None
    return handle


release = unlock
