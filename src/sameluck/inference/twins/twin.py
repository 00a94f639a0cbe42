"""`twin`: the policies on a copy of the measured arms, with intervals of the effect from one replication on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sameluck.environments.base import Environment
from sameluck.errors import Invalid
from sameluck.frames import Frames
from sameluck.inference.display import DisplayedOnPages, reporting
from sameluck.inference.effects import Effect
from sameluck.inference.twins.bernoulli_confidence_set import (
    Guaranteed,
    count_points,
    guaranteed_intervals,
)
from sameluck.inference.twins.draws import drawn_effects
from sameluck.inference.twins.failures import Failure, rare_failures
from sameluck.inference.twins.intervals import (
    admits_equality,
    copied_effects,
    effects_around_mean,
    with_interval,
)
from sameluck.inference.twins.simulations import (
    CopySimulator,
    Effort,
    LongRun,
    checked_effort,
    run_long,
)
from sameluck.inference.twins.stability import Stability, check_stability, reasons_to_withhold
from sameluck.intervals import UNKNOWN
from sameluck.policies.external import Makers
from sameluck.runs import Runs

if TYPE_CHECKING:
    from sameluck.inference.display import Card


@dataclass(frozen=True, eq=False, repr=False)
class Twin(DisplayedOnPages, Frames):
    """Result of `twin`: `print` it, or read `effects`.

    Args:
        effects: The effect on the copy, without its estimated bias, and an interval of the true effect, for every
            pair and checkpoint. If the interval is withheld it has no bounds, and the effect is the long run's.
            `reward` and `control_reward` are always the long run's, and their difference has the bias.
        observed: The observed mean effects, with intervals from the spread on the copy.
        guaranteed: Intervals that hold at every look, for all pairs and horizons at once; for rewards 0 and 1.
        failures: Rare failures on the copy, whether or not an observed replication has met them.
        stability: Tests whether the arms are stationary.
        withheld: Why the effects have no interval, as sentences; empty if they have.
        admits_equal_arms: True if the rewards do not rule out equal means of all arms, so that every effect is 0.
        long_run: The observed rewards, the copy and the long run on it.
        level: Confidence of the intervals, each for one pair at one horizon.
    """

    effects: tuple[Effect, ...]
    observed: tuple[Effect, ...]
    guaranteed: tuple[Guaranteed, ...]
    failures: tuple[Failure, ...]
    stability: Stability
    withheld: tuple[str, ...]
    admits_equal_arms: bool
    long_run: LongRun
    level: float

    _index = ("policy", "control", "checkpoint")
    _presentation = "twins"

    @cached_property
    def environment(self) -> Environment:
        """Copy of the arms."""
        return self.long_run.copy.environment

    @property
    def runs(self) -> Runs:
        """Long run on the copy."""
        return self.long_run.runs

    @property
    def source(self) -> Runs:
        """Runs whose arms were copied."""
        return self.long_run.observed

    @property
    def last_effects(self) -> list[Effect]:
        """Effects at the last checkpoint, one for each pair."""
        last = self.source.checkpoints[-1]
        return [effect for effect in self.effects if effect.checkpoint == last]

    @cached_property
    def suggestion(self) -> str | None:
        """Advice whether to stop a live experiment, if the arms are stationary; None if it is not running."""
        return reporting("twins").suggestion(self)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the effects as plain records, with the observed mean and the other intervals."""
        records = []
        for index, (effect, observed) in enumerate(zip(self.effects, self.observed, strict=True)):
            record = {**effect._asdict(), "observed": observed.effect}
            record |= {"observed_low": observed.low, "observed_high": observed.high}
            if self.guaranteed:
                ends = self.guaranteed[index]
                record |= {"guaranteed_low": ends.low, "guaranteed_high": ends.high}
            records.append(record)
        return records

    def to_record(self) -> dict[str, Any]:
        """Return everything except the long run as values that JSON can hold."""
        return {
            "arms": list(self.environment.means),
            "replications": self.source.replications,
            "users": self.long_run.stacks.users.tolist(),
            "effects": self.to_dicts(),
            "failures": [failure._asdict() for failure in self.failures],
            "stability": {**self.stability._asdict(), "p_value": self.stability.p_value},
            "withheld": list(self.withheld),
            "verdict": self.verdict,
            "suggestion": self.suggestion,
            "cautions": list(self.cautions),
        }

    def card(self) -> Card:
        """Return verdict, figure and table as a section of a page."""
        return reporting("twins").card(self)


def twin(  # noqa: PLR0913 all but one are optional
    runs: Runs,
    *,
    level: float = 0.95,
    family: str | None = None,
    replications: int = Effort().replications,
    draws: int | None = None,
    draw_replications: int | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], object] | bool | None = None,
    makers: Makers | None = None,
) -> Twin:
    """Simulate the policies on a copy of the measured arms; one replication of real users is enough.

    The result depends only on the runs, the level and the numbers below: any `workers` gives the same bits.

    Args:
        runs: Runs of a live experiment (`live.runs()`), or of `simulate`.
        level: Confidence of the intervals, each for one pair at one horizon.
        family: How arms are copied: `"bernoulli"` (rewards 0 and 1, the default for them), `"empirical"` (the
            observed values, the default for others) or `"gaussian"`.
        replications: Replications of the long run on the copy.
        draws: Number of draws of the arms, half of them with tied arms; if not given 200, and more for a level above
            0.98.
        draw_replications: Replications on each draw; doubled, at most three times, where they are not precise enough.
            If not given 64, and fewer on more than 200 draws where importance weights are used (see docs/twin.md).
        workers: Threads; all cores if not given.
        progress: Called as `progress(done, total)`, in replications; True prints a line per tenth.
        makers: Makers of `External` policies, as for `simulate`. Python objects are slow: lower the numbers above.
    """
    if not isinstance(runs, Runs):
        raise Invalid(
            f"twin takes the Runs of simulate, or of a live experiment (live.runs()), got {runs!r}"
        )
    if len(runs.policies) < 2:
        raise Invalid("twin needs at least two policies, got one")
    effort = checked_effort(level, replications, draws, draw_replications)
    simulator = CopySimulator(runs, workers, progress, makers=makers)
    # The total that progress reports: what is withheld or raised later corrects it.
    points = count_points(runs.experiment.n_arms, len(simulator.pairs))
    simulator.expect(
        effort.replications + effort.draws * effort.weighted + effort.point_replications * points
    )
    long_run = run_long(runs, family, simulator, effort.replications)
    stability = check_stability(long_run.stacks, long_run.runs, simulator.generator(0))
    withheld = reasons_to_withhold(long_run, stability)
    copied = copied_effects(long_run, level)
    effects = [with_interval(effect, effect.effect, UNKNOWN) for effect in copied]
    if not withheld:
        drawn = itertools.chain.from_iterable(drawn_effects(long_run, effort, level))
        effects = [
            with_interval(effect, by_draws.effect, by_draws.interval)
            for effect, by_draws in zip(copied, drawn, strict=True)
        ]
    guaranteed = guaranteed_intervals(long_run, effort.point_replications, level)
    simulator.finish()
    return Twin(
        effects=tuple(effects),
        observed=effects_around_mean(long_run, copied, level),
        guaranteed=guaranteed,
        failures=rare_failures(long_run),
        stability=stability,
        withheld=withheld,
        admits_equal_arms=not stability.rejected
        and admits_equality(long_run.copy.tied_arms.equality, level),
        long_run=long_run,
        level=level,
    )
