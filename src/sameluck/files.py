"""Files: atomic writes, locks, valid JSON, and the version that wrote them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from sameluck.errors import Invalid, shown


def lock(handle: int, *, wait: bool, at: int = 0) -> None:
    """Lock an open file against other processes: `flock`, or one byte on Windows. Raise `OSError` if it is locked.

    The operating system releases the lock when the process ends, however it ends.
    """
    try:
        fcntl = import_module("fcntl")
    except ImportError:  # Windows
        msvcrt = import_module("msvcrt")
        os.lseek(handle, at, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def release(handle: int, *, at: int = 0) -> None:
    """Release a lock; the file stays open."""
    try:
        fcntl = import_module("fcntl")
    except ImportError:
        msvcrt = import_module("msvcrt")
        os.lseek(handle, at, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(handle, fcntl.LOCK_UN)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is created if it does not exist."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    lock(handle, wait=True)
    try:
        yield
    finally:
        release(handle)  # on Windows closing alone may release it only later
        os.close(handle)


def file_path(action: str, path: object) -> Path:
    """Return the path of a file, or raise `Invalid` unless it is text or an object with such a path."""
    try:
        text = os.fspath(path)  # type: ignore[call-overload]
        if b"\0" not in os.fsencode(text):
            return Path(text)
    except (TypeError, UnicodeEncodeError):
        pass
    raise Invalid(
        f"{action}: the path of a file is text without NUL, such as 'ledger.csv', got {shown(path)}"
    )


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, or raise `Invalid` if that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"cannot make the folder {str(folder)!r}: {error.strerror}") from None


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise `Invalid` for a file that cannot be written, to be called before long work."""
    folder = file_path("cannot write", path).parent
    if not folder.is_dir():
        raise Invalid(f"cannot write {shown(str(path))}: no folder {str(folder)!r}")
    if not os.access(folder, os.W_OK):
        raise Invalid(f"cannot write {shown(str(path))}: the folder is not writable")
    if Path(path).is_dir():
        raise Invalid(f"cannot write {shown(str(path))}: it is a folder")


def file_state(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is replaced; nothing if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size


def made_with() -> dict[str, str]:
    """Return what reports and JSON state about their origin: the version of sameluck and the date."""
    return {"sameluck": version("sameluck"), "date": datetime.now(UTC).date().isoformat()}


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: a reader sees all of it or the previous file."""
    with draft_of(path) as draft:
        draft.write_bytes(content)


@contextlib.contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a new file that replaces `path` at the end, unless an error is raised."""
    # In the same folder, because a file can be replaced atomically within a file system only.
    draft = file_path("cannot write", path).parent / f".{secrets.token_hex(8)}.part"
    try:
        draft.touch()
        yield draft
        draft.replace(path)
    except OSError as error:
        raise Invalid(f"cannot write {shown(str(path))}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def to_json(value: object, indent: int | None = 2) -> str:
    """Return valid JSON: a number that is not finite becomes null."""
    return json.dumps(_finite(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
