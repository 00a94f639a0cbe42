"""Tests whether the arms are stationary, and reasons to withhold the interval of the effect on the copy.

A bandit leaves an arm after low rewards and stays after high rewards. So rewards trend within stacks of stationary
arms, and a test with the usual null distribution rejects far too often. Here the null distribution comes from the
twin, whose arms are stationary: the same statistics of stacks that its long run reveals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.inference.twins.copies import EmpiricalCopy
from sameluck.inference.twins.observed_rewards import (
    ObservedStacks,
    StackMoments,
    simulated_moments,
)
from sameluck.inference.twins.simulations import LongRun
from sameluck.runs import Runs

SIZE = 0.05  # of the test
SAMPLES = 2_000  # simulated experiments that give the null distribution
MAX_REPLICATIONS = 2_000  # of the long run that they are drawn from
MIN_REPLICATIONS = 200
_MAX_REWARDS = 50_000_000
_ROUNDING = 1e-13  # of a sum of squares, by which equal rewards may differ


class Stability(NamedTuple):
    """Tests whether rewards changed within replications, or between them."""

    trend: float  # p-value for rewards along the stacks
    heterogeneity: float | None  # p-value for rewards between stacks of an arm; None with one stack
    arm: int  # with the strongest evidence of a change

    @property
    def p_value(self) -> float:
        """P-value of both tests together (Bonferroni)."""
        if self.heterogeneity is None:
            return self.trend
        return min(1.0, 2 * min(self.trend, self.heterogeneity))

    @property
    def rejected(self) -> bool:
        """True if the arms are not stationary, by a test of size 5%."""
        return self.p_value < SIZE

    @property
    def change(self) -> str:
        """Where the rewards changed, by the smaller p-value."""
        if self.heterogeneity is not None and self.heterogeneity < self.trend:
            return "between replications"
        return "within replications"


def check_stability(
    stacks: ObservedStacks, long_run: Runs, generator: np.random.Generator
) -> Stability:
    """Compare the observed rewards' trend and heterogeneity with the rewards of the twin's long run."""
    replications, owners = stacks.depths.shape[:2]
    count = int(
        min(MAX_REPLICATIONS, long_run.replications, _MAX_REWARDS / long_run.checkpoints[-1])
    )
    simulated = long_run.part(0, max(count, MIN_REPLICATIONS))
    moments = simulated_moments(simulated)
    # A simulated experiment has as many replications as the observed experiment, drawn from the long run.
    rows = generator.integers(simulated.replications, size=(SAMPLES, replications))
    observed = sample_statistics(stacks.moments(), np.arange(replications)[None])
    null = sample_statistics(moments, rows)
    trend, arm = _p_value(observed[0], null[0], two_sided=True)
    if replications * owners == 1:
        return Stability(trend, None, arm)
    heterogeneity, other_arm = _p_value(observed[1], null[1], two_sided=False)
    return Stability(trend, heterogeneity, arm if trend <= heterogeneity else other_arm)


def reasons_to_withhold(long_run: LongRun, stability: Stability) -> tuple[str, ...]:
    """Say why the effect on the copy cannot have an interval; nothing if it can."""
    names = long_run.observed.experiment.arm_names
    reasons = []
    if stability.rejected:
        reasons.append(
            f"the rewards of arm {names[stability.arm]} changed {stability.change} "
            f"(p = {stability.p_value:.2g}), and a copy needs stationary arms"
        )
    if isinstance(long_run.copy, EmpiricalCopy):
        missing = long_run.copy.missing_rewards(names)
        reasons += [] if missing is None else [missing]
    return tuple(reasons)


def sample_statistics(moments: StackMoments, rows: Ints) -> tuple[Floats, Floats]:
    """Return trend and heterogeneity (sample, arm) in samples of replications, `rows` (sample, replication)."""
    depths, totals, squares, trends = (array.astype(float) for array in moments)
    spans = depths * (depths**2 - 1) / 12  # sum of squares of the positions about their mean
    with np.errstate(divide="ignore", invalid="ignore"):
        within = np.where(depths > 0, totals**2 / depths, 0.0)
    arrays = (depths, totals, squares, trends, spans, within)
    table = np.stack([array.sum(axis=1) for array in arrays], axis=1)  # (replication, array, arm)
    step = max(1, 1_000_000 // (rows.shape[1] * table[0].size))  # bounds the memory of a block
    blocks = [table[rows[first : first + step]].sum(axis=1) for first in range(0, len(rows), step)]
    users, total, square, trend, span, means = np.concatenate(blocks).transpose(1, 0, 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Rounding leaves a small sum of squares where all rewards are equal: such an arm has no evidence of a change.
        explained = total**2 / users
        spread = np.where(square - explained > _ROUNDING * square, square - explained, 0.0)
        variance = spread / (users - 1)
        along = trend / np.sqrt(variance * span)
        between = (means - explained) / variance
    return np.nan_to_num(along, posinf=0, neginf=0), np.nan_to_num(between, posinf=0, neginf=0)


def _p_value(observed: Floats, null: Floats, *, two_sided: bool) -> tuple[float, int]:
    """Return the p-value of the arms' largest standardised statistic, and its arm."""
    centre, sd = null.mean(axis=0), null.std(axis=0)
    scale = np.where(sd > 0, sd, np.inf)
    standardised, null_standardised = (observed[0] - centre) / scale, (null - centre) / scale
    if two_sided:
        standardised, null_standardised = np.abs(standardised), np.abs(null_standardised)
    # The observed experiment counts as one more sample, so that a p-value is never 0 (Davison and Hinkley, 1997).
    beyond = int(np.sum(null_standardised.max(axis=1) >= standardised.max()))
    return (1 + beyond) / (1 + len(null)), int(standardised.argmax())
