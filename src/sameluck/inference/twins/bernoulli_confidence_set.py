"""Guaranteed intervals of the effect: its range over a confidence set of Bernoulli means.

The set contains the true means at every look with probability 1 - alpha, whatever policies pull the arms. It holds
the means mu with the sum over arms of ln B(S + 1/2, F + 1/2) - ln B(1/2, 1/2) - S ln mu - F ln(1 - mu) below ln(1 /
alpha), F = U - S. This sum is the logarithm of a mixture of likelihood ratios over Jeffreys' prior, a nonnegative
martingale of mean 1, so Ville's inequality applies.

The effect is a function of the means. So its range over the set contains the true effect of every pair at every
horizon, up to the errors of the simulation and of the search for the ends.

For each arm let u = sign(mu - S / U) sqrt(2 ln(L(S / U) / L(mu))), with L its likelihood. In these coordinates the
set is a ball, and the effect is nearly linear. So the ends are near the two directions of its gradient. Replications
at a point estimate the gradient: it is the covariance of the difference and the derivatives of ln L (the score).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Bools, Floats
from sameluck.environments.discrete import Bernoulli
from sameluck.inference.twins.copies import BernoulliCopy
from sameluck.inference.twins.intervals import normal_quantile
from sameluck.inference.twins.observed_rewards import simulated_stacks
from sameluck.inference.twins.simulations import LongRun
from sameluck.runs import Runs

DIRECTIONS = 48
GRADIENT_PAIRS = 24  # pairs whose gradient at the centre is followed
GRADIENT_FACTOR = 4  # times as many replications for a gradient at the ends found so far
REFINEMENT_SIZES = (0.7, 0.35)  # of steps around the best directions
REFINEMENT_STEPS = 6  # of each size, for each end
REFINED_PAIRS = 4
FINAL_FACTOR = 16  # times as many replications at the ends that were found,
MAX_FINAL_POINTS = 8  # if there are at most this many ends; fewer replications each otherwise
_EDGE = 1e-9  # distance of means from 0 and 1


class Guaranteed(NamedTuple):
    """Interval that holds at every look, for all pairs and horizons at once."""

    policy: str
    control: str
    checkpoint: int
    low: float
    high: float
    level: float


class BernoulliConfidenceSet(NamedTuple):
    """Confidence set of Bernoulli means, as a ball around the observed means."""

    users: Floats
    successes: Floats
    radius: float

    def means(self, points: Floats) -> Floats:
        """Return the means at points of the ball (point, arm), by bisection."""
        low, high = np.full(points.shape, _EDGE), np.full(points.shape, 1 - _EDGE)
        unseen = self.users == 0
        with np.errstate(invalid="ignore"):
            centre = np.where(unseen, 0.5, self.successes / self.users)
        low = np.where(points >= 0, np.clip(centre, _EDGE, 1 - _EDGE), low)
        high = np.where(points <= 0, np.clip(centre, _EDGE, 1 - _EDGE), high)
        # The log-likelihood falls on either side of the observed mean, so each half is searched by itself. 60 steps
        # reach the precision of a double.
        for _ in range(60):
            middle = (low + high) / 2
            inside = 2 * self._shortfall(middle) < points**2
            outward = np.where(points >= 0, inside, ~inside)
            low, high = np.where(outward, middle, low), np.where(outward, high, middle)
        return np.where(unseen, 0.5 + 0.5 * points / self.radius, (low + high) / 2)

    def edge(self, directions: Floats) -> Floats:
        """Return the set's edge points in these directions (point, arm).

        An arm without users may have any mean: its coordinate does not count for the distance from the centre.
        """
        unseen = self.users == 0
        points = _unit(np.where(unseen, 0.0, directions))
        free = np.clip(math.sqrt(self.users.size) * directions, -1, 1)
        return self.radius * np.where(unseen, free, points)

    def score(self, runs: Runs, means: Floats) -> Floats:
        """Return the derivatives of each replication's log-likelihood along the coordinates (replication, arm)."""
        blocks = [
            (stacks.sums(stacks.values) - stacks.depths * means).sum(axis=1)
            for stacks in simulated_stacks(runs)
        ]
        excess = np.concatenate(blocks)
        spread = np.sqrt(np.maximum(self.users, 1) * means * (1 - means))
        return excess / np.where(spread > 0, spread, np.inf)

    def _shortfall(self, means: Floats) -> Floats:
        """Return by how much each arm's log-likelihood is below its maximum."""
        relative_entropy = scipy.special.rel_entr
        wins = relative_entropy(self.successes, self.users * means)
        return wins + relative_entropy(self.users - self.successes, self.users * (1 - means))

    def contains(self, means: Floats) -> Bools:
        return 2 * self._shortfall(means).sum(axis=-1) < self.radius**2

    @property
    def has_equal_arms(self) -> bool:
        """True if all arms may have the same mean; the likeliest common mean is the mean over all users."""
        pooled = np.full(self.users.size, self.successes.sum() / self.users.sum())
        return bool(self.contains(pooled))


def bernoulli_confidence_set(copy: BernoulliCopy, level: float) -> BernoulliConfidenceSet:
    wins, losses = copy.successes, copy.users - copy.successes
    # The log evidence is smallest at the observed means. What remains of ln(1 / alpha) is half the squared radius.
    best = scipy.special.xlogy(wins, wins) + scipy.special.xlogy(losses, losses)
    best -= scipy.special.xlogy(copy.users, copy.users)
    betaln = scipy.special.betaln
    evidence = betaln(wins + 0.5, losses + 0.5) - betaln(0.5, 0.5) - best
    radius = math.sqrt(2 * (-math.log1p(-level) - float(evidence.sum())))
    return BernoulliConfidenceSet(*copy, radius)


def count_points(arms: int, pairs: int) -> int:
    """Return about how many points `guaranteed_intervals` simulates; longer simulations count more than once."""
    directions = max(8, DIRECTIONS - 2 * arms)
    ends = 2 * min(pairs, REFINED_PAIRS)
    refined = len(REFINEMENT_SIZES) * ends * (REFINEMENT_STEPS + 1 + GRADIENT_FACTOR)
    searched = 2 * arms + directions + directions // 2 + 2 * min(pairs, GRADIENT_PAIRS) + refined
    return searched + FINAL_FACTOR * min(MAX_FINAL_POINTS, 2 * pairs)


def guaranteed_intervals(long_run: LongRun, count: int, level: float) -> tuple[Guaranteed, ...]:
    """Return the range of each effect over the confidence set, or nothing for rewards other than 0 and 1.

    Simulates `count` replications at each of many points, and moves the ends outward by the simulation's error. Where
    all arms may have the same mean, all policies may earn the same: 0 is then in the interval, though the search
    rarely meets such arms exactly.
    """
    if not isinstance(long_run.copy, BernoulliCopy):
        return ()
    simulator = long_run.simulator
    confidence_set = bernoulli_confidence_set(long_run.copy, level)
    effect_range = EffectRange(long_run, confidence_set)
    effect_range.search(count, simulator.generator(3))
    effect_range.settle(count, normal_quantile(level))
    low, high = effect_range.low, effect_range.high
    if confidence_set.has_equal_arms:
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    return tuple(
        Guaranteed(
            *names, int(checkpoint), float(low[pair, index]), float(high[pair, index]), level
        )
        for pair, names in enumerate(simulator.pairs)
        for index, checkpoint in enumerate(simulator.checkpoints)
    )


class EffectRange:
    """Smallest and largest effect so far, of each pair at each checkpoint, and its point (0: the observed arms)."""

    def __init__(self, long_run: LongRun, confidence_set: BernoulliConfidenceSet) -> None:
        self.long_run, self.confidence_set = long_run, confidence_set
        self.centre, self._square_error = long_run.mean_differences()
        self.low, self.high = self.centre.copy(), self.centre.copy()
        self.lowest, self.highest = np.zeros((2, *self.low.shape, confidence_set.users.size))

    def visit(self, points: Floats, count: int) -> None:
        """Simulate `count` replications at each point and extend the range."""
        for point, runs in zip(points, self.runs(points, count), strict=True):
            # The change from the long run with the same random numbers is far less noisy than the effect itself.
            effect = self._changes(runs).mean(axis=0) + self.centre
            lower, higher = effect < self.low, effect > self.high
            self.low[lower], self.lowest[lower] = effect[lower], point
            self.high[higher], self.highest[higher] = effect[higher], point

    def settle(self, count: int, margin: float) -> None:
        """Simulate the ends again, longer, and move them outward by `margin` standard errors.

        The extremes of many noisy estimates are biased outward; more replications at their points reduce the bias.
        """
        ends = np.stack([self.lowest, self.highest])  # (end, pair, checkpoint, coordinate)
        # Several pairs and checkpoints often share a point: simulate it once.
        points, indices = np.unique(ends.reshape(-1, ends.shape[-1]), axis=0, return_inverse=True)
        lowest_at, highest_at = indices.reshape(ends.shape[:-1])
        affordable = FINAL_FACTOR * count * MAX_FINAL_POINTS // max(MAX_FINAL_POINTS, len(points))
        count = min(self.long_run.runs.replications, max(2, affordable))
        error = margin * np.sqrt(self._square_error)
        self.low, self.high = self.centre - error, self.centre + error
        for index, runs in enumerate(self.runs(points, count)):
            effect, error = self._estimate(runs)
            lower = np.minimum(self.low, effect - margin * error)
            higher = np.maximum(self.high, effect + margin * error)
            self.low = np.where(lowest_at == index, lower, self.low)
            self.high = np.where(highest_at == index, higher, self.high)

    def runs(self, points: Floats, count: int) -> Iterator[Runs]:
        means = self.confidence_set.means(points).tolist()
        tasks = [(Bernoulli(tuple(row)), range(count)) for row in means]
        return self.long_run.simulator.run_each(tasks)

    def _changes(self, runs: Runs) -> Floats:
        """Return the differences minus the long run's differences with the same random numbers."""
        differences = self.long_run.simulator.differences(runs.rewards)
        return differences - self.long_run.differences_from(0, runs.replications)

    def _estimate(self, runs: Runs) -> tuple[Floats, Floats]:
        """Return the effects at a point and their standard errors, as changes from the long run if more precise."""
        values, changes = self.long_run.simulator.differences(runs.rewards), self._changes(runs)
        effects = np.stack([values.mean(axis=0), changes.mean(axis=0) + self.centre])
        squares = np.stack([_square_error(values), _square_error(changes) + self._square_error])
        best = squares.argmin(axis=0)[None]
        effect, square = (np.take_along_axis(array, best, 0)[0] for array in (effects, squares))
        return effect, np.sqrt(square)

    def search(self, count: int, generator: np.random.Generator) -> None:
        """Visit many points of the ball, then points near the best at the last checkpoint."""
        confidence_set, long_run = self.confidence_set, self.long_run
        arms = confidence_set.users.size
        axes = np.concatenate([np.eye(arms), -np.eye(arms)])
        random = _unit(generator.standard_normal((max(8, DIRECTIONS - 2 * arms), arms)))
        gradients = self._gradient(long_run.runs, np.array(long_run.copy.environment.means))
        gradients = gradients[:GRADIENT_PAIRS]
        inner = 0.5 * confidence_set.edge(random[: len(random) // 2])
        edge = confidence_set.edge(np.concatenate([axes, random, gradients, -gradients]))
        self.visit(np.concatenate([edge, inner]), count)
        for size in REFINEMENT_SIZES:
            ends = self.lowest[:REFINED_PAIRS, -1], self.highest[:REFINED_PAIRS, -1]
            best = np.concatenate(ends)
            steps = generator.standard_normal((REFINEMENT_STEPS, *best.shape)) / math.sqrt(arms)
            around = (_unit(best) + size * steps).reshape(-1, arms)
            longer = min(long_run.runs.replications, GRADIENT_FACTOR * count)
            steepest = self._steepest(*ends, longer)
            self.visit(confidence_set.edge(np.concatenate([around, steepest])), count)

    def _gradient(self, runs: Runs, means: Floats) -> Floats:
        """Return the gradient of the effects at the last checkpoint, from replications at a point (pair, arm)."""
        score = self.confidence_set.score(runs, means)
        last = self.long_run.simulator.differences(runs.rewards[:, :, -1:])[:, :, 0]
        return np.einsum("rp,ra->pa", last - last.mean(axis=0), score) / len(score)

    def _steepest(self, lowest: Floats, highest: Floats, count: int) -> Floats:
        """Return the direction in which each pair's effect falls or rises, at its two ends (point, arm)."""
        points, pairs = np.concatenate([lowest, highest]), len(lowest)
        at_points = zip(self.runs(points, count), self.confidence_set.means(points), strict=True)
        gradients = [
            self._gradient(runs, means)[index % pairs]
            for index, (runs, means) in enumerate(at_points)
        ]
        return np.repeat([-1.0, 1.0], pairs)[:, None] * gradients


def _square_error(values: Floats) -> Floats:
    return values.var(axis=0, ddof=1) / len(values)


def _unit(points: Floats) -> Floats:
    lengths = np.linalg.norm(points, axis=-1, keepdims=True)
    return points / np.where(lengths > 0, lengths, 1.0)
