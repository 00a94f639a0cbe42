"""`reproduce`: run the parts that have no cached result, then write the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import sameluck as sl
from sameluck.errors import Interrupted, Invalid, did_you_mean, optional
from sameluck.paper import asymptotics, examples, illustration, report, theorems, variances
from sameluck.paper.part_cache import PartCache
from sameluck.paper.parts import Part, Record, Settings

# What is running, decisions done, decisions in all.
PaperProgress: TypeAlias = Callable[[str, int, int], object]

FEWEST = 100  # replications; with fewer, a standard error is too rough for any comparison

THEOREMS = (*theorems.PARTS, variances.VARIANCE, asymptotics.UCB)
PARTS = (*illustration.PARTS, *examples.PARTS, *THEOREMS, examples.BEYOND)
GROUPS = {"examples": examples.PARTS, "theorems": THEOREMS}


class Reproduction(NamedTuple):
    """The outcome of `reproduce`."""

    result: Record  # as in results.json
    text: str  # for a terminal

    @property
    def ok(self) -> bool:
        """Whether every published number is met and every check of a theorem holds."""
        return bool(self.result["ok"])


def reproduce(
    *,
    replications: int = 10_000,
    seed: int = 7,
    only: str | None = None,
    out: str | Path = "paper-report",
    progress: PaperProgress = lambda what, done, total: None,  # noqa: ARG005
) -> Reproduction:
    """Run the parts that are not yet on disk, and write the whole folder.

    Args:
        replications: Of every simulation; the paper has 10,000.
        seed: The same seed gives the same bits.
        only: Names of parts or groups of parts, separated by commas; all if not given.
        out: The folder.
        progress: Called as `progress(what, done, total)`, in decisions.
    """
    settings = checked_settings(replications, seed)
    parts = selected_parts(only)
    optional("matplotlib", "plots")
    cache = PartCache(Path(out), settings)
    cache.create()
    try:
        results = _run_parts(parts, cache, progress)
        summary = report.summarise(results, settings)
        sections = report.collect_sections(parts, results)
        report.write(Path(out), summary, sections, complete=len(parts) == len(PARTS))
    except KeyboardInterrupt:
        finished = sum(cache.load(part) is not None for part in parts)
        raise Interrupted(
            f"interrupted; {finished} of {len(parts)} parts are finished and kept in {str(cache.folder)!r}; "
            "run the same command again to continue"
            if finished
            else "interrupted before the first part was finished; nothing was written"
        ) from None
    finally:
        cache.remove_if_empty()
    return Reproduction(summary, report.as_text(summary, sections))


def checked_settings(replications: int, seed: int) -> Settings:
    """The settings; raise `Invalid` if they are not valid."""
    if not FEWEST <= replications <= 1_000_000:
        raise Invalid(
            f"--replications must be from {FEWEST} to 1,000,000, got {replications:,}; the paper has 10,000"
        )
    if not 0 <= seed < 2**63:
        raise Invalid(f"--seed must be from 0 to 2^63 - 1, got {seed}")
    return Settings(replications, seed)


def selected_parts(only: str | None) -> tuple[Part, ...]:
    """The parts that a list of names selects, in the order of the paper; all parts without a list."""
    if only is None:
        return PARTS
    by_name = {part.name: (part,) for part in PARTS} | GROUPS
    words = [word.strip() for word in only.split(",") if word.strip()]
    if not words:
        raise Invalid(f"--only names no part; known: {', '.join(by_name)}")
    selected: set[str] = set()
    for word in words:
        if word not in by_name:
            raise Invalid(f"--only: unknown part {word!r}; {did_you_mean(word, by_name)}")
        selected |= {part.name for part in by_name[word]}
    return tuple(part for part in PARTS if part.name in selected)


def _run_parts(
    parts: Sequence[Part], cache: PartCache, progress: PaperProgress
) -> dict[str, Record]:
    """The result of every part, by name."""
    results = {part.name: cache.load(part) for part in parts}
    missing = [
        (part, part.simulations(cache.settings)) for part in parts if results[part.name] is None
    ]
    total = sum(one.decisions for _, simulations in missing for one in simulations.values())
    done = 0
    for part, simulations in missing:
        progress(part.name, done, total)
        runs: dict[str, sl.Runs] = {}
        for label, one in simulations.items():
            what = f"{part.name}: {label}"
            share = partial(_report_share, progress, what, done, one.decisions, total)
            runs[label] = sl.simulate(
                one.experiment, one.environment, checkpoints=one.checkpoints, progress=share
            )
            done += one.decisions
        results[part.name] = cache.save(part, part.analyse(cache.settings, runs))
    progress("writing the report", total, total)
    return {name: result for name, result in results.items() if result is not None}


def _report_share(
    progress: PaperProgress, what: str, before: int, decisions: int, total: int, done: int, of: int
) -> None:
    progress(what, before + decisions * done // of, total)
