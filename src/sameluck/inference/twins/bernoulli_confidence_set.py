"""A set of means of Bernoulli arms that contains the true ones at every look, and the ends of the effect over it.

The means mu whose evidence has stayed below 1 / alpha, that is with the sum over arms of
ln B(S + 1/2, F + 1/2) - ln B(1/2, 1/2) - S ln mu - F ln(1 - mu) < ln(1 / alpha), F = U - S, contain the true ones at
every look with probability 1 - alpha: the evidence is a mixture of likelihood ratios over Jeffreys' prior, a
nonnegative martingale of mean 1 whatever policies pull the arms, and Ville's inequality applies.

In the coordinates u = sign(mu - S / U) sqrt(2 ln(L(S / U) / L(mu))) of each arm, with L its likelihood, the set is
a ball, and the effect is nearly linear in it. So its ends are near the two directions of its gradient, which the
replications at a point tell: it is their covariance of the difference and the derivatives of ln L (the score).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Bools, Floats
from sameluck.environments.discrete import Bernoulli
from sameluck.inference.twins.copies import BernoulliCopy
from sameluck.inference.twins.extremes import Extremes
from sameluck.inference.twins.observed_rewards import simulated_stacks
from sameluck.runs import Runs

DIRECTIONS = 48
SLOPES = 24  # pairs whose gradient is followed from the centre
STEEPER = 4  # times as many replications where the gradient is taken again, at the ends met so far
REFINEMENTS = (0.7, 0.35)  # sizes of the steps around the best directions
STEPS = 6  # of each size, for each end
REFINED_PAIRS = 4
_EDGE = 1e-9


class MeansBall(NamedTuple):
    """The set of means as a ball around the observed ones."""

    users: Floats
    successes: Floats
    radius: float

    def chances(self, points: Floats) -> Floats:
        """The means at points of the ball (point, arm), by bisection."""
        low, high = np.full(points.shape, _EDGE), np.full(points.shape, 1 - _EDGE)
        unseen = self.users == 0
        with np.errstate(invalid="ignore"):
            centre = np.where(unseen, 0.5, self.successes / self.users)
        low = np.where(points >= 0, np.clip(centre, _EDGE, 1 - _EDGE), low)
        high = np.where(points <= 0, np.clip(centre, _EDGE, 1 - _EDGE), high)
        for _ in range(60):
            middle = (low + high) / 2
            inside = 2 * self._shortfall(middle) < points**2
            outward = np.where(points >= 0, inside, ~inside)
            low, high = np.where(outward, middle, low), np.where(outward, high, middle)
        return np.where(unseen, 0.5 + 0.5 * points / self.radius, (low + high) / 2)

    def environments(self, points: Floats) -> list[Bernoulli]:
        """The arms at points of the ball."""
        return [Bernoulli(tuple(row)) for row in self.chances(points).tolist()]

    def edge(self, directions: Floats) -> Floats:
        """The points at the edge of the set in some directions (point, arm); an arm without users may be anything."""
        unseen = self.users == 0
        points = _unit(np.where(unseen, 0.0, directions))
        free = np.clip(math.sqrt(self.users.size) * directions, -1, 1)
        return self.radius * np.where(unseen, free, points)

    def score(self, runs: Runs, chances: Floats) -> Floats:
        """The derivatives of the log-likelihood of each replication along the coordinates (replication, arm)."""
        parts = simulated_stacks(runs)
        excess = np.concatenate(
            [(one.sums(one.values) - one.depths * chances).sum(axis=1) for one in parts]
        )
        spread = np.sqrt(np.maximum(self.users, 1) * chances * (1 - chances))
        return excess / np.where(spread > 0, spread, np.inf)

    def _shortfall(self, chances: Floats) -> Floats:
        """By how much the log-likelihood of each arm is below its maximum."""
        relative = scipy.special.rel_entr
        wins = relative(self.successes, self.users * chances)
        return wins + relative(self.users - self.successes, self.users * (1 - chances))

    def contains(self, chances: Floats) -> Bools:
        """Which rows of means are in the set."""
        return 2 * self._shortfall(chances).sum(axis=-1) < self.radius**2

    @property
    def has_equal_arms(self) -> bool:
        """Whether all arms may have the same mean; the likeliest is that of all users."""
        same = np.full(self.users.size, self.successes.sum() / self.users.sum())
        return bool(self.contains(same))


def means_ball(copy: BernoulliCopy, level: float) -> MeansBall:
    """The confidence set of the arms' means."""
    wins, losses = copy.successes, copy.users - copy.successes
    best = scipy.special.xlogy(wins, wins) + scipy.special.xlogy(losses, losses)
    best -= scipy.special.xlogy(copy.users, copy.users)
    evidence = (
        scipy.special.betaln(wins + 0.5, losses + 0.5) - scipy.special.betaln(0.5, 0.5) - best
    )
    return MeansBall(*copy, math.sqrt(2 * (-math.log1p(-level) - float(evidence.sum()))))


class BallSearch:
    """Looks for the ends of the effect over the ball."""

    def __init__(self, extremes: Extremes, ball: MeansBall) -> None:
        self.extremes, self.ball, self.long = extremes, ball, extremes.long

    @staticmethod
    def points(arms: int, pairs: int) -> int:
        """About how many points are simulated."""
        others = max(8, DIRECTIONS - 2 * arms)
        ends = 2 * min(pairs, REFINED_PAIRS)
        steps = len(REFINEMENTS) * ends * (STEPS + 1 + STEEPER)
        return 2 * arms + others + others // 2 + 2 * min(pairs, SLOPES) + steps

    def run(self, count: int, generator: np.random.Generator) -> None:
        """Visit many points of the ball, then others near the best of the last checkpoint."""
        arms, ball, extremes = self.ball.users.size, self.ball, self.extremes
        axes = np.concatenate([np.eye(arms), -np.eye(arms)])
        others = _unit(generator.standard_normal((max(8, DIRECTIONS - 2 * arms), arms)))
        slopes = self._gradient(self.long.runs, np.array(self.long.copy.environment.means))[:SLOPES]
        inner = 0.5 * ball.edge(others[: len(others) // 2])
        edge = ball.edge(np.concatenate([axes, others, slopes, -slopes]))
        extremes.visit(np.concatenate([edge, inner]), count)
        for size in REFINEMENTS:
            ends = extremes.lowest[:REFINED_PAIRS, -1], extremes.highest[:REFINED_PAIRS, -1]
            best = np.concatenate(ends)
            steps = generator.standard_normal((STEPS, *best.shape)) / math.sqrt(arms)
            around = (_unit(best) + size * steps).reshape(-1, arms)
            steepest = self._steepest(*ends, min(self.long.runs.replications, STEEPER * count))
            extremes.visit(ball.edge(np.concatenate([around, steepest])), count)

    def _gradient(self, runs: Runs, chances: Floats) -> Floats:
        """Of the effects at the last checkpoint along the coordinates, from replications at a point (pair, arm)."""
        score = self.ball.score(runs, chances)
        last = self.long.copies.between(runs.rewards[:, :, -1:])[:, :, 0]
        return np.einsum("rp,ra->pa", last - last.mean(axis=0), score) / len(score)

    def _steepest(self, lowest: Floats, highest: Floats, count: int) -> Floats:
        """The direction in which the effect falls or rises, at the ends of each pair (point, arm)."""
        points = np.concatenate([lowest, highest])
        pairs = len(lowest)
        each = zip(self.extremes.runs(points, count), self.ball.chances(points), strict=True)
        slopes = [self._gradient(runs, chances) for runs, chances in each]
        signs = np.repeat([-1.0, 1.0], pairs)
        return np.array([signs[at] * slope[at % pairs] for at, slope in enumerate(slopes)])


def _unit(points: Floats) -> Floats:
    lengths = np.linalg.norm(points, axis=-1, keepdims=True)
    return points / np.where(lengths > 0, lengths, 1.0)
