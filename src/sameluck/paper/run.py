"""`reproduce`: run the chapters that have no cached result on disk, then write the report."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, TypeAlias

import sameluck as sl
from sameluck.errors import Interrupted, Invalid, did_you_mean, optional
from sameluck.files import write_whole
from sameluck.paper import asymptotics, examples, illustration, report, theorems
from sameluck.paper.chapters import Chapter, Record, Settings
from sameluck.randomness import streams

# The running task, decisions done, decisions in total.
PaperProgress: TypeAlias = Callable[[str, int, int], object]

MIN_REPLICATIONS = 100  # with fewer, a standard error is too rough for any comparison

THEOREMS = (*theorems.CHAPTERS, asymptotics.VARIANCE, asymptotics.UCB)
CHAPTERS = (*illustration.CHAPTERS, *examples.CHAPTERS, *THEOREMS, examples.BEYOND)
GROUPS = {"examples": examples.CHAPTERS, "theorems": THEOREMS}


class Reproduction(NamedTuple):
    """Outcome of `reproduce`."""

    result: Record  # as in results.json
    text: str  # for a terminal

    @property
    def ok(self) -> bool:
        """Return whether every published number is met and every check of a theorem holds."""
        return bool(self.result["ok"])


def reproduce(
    *,
    replications: int = 10_000,
    seed: int = 7,
    only: str | None = None,
    out: str | Path = "paper-report",
    progress: PaperProgress = lambda task, done, total: None,  # noqa: ARG005
) -> Reproduction:
    """Run the chapters that are not yet on disk, and write the whole folder.

    Args:
        replications: Replications of every simulation; the paper has 10,000.
        seed: The same seed gives the same bits.
        only: Names of chapters or groups of chapters, separated by commas; all by default.
        out: The folder.
        progress: Called as `progress(task, done, total)`, in decisions.
    """
    settings = checked_settings(replications, seed)
    chapters = selected_chapters(only)
    optional("matplotlib", "plots")
    cache = ChapterCache(Path(out), settings)
    cache.create()
    try:
        results = _run_chapters(chapters, cache, progress)
        summary = report.summarise(results, settings)
        sections = report.collect_sections(chapters, results)
        report.write(Path(out), summary, sections, complete=len(chapters) == len(CHAPTERS))
    except KeyboardInterrupt:
        finished = sum(cache.load(chapter) is not None for chapter in chapters)
        raise Interrupted(
            f"interrupted; {finished} of {len(chapters)} parts are finished and kept in {str(cache.folder)!r}; "
            "run the same command again to continue"
            if finished
            else "interrupted before the first part was finished; nothing was written"
        ) from None
    finally:
        _remove_empty([cache.folder, cache.folder.parent])
    return Reproduction(summary, report.as_text(summary, sections))


def checked_settings(replications: int, seed: int) -> Settings:
    if not MIN_REPLICATIONS <= replications <= 1_000_000:
        raise Invalid(
            f"--replications must be from {MIN_REPLICATIONS} to 1,000,000, got {replications:,}; the paper has 10,000"
        )
    if not 0 <= seed < 2**63:
        raise Invalid(f"--seed must be from 0 to 2^63 - 1, got {seed}")
    return Settings(replications, seed)


def selected_chapters(only: str | None) -> tuple[Chapter, ...]:
    """Return the chapters that a list of names selects, in the order of the paper; all without a list."""
    if only is None:
        return CHAPTERS
    by_name = {chapter.name: (chapter,) for chapter in CHAPTERS} | GROUPS
    words = [word.strip() for word in only.split(",") if word.strip()]
    if not words:
        raise Invalid(f"--only names no part; choose from: {', '.join(by_name)}")
    selected: set[str] = set()
    for word in words:
        if word not in by_name:
            raise Invalid(f"--only: unknown part {word!r}; {did_you_mean(word, by_name)}")
        selected |= {chapter.name for chapter in by_name[word]}
    return tuple(chapter for chapter in CHAPTERS if chapter.name in selected)


def _run_chapters(
    chapters: Sequence[Chapter], cache: ChapterCache, progress: PaperProgress
) -> dict[str, Record]:
    results = {chapter.name: cache.load(chapter) for chapter in chapters}
    missing = [
        (chapter, chapter.simulations(cache.settings))
        for chapter in chapters
        if results[chapter.name] is None
    ]
    total = sum(task.decisions for _, simulations in missing for task in simulations.values())
    done = 0
    for chapter, simulations in missing:
        progress(chapter.name, done, total)
        runs: dict[str, sl.Runs] = {}
        for label, simulation in simulations.items():
            experiment, environment, checkpoints = simulation
            task, decisions = f"{chapter.name}: {label}", simulation.decisions
            share = partial(_report_share, progress, task, done, decisions, total)
            runs[label] = sl.simulate(
                experiment, environment, checkpoints=checkpoints, progress=share
            )
            done += decisions
        results[chapter.name] = cache.save(chapter, chapter.analyse(cache.settings, runs))
    progress("writing the report", total, total)
    return {name: result for name, result in results.items() if result is not None}


def _report_share(
    progress: PaperProgress, task: str, before: int, decisions: int, total: int, done: int, of: int
) -> None:
    progress(task, before + decisions * done // of, total)


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
        sources = sorted(Path(sl.__file__).parent.rglob("*.py"))
        source = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
        code = version("sameluck"), streams.VERSION, source
        content = [*code, chapter.name, self.settings, simulations]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _remove_empty(folders: Sequence[Path]) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
