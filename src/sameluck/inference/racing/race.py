"""`race`: any number of policies on the same rewards, replication by replication, until one is good enough.

After each replication a policy is dropped if another is better by the anytime interval of their difference, one-sided
at level 1 - (1 - level) / (N - 1). The race stops when the leader is within the tolerance of every remaining policy.
Policies are dropped only between replications and their data stay. Two policies are compared on the replications that
both have, a prefix by construction.

The certificate is as good as the anytime interval: exact for normal differences. A policy that fails rarely and badly
(too little exploration) looks excellent until it fails, to any method that does not know how bad a failure can be. So
the race decides nothing before it would have met failures in a share `failures` of replications, at the level (299
replications for 1% at 95%). Nor does it decide on differences that have not varied, and skewness gives a caution.
Before the leader is certified, all policies are simulated with other random numbers, in up to three times as many
replications as the race has (Python objects: in as many). If rare failures there put the leader behind by more than
the tolerance, the race goes on to twice as many replications.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from sameluck.design import Replay
from sameluck.environments.base import Environment, EnvironmentLike
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid
from sameluck.experiment import Experiment, capabilities_of
from sameluck.inference.assumptions import moving_environment, simulated_scale_mismatch
from sameluck.inference.racing.race_results import Race
from sameluck.inference.racing.race_state import RaceState, Rules
from sameluck.intervals import check_level
from sameluck.policies.base import Policy
from sameluck.simulation.simulate import PrintedRace
from sameluck.validation import require_callable, require_number

MIN_REPLICATIONS = 30
MAX_REPLICATIONS = 1_000
FAILURE_SHARE = 0.01


def race(  # noqa: PLR0913
    policies: Mapping[str, Policy] | Experiment,
    environment: EnvironmentLike,
    *,
    tolerance: float,
    horizon: int | None = None,
    level: float = 0.95,
    failures: float = FAILURE_SHARE,
    min_replications: int = MIN_REPLICATIONS,
    max_replications: int = MAX_REPLICATIONS,
    arms: int | None = None,
    seed: int | None = None,
    progress: Callable[[int, tuple[str, ...]], object] | bool | None = None,
    keep: str | Path | None = None,
    makers: Mapping[str, Callable[[int], object]] | None = None,
) -> Race:
    """Find a policy that is within `tolerance` of the best, with a level of confidence.

    Args:
        policies: Name -> policy or its text form, two or more; or an `Experiment`, whose policies, arms, horizon
            and seed are used. A race has its own number of replications.
        environment: Where rewards come from, or its text form. If it is non-stationary, each policy has its own
            rewards.
        tolerance: How much less cumulative reward than the best is good enough. Must be above 0: a race of two
            nearly equal policies would not end.
        horizon: Periods per replication; 1,000 if not given.
        level: Confidence of the certificate.
        failures: The share of replications in which a policy may fail unseen. No decision is made before more
            frequent failures are excluded, at the level. 1 decides after `min_replications`, without a check of the
            leader on other seeds.
        min_replications: Replications before any decision.
        max_replications: Replications after which the race ends undecided.
        arms: Number of arms, where the environment fits any number.
        seed: The same seed gives the same race; 0 if not given.
        progress: Called as `progress(replications, names of the remaining policies)`; True prints a line when
            policies have dropped out.
        keep: A file that holds the race after every block of replications; a race with the same settings
            continues from it.
        makers: As for `simulate`.
    """
    environment = as_environment(environment)
    require_number("tolerance", tolerance, above=0)
    check_level(level)
    if isinstance(progress, bool):
        progress = PrintedRace(max_replications) if progress else None
    require_callable("progress", progress)
    require_number("min_replications (--least)", min_replications, at_least=5)
    require_number("max_replications (--most)", max_replications, at_least=min_replications)
    require_number("failures", failures, above=0, at_most=1)
    needed = _replications_to_exclude(failures, level)
    if max_replications < needed:
        raise Invalid(
            f"{max_replications:,} replications cannot exclude failures in {failures:.2g} of them at level "
            f"{level:g}: {needed:,} can; allow {needed:,} with max_replications= (--most) or accept more frequent "
            "failures with failures="
        )
    experiment = _experiment(policies, environment, arms, horizon, seed)
    experiment = experiment.replace(replications=max_replications)
    if not capabilities_of(environment).is_stationary:
        experiment = experiment.replace(design="naive")
    if len(experiment.policies) < 2:
        raise Invalid("a race needs at least two policies")
    rules = Rules(tolerance, level, max(int(min_replications), needed), failures)
    path = None if keep is None else Path(keep)
    state = RaceState(experiment, environment, rules, path, makers)
    state.run(progress)
    scale = simulated_scale_mismatch(experiment, environment)
    return replace(state.result(), scale=scale, moving_environment=moving_environment(environment))


def _replications_to_exclude(failures: float, level: float) -> int:
    """Return how many replications meet a failure of this frequency at least once, with the level's probability."""
    return 1 if failures == 1 else math.ceil(math.log1p(-level) / math.log1p(-failures))


def _experiment(
    policies: Mapping[str, Policy] | Experiment,
    environment: Environment,
    arms: int | None,
    horizon: int | None,
    seed: int | None,
) -> Experiment:
    if isinstance(policies, Experiment):
        if (arms, horizon, seed) != (None, None, None):
            raise Invalid("race takes arms, horizon and seed from the experiment; leave them out")
        if policies.design != Replay():
            raise Invalid('a race uses the design replay; pass experiment.replace(design="replay")')
        return policies.replace(arms=policies.arms or environment.arms)
    arms = environment.arms if arms is None else arms
    if arms is None:
        raise Invalid("give the number of arms: the environment fits any number")
    return Experiment(
        policies=policies,
        arms=arms,
        horizon=1_000 if horizon is None else horizon,
        seed=0 if seed is None else seed,
    )
