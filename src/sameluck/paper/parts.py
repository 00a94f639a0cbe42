"""A part of the reproduction: which simulations it needs, and what it finds in them.

The plan is data, so the runner knows how long a part will take before it starts and can tell whether a part on
disk answers the same question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.experiment import Experiment
from sameluck.runs import Runs

Findings: TypeAlias = dict[str, Any]  # plain values, as JSON carries them


class Settings(NamedTuple):
    """What a reader may choose."""

    replications: int = 10_000
    seed: int = 7


class Simulation(NamedTuple):
    """One call of `simulate`."""

    experiment: Experiment
    environment: Any
    checkpoints: tuple[int, ...]

    @property
    def steps(self) -> int:
        """How many decisions it takes."""
        experiment = self.experiment
        return experiment.replications * len(experiment.policies) * max(self.checkpoints)

    def describe(self) -> list[Any]:
        """What its result depends on."""
        return [self.experiment.digest, text_forms.write(self.environment), list(self.checkpoints)]


Plan: TypeAlias = dict[str, Simulation]


class Part(NamedTuple):
    """One example, one theorem or one figure."""

    name: str
    title: str
    plan: Callable[[Settings], Plan]
    find: Callable[[Settings, Mapping[str, Runs]], Findings]


class Estimate(NamedTuple):
    """A number and its Monte Carlo standard error."""

    value: float
    error: float


def mean(sample: NDArray[Any]) -> Estimate:
    """The mean over replications (the first axis)."""
    return Estimate(float(sample.mean()), float(sample.std(ddof=1)) / float(np.sqrt(len(sample))))


def variance(sample: NDArray[Any]) -> Estimate:
    """The variance over replications; its error from the fourth moment, so heavy tails are counted."""
    centred = np.asarray(sample, float) - sample.mean()
    value = float(sample.var(ddof=1))
    spread = max(float((centred**4).mean()) - value**2, 0.0)
    return Estimate(value, float(np.sqrt(spread / len(sample))))


def scaled(one: Estimate, factor: float) -> Estimate:
    """The same in another unit."""
    return Estimate(one.value * factor, one.error * abs(factor))


def effects(runs: Runs) -> Floats:
    """What the second policy earned more than the first (replication, checkpoint): the paper's estimator."""
    return np.asarray(runs.rewards[:, 1] - runs.rewards[:, 0])


def at(runs: Runs, horizon: int) -> int:
    """The place of a horizon among the checkpoints."""
    return int(np.searchsorted(runs.checkpoints, horizon))
