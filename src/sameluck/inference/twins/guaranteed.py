"""An interval of the effect for Bernoulli arms that holds at every look, for all pairs and horizons at once.

The means mu whose evidence has stayed below 1 / alpha, that is with the sum over arms of
ln B(S + 1/2, F + 1/2) - ln B(1/2, 1/2) - S ln mu - F ln(1 - mu) < ln(1 / alpha), F = U - S, contain the true ones at
every look with probability 1 - alpha: the evidence is a mixture of likelihood ratios over Jeffreys' prior, a
nonnegative martingale of mean 1 whatever policies pull the arms, and Ville's inequality applies. The effect is a
function of the means, so the range of the effect over the set contains the true effect of every pair at every
horizon, up to the errors of the simulation and of the search for its ends.

In the coordinates u = sign(mu - S / U) sqrt(2 ln(L(S / U) / L(mu))) of each arm, with L its likelihood, the set is
a ball, and the effect is nearly linear in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Bools, Floats
from sameluck.environments.bernoulli import Bernoulli
from sameluck.inference.twins.copies import ArmCopy, BernoulliCopy
from sameluck.inference.twins.intervals import quantile
from sameluck.inference.twins.records import Guaranteed
from sameluck.inference.twins.simulations import Copies

DIRECTIONS = 48
REFINEMENTS = (0.7, 0.35)  # sizes of the steps around the best directions
STEPS = 6  # of each size, for each end
REFINED_PAIRS = 4
SETTLED = 16  # times as many replications at the ends that were found,
MOST_SETTLED = 8  # if these are at most so many
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

    def _shortfall(self, chances: Floats) -> Floats:
        """By how much the log-likelihood of each arm is below its maximum."""
        relative = scipy.special.rel_entr
        wins = relative(self.successes, self.users * chances)
        return wins + relative(self.users - self.successes, self.users * (1 - chances))

    def contains(self, chances: Floats) -> Bools:
        """Which rows of means are in the set."""
        return 2 * self._shortfall(chances).sum(axis=-1) < self.radius**2


def means_ball(copy: BernoulliCopy, level: float) -> MeansBall:
    """The confidence set of the arms' means."""
    wins, losses = copy.successes, copy.users - copy.successes
    best = scipy.special.xlogy(wins, wins) + scipy.special.xlogy(losses, losses)
    best -= scipy.special.xlogy(copy.users, copy.users)
    evidence = (
        scipy.special.betaln(wins + 0.5, losses + 0.5) - scipy.special.betaln(0.5, 0.5) - best
    )
    return MeansBall(*copy, math.sqrt(2 * (-math.log1p(-level) - float(evidence.sum()))))


def guaranteed_intervals(
    copies: Copies, copy: ArmCopy, star: Floats, count: int, level: float
) -> tuple[Guaranteed, ...]:
    """The range of the effect over the set of means, from `count` replications at each of many points.

    None for rewards other than 0 and 1, where the effect depends on more than the means.

    `star` are the long run's differences (replication, pair, checkpoint). The ends are moved outward by the
    simulation's error.
    """
    if not isinstance(copy, BernoulliCopy):
        return ()
    search = _Search(copies, means_ball(copy, level), star)
    search.run(count, copies.generator(3))
    search.settle(SETTLED * count, quantile(level))
    return tuple(
        Guaranteed(*pair, int(checkpoint), float(low), float(high), level)
        for pair, lows, highs in zip(copies.pairs, search.low, search.high, strict=True)
        for checkpoint, low, high in zip(copies.checkpoints, lows, highs, strict=True)
    )


class _Search:
    """The smallest and largest effect met so far, of each pair at each checkpoint, and where."""

    def __init__(self, copies: Copies, ball: MeansBall, star: Floats) -> None:
        self.copies, self.ball, self.star = copies, ball, star
        self.low, self.high = star.mean(axis=0), star.mean(axis=0)
        arms = ball.users.size
        self.lowest = np.zeros((*self.low.shape, arms))
        self.highest = np.zeros((*self.low.shape, arms))

    def run(self, count: int, generator: np.random.Generator) -> None:
        """Visit many points of the ball, then others near the best of the last checkpoint."""
        arms, radius = self.ball.users.size, self.ball.radius
        axes = np.concatenate([np.eye(arms), -np.eye(arms)])
        others = _unit(generator.standard_normal((max(8, DIRECTIONS - 2 * arms), arms)))
        inner = 0.5 * others[: len(others) // 2]
        self._visit(radius * np.concatenate([axes, others, inner]), count)
        for size in REFINEMENTS:
            ends = self.lowest[:REFINED_PAIRS, -1], self.highest[:REFINED_PAIRS, -1]
            best = np.concatenate(ends)
            steps = generator.standard_normal((STEPS, *best.shape)) / math.sqrt(arms)
            around = _unit(best) + size * steps
            self._visit(radius * _unit(around.reshape(-1, arms)), count)

    def settle(self, count: int, margin: float) -> None:
        """Simulate the ends again, longer, and move them outward by their standard errors."""
        ends = np.concatenate([self.lowest, self.highest]).reshape(-1, self.lowest.shape[-1])
        points = np.unique(ends, axis=0)
        count = min(len(self.star), max(2, count * MOST_SETTLED // max(MOST_SETTLED, len(points))))
        rows = {point.tobytes(): row for row, point in enumerate(points)}
        effects, errors = zip(*self._effects(points, count), strict=True)
        for place in np.ndindex(self.low.shape):
            for at, bound, sign in ((self.lowest, self.low, -1), (self.highest, self.high, 1)):
                row = rows[at[place].tobytes()]
                bound[place] = effects[row][place] + sign * margin * errors[row][place]

    def _visit(self, points: Floats, count: int) -> None:
        for point, (effect, _) in zip(points, self._effects(points, count), strict=True):
            lower, higher = effect < self.low, effect > self.high
            self.low[lower], self.lowest[lower] = effect[lower], point
            self.high[higher], self.highest[higher] = effect[higher], point

    def _effects(self, points: Floats, count: int) -> Iterator[tuple[Floats, Floats]]:
        """The effects at each point and their standard errors (pair, checkpoint)."""
        chances = self.ball.chances(points).tolist()
        star, centre = self.star[:count], self.star.mean(axis=0)
        variance = self.star.var(axis=0, ddof=1) / len(self.star)
        runs = self.copies.run_each([(Bernoulli(tuple(row)), range(count)) for row in chances])
        for values in map(self.copies.differences, runs):
            apart = values - star
            error = np.sqrt(apart.var(axis=0, ddof=1) / count + variance)
            yield centre + apart.mean(axis=0), error


def _unit(points: Floats) -> Floats:
    lengths = np.linalg.norm(points, axis=-1, keepdims=True)
    return points / np.where(lengths > 0, lengths, 1.0)
