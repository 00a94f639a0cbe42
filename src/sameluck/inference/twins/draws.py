"""Effects on draws of the arms, simulated until the simulation's error is small.

Where the likelihood of the arms is known (Bernoulli and Gaussian copies), every replication counts for every draw.
A replication reveals rewards, each stack up to the deepest policy. Whatever the policies and their random choices,
these have a likelihood L(mu) under arms mu that is known up to a factor without mu. So a replication on one draw
also estimates the rewards on the other draws. With n_c replications on copy c, the mean reward on copy mu is the mean
of all replications' rewards with weights

    L(mu) / sum over c of n_c L(mu_c)

(multiple importance sampling with the balance heuristic: Veach and Guibas, 1995; Owen and Zhou, 2000). A weight is at
most 1 / n_mu, so that the estimate is never much worse than from the copy's own replications alone.

Where the likelihood is unknown (empirical copies), each draw is simulated with the long run's random numbers, and
only the difference from the long run is estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.inference.twins.copies import LikelihoodCopy
from sameluck.inference.twins.intervals import CopiedEffect, each_copied_effect
from sameluck.inference.twins.observed_rewards import simulated_stacks
from sameluck.inference.twins.simulations import Effort, LongRun
from sameluck.runs import Runs

GROUPS = 16  # of replications, for the jackknife
_BLOCK_REPLICATIONS, _BLOCK_WEIGHTS = 2_048, 4_000_000  # weighted at once, at most


def drawn_effects(long_run: LongRun, effort: Effort, level: float) -> list[list[CopiedEffect]]:
    """Return the `CopiedEffect` of each pair at each checkpoint, simulated until the last one's error is small."""
    drawn: WeightedEffects | EffectsOnSharedNoise
    if isinstance(long_run.copy, LikelihoodCopy):
        drawn, count = WeightedEffects(long_run, long_run.copy, effort), effort.weighted
    else:
        drawn, count = EffectsOnSharedNoise(long_run, effort.draws), effort.draw_replications
    long_run.simulator.expect(effort.draws * (count - effort.weighted))
    drawn.extend(count)
    for _ in range(effort.raises):
        results = drawn.effects(level)
        if max(of_pair[-1].imprecision for of_pair in results) <= 1:
            return results
        long_run.simulator.expect(effort.draws * count)
        drawn.extend(count)
        count *= 2
    return drawn.effects(level)


class WeightedEffects:
    """Effects on draws of the arms, from importance-weighted replications on all of them and of the long run."""

    def __init__(self, long_run: LongRun, copy: LikelihoodCopy, effort: Effort) -> None:
        self.simulator = long_run.simulator
        self.environments = copy.draws(effort.draws, self.simulator.generator(2))
        coefficients = copy.coefficients([copy.environment, *self.environments])
        planned = [long_run.runs.replications] + [effort.weighted] * effort.draws
        self.planned, self.done = effort.weighted, 0  # replications on each draw
        self.next_replication, self.origins = long_run.runs.replications, copy.origins
        self.block = max(1, min(_BLOCK_REPLICATIONS, _BLOCK_WEIGHTS // len(planned)))
        self.on_estimate, self.on_draws = (
            WeightedSums(coefficients, np.array(planned, float), long_run.runs.rewards.shape[1:])
            for _ in range(2)
        )
        for first in range(0, self.next_replication, self.block):
            self.on_estimate.add([_revealed(long_run.runs.part(first, self.block), self.origins)])

    def extend(self, count: int) -> None:
        """Simulate `count` more replications on every draw, each with random numbers of its own."""
        first = self.next_replication
        starts = range(first, first + count * len(self.environments), count)
        ranges = [range(start, start + count) for start in starts]
        waiting: list[Revealed] = []
        for runs in self.simulator.run_each(list(zip(self.environments, ranges, strict=True))):
            waiting.append(_revealed(runs, self.origins))
            # Weights of a whole block at once, because short arrays would be dominated by the overhead of NumPy.
            if len(waiting) * count >= self.block or runs.first == ranges[-1].start:
                self.on_draws.add(waiting)
                waiting = []
        self.next_replication, self.done = starts.stop, self.done + count

    def effects(self, level: float) -> list[list[CopiedEffect]]:
        """Return the effect on the copy and its interval, of each pair at each checkpoint."""
        # Replications beyond the planned number are scaled down to it. So the weights, which depend on the planned
        # numbers, need not be computed again.
        share = self.planned / self.done
        weights = self.on_estimate.weights + share * self.on_draws.weights
        rewards = self.on_estimate.rewards + share * self.on_draws.rewards
        draws = self._differences(rewards.sum(axis=0), weights.sum(axis=0))
        noise, variances_of_ends = self._variances(rewards, weights, draws, level)
        return each_copied_effect(draws, noise, np.sqrt(variances_of_ends), level)

    def _variances(
        self, rewards: Floats, weights: Floats, draws: Floats, level: float
    ) -> tuple[Floats, Floats]:
        """Return jackknife variances of an effect, without errors that all draws share, and of the two ends.

        The axes of each are pair and checkpoint, after the end.
        """
        totals = rewards.sum(axis=0), weights.sum(axis=0)
        centred = draws - draws.mean(axis=0)
        ends, sums, squares = [], np.zeros_like(draws), np.zeros_like(draws)
        for group in zip(rewards, weights, strict=True):
            left = self._differences(
                *(total - in_group for total, in_group in zip(totals, group, strict=True))
            )
            ends.append(np.quantile(left, [0.5 - level / 2, 0.5 + level / 2], axis=0))
            # An error that all draws share shifts the interval and does not widen it: subtract the mean over draws.
            moved = left - left.mean(axis=0) - centred
            sums += moved
            squares += moved**2
        noise = (GROUPS - 1) * (squares / GROUPS - (sums / GROUPS) ** 2).mean(axis=0)
        return noise, (GROUPS - 1) * np.var(ends, axis=0)

    def _differences(self, rewards: Floats, weights: Floats) -> Floats:
        return self.simulator.differences(rewards[1:] / weights[1:, None, None])


class WeightedSums:
    """Sums of weights and of weighted rewards on every copy of the arms, by group of replications."""

    def __init__(self, coefficients: Floats, planned: Floats, shape: tuple[int, ...]) -> None:
        self.coefficients = coefficients  # of the log-likelihood (copy, sum over stacks)
        self.planned = planned  # replications on each copy
        self.weights = np.zeros((GROUPS, len(planned)))
        self.rewards = np.zeros((GROUPS, len(planned), *shape))

    def add(self, blocks: Sequence[Revealed]) -> None:
        sums, rewards, groups = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
        weights = self._weights(sums)
        for group in range(GROUPS):
            members = groups == group
            self.weights[group] += weights[members].sum(axis=0)
            self.rewards[group] += np.einsum("rc,rpk->cpk", weights[members], rewards[members])

    def _weights(self, sums: Floats) -> Floats:
        # einsum adds in one order; a matrix product's order depends on the threads of linear algebra.
        logs = np.einsum("rs,cs->rc", sums, self.coefficients)
        # Weights are ratios, so a factor per replication cancels: the largest likelihood is 1 and none overflows.
        likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
        return likelihoods / np.einsum("rc,c->r", likelihoods, self.planned)[:, None]


class Revealed(NamedTuple):
    sums: Floats  # each arm's depth, total and sum of squares, minus its origin (replication, sum)
    rewards: Floats  # (replication, policy, checkpoint)
    groups: Ints  # (replication,)


def _revealed(runs: Runs, origins: Floats | None) -> Revealed:
    sums = []
    for stacks in simulated_stacks(runs, origins):
        arrays = (stacks.depths, stacks.sums(stacks.values), stacks.sums(stacks.values**2))
        sums.append(np.concatenate([array.sum(axis=1) for array in arrays], axis=1))
    numbers = np.arange(runs.first, runs.first + runs.replications)
    return Revealed(np.concatenate(sums), runs.rewards, numbers % GROUPS)


class EffectsOnSharedNoise:
    """Effects on draws of the arms, simulated with the long run's random numbers.

    Each difference minus the long run's difference in the same replication is summed. Subtracting a number for each
    replication leaves the mean square of the interaction of draw and replication unchanged.
    """

    def __init__(self, long_run: LongRun, draws: int) -> None:
        self.simulator, self.long_run = long_run.simulator, long_run
        self.environments = long_run.copy.draws(draws, self.simulator.generator(2))
        shape = len(self.simulator.pairs), self.simulator.checkpoints.size
        self.sums = np.zeros((draws, *shape))
        self.squares = np.zeros(shape)
        self.means_over_draws = np.empty((0, *shape))  # of each replication

    def extend(self, count: int) -> None:
        """Simulate `count` more replications on every draw, at most as many as the long run has."""
        first = len(self.means_over_draws)
        on_copy = self.long_run.differences_from(first, count)
        totals = np.zeros_like(on_copy)
        replications = range(first, first + len(on_copy))
        if not replications:
            return
        tasks = [(environment, replications) for environment in self.environments]
        for draw, runs in enumerate(self.simulator.run_each(tasks)):
            changes = self.simulator.differences(runs.rewards) - on_copy
            self.sums[draw] += changes.sum(axis=0)
            self.squares += (changes**2).sum(axis=0)
            totals += changes
        means = totals / len(self.environments)
        self.means_over_draws = np.concatenate([self.means_over_draws, means])

    def effects(self, level: float) -> list[list[CopiedEffect]]:
        """Return the effect on the copy and its interval, of each pair at each checkpoint."""
        draws, count = len(self.environments), len(self.means_over_draws)
        means = self.sums / count
        centre = means.mean(axis=0)
        interaction = (  # sum of squares that neither the draw nor the replication explains
            self.squares
            - count * (means**2).sum(axis=0)
            - draws * (self.means_over_draws**2).sum(axis=0)
            + draws * count * centre**2
        )
        noise = np.maximum(interaction, 0) / ((draws - 1) * (count - 1) * count)
        centres, variances = self.long_run.mean_differences()
        errors = np.sqrt(self.means_over_draws.var(axis=0, ddof=1) / count + variances)
        return each_copied_effect(centres + means, noise, np.stack([errors, errors]), level)
