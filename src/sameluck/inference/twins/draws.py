"""Effects on draws of the arms, simulated until the simulation's error is small.

Half of the draws are independent draws of each arm, the others have tied arms (see `ties`).

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

The effect is the mean of two things: of the difference D between the policies' rewards, and of the sum P over arms of
the arm's mean times the difference between the policies' pulls. So it is also the mean of D + c (P - D) for any
number c. The long run gives the c of the smallest variance (a control variate). P does not vary at all where all arms
have the same mean: the effect is exactly 0 there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Bools, Floats, Ints
from sameluck.environments.base import Environment
from sameluck.inference.twins.copies import ArmCopy, LikelihoodCopy
from sameluck.inference.twins.intervals import (
    CopiedEffect,
    DrawnEffects,
    each_copied_effect,
    ends_of_draws,
)
from sameluck.inference.twins.observed_rewards import simulated_stacks
from sameluck.inference.twins.simulations import Effort, LongRun
from sameluck.runs import Runs

GROUPS = 16  # of replications, for the jackknife
MAX_COLUMNS = 512  # of weighted rewards and pulls; beyond, pulls are left out
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
    last = (long_run.pair_differences(pair)[:, -1] for pair in range(len(long_run.simulator.pairs)))
    sds = [float(differences.std()) for differences in last]
    for _ in range(effort.raises):
        results = drawn.effects(level)
        if all(of_pair[-1].is_precise(sd) for of_pair, sd in zip(results, sds, strict=True)):
            return results
        long_run.simulator.expect(effort.draws * count)
        drawn.extend(count)
        count *= 2
    return drawn.effects(level)


class DrawnArms(NamedTuple):
    """Draws of the arms: independent draws of each arm, then draws with tied arms."""

    environments: list[Environment]
    means: Floats  # (draw, arm); the environments' means, or nearly
    independent: int  # draws
    equality: float  # probability that all arms have the same mean

    @property
    def equal(self) -> Bools:
        """Whether all arms have the same mean, for each draw."""
        return np.ptp(self.means, axis=1) == 0

    def effects(
        self, on_copy: Floats, effects: Floats, noise: Floats, errors: Floats
    ) -> DrawnEffects:
        """Return the effects on the copy and on these draws, whose first axis is the draw."""
        halves = effects[: self.independent], effects[self.independent :]
        return DrawnEffects(on_copy, *halves, self.equality, noise, errors)


def draw_arms(copy: ArmCopy, count: int, generator: np.random.Generator) -> DrawnArms:
    independent = copy.draws(count - count // 2, generator)
    tied = copy.tied_arms
    means = tied.draws(count // 2, generator)
    return DrawnArms(
        [*independent, *copy.with_means(means, generator)],
        np.concatenate([[environment.means for environment in independent], means]),
        len(independent),
        tied.equality,
    )


def controlled(differences: Floats, expected: Floats, weights: Floats) -> Floats:
    """Return D + c (P - D), with a weight c for each pair and checkpoint."""
    return differences + weights * (expected - differences)


def best_controls(long_run: LongRun) -> Floats:
    """Return the weights c of the smallest variance on the copy (pair, checkpoint)."""
    means = np.array(long_run.copy.environment.means)
    weights = []
    for pair in range(len(long_run.simulator.pairs)):
        values = long_run.pair_differences(pair)
        noise = values - long_run.pair_pulls(pair) @ means
        noise -= noise.mean(axis=0)
        squares = (noise**2).sum(axis=0)
        products = (values * noise).sum(axis=0)
        weights.append(np.where(squares > 0, products / np.where(squares > 0, squares, 1.0), 1.0))
    return np.array(weights)


class WeightedEffects:
    """Effects on draws of the arms, from importance-weighted replications on all of them and of the long run."""

    def __init__(self, long_run: LongRun, copy: LikelihoodCopy, effort: Effort) -> None:
        self.simulator = long_run.simulator
        self.drawn = draw_arms(copy, effort.draws, self.simulator.generator(2))
        self.means = np.concatenate([[copy.environment.means], self.drawn.means])
        coefficients = copy.coefficients([copy.environment, *self.drawn.environments])
        planned = [long_run.runs.replications] + [effort.weighted] * effort.draws
        self.planned, self.done = effort.weighted, 0  # replications on each draw
        self.next_replication, self.origins = long_run.runs.replications, copy.origins
        self.block = max(1, min(_BLOCK_REPLICATIONS, _BLOCK_WEIGHTS // len(planned)))
        shape = long_run.runs.pulls.shape[1:]
        # Without pulls there is nothing to control: the weights are 0.
        self.with_pulls = np.prod(shape[:-1]) * (1 + shape[-1]) <= MAX_COLUMNS
        self.controls = best_controls(long_run) if self.with_pulls else np.zeros(1)
        columns = (*shape[:-1], 1 + shape[-1] * self.with_pulls)
        self.on_estimate, self.on_draws = (
            WeightedSums(coefficients, np.array(planned, float), columns) for _ in range(2)
        )
        for first in range(0, self.next_replication, self.block):
            self.on_estimate.add([self._revealed(long_run.runs.part(first, self.block))])

    def extend(self, count: int) -> None:
        """Simulate `count` more replications on every draw, each with random numbers of its own."""
        first = self.next_replication
        starts = range(first, first + count * len(self.drawn.environments), count)
        ranges = [range(start, start + count) for start in starts]
        waiting: list[Revealed] = []
        tasks = list(zip(self.drawn.environments, ranges, strict=True))
        for runs in self.simulator.run_each(tasks):
            waiting.append(self._revealed(runs))
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
        values = self.on_estimate.values + share * self.on_draws.values
        effects = self._effects(values.sum(axis=0), weights.sum(axis=0))
        noise, variances_of_ends = self._variances(values, weights, effects[1:], level)
        drawn = self.drawn.effects(effects[0], effects[1:], noise, np.sqrt(variances_of_ends))
        return each_copied_effect(drawn, level)

    def _variances(
        self, values: Floats, weights: Floats, draws: Floats, level: float
    ) -> tuple[Floats, Floats]:
        """Return jackknife variances of an effect, without errors that all draws share, and of the two ends.

        The axes of each are pair and checkpoint, after the end. The first counts independent draws only.
        """
        all_values, all_weights = values.sum(axis=0), weights.sum(axis=0)
        count = self.drawn.independent
        draws = draws[:count]
        centred = draws - draws.mean(axis=0)
        ends, sums, squares = [], np.zeros_like(draws), np.zeros_like(draws)
        for group in range(GROUPS):
            without = self._effects(all_values - values[group], all_weights - weights[group])[1:]
            independent, tied = without[:count], without[count:]
            ends.append(ends_of_draws(independent, tied, level))
            # An error that all draws share shifts the interval and does not widen it: subtract the mean over draws.
            moved = independent - independent.mean(axis=0) - centred
            sums += moved
            squares += moved**2
        noise = (GROUPS - 1) * (squares / GROUPS - (sums / GROUPS) ** 2).mean(axis=0)
        return noise, (GROUPS - 1) * np.var(ends, axis=0)

    def _effects(self, values: Floats, weights: Floats) -> Floats:
        """Return the effects on the copy and on each draw (copy, pair, checkpoint)."""
        differences = self.simulator.differences(values / weights[:, None, None, None])
        means = self.means[:, : differences.shape[-1] - 1]
        expected = np.einsum("cpka,ca->cpk", differences[..., 1:], means)
        effects = controlled(differences[..., 0], expected, self.controls)
        effects[1:][self.drawn.equal] = 0.0
        return effects

    def _revealed(self, runs: Runs) -> Revealed:
        sums = []
        for stacks in simulated_stacks(runs, self.origins):
            arrays = (stacks.depths, stacks.sums(stacks.values), stacks.sums(stacks.values**2))
            sums.append(np.concatenate([array.sum(axis=1) for array in arrays], axis=1))
        numbers = np.arange(runs.first, runs.first + runs.replications)
        values = runs.rewards[..., None]
        if self.with_pulls:
            values = np.concatenate([values, runs.pulls], axis=-1)
        return Revealed(np.concatenate(sums), values, numbers % GROUPS)


class WeightedSums:
    """Sums of weights and of weighted rewards and pulls on every copy of the arms, by group of replications."""

    def __init__(self, coefficients: Floats, planned: Floats, shape: tuple[int, ...]) -> None:
        self.coefficients = coefficients  # of the log-likelihood (copy, sum over stacks)
        self.planned = planned  # replications on each copy
        self.weights = np.zeros((GROUPS, len(planned)))
        self.values = np.zeros((GROUPS, len(planned), *shape))

    def add(self, blocks: Sequence[Revealed]) -> None:
        sums, values, groups = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
        weights = self._weights(sums)
        for group in range(GROUPS):
            members = groups == group
            self.weights[group] += weights[members].sum(axis=0)
            self.values[group] += np.einsum("rc,rpkv->cpkv", weights[members], values[members])

    def _weights(self, sums: Floats) -> Floats:
        # einsum adds in one order; a matrix product's order depends on the threads of linear algebra.
        logs = np.einsum("rs,cs->rc", sums, self.coefficients)
        # Weights are ratios, so a factor per replication cancels: the largest likelihood is 1 and none overflows.
        likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
        return likelihoods / np.einsum("rc,c->r", likelihoods, self.planned)[:, None]


class Revealed(NamedTuple):
    sums: Floats  # each arm's depth, total and sum of squares, minus its origin (replication, sum)
    values: Floats  # reward, then pulls of each arm (replication, policy, checkpoint, value)
    groups: Ints  # (replication,)


class EffectsOnSharedNoise:
    """Effects on draws of the arms, simulated with the long run's random numbers.

    Each difference minus the long run's difference in the same replication is summed. Subtracting a number for each
    replication leaves the mean square of the interaction of draw and replication unchanged.
    """

    def __init__(self, long_run: LongRun, draws: int) -> None:
        self.simulator, self.long_run = long_run.simulator, long_run
        self.drawn = draw_arms(long_run.copy, draws, self.simulator.generator(2))
        self.controls = best_controls(long_run)
        shape = len(self.simulator.pairs), self.simulator.checkpoints.size
        self.sums = np.zeros((draws, *shape))
        self.squares = np.zeros(shape)
        self.means_over_draws = np.empty((0, *shape))  # of each replication

    def extend(self, count: int) -> None:
        """Simulate `count` more replications on every draw, at most as many as the long run has."""
        first, independent = len(self.means_over_draws), self.drawn.independent
        copied = self.long_run.runs.part(first, count)
        on_copy = self._differences(copied, np.array(self.long_run.copy.environment.means))
        totals = np.zeros_like(on_copy)
        replications = range(first, first + len(on_copy))
        if not replications:
            return
        tasks = [(environment, replications) for environment in self.drawn.environments]
        for draw, runs in enumerate(self.simulator.run_each(tasks)):
            changes = self._differences(runs, self.drawn.means[draw]) - on_copy
            self.sums[draw] += changes.sum(axis=0)
            if draw < independent:
                self.squares += (changes**2).sum(axis=0)
                totals += changes
        means = totals / independent
        self.means_over_draws = np.concatenate([self.means_over_draws, means])

    def effects(self, level: float) -> list[list[CopiedEffect]]:
        """Return the effect on the copy and its interval, of each pair at each checkpoint."""
        independent, count = self.drawn.independent, len(self.means_over_draws)
        means = self.sums / count
        centre = means[:independent].mean(axis=0)
        interaction = (  # sum of squares that neither the draw nor the replication explains
            self.squares
            - count * (means[:independent] ** 2).sum(axis=0)
            - independent * (self.means_over_draws**2).sum(axis=0)
            + independent * count * centre**2
        )
        noise = np.maximum(interaction, 0) / ((independent - 1) * (count - 1) * count)
        centres, variances = self._long_run_effects()
        errors = np.sqrt(self.means_over_draws.var(axis=0, ddof=1) / count + variances)
        effects = centres + means
        effects[self.drawn.equal] = 0.0
        drawn = self.drawn.effects(centres, effects, noise, np.stack([errors, errors]))
        drawn = drawn._replace(freedom=self.long_run.copy.freedom)
        return each_copied_effect(drawn, level)

    def _differences(self, runs: Runs, means: Floats) -> Floats:
        """Return each replication's difference, as if the arms had these means exactly."""
        assert runs.environment is not None  # for mypy: these runs are simulated
        pulls = self.simulator.differences(runs.pulls.astype(float))
        actual = np.array(runs.environment.means)
        values = self.simulator.differences(runs.rewards)
        return controlled(values, pulls @ actual, self.controls) + pulls @ (means - actual)

    def _long_run_effects(self) -> tuple[Floats, Floats]:
        """Return the effects on the copy and the variances of their estimates (pair, checkpoint)."""
        means, moments = np.array(self.long_run.copy.environment.means), []
        for pair, weights in enumerate(self.controls):
            expected = self.long_run.pair_pulls(pair) @ means
            values = controlled(self.long_run.pair_differences(pair), expected, weights)
            moments.append((values.mean(axis=0), values.var(axis=0, ddof=1) / len(values)))
        centres, variances = np.array(moments).transpose(1, 0, 2)
        return centres, variances
