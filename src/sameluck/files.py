"""Files written whole or not at all, and valid JSON."""

from __future__ import annotations

import contextlib
import json
import math
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sameluck.errors import Invalid


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees all of it or nothing of it."""
    with draft_of(path) as draft:
        draft.write_bytes(content)


@contextlib.contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """A new file that replaces `path` at the end, unless an error is raised."""
    draft = path.parent / f".{secrets.token_hex(8)}.part"
    if "\x00" in str(path):
        raise Invalid(f"cannot write {str(path)!r}: a file name must not contain NUL")
    try:
        draft.touch()
        yield draft
        draft.replace(path)
    except OSError as error:
        raise Invalid(f"cannot write {str(path)!r}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def to_json(value: Any) -> str:
    """Valid JSON: a number that is not finite is null."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
