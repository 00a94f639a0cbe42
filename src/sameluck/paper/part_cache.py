"""The results of finished parts on disk, which an interrupted or repeated `reproduce` does not compute again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import sameluck
from sameluck.errors import Invalid
from sameluck.files import write_whole
from sameluck.paper.parts import Part, Record, Settings
from sameluck.randomness import streams


class PartCache:
    """The subfolder `parts` of the report, which holds the result of each finished part."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder / "parts"
        self.settings = settings

    def create(self) -> None:
        """Create the folder; raise `Invalid`, and leave nothing behind, if it cannot be written to."""
        created = [one for one in (self.folder, *self.folder.parents) if not one.exists()]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / f".{os.getpid()}.probe"
            probe.touch()
            probe.unlink()
        except OSError as error:
            _remove_empty(created)
            reason = error.strerror or error
            raise Invalid(
                f"cannot write to {str(self.folder.parent)!r}: {reason}; name another --out"
            ) from None

    def remove_if_empty(self) -> None:
        """Remove the folder if no part was finished."""
        _remove_empty([self.folder, self.folder.parent])

    def load(self, part: Part) -> Record | None:
        """The result of the part's last run, if that had these settings and this code."""
        try:
            content = json.loads(self._path(part).read_text(encoding="utf-8"))
            same = content["digest"] == self._digest(part)
            return dict(content["findings"]) if same else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, part: Part, result: Record) -> Record:
        """Store the result of a part; returns it as it will be loaded."""
        content = {"part": part.name, "digest": self._digest(part), "findings": result}
        write_whole(self._path(part), json.dumps(content, indent=1).encode())
        return dict(json.loads(json.dumps(result)))

    def _path(self, part: Part) -> Path:
        return self.folder / f"{part.name}.json"

    def _digest(self, part: Part) -> str:
        simulations = {
            name: one.describe() for name, one in part.simulations(self.settings).items()
        }
        code = version("sameluck"), streams.VERSION, _source_digest()
        content = [*code, part.name, self.settings, simulations]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _source_digest() -> str:
    root = Path(sameluck.__file__).parent
    content = b"".join(path.read_bytes() for path in sorted(root.rglob("*.py")))
    return hashlib.sha256(content).hexdigest()


def _remove_empty(folders: Sequence[Path]) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
