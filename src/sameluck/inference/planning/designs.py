"""`designs`: the same comparison under several designs, with the precision and the users of each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import scipy

from sameluck.design import Design, Naive, Replay, TimeCoupled, as_design
from sameluck.environments.base import EnvironmentLike
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid
from sameluck.experiment import Experiment, require_experiment
from sameluck.frames import Frames
from sameluck.inference.compare import compare
from sameluck.inference.comparison import Comparison
from sameluck.inference.display import Displayed, reporting, written
from sameluck.inference.effects import Effect
from sameluck.inference.variance_ratios import rounded_up
from sameluck.policies.external import Makers
from sameluck.simulation.preconditions import fits
from sameluck.simulation.simulate import ProgressLike, simulate


class DesignRow(NamedTuple):
    """Pair of policies under a design, and the design's cost at the reference design's precision."""

    design: str
    policy: str
    control: str
    effect: float
    low: float
    high: float
    sd: float
    variance_ratio: float  # the naive design's measured variance over this design's
    interactions: float  # mean real users per replication
    replications_needed: float  # for the precision that replay (else the first design) has here
    users_needed: float  # in total, for the same precision
    users_low: float  # interval of users_needed, from the interval of the variance ratio
    users_high: float


@dataclass(frozen=True, eq=False, repr=False)
class DesignComparison(Displayed, Frames):
    """Result of `designs`: a `Comparison` for each design, on the same policies and environment."""

    results: dict[str, Comparison]
    rows: tuple[DesignRow, ...]  # of each design and pair of policies, at the last checkpoint

    _index = ("design", "policy", "control")
    _presentation = "designs"

    @property
    def first(self) -> Comparison:
        """Comparison under the first design."""
        return next(iter(self.results.values()))

    @property
    def reference_design(self) -> str:
        """Design whose precision the others are measured by: replay, else the first."""
        return _reference_design(self.results)

    @property
    def reference(self) -> Comparison:
        """Comparison under the reference design."""
        return self.results[self.reference_design]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as plain records."""
        return [row._asdict() for row in self.rows]

    def to_html(self, path: str | Path | None = None) -> str:
        """Return a self-contained page; also write it to `path` if given.

        It has the answer of the reference design, all designs side by side, and each design's own verdict.
        """
        return written(reporting("designs").page(self), path)


def designs(
    experiment: Experiment,
    environment: EnvironmentLike,
    *,
    designs: Iterable[Design | str] | None = None,
    level: float = 0.95,
    checkpoints: list[int] | None = None,
    workers: int | None = None,
    progress: ProgressLike | None = None,
    makers: Makers | None = None,
) -> DesignComparison:
    """Run the same comparison under several designs, to measure what sharing rewards saves.

    Args:
        experiment: Policies to compare; its design is not used.
        environment: Where rewards come from, or its text form.
        designs: Designs or their text forms; all designs that fit the environment if not given.
        level: Confidence of the intervals.
        checkpoints: Horizons to report.
        workers: As for `simulate`.
        progress: As for `simulate`, once for each design.
        makers: As for `simulate`.
    """
    require_experiment("designs", experiment)
    if designs is None:
        environment = as_environment(environment)
        candidates = (Naive(), TimeCoupled(), Replay())
        designs = [design for design in candidates if fits(design, environment)]
    if isinstance(designs, str) or not isinstance(designs, Iterable):
        raise Invalid(f"designs must be a list of designs, got {designs!r}")
    by_label = {design.label: design for design in map(as_design, designs)}
    if not by_label:
        raise Invalid("designs needs at least one design")
    run = partial(
        simulate, checkpoints=checkpoints, workers=workers, progress=progress, makers=makers
    )
    reference_label = _reference_design(by_label)
    results = {
        label: compare(
            run(experiment.replace(design=design), environment),
            level=level,
            check=label == reference_label,  # the effect is the same under every design
        )
        for label, design in by_label.items()
    }
    reference = results[reference_label]
    rows = []
    for label, result in results.items():
        compared = (result, reference, results.get("naive", result))
        effects = zip(*(comparison.last_effects for comparison in compared), strict=True)
        rows += [_row(label, *of_pair) for of_pair in effects]
    return DesignComparison(results, tuple(rows))


def _reference_design(results: Iterable[str]) -> str:
    return "replay" if "replay" in results else next(iter(results))


def _row(design: str, effect: Effect, reference: Effect, naive: Effect) -> DesignRow:
    needed, low, high = _replications_needed(effect, reference, naive=design == "naive")
    return DesignRow(
        design,
        effect.policy,
        effect.control,
        effect.effect,
        effect.low,
        effect.high,
        effect.sd,
        (naive.sd / effect.sd) ** 2 if effect.sd else math.inf,
        effect.interactions,
        needed,
        needed * effect.interactions,
        low * effect.interactions,
        high * effect.interactions,
    )


def _replications_needed(
    effect: Effect, reference: Effect, *, naive: bool
) -> tuple[float, float, float]:
    """Return how many replications have the reference's precision, and the interval of this number.

    The naive design's number comes from the reference's runs, as everywhere else. Other numbers come from the ratio
    of the two designs' variances, with the F interval.
    """
    count = reference.replications
    # The reference's own ratio is exactly 1, not an estimate with an interval.
    if reference.sd == 0 or effect is reference:
        same = float(count) if effect.sd == reference.sd else math.inf
        return same, same, same
    if naive and math.isfinite(reference.variance_ratio):
        ratios = (reference.variance_ratio, reference.ratio_low, reference.ratio_high)
    else:
        ratio = (effect.sd / reference.sd) ** 2
        factor = float(scipy.special.fdtri(count - 1, count - 1, 0.5 + effect.level / 2))
        ratios = (ratio, ratio / factor, ratio * factor)
    needed, low, high = (rounded_up(count * ratio) for ratio in ratios)
    return needed, low, high
