"""What `plan` takes from a twin: a copy of the arms, unless a plan on it would mislead."""

from __future__ import annotations

from sameluck.environments.base import Environment
from sameluck.errors import Invalid
from sameluck.inference.twins.long_run import rare_failures, run_long
from sameluck.inference.twins.simulations import Copies, has_objects
from sameluck.inference.twins.stability import check_stability
from sameluck.inference.twins.withholding import reasons_to_withhold
from sameluck.runs import Runs

REPLICATIONS = 4_000
STEPS = 100_000_000  # periods, at most


def copied_arms(runs: Runs) -> Environment:
    """The arms that some runs have measured; raises `Invalid` if they changed, or if a policy fails rarely.

    With a rare failure the spread of a difference depends on how rare and how bad it is, which the copy does not
    tell well enough: between a seventh and twice the true spread in trials, where it is otherwise within a third.
    """
    if has_objects(runs.experiment):
        raise Invalid(
            "a plan on a copy of the arms needs policies with a select function, not external ones"
        )
    last = runs.at([int(runs.checkpoints[-1])])
    copies = Copies(last)
    many = STEPS // (len(runs.policies) * int(runs.checkpoints[-1]))
    long = run_long(last, None, copies, max(200, min(REPLICATIONS, many)))
    stability = check_stability(long.stacks, long.runs, copies.generator(0))
    for why in reasons_to_withhold(long, stability):
        raise Invalid(f"no plan on a copy of the arms: {why}")
    for failure in rare_failures(long):
        raise Invalid(
            f"no plan on a copy of the arms: {failure} The spread then depends on how rare and how bad that is, "
            "which so few replications do not tell; guess an environment and use verify=True"
        )
    return long.copy.environment
