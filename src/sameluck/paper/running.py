"""Run the parts one after another; each is on disk as soon as it is finished, and taken from there the next time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

import sameluck
from sameluck.errors import Invalid, did_you_mean
from sameluck.files import write_whole
from sameluck.paper import asymptotics, beyond, examples, illustration, theorems
from sameluck.paper.parts import Findings, Part, Settings
from sameluck.randomness import streams
from sameluck.runs import Runs
from sameluck.simulation.simulate import simulate

Progress: TypeAlias = Callable[[str, int, int], object]  # what is running, steps done, steps in all

FEWEST = 100  # replications; below, a standard error is too rough to be held against anything

THEOREMS = (*theorems.PARTS, *asymptotics.PARTS)
PARTS = (*illustration.PARTS, *examples.PARTS, *THEOREMS, *beyond.PARTS)
GROUPS = {"examples": examples.PARTS, "theorems": THEOREMS}


def checked_settings(replications: int, seed: int) -> Settings:
    """Settings that can be run, or a message that says why not."""
    if not (FEWEST <= replications <= 1_000_000):
        raise Invalid(
            f"--replications must be from {FEWEST} to 1,000,000, got {replications:,}; the paper has 10,000"
        )
    if not (0 <= seed < 2**63):
        raise Invalid(f"--seed must be from 0 to 2^63 - 1, got {seed}")
    return Settings(replications, seed)


def chosen(only: str | None) -> tuple[Part, ...]:
    """The parts that a list of names asks for, in their own order; all of them without a list."""
    if only is None:
        return PARTS
    by_name = {part.name: (part,) for part in PARTS} | GROUPS
    words = [word.strip() for word in only.split(",") if word.strip()]
    if not bool(words):
        raise Invalid(f"--only names no part; known: {', '.join(by_name)}")
    wanted = set()
    for word in words:
        if word not in by_name:
            raise Invalid(f"--only: unknown part {word!r}; {did_you_mean(word, by_name)}")
        wanted |= {part.name for part in by_name[word]}
    return tuple(part for part in PARTS if part.name in wanted)


class Shelf:
    """The folder in which finished parts are kept."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder / "parts"
        self.settings = settings

    def open(self) -> None:
        """Make the folder and see that it can be written to; what cannot be used is left as it was."""
        made = [one for one in (self.folder, *self.folder.parents) if not one.exists()]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / f".{os.getpid()}.probe"
            probe.touch()
            probe.unlink()
        except OSError as error:
            _remove_empty(made)
            reason = error.strerror or error
            raise Invalid(
                f"cannot write to {str(self.folder.parent)!r}: {reason}; name another --out"
            ) from None

    def close(self) -> None:
        """Leave nothing behind if nothing was finished."""
        _remove_empty([self.folder, self.folder.parent])

    def take(self, part: Part) -> Findings | None:
        """What the part found when it was last run with these settings and this code."""
        try:
            kept = json.loads(self._path(part).read_text(encoding="utf-8"))
            return dict(kept["findings"]) if kept["digest"] == self._digest(part) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, part: Part, findings: Findings) -> Findings:
        """Store what a part found; returns it as it will be read again."""
        kept = {"part": part.name, "digest": self._digest(part), "findings": findings}
        write_whole(self._path(part), json.dumps(kept, indent=1).encode())
        return dict(json.loads(json.dumps(findings)))

    def finished(self, parts: Sequence[Part]) -> list[str]:
        """The names of the parts that need not be run again."""
        return [part.name for part in parts if self.take(part) is not None]

    def _path(self, part: Part) -> Path:
        return self.folder / f"{part.name}.json"

    def _digest(self, part: Part) -> str:
        plan = {name: one.describe() for name, one in part.plan(self.settings).items()}
        about = [
            version("sameluck"),
            streams.VERSION,
            _source_digest(),
            part.name,
            self.settings,
            plan,
        ]
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def _source_digest() -> str:
    root = Path(sameluck.__file__).parent
    content = b"".join(path.read_bytes() for path in sorted(root.rglob("*.py")))
    return hashlib.sha256(content).hexdigest()


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


def run(parts: Sequence[Part], shelf: Shelf, progress: Progress) -> dict[str, Findings]:
    """The findings of every part, by name."""
    found = {part.name: shelf.take(part) for part in parts}
    plans = {part.name: part.plan(shelf.settings) for part in parts if found[part.name] is None}
    total = sum(one.steps for plan in plans.values() for one in plan.values())
    done = 0
    for part in parts:
        if part.name not in plans:
            continue
        progress(part.name, done, total)
        runs: dict[str, Runs] = {}
        for label, one in plans[part.name].items():
            report = _scaled(progress, f"{part.name}: {label}", done, one.steps, total)
            runs[label] = simulate(
                one.experiment, one.environment, checkpoints=one.checkpoints, progress=report
            )
            done += one.steps
        found[part.name] = shelf.keep(part, part.find(shelf.settings, runs))
    progress("writing the report", total, total)
    return {name: findings for name, findings in found.items() if findings is not None}


def _scaled(
    progress: Progress, what: str, before: int, steps: int, total: int
) -> Callable[[int, int], None]:
    def report(done: int, of: int) -> None:
        progress(what, before + steps * done // of, total)

    return report
