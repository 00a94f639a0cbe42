"""What `compare` takes from a twin: intervals around the observed mean, and warnings of rare failures."""

from __future__ import annotations

from sameluck.inference.effects import Effect, also_possible, requested_pairs
from sameluck.inference.requests import Request
from sameluck.inference.twins.long_run import effects_around_mean, rare_failures, run_long
from sameluck.inference.twins.observed_rewards import observed_stacks
from sameluck.inference.twins.sentences import about_failures
from sameluck.inference.twins.simulations import Copies, Effort, has_objects
from sameluck.policies.external import Makers
from sameluck.runs import Runs

STEPS = 20_000_000  # periods that the watch for failures simulates at most, a fraction of a second
WATCHED = 4_000  # replications, at most
FEWEST = 400  # with fewer, rare failures would not be met


def twin_effects(runs: Runs, request: Request, makers: Makers | None = None) -> tuple[Effect, ...]:
    """The effects of a comparison around the observed mean; several hold together by Bonferroni's method."""
    pairs = requested_pairs(runs, request)
    size = {"pairs": len(pairs) + len(also_possible(pairs, request))}
    size |= {"checkpoints": runs.checkpoints.size, "none": 1}
    size["both"] = size["pairs"] * size["checkpoints"]
    family = size[str(request.simultaneous)]
    copies = Copies(runs, pairs=pairs, makers=makers)
    copies.expect(Effort().replications)
    long = run_long(runs, None, copies, Effort().replications)
    each = effects_around_mean(long, 1 - (1 - request.level) / family)
    return tuple(
        one._replace(level=request.level, p_adjusted=min(1.0, family * one.p_value)) for one in each
    )


def failures_ahead(runs: Runs) -> tuple[str, ...]:
    """Rare failures on a copy of live arms, as sentences; none where the copy would take long or cannot be made.

    A simulation needs no copy: more replications of it show what is rare.
    """
    many = int(min(WATCHED, STEPS // (len(runs.policies) * runs.checkpoints[-1])))
    slow = many < FEWEST or has_objects(runs.experiment)
    if runs.environment is not None or runs.observed is None or slow:
        return ()
    stacks = observed_stacks(runs)
    if not stacks.binary and stacks.users.min() == 0:
        return ()
    last = runs.at([int(runs.checkpoints[-1])])
    return tuple(about_failures(rare_failures(run_long(last, None, Copies(last), many))))
