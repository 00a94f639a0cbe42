"""`ContextObjectRunner`: the loop of a policy that is a Python object, whose users have contexts.

Machine code writes each context and draws each reward at the same addresses as for a compiled policy.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.compilation.decorators import compiled
from sameluck.environments.base import Environment, law_at
from sameluck.environments.contextual.base import (
    draw_in_context,
    gap_in_context,
    is_valid_context,
    write_context,
)
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.policies.external import Maker, ObjectPolicy
from sameluck.policies.simple import Uniform
from sameluck.randomness.streams import CONTEXT, REWARD, Bits, stream, subkey, word
from sameluck.simulation.contexts.loop import ContextResults, FeatureArrays, LevelArrays
from sameluck.simulation.contexts.runner import ContextRunner
from sameluck.simulation.object_runner import ObjectRunner
from sameluck.simulation.refusals import check_rewards
from sameluck.text_forms import Parameters
from sameluck.trajectories import Trajectory, empty_trajectory


class Address(NamedTuple):
    """Seed, replication, owner of the rewards and row of the parameters."""

    seed: Bits
    replication: int
    owner: Bits
    row: int


@compiled
def _arrive(
    parameters: Parameters,
    address: Address,
    period: int,
    contexts: FeatureArrays | LevelArrays,
    levels: int,
) -> bool:
    """Write the context of a period's user; return whether it is valid."""
    users = stream(address.seed, CONTEXT, address.replication, address.owner)
    current = law_at(parameters, period)
    write_context(current, address.row, period, users, contexts.user)
    return is_valid_context(parameters, contexts.flat, levels)


@compiled
def _pay(
    parameters: Parameters,
    address: Address,
    period: int,
    contexts: FeatureArrays | LevelArrays,
    arms: int,
    arm: int,
    cell: int,
    position: int,
) -> tuple[float, float]:
    """Return the reward of an arm, and the arm's gap to the best arm in the context."""
    key = subkey(stream(address.seed, REWARD, address.replication, address.owner), cell)
    bits = word(key, np.uint64(position))
    current = law_at(parameters, period)
    reward = float(draw_in_context(current, address.row, contexts.user, arm, bits))
    gap = gap_in_context(current, address.row, contexts.user, arm, arms)
    return reward, gap


class ContextObjectRunner(ObjectRunner):
    """An external policy of an experiment whose users have contexts; as `ContextRunner`.

    An object with `update(context, arm, reward)` gets the context in `select(context)` too: an array of features, or
    the index of a level or state. An object with `update(arm, reward)` runs without contexts beside it.
    """

    def __init__(
        self, experiment: Experiment, environment: Environment, name: str, make: Maker
    ) -> None:
        super().__init__(experiment, environment, name, make)
        policies = {
            **experiment.policies,
            name: Uniform(),
        }  # its arrays do not depend on the policy
        self._compiled = ContextRunner(experiment.replace(policies=policies), environment, name)

    def run(  # type: ignore[override]  # `ContextResults` has the fields of `Results`
        self, replications: range, checkpoints: Ints, trajectory: Trajectory | None = None
    ) -> ContextResults:
        results = self._compiled.empty_results(len(replications), checkpoints)
        parameters = self._compiled.parameters(replications)
        for row, replication in enumerate(replications):
            players = [self._player(replication)]
            self._walk(parameters, replication, row, players, results, trajectory)
        check_rewards(self.environment, results.rewards)
        return results

    def run_pair(self, replication: int, periods: int, seconds: float = math.inf) -> list[int]:
        players = [self._player(replication) for _ in range(2)]
        results = self._compiled.empty_results(1, np.array([periods]))
        trajectory = empty_trajectory(periods, self.experiment)
        parameters = self._compiled.parameters(range(replication, replication + 1))
        end = time.perf_counter() + seconds
        done = self._walk(parameters, replication, 0, players, results, trajectory, end)
        arms: list[int] = trajectory.arms[:done].tolist()
        return arms

    def compile(self, *, recorded: bool) -> None:
        self._seed_in(0)
        self.run(range(1), np.array([1]))

    def _player(self, replication: int) -> _Player:
        policy = ObjectPolicy(
            self.name, self.make, self.experiment.n_arms, self._seed_in(replication)
        )
        return _Player(policy, self.batch)

    def _walk(
        self,
        parameters: Parameters,
        replication: int,
        row: int,
        players: list[_Player],
        results: ContextResults,
        trajectory: Trajectory | None,
        end: float = math.inf,
    ) -> int:
        """Run a replication, in which all players must choose the same arms; return its periods until `end`."""
        experiment, arms = self.experiment, self.experiment.n_arms
        seed, owner, _ = self._compiled.stream_owners
        address = Address(seed, replication, owner, row)
        contexts = self._compiled.empty_contexts()
        context = experiment.context
        assert context is not None
        is_level = not context.indexed_by_period
        reads, pulls = np.zeros(experiment.cells, np.int64), np.zeros(arms, np.int64)
        earned = regret = 0.0
        best, start = 0, 1
        for column, checkpoint in enumerate(results.checkpoints.tolist()):
            for period in range(start, checkpoint + 1):
                levels = context.number if is_level else 0
                if not _arrive(parameters, address, period, contexts, levels):
                    self._compiled.refusals.check_arm(replication, -period)
                level = int(contexts.flat[0]) if is_level else 0
                seen = level if is_level else _read_only_copy(contexts.now)
                chosen = [player.choose(seen, period, replication) for player in players]
                arm = chosen[0]
                if chosen[-1] != arm:
                    raise Invalid(
                        f"policy {self.name!r} is not deterministic: made twice with the same seed and given the "
                        f"same users, it chose arm {arm} and arm {chosen[-1]} in period {period}. Derive all "
                        "randomness from the seed, and do not read the clock"
                    )
                cell = level * arms + arm
                position = period - 1 if results.indexed_by_period else int(reads[cell])
                reward, gap = _pay(parameters, address, period, contexts, arms, arm, cell, position)
                reads[cell] += 1
                pulls[arm] += 1
                earned, regret, best = earned + reward, regret + gap, best + (gap <= 0.0)
                if contexts.rewards.size:
                    contexts.rewards[level] += reward
                if results.cells.shape[1]:
                    results.cells[row, period - 1] = cell
                _record(trajectory, period, arm, position, reward, contexts.flat)
                for player in players:
                    player.observe(seen, arm, reward)
                if time.perf_counter() > end:
                    return period
            results.rewards[row, column] = earned
            results.pulls[row, column] = pulls
            results.regret[row, column], results.best_pulls[row, column] = regret, best
            results.visits[row, column] = reads[: results.visits.shape[2]]
            results.level_rewards[row, column] = contexts.rewards
            start = checkpoint + 1
        return start - 1


class _Player:
    """An object in one replication, with or without contexts."""

    def __init__(self, policy: ObjectPolicy, batch: int) -> None:
        self.policy, self.batch = policy, batch
        self.takes_context = _takes_context(policy.update)
        self._waiting: list[tuple[object, int, float]] = []

    def choose(self, context: object, period: int, replication: int) -> int:
        try:
            answer = self.policy.select(context if self.takes_context else period)  # type: ignore[arg-type]
        except Exception as error:
            where = f" failed in period {period} of replication {replication}"
            raise self.policy.failure(where, error) from error
        return self.policy.arm_of(answer, period)

    def observe(self, context: object, arm: int, reward: float) -> None:
        self._waiting.append((context, arm, reward))
        if len(self._waiting) < self.batch:
            return
        for observation in self._waiting:
            try:
                self.policy.update(*(observation if self.takes_context else observation[1:]))
            except Exception as error:
                where = f" failed in update{observation}"
                raise self.policy.failure(where, error) from error
        self._waiting.clear()


def object_runner_of(
    experiment: Experiment, environment: Environment, name: str, make: Maker
) -> ObjectRunner:
    """Return the runner of an external policy, with contexts if the experiment has them."""
    runner_class = ObjectRunner if experiment.context is None else ContextObjectRunner
    return runner_class(experiment, environment, name, make)


def _takes_context(update: Callable[..., object]) -> bool:
    try:
        return len(inspect.signature(update).parameters) > 2
    except (TypeError, ValueError):  # a function of an extension module
        return False


def _record(
    trajectory: Trajectory | None,
    period: int,
    arm: int,
    position: int,
    reward: float,
    context: Floats,
) -> None:
    if trajectory is not None:
        trajectory.arms[period - 1] = arm
        trajectory.positions[period - 1] = position
        trajectory.rewards[period - 1] = reward
        if trajectory.contexts is not None:
            trajectory.contexts[period - 1] = context


def _read_only_copy(context: Floats) -> Floats:
    kept = context.copy()  # an object may keep it
    kept.flags.writeable = False
    return kept
