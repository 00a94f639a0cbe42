"""The effects on draws of the arms whose likelihood is known, each from the simulations on all of them.

What a replication reveals, each stack of rewards up to the deepest policy, has a likelihood L(mu) under arms mu that
is known but for a factor without mu, whatever the policies and their random choices. So a replication on one draw of
the arms tells what would have happened on the others. With n_c replications on copy c, those on all copies estimate
the mean reward on copy mu by the mean of their rewards with weights

    L(mu) / sum over c of n_c L(mu_c)

(multiple importance sampling with the balance heuristic: Veach and Guibas, 1995; Owen and Zhou, 2000). A weight is at
most 1 / n_mu, so that the estimate is never much worse than that of the copy's own replications.
"""

from __future__ import annotations

import numpy as np

from sameluck.arrays import Floats
from sameluck.inference.twins.copies import LikelihoodCopy
from sameluck.inference.twins.intervals import CopiedEffect, copied_effect
from sameluck.inference.twins.ledger import simulated_moments
from sameluck.inference.twins.long_run import LongRun
from sameluck.inference.twins.simulations import Effort
from sameluck.runs import Runs

GROUPS = 16  # of replications: leaving out one after the other shows the error of the simulation
_ROWS, _WEIGHTS = 2_048, 4_000_000  # replications, and their weights on all copies, at once


class WeightedEffects:
    """Effects on draws of the arms, from the long run on the estimated arms and from simulations on the draws."""

    def __init__(self, long: LongRun, copy: LikelihoodCopy, effort: Effort) -> None:
        self.copies = long.copies
        self.environments = copy.draws(effort.draws, long.copies.generator(2))
        coefficients = copy.coefficients([copy.environment, *self.environments])
        planned = [long.runs.replications] + [effort.weighted] * effort.draws
        self.planned, self.done = effort.weighted, 0  # on each draw
        self.next = long.runs.replications
        shape = long.runs.rewards.shape[1:]
        self.on_estimate, self.on_draws = (
            WeightedSums(copy.origins, coefficients, np.array(planned, float), shape)
            for _ in range(2)
        )
        self.on_estimate.add(long.runs)

    def extend(self, count: int) -> None:
        """Simulate so many more replications on every draw, each on luck that no other has."""
        starts = range(self.next, self.next + count * len(self.environments), count)
        parts = [range(start, start + count) for start in starts]
        for runs in self.copies.run_each(list(zip(self.environments, parts, strict=True))):
            self.on_draws.add(runs)
        self.next, self.done = starts.stop, self.done + count

    def effects(self, level: float) -> list[list[CopiedEffect]]:
        """The effect on the copy and its interval, of each pair at each checkpoint."""
        # Those beyond what was planned count as their mean would, so that the weights need not be computed again.
        share = self.planned / self.done
        weights = self.on_estimate.weights + share * self.on_draws.weights
        rewards = self.on_estimate.rewards + share * self.on_draws.rewards
        draws = self._differences(rewards.sum(axis=0), weights.sum(axis=0))
        low, high = self._errors_of_ends(rewards, weights, level).tolist()
        return [
            [
                copied_effect(draws[:, pair, at], (low[pair][at], high[pair][at]), level)
                for at in range(draws.shape[2])
            ]
            for pair in range(draws.shape[1])
        ]

    def _errors_of_ends(self, rewards: Floats, weights: Floats, level: float) -> Floats:
        """The standard errors of the quantiles of the effects, by the jackknife (end, pair, checkpoint)."""
        totals = rewards.sum(axis=0), weights.sum(axis=0)
        ends = []
        for without in zip(rewards, weights, strict=True):
            rest = (total - one for total, one in zip(totals, without, strict=True))
            draws = self._differences(*rest)
            ends.append(np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2], axis=0))
        return np.sqrt((GROUPS - 1) * np.var(ends, axis=0))

    def _differences(self, rewards: Floats, weights: Floats) -> Floats:
        """The effects on each draw (draw, pair, checkpoint)."""
        return self.copies.between(rewards[1:] / weights[1:, None, None])


class WeightedSums:
    """Sums of weights and of weighted rewards on every copy of the arms, by group of replications."""

    def __init__(
        self, origins: Floats | None, coefficients: Floats, planned: Floats, shape: tuple[int, ...]
    ) -> None:
        self.origins = origins  # of the rewards of each arm
        self.coefficients = coefficients  # of the log-likelihood (copy, sum over stacks)
        self.planned = planned  # replications on each copy
        self.weights = np.zeros((GROUPS, len(planned)))
        self.rewards = np.zeros((GROUPS, len(planned), *shape))

    def add(self, runs: Runs) -> None:
        """Add replications that were simulated on one of the copies."""
        step = GROUPS * max(1, min(_ROWS, _WEIGHTS // len(self.planned)) // GROUPS)
        for first in range(0, runs.replications, step):
            part = runs.part(first, step)
            weights = self._weights(_stack_sums(part, self.origins))
            for group in range(GROUPS):
                some, rewards = weights[group::GROUPS], part.rewards[group::GROUPS]
                self.weights[group] += some.sum(axis=0)
                self.rewards[group] += np.einsum("rc,rpk->cpk", some, rewards)

    def _weights(self, sums: Floats) -> Floats:
        """The weight of each replication on each copy."""
        # einsum adds in one order, whatever the threads of linear algebra.
        logs = np.einsum("rs,cs->rc", sums, self.coefficients)
        likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
        return likelihoods / np.einsum("rc,c->r", likelihoods, self.planned)[:, None]


def _stack_sums(runs: Runs, origins: Floats | None) -> Floats:
    """Depth, total and sum of squares of the stacks of each arm, less its origin (replication, sum)."""
    moments = simulated_moments(runs, origins)
    parts = (moments.depths, moments.totals, moments.squares)
    return np.concatenate([one.sum(axis=1) for one in parts], axis=1)
