"""`twin`: the policies on a copy of the measured arms, with intervals of the effect from one replication on."""

from __future__ import annotations

from collections.abc import Callable

from sameluck.errors import Invalid
from sameluck.inference.twins.draws import drawn_effects
from sameluck.inference.twins.guaranteed import guaranteed_intervals, points_visited
from sameluck.inference.twins.long_run import (
    copied_effects,
    effects_around_mean,
    rare_failures,
    run_long,
    with_interval,
    without_interval,
)
from sameluck.inference.twins.result import Twin
from sameluck.inference.twins.simulations import Copies, Effort, checked_effort
from sameluck.inference.twins.stability import check_stability
from sameluck.inference.twins.withholding import reasons_to_withhold
from sameluck.policies.external import Makers
from sameluck.runs import Runs


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
    """Simulate the policies on a copy of the arms that was measured; one replication of real users is enough.

    The result depends on the runs, the level and the numbers below alone: any `workers` gives the same bits.

    Args:
        runs: Of a live experiment (`live.runs()`), or of `simulate`.
        level: Confidence of the intervals, each for one pair at one horizon.
        family: How arms are copied: `"bernoulli"` (rewards 0 and 1, the default for them), `"empirical"` (the
            observed values, the default for others) or `"gaussian"`.
        replications: Of the long run on the copy.
        draws: Of arms that the ledger leaves possible; if not given 200, and more for a level above 0.98.
        draw_replications: On each draw; doubled, at most twice, where that is not precise enough. If not given 192;
            fewer on more than 200 draws if the replications on one draw tell of all (see docs/twin.md).
        workers: Threads; all cores if not given.
        progress: Called as `progress(done, total)`, in replications; True prints a line per tenth.
        makers: For `External` policies, as for `simulate`. Python objects take their time: lower the numbers above.
    """
    if not isinstance(runs, Runs):
        raise Invalid(
            f"twin takes the Runs of simulate, or of a live experiment (live.runs()), got {runs!r}"
        )
    if len(runs.policies) < 2:
        raise Invalid("twin needs at least two policies, got one")
    effort = checked_effort(level, replications, draws, draw_replications)
    copies = Copies(runs, workers, progress, makers=makers)
    visited = effort.draw_replications * points_visited(runs.experiment.n_arms, len(copies.pairs))
    copies.expect(effort.replications + effort.draws * effort.weighted + visited)
    long = run_long(runs, family, copies, effort.replications)
    stability = check_stability(long.stacks, long.runs, copies.generator(0))
    withheld = reasons_to_withhold(long, stability)
    copied = copied_effects(long, level)
    effects = [without_interval(one) for one in copied]
    if not withheld:
        drawn = drawn_effects(long, effort, level)
        each = [one for of_pair in drawn for one in of_pair]
        records = zip(copied, each, strict=True)
        effects = [with_interval(one, by.effect, by.interval) for one, by in records]
    guaranteed = guaranteed_intervals(long, effort.draw_replications, level)
    copies.finish()
    return Twin(
        tuple(effects),
        effects_around_mean(long, level),
        guaranteed,
        rare_failures(long),
        stability,
        withheld,
        long,
        level,
    )
