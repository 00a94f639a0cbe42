"""Results of finished chapters on disk, which an interrupted or repeated `reproduce` does not compute again."""

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
from sameluck.paper.chapters import Chapter, Record, Settings
from sameluck.randomness import streams


class ChapterCache:
    """Subfolder `parts` of the report, which holds the result of each finished chapter."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder / "parts"
        self.settings = settings

    def create(self) -> None:
        """Create the folder; if it cannot be written to, remove it again and raise `Invalid`."""
        created = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
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
        """Remove the folder if no chapter was finished."""
        _remove_empty([self.folder, self.folder.parent])

    def load(self, chapter: Chapter) -> Record | None:
        """Return the result of the chapter's last run, if it had these settings and this code."""
        try:
            content = json.loads(self._path(chapter).read_text(encoding="utf-8"))
            same = content["digest"] == self._digest(chapter)
            return dict(content["findings"]) if same else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, chapter: Chapter, result: Record) -> Record:
        """Store the result of a chapter, and return it as it will be loaded."""
        content = {"part": chapter.name, "digest": self._digest(chapter), "findings": result}
        write_whole(self._path(chapter), json.dumps(content, indent=1).encode())
        return dict(json.loads(json.dumps(result)))

    def _path(self, chapter: Chapter) -> Path:
        return self.folder / f"{chapter.name}.json"

    def _digest(self, chapter: Chapter) -> str:
        simulations = {
            name: simulation.describe()
            for name, simulation in chapter.simulations(self.settings).items()
        }
        # A result is reused only if the settings, the simulations and every line of the source are the same.
        code = version("sameluck"), streams.VERSION, _source_digest()
        content = [*code, chapter.name, self.settings, simulations]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _source_digest() -> str:
    root = Path(sameluck.__file__).parent
    content = b"".join(path.read_bytes() for path in sorted(root.rglob("*.py")))
    return hashlib.sha256(content).hexdigest()


def _remove_empty(folders: Sequence[Path]) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
