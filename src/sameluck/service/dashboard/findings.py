"""`Finding`: one challenger against the control, with an interval that is valid at this look.

The interval is the anytime interval until a pair has completed the planned replications; then it is the planned t
interval. With several challengers the intervals hold simultaneously (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.experiment import Experiment
from sameluck.inference.effects import Effect, effects, is_interim
from sameluck.inference.interval_methods import default_interval
from sameluck.inference.requests import Request
from sameluck.intervals import anytime_half_widths
from sameluck.live.experiment import LiveExperiment
from sameluck.runs import Runs

LEVEL = 0.95
CHECKPOINTS, MIN_CHECKPOINTS = 40, 10  # of the curve over the horizon
MAX_COUNTS = 100_000  # of pulls in a replication


class Finding(NamedTuple):
    """One challenger against the control on the replications that both have completed."""

    policy: str
    control: str
    horizon: int
    planned: int  # replications
    is_final: bool  # the planned replications are complete, and the interval is Student's t
    curve: tuple[Effect, ...]  # by period; empty until there are two replications
    differences: Floats  # at the horizon, by replication
    half_widths: Floats  # of the anytime interval after each replication

    @property
    def replications(self) -> int:
        return int(self.differences.size)

    @property
    def effect(self) -> Effect | None:
        """Effect over the horizon; None while its interval has no bounds."""
        last = self.curve[-1] if self.curve else None
        return last if last and math.isfinite(last.high - last.low) else None

    @property
    def is_same(self) -> bool:
        """True if both names stand for one policy with the same pulls and rewards."""
        return self.effect is not None and self.effect.is_same_policy

    @property
    def is_decided(self) -> bool:
        return self.effect is not None and self.effect.shows_difference

    @property
    def wins(self) -> int:
        """Number of replications in which the challenger was ahead."""
        return int((self.differences > 0).sum())

    @property
    def first_at(self) -> int | None:
        """Number of replications after which the anytime interval has bounds."""
        bounded = np.flatnonzero(np.isfinite(self.half_widths))
        return int(bounded[0]) + 1 if bounded.size else None

    @property
    def running_means(self) -> Floats:
        return np.cumsum(self.differences) / np.arange(1, self.replications + 1)

    @property
    def decided_at(self) -> int | None:
        """Number of replications since which the anytime interval excludes 0."""
        inside = np.flatnonzero(np.abs(self.running_means) <= self.half_widths)
        first = int(inside[-1]) + 2 if inside.size else 1
        return first if self.is_decided and first <= self.replications else None


def checkpoints_of(horizon: int, cells: int = 1) -> list[int]:
    """Return the periods at which curves are drawn, the horizon last.

    With many `cells`, arms times policies, there are fewer: every replication has their pulls at each checkpoint.
    """
    count = max(MIN_CHECKPOINTS, min(CHECKPOINTS, MAX_COUNTS // cells))
    grid = np.unique(np.linspace(1, horizon, min(horizon, count)).round().astype(int))
    return [int(period) for period in grid]


def _checkpoints(experiment: Experiment) -> list[int]:
    return checkpoints_of(experiment.horizon, experiment.n_arms * len(experiment.policies))


def current_experiment(live: LiveExperiment) -> Experiment:
    """Return the experiment with its current policies, also those added by another process."""
    return live.runs(_checkpoints(live.experiment)).experiment


def findings_of(live: LiveExperiment, experiment: Experiment) -> list[Finding]:
    """Return the finding of every challenger, in the experiment's order."""
    checkpoints = _checkpoints(experiment)
    joint = live.runs(checkpoints, policies=list(experiment.policies))
    challengers = [name for name in experiment.policies if name != experiment.control]
    # Bonferroni: the error probability is divided among the challengers.
    level = 1 - (1 - LEVEL) / max(len(challengers), 1)
    if len(challengers) < 2:
        return [finding_of(joint, name, level) for name in challengers]
    if not is_interim(joint):
        curves = effects(joint, Request(LEVEL))
        return [finding_of(joint, name, level, curves) for name in challengers]
    # Each pair uses all replications that both have completed, which may be more than all policies have.
    pairs = [live.runs(checkpoints, policies=[experiment.control, name]) for name in challengers]
    return [finding_of(runs, name, level) for runs, name in zip(pairs, challengers, strict=True)]


def finding_of(runs: Runs, policy: str, level: float, curves: Sequence[Effect] = ()) -> Finding:
    """Return the finding of one challenger; `curves` may hold its effects by period."""
    experiment, rewards = runs.experiment, runs.rewards[:, :, -1]
    names = runs.policies
    differences = rewards[:, names.index(policy)] - rewards[:, names.index(experiment.control)]
    if not curves and runs.replications >= 2:
        curves = effects(runs, Request(level, interval=default_interval(interim=is_interim(runs))))
    return Finding(
        policy=policy,
        control=experiment.control,
        horizon=experiment.horizon,
        planned=experiment.replications,
        is_final=not is_interim(runs),
        curve=tuple(effect for effect in curves if effect.policy == policy),
        differences=differences,
        half_widths=anytime_half_widths(differences, level) if differences.size else differences,
    )


def widest_runs(live: LiveExperiment, experiment: Experiment, findings: Sequence[Finding]) -> Runs:
    """Return the runs of the control and of the challengers with the most complete replications.

    A challenger that was added later is left out until it has caught up.
    """
    largest = max((finding.replications for finding in findings), default=0)
    names = [finding.policy for finding in findings if finding.replications == largest]
    policies = [experiment.control, *names]
    ordered = [name for name in experiment.policies if name in policies]
    return live.runs(_checkpoints(experiment), policies=ordered)
