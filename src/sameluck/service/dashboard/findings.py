"""`Finding`: one challenger against the control, as it may be looked at now.

While replications are missing the interval is the anytime interval; once a pair has completed the planned number it
is Student's t, which was planned for. With several challengers the intervals hold together (Bonferroni).
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
CHECKPOINTS = 40  # of the curve over the horizon


class Finding(NamedTuple):
    """One challenger against the control on the replications that both have completed."""

    policy: str
    control: str
    horizon: int
    planned: int  # replications
    is_final: bool  # the planned replications are complete: the interval is Student's t
    curve: tuple[Effect, ...]  # by period; empty until there are two replications
    differences: Floats  # at the horizon, by replication
    half_widths: Floats  # of the anytime interval after each replication

    @property
    def replications(self) -> int:
        """The replications that count."""
        return int(self.differences.size)

    @property
    def effect(self) -> Effect | None:
        """The effect over the horizon; None while its interval has no bounds."""
        last = self.curve[-1] if self.curve else None
        return last if last and math.isfinite(last.high - last.low) else None

    @property
    def is_same(self) -> bool:
        """Whether the two names stand for one policy that did the same."""
        return self.effect is not None and self.effect.is_same_policy

    @property
    def is_decided(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.effect is not None and self.effect.shows_difference

    @property
    def wins(self) -> int:
        """The replications in which the challenger was ahead."""
        return int((self.differences > 0).sum())

    @property
    def first_at(self) -> int | None:
        """The number of replications since which the anytime interval has bounds."""
        known = np.flatnonzero(np.isfinite(self.half_widths))
        return int(known[0]) + 1 if known.size else None

    @property
    def running_means(self) -> Floats:
        """The mean difference after each replication."""
        return np.cumsum(self.differences) / np.arange(1, self.replications + 1)

    @property
    def decided_at(self) -> int | None:
        """The number of replications since which the anytime interval has left out 0."""
        inside = np.flatnonzero(np.abs(self.running_means) <= self.half_widths)
        first = int(inside[-1]) + 2 if inside.size else 1
        return first if self.is_decided and first <= self.replications else None


def checkpoints_of(horizon: int) -> list[int]:
    """The periods at which curves are drawn, the horizon last."""
    grid = np.unique(np.linspace(1, horizon, min(horizon, CHECKPOINTS)).round().astype(int))
    return [int(period) for period in grid]


def current_experiment(live: LiveExperiment) -> Experiment:
    """The experiment with the policies of now, whichever process has added or removed some."""
    return live.runs(checkpoints_of(live.experiment.horizon)).experiment


def findings_of(live: LiveExperiment, experiment: Experiment) -> list[Finding]:
    """Every challenger against the control, in the experiment's order."""
    checkpoints = checkpoints_of(experiment.horizon)
    every = live.runs(checkpoints, policies=list(experiment.policies))
    challengers = [name for name in experiment.policies if name != experiment.control]
    level = 1 - (1 - LEVEL) / max(len(challengers), 1)
    if len(challengers) < 2:
        return [finding_of(every, name, level) for name in challengers]
    if not is_interim(every):
        curves = effects(every, Request(LEVEL))
        return [finding_of(every, name, level, curves) for name in challengers]
    pairs = [live.runs(checkpoints, policies=[experiment.control, name]) for name in challengers]
    return [finding_of(runs, name, level) for runs, name in zip(pairs, challengers, strict=True)]


def finding_of(runs: Runs, policy: str, level: float, curves: Sequence[Effect] = ()) -> Finding:
    """One challenger against the control; the effects by period may be given."""
    experiment, rewards = runs.experiment, runs.rewards[:, :, -1]
    names = runs.policies
    differences = rewards[:, names.index(policy)] - rewards[:, names.index(experiment.control)]
    if not curves and runs.replications >= 2:
        interval = default_interval(interim=is_interim(runs))
        curves = effects(runs, Request(level, interval=interval))
    return Finding(
        policy=policy,
        control=experiment.control,
        horizon=experiment.horizon,
        planned=experiment.replications,
        is_final=not is_interim(runs),
        curve=tuple(one for one in curves if one.policy == policy),
        differences=differences,
        half_widths=anytime_half_widths(differences, level) if differences.size else differences,
    )


def widest_runs(live: LiveExperiment, experiment: Experiment, findings: Sequence[Finding]) -> Runs:
    """The runs of the control and of the challengers that have completed the most replications.

    A challenger that was added later catches up first; until then it is left out.
    """
    most = max((finding.replications for finding in findings), default=0)
    names = [finding.policy for finding in findings if finding.replications == most]
    policies = [experiment.control, *names]
    ordered = [name for name in experiment.policies if name in policies]
    return live.runs(checkpoints_of(experiment.horizon), policies=ordered)
