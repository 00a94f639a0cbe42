"""Rare failures: replications on a copy of the arms in which a policy ends far behind another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.arrays import Bools, Floats
from sameluck.inference.display import reporting
from sameluck.inference.twins.observed_rewards import observed_stacks
from sameluck.inference.twins.simulations import CopySimulator, LongRun, has_objects, run_long
from sameluck.runs import Runs

FAR = 5.0  # robust standard deviations from the median
MAX_REPLICATIONS = 4_000  # of a short simulation that looks for failures
MIN_REPLICATIONS = 400  # fewer would not meet rare failures
MAX_PERIODS = 20_000_000  # in all: a fraction of a second


class Failure(NamedTuple):
    """Rare failure of a policy that still decides the variance of the difference."""

    policy: str  # the policy that fails
    control: str  # the policy that it ends behind
    checkpoint: int
    loss: float  # it ends at least this much behind
    one_in: float  # replications on the copy
    met: int  # observed replications with such a loss
    replications: int  # observed

    def __str__(self) -> str:
        return str(reporting("sentences").failure_sentence(self))


def far_draws(differences: Floats, half_reward: float) -> Bools:
    """Mark the differences far from the median, if they hold over half of the sum of squares about it.

    With median m and s = max(1.4826 MAD, (q84 - q16) / 2, half a reward), a difference D is far if |D - m| > 5 s.
    Only the side of the median with the larger sum of squares counts.
    """
    # Median and quantiles, because the failures sought would inflate a mean and a standard deviation.
    distances = differences - np.median(differences)
    low, high = np.quantile(differences, [0.16, 0.84])
    scale = max(1.4826 * np.median(np.abs(distances)), (high - low) / 2, half_reward)
    squares = distances**2
    far = np.abs(distances) > FAR * scale
    if not squares[far].sum() > squares.sum() / 2:
        return np.zeros_like(far)
    behind, ahead = far & (distances < 0), far & (distances > 0)
    return behind if squares[behind].sum() >= squares[ahead].sum() else ahead


def failure_of(
    names: tuple[str, str],
    checkpoint: int,
    differences: Floats,
    observed: Floats,
    half_reward: float,
) -> Failure | None:
    """Return the rare failure of one of two policies, from differences (first minus second) on the copy.

    Of all losses x of the far differences it has the loss that explains most of the mean loss: x times the share of
    replications that lose at least x is largest. `observed` are the observed differences.
    """
    # Losses are positive: the sign says which of the two policies fails.
    far = far_draws(differences, half_reward)
    sign = -1.0 if differences[far].sum() < np.median(differences) * far.sum() else 1.0
    losses = np.sort(sign * differences[far])[::-1]
    if losses.size == 0 or losses[0] <= 0:
        return None
    loss = float(losses[np.argmax(losses * np.arange(1, losses.size + 1))])
    policy, control = names if sign < 0 else names[::-1]
    one_in = differences.size / int(np.sum(sign * differences >= loss))
    met = int(np.sum(sign * observed >= loss))
    return Failure(policy, control, checkpoint, loss, one_in, met, observed.size)


def rare_failures(long_run: LongRun) -> tuple[Failure, ...]:
    """Return the rare failures in the long run, of every pair at every checkpoint."""
    observed, half_reward = long_run.observed_differences, long_run.half_reward
    simulator = long_run.simulator
    failures = []
    for pair, names in enumerate(simulator.pairs):
        for index, on_copy in enumerate(long_run.pair_differences(pair).T):
            checkpoint, seen = int(simulator.checkpoints[index]), observed[:, pair, index]
            failures.append(failure_of(names, checkpoint, on_copy, seen, half_reward))
    return tuple(failure for failure in failures if failure is not None)


def short_replications(policies: int, horizon: int) -> int:
    """Return how many replications a short simulation has; 0 if too few to meet rare failures."""
    count = min(MAX_REPLICATIONS, MAX_PERIODS // (policies * horizon))
    return count if count >= MIN_REPLICATIONS else 0


def short_copy(runs: Runs) -> LongRun | None:
    """Return a short simulation on a copy of live arms; None where it would take long or cannot be made."""
    count = short_replications(len(runs.policies), int(runs.checkpoints[-1]))
    if runs.environment is not None or runs.observed is None:
        return None
    if not count or has_objects(runs.experiment):
        return None
    stacks = observed_stacks(runs)
    if not stacks.is_binary and stacks.users.min() == 0:
        return None
    last = runs.at([int(runs.checkpoints[-1])])
    return run_long(last, None, CopySimulator(last), count)
