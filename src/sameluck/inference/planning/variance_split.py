"""`split_variance`: an effect's variance on a prior, between instances and within them."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from sameluck.environments.base import Environment, EnvironmentLike
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid
from sameluck.experiment import Experiment, require_experiment
from sameluck.inference.display import reporting
from sameluck.inference.effects import differences
from sameluck.inference.requests import first_pair
from sameluck.simulation.preconditions import fitted
from sameluck.simulation.simulate import simulate
from sameluck.validation import require_whole


@runtime_checkable
class _Prior(Protocol):
    def instance(self, seed: int, replication: int, arms: int) -> Environment: ...


class VarianceSplit(NamedTuple):
    """Variance of a replication's difference, split by the law of total variance."""

    policy: str
    control: str
    effect: float  # mean over the prior
    error: float  # standard error of the effect
    between: float  # variance over instances of the effect on the instance
    within: float  # mean over instances of the variance on the instance
    instances: int
    repeats: int

    @property
    def share_between(self) -> float:
        """Share of a replication's variance that is between instances."""
        total = self.between + self.within
        return self.between / total if total else 0.0

    @property
    def verdict(self) -> str:
        """Shares of the variance, and whether more instances or more repeats reduce it."""
        return str(reporting("plans").split_verdict(self))


def split_variance(
    experiment: Experiment, prior: EnvironmentLike, *, instances: int = 100, repeats: int = 10
) -> VarianceSplit:
    """Split the variance of the first other policy's effect into between and within instances.

    Runs `repeats` replications on each of `instances` bandits drawn from the prior, and splits the variance by
    one-way analysis of variance. With n instances of r repeats the effect's variance is
    between / n + within / (n r).

    Args:
        experiment: Two or more policies; its number of replications is not used.
        prior: `BernoulliPrior`, `GaussianPrior` or a text form.
        instances: Number of bandits to draw.
        repeats: Replications on each bandit.
    """
    require_experiment("split_variance", experiment)
    prior = as_environment(prior)
    if not isinstance(prior, _Prior) or (prior.context is not None and not prior.is_prior):
        raise Invalid(
            "split_variance needs a prior, such as bernoulli_prior(a=1, b=1); a custom prior needs a method "
            "instance(seed, replication, arms)"
        )
    require_whole("instances", instances, 2)
    require_whole("repeats", repeats, 2)
    whole = experiment.replace(replications=instances * repeats)
    whole, _ = fitted(whole, prior)
    pair = first_pair(whole)
    table = np.empty((instances, repeats))
    for number in range(instances):
        instance = prior.instance(whole.seed, number, whole.n_arms)
        replications = range(number * repeats, (number + 1) * repeats)
        runs = simulate(whole, instance, replications=replications)
        table[number] = differences(runs, pair, 0)
    within = float(table.var(axis=1, ddof=1).mean())
    variance_of_means = float(table.mean(axis=1).var(ddof=1))
    between = max(0.0, variance_of_means - within / repeats)
    effect, error = float(table.mean()), math.sqrt(variance_of_means / instances)
    return VarianceSplit(*pair, effect, error, between, within, instances, repeats)
