"""An interval of the effect for Bernoulli arms that holds at every look, for all pairs and horizons at once.

The means mu whose evidence has stayed below 1 / alpha, that is with the sum over arms of
ln B(S + 1/2, F + 1/2) - ln B(1/2, 1/2) - S ln mu - F ln(1 - mu) < ln(1 / alpha), F = U - S, contain the true ones at
every look with probability 1 - alpha: the evidence is a mixture of likelihood ratios over Jeffreys' prior, a
nonnegative martingale of mean 1 whatever policies pull the arms, and Ville's inequality applies. The effect is a
function of the means, so the range of the effect over the set contains the true effect of every pair at every
horizon, up to the errors of the simulation and of the search for its ends.

In the coordinates u = sign(mu - S / U) sqrt(2 ln(L(S / U) / L(mu))) of each arm, with L its likelihood, the set is
a ball, and the effect is nearly linear in it. So its ends are near the two directions of its gradient, which the
replications at a point tell: it is their covariance of the difference and the derivatives of ln L (the score).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Bools, Floats
from sameluck.environments.bernoulli import Bernoulli
from sameluck.inference.twins.copies import BernoulliCopy
from sameluck.inference.twins.intervals import quantile
from sameluck.inference.twins.ledger import simulated_stacks
from sameluck.inference.twins.long_run import LongRun
from sameluck.inference.twins.records import Guaranteed
from sameluck.runs import Runs

DIRECTIONS = 48
SLOPES = 24  # pairs whose gradient is followed from the centre
STEEPER = 4  # times as many replications where the gradient is taken again, at the ends met so far
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


def means_ball(copy: BernoulliCopy, level: float) -> MeansBall:
    """The confidence set of the arms' means."""
    wins, losses = copy.successes, copy.users - copy.successes
    best = scipy.special.xlogy(wins, wins) + scipy.special.xlogy(losses, losses)
    best -= scipy.special.xlogy(copy.users, copy.users)
    evidence = (
        scipy.special.betaln(wins + 0.5, losses + 0.5) - scipy.special.betaln(0.5, 0.5) - best
    )
    return MeansBall(*copy, math.sqrt(2 * (-math.log1p(-level) - float(evidence.sum()))))


def points_visited(arms: int, pairs: int) -> int:
    """About how many points are simulated to find the ends, those of longer simulations more than once."""
    others = max(8, DIRECTIONS - 2 * arms)
    ends = 2 * min(pairs, REFINED_PAIRS)
    steps = len(REFINEMENTS) * ends * (STEPS + 1 + STEEPER)
    settled = SETTLED * min(MOST_SETTLED, 2 * pairs)
    return 2 * arms + others + others // 2 + 2 * min(pairs, SLOPES) + steps + settled


def guaranteed_intervals(long: LongRun, count: int, level: float) -> tuple[Guaranteed, ...]:
    """The range of the effect over the set of means, from `count` replications at each of many points.

    None for rewards other than 0 and 1, where the effect depends on more than the means. The ends are moved outward
    by the simulation's error.
    """
    if not isinstance(long.copy, BernoulliCopy):
        return ()
    copies = long.copies
    search = _Search(long, means_ball(long.copy, level))
    search.run(count, copies.generator(3))
    search.settle(SETTLED * count, quantile(level))
    return tuple(
        Guaranteed(*pair, int(checkpoint), float(low), float(high), level)
        for pair, lows, highs in zip(copies.pairs, search.low, search.high, strict=True)
        for checkpoint, low, high in zip(copies.checkpoints, lows, highs, strict=True)
    )


class _Search:
    """The smallest and largest effect met so far, of each pair at each checkpoint, and where."""

    def __init__(self, long: LongRun, ball: MeansBall) -> None:
        self.long, self.copies, self.ball = long, long.copies, ball
        self.centre, self.square_error = long.moments_of_stars()
        self.low, self.high = self.centre.copy(), self.centre.copy()
        arms = ball.users.size
        self.lowest = np.zeros((*self.low.shape, arms))
        self.highest = np.zeros((*self.low.shape, arms))

    def run(self, count: int, generator: np.random.Generator) -> None:
        """Visit many points of the ball, then others near the best of the last checkpoint."""
        arms, ball = self.ball.users.size, self.ball
        axes = np.concatenate([np.eye(arms), -np.eye(arms)])
        others = _unit(generator.standard_normal((max(8, DIRECTIONS - 2 * arms), arms)))
        slopes = self._gradient(self.long.runs, np.array(self.long.copy.environment.means))[:SLOPES]
        inner = 0.5 * ball.edge(others[: len(others) // 2])
        edge = ball.edge(np.concatenate([axes, others, slopes, -slopes]))
        self._visit(np.concatenate([edge, inner]), count)
        for size in REFINEMENTS:
            ends = self.lowest[:REFINED_PAIRS, -1], self.highest[:REFINED_PAIRS, -1]
            best = np.concatenate(ends)
            steps = generator.standard_normal((STEPS, *best.shape)) / math.sqrt(arms)
            around = (_unit(best) + size * steps).reshape(-1, arms)
            steepest = self._steepest(*ends, min(self.long.runs.replications, STEEPER * count))
            self._visit(ball.edge(np.concatenate([around, steepest])), count)

    def settle(self, count: int, margin: float) -> None:
        """Simulate the ends again, longer, and move them outward by their standard errors."""
        ends = np.stack([self.lowest, self.highest])  # (end, pair, checkpoint, arm)
        points, places = np.unique(ends.reshape(-1, ends.shape[-1]), axis=0, return_inverse=True)
        lowest_at, highest_at = places.reshape(ends.shape[:-1])
        count = max(2, count * MOST_SETTLED // max(MOST_SETTLED, len(points)))
        count = min(self.long.runs.replications, count)
        error = margin * np.sqrt(self.square_error)
        self.low, self.high = self.centre - error, self.centre + error
        for row, runs in enumerate(self._runs(points, count)):
            effect, error = self._estimate(runs)
            lower = np.minimum(self.low, effect - margin * error)
            higher = np.maximum(self.high, effect + margin * error)
            self.low = np.where(lowest_at == row, lower, self.low)
            self.high = np.where(highest_at == row, higher, self.high)

    def _visit(self, points: Floats, count: int) -> None:
        for point, runs in zip(points, self._runs(points, count), strict=True):
            effect = self._apart(runs).mean(axis=0) + self.centre
            lower, higher = effect < self.low, effect > self.high
            self.low[lower], self.lowest[lower] = effect[lower], point
            self.high[higher], self.highest[higher] = effect[higher], point

    def _runs(self, points: Floats, count: int) -> Iterator[Runs]:
        chances = self.ball.chances(points).tolist()
        return self.copies.run_each([(Bernoulli(tuple(row)), range(count)) for row in chances])

    def _apart(self, runs: Runs) -> Floats:
        """The differences less those of the long run on the same luck."""
        return self.copies.differences(runs) - self.long.some_stars(0, runs.replications)

    def _estimate(self, runs: Runs) -> tuple[Floats, Floats]:
        """The effects at a point and their standard errors, with or without the long run, as is more precise."""
        values, apart = self.copies.differences(runs), self._apart(runs)
        effects = np.stack([values.mean(axis=0), apart.mean(axis=0) + self.centre])
        squares = np.stack([_square_error(values), _square_error(apart) + self.square_error])
        best = squares.argmin(axis=0)[None]
        effect, square = (np.take_along_axis(one, best, 0)[0] for one in (effects, squares))
        return effect, np.sqrt(square)

    def _gradient(self, runs: Runs, chances: Floats) -> Floats:
        """Of the effects at the last checkpoint along the coordinates, from replications at a point (pair, arm)."""
        score = self.ball.score(runs, chances)
        last = self.copies.between(runs.rewards[:, :, -1:])[:, :, 0]
        return np.einsum("rp,ra->pa", last - last.mean(axis=0), score) / len(score)

    def _steepest(self, lowest: Floats, highest: Floats, count: int) -> Floats:
        """The direction in which the effect falls or rises, at the ends of each pair (point, arm)."""
        points = np.concatenate([lowest, highest])
        pairs = len(lowest)
        each = zip(self._runs(points, count), self.ball.chances(points), strict=True)
        slopes = [self._gradient(runs, chances) for runs, chances in each]
        signs = np.repeat([-1.0, 1.0], pairs)
        return np.array([signs[at] * slope[at % pairs] for at, slope in enumerate(slopes)])


def _square_error(values: Floats) -> Floats:
    """Of the mean over replications."""
    return values.var(axis=0, ddof=1) / len(values)


def _unit(points: Floats) -> Floats:
    lengths = np.linalg.norm(points, axis=-1, keepdims=True)
    return points / np.where(lengths > 0, lengths, 1.0)
