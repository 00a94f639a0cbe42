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

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.inference.twins.copies import LikelihoodCopy
from sameluck.inference.twins.intervals import CopiedEffect, copied_effect_of_each
from sameluck.inference.twins.long_run import LongRun
from sameluck.inference.twins.observed_rewards import simulated_stacks
from sameluck.inference.twins.simulations import Effort
from sameluck.runs import Runs

GROUPS = 16  # of replications: leaving out one after the other shows the error of the simulation
_ROWS, _WEIGHTS = 2_048, 4_000_000  # replications, and their weights on all copies, at once, about


class WeightedEffects:
    """Effects on draws of the arms, from the long run on the estimated arms and from simulations on the draws."""

    def __init__(self, long: LongRun, copy: LikelihoodCopy, effort: Effort) -> None:
        self.copies = long.copies
        self.environments = copy.draws(effort.draws, long.copies.generator(2))
        coefficients = copy.coefficients([copy.environment, *self.environments])
        planned = [long.runs.replications] + [effort.weighted] * effort.draws
        self.planned, self.done = effort.weighted, 0  # on each draw
        self.next, self.origins = long.runs.replications, copy.origins
        self.rows = max(1, min(_ROWS, _WEIGHTS // len(planned)))
        self.on_estimate, self.on_draws = (
            WeightedSums(coefficients, np.array(planned, float), long.runs.rewards.shape[1:])
            for _ in range(2)
        )
        for first in range(0, self.next, self.rows):
            self.on_estimate.add([_revealed(long.runs.part(first, self.rows), self.origins)])

    def extend(self, count: int) -> None:
        """Simulate so many more replications on every draw, each on luck that no other has."""
        starts = range(self.next, self.next + count * len(self.environments), count)
        parts = [range(start, start + count) for start in starts]
        waiting: list[Revealed] = []
        for runs in self.copies.run_each(list(zip(self.environments, parts, strict=True))):
            waiting.append(_revealed(runs, self.origins))
            if len(waiting) * count >= self.rows or runs.first == parts[-1].start:
                self.on_draws.add(waiting)
                waiting = []
        self.next, self.done = starts.stop, self.done + count

    def effects(self, level: float) -> list[list[CopiedEffect]]:
        """The effect on the copy and its interval, of each pair at each checkpoint."""
        # Those beyond what was planned count as their mean would, so that the weights need not be computed again.
        share = self.planned / self.done
        weights = self.on_estimate.weights + share * self.on_draws.weights
        rewards = self.on_estimate.rewards + share * self.on_draws.rewards
        draws = self._differences(rewards.sum(axis=0), weights.sum(axis=0))
        noise, of_ends = self._variances(rewards, weights, draws, level)
        return copied_effect_of_each(draws, noise, np.sqrt(of_ends), level)

    def _variances(
        self, rewards: Floats, weights: Floats, draws: Floats, level: float
    ) -> tuple[Floats, Floats]:
        """By the jackknife, of an effect beside what all share, and of the quantiles ((pair, checkpoint) of each)."""
        totals = rewards.sum(axis=0), weights.sum(axis=0)
        centred = draws - draws.mean(axis=0)
        ends, sums, squares = [], np.zeros_like(draws), np.zeros_like(draws)
        for group in zip(rewards, weights, strict=True):
            rest = self._differences(*(all_ - one for all_, one in zip(totals, group, strict=True)))
            ends.append(np.quantile(rest, [0.5 - level / 2, 0.5 + level / 2], axis=0))
            moved = rest - rest.mean(axis=0) - centred
            sums += moved
            squares += moved**2
        noise = (GROUPS - 1) * (squares / GROUPS - (sums / GROUPS) ** 2).mean(axis=0)
        return noise, (GROUPS - 1) * np.var(ends, axis=0)

    def _differences(self, rewards: Floats, weights: Floats) -> Floats:
        """The effects on each draw (draw, pair, checkpoint)."""
        return self.copies.between(rewards[1:] / weights[1:, None, None])


class WeightedSums:
    """Sums of weights and of weighted rewards on every copy of the arms, by group of replications."""

    def __init__(self, coefficients: Floats, planned: Floats, shape: tuple[int, ...]) -> None:
        self.coefficients = coefficients  # of the log-likelihood (copy, sum over stacks)
        self.planned = planned  # replications on each copy
        self.weights = np.zeros((GROUPS, len(planned)))
        self.rewards = np.zeros((GROUPS, len(planned), *shape))

    def add(self, parts: Sequence[Revealed]) -> None:
        """Add replications that were simulated on some of the copies."""
        sums, rewards, groups = (np.concatenate(each) for each in zip(*parts, strict=True))
        weights = self._weights(sums)
        for group in range(GROUPS):
            own = groups == group
            self.weights[group] += weights[own].sum(axis=0)
            self.rewards[group] += np.einsum("rc,rpk->cpk", weights[own], rewards[own])

    def _weights(self, sums: Floats) -> Floats:
        """The weight of each replication on each copy."""
        # einsum adds in one order, whatever the threads of linear algebra.
        logs = np.einsum("rs,cs->rc", sums, self.coefficients)
        likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
        return likelihoods / np.einsum("rc,c->r", likelihoods, self.planned)[:, None]


class Revealed(NamedTuple):
    """What counts of some replications."""

    sums: Floats  # depth, total and sum of squares of each arm, less its origin (replication, sum)
    rewards: Floats  # (replication, policy, checkpoint)
    groups: Ints  # (replication,)


def _revealed(runs: Runs, origins: Floats | None) -> Revealed:
    sums = []
    for stacks in simulated_stacks(runs, origins):
        parts = (stacks.depths, stacks.sums(stacks.values), stacks.sums(stacks.values**2))
        sums.append(np.concatenate([one.sum(axis=1) for one in parts], axis=1))
    numbers = np.arange(runs.first, runs.first + runs.replications)
    return Revealed(np.concatenate(sums), runs.rewards, numbers % GROUPS)
