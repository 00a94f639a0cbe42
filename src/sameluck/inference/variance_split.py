"""Where the variance of an effect comes from when the bandit itself is drawn from a prior."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.inference.effects import differences
from sameluck.simulation.preconditions import checked_environment
from sameluck.simulation.simulate import simulate


class VarianceSplit(NamedTuple):
    """The variance of one replication's difference, split by the law of total variance."""

    policy: str
    control: str
    effect: float  # averaged over the prior
    error: float  # its standard error, with these instances and repeats
    between: float  # variance of the instances' own effects
    within: float  # mean variance around them, on a fixed instance
    instances: int
    repeats: int

    @property
    def share_between(self) -> float:
        """How much of a replication's variance is which bandit was drawn."""
        total = self.between + self.within
        return self.between / total if total else 0.0

    @property
    def verdict(self) -> str:
        """What to do about it, in words."""
        said = (
            f"{self.share_between:.0%} of the variance of a replication's difference is which bandit was drawn, "
            f"the rest is luck on a given bandit."
        )
        if self.share_between > 0.5:
            return f"{said} Only more bandits (replications with new instances) help."
        return f"{said} Repeating each bandit helps almost as much as drawing new ones."


def split_variance(
    experiment: Experiment, prior: Any, *, instances: int = 100, repeats: int = 10
) -> VarianceSplit:
    """Split the variance of the first other policy's effect into between and within instances.

    Plays `repeats` replications on each of `instances` bandits drawn from the prior and takes the variance apart
    (one-way analysis of variance). With n instances of r repeats the effect's variance is
    between / n + within / (n r).

    Args:
        experiment: Two or more policies; its own number of replications is not used.
        prior: `BernoulliPrior`, `GaussianPrior` or a text form.
        instances: How many bandits to draw.
        repeats: How many replications on each.
    """
    prior = as_environment(prior)
    if not prior.is_prior:
        raise Invalid("split_variance needs a prior, such as bernoulli_prior(a=1, b=1)")
    counts = isinstance(instances, int) and isinstance(repeats, int)
    if not (counts and instances >= 2 and repeats >= 2):
        raise Invalid("split_variance needs 2 instances and 2 repeats or more")
    whole = experiment.replace(replications=instances * repeats)
    checked_environment(whole, prior)
    others = [name for name in whole.policies if name != whole.control]
    if len(others) <= 0:
        raise Invalid("an experiment with one policy has no effect; give it two")
    table = np.empty((instances, repeats))
    for place in range(instances):
        bandit = prior.instance(whole.seed, place, whole.n_arms)
        some = range(place * repeats, (place + 1) * repeats)
        runs = simulate(whole, bandit, replications=some)
        table[place] = differences(runs, (others[0], whole.control), 0)
    return _split(table, others[0], whole.control)


def _split(
    table: np.ndarray[Any, np.dtype[np.float64]], policy: str, control: str
) -> VarianceSplit:
    instances, repeats = table.shape
    within = float(table.var(axis=1, ddof=1).mean())
    of_means = float(table.mean(axis=1).var(ddof=1))
    between = max(0.0, of_means - within / repeats)
    error = math.sqrt(of_means / instances)
    return VarianceSplit(
        policy, control, float(table.mean()), error, between, within, instances, repeats
    )
