"""A race in progress: simulate a block of replications, drop what is beaten."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.environments.base import Environment
from sameluck.experiment import Experiment
from sameluck.inference.racing.race_files import RaceFile
from sameluck.inference.racing.race_results import Race, Runner, naive_users
from sameluck.inference.simultaneous import one_sided_level
from sameluck.inference.twins.for_races import reversing_failures
from sameluck.intervals import anytime_half_width, varies
from sameluck.policies.external import Makers, makers_for, makers_of
from sameluck.simulation.simulate import simulate

BLOCK = 16  # replications simulated at once after the first decision; decisions are made after each


class Rules(NamedTuple):
    """When a race decides."""

    tolerance: float
    level: float
    least: int
    failures: float


class RaceState:
    """A race in progress: the rewards of every policy in its replications, and which were dropped."""

    def __init__(
        self,
        experiment: Experiment,
        environment: Environment,
        rules: Rules,
        keep: Path | None,
        makers: Makers | None,
    ) -> None:
        makers_of(experiment.policies, makers)
        self.experiment = experiment
        self.environment = environment
        self.rules = rules
        self.kept = None if keep is None else RaceFile(keep, experiment, environment, tuple(rules))
        self.makers = makers
        self.names = list(experiment.policies)
        # Of one pair. Only the true best matters: that no other beats it, and how far it is ahead of the leader.
        self.level = one_sided_level(rules.level, len(self.names) - 1)
        self.rewards: dict[str, list[float]] = {name: [] for name in self.names}
        self.dropped: dict[str, str] = {}
        self.replications = 0
        self.users = 0
        self.undropped_users: list[int] = []  # of the replications before the first was dropped
        self.certified = False
        self.vetoed: list[str] = []  # reasons why it was not certified, as sentences
        self.decides_at = 0  # replications, after a veto
        self._load()

    @property
    def remaining(self) -> tuple[str, ...]:
        """The policies that are not dropped."""
        return tuple(name for name in self.names if name not in self.dropped)

    def run(self, progress: Callable[[int, tuple[str, ...]], object] | None) -> None:
        """Simulate until the leader is good enough or the replications are used up."""
        while not self.certified and self.replications < self.experiment.replications:
            self._run_block()
            self._save()
            if progress is not None:
                progress(self.replications, self.remaining)

    def _run_block(self) -> None:
        names, first = self.remaining, self.replications
        policies = {name: self.experiment.policies[name] for name in names}
        last = max(first + BLOCK, self.rules.least)
        block = range(first, min(last, self.experiment.replications))
        experiment = self.experiment.replace(policies=policies)
        makers = makers_for(policies, self.makers)
        runs = simulate(experiment, self.environment, replications=block, makers=makers)
        for row in range(runs.replications):
            columns = [index for index, name in enumerate(names) if name not in self.dropped]
            for column in columns:
                self.rewards[names[column]].append(float(runs.rewards[row, column, 0]))
            self.users += int(experiment.design.interactions(runs.pulls[[row]][:, columns, 0])[0])
            if not self.dropped:
                self.undropped_users.append(int(runs.interactions[row, 0]))
            self.replications += 1
            if self.replications >= self.rules.least and self._decide():
                return

    def _decide(self) -> bool:
        """Drop policies that another one beats; True when the leader is good enough."""
        names = self.remaining
        table = np.array([self.rewards[name][: self.replications] for name in names])
        ahead, half = _differences(table, self.level)
        for column, name in enumerate(names):
            better = np.flatnonzero(ahead[:, column] - half[:, column] > 0)
            if better.size:
                self.dropped[name] = names[int(better[np.argmax(ahead[better, column])])]
        leader = int(table.mean(axis=1).argmax())
        behind = [
            half[leader, column] - ahead[leader, column]
            for column, name in enumerate(names)
            if name not in self.dropped and column != leader
        ]
        good_enough = bool(max(behind, default=0.0) <= self.rules.tolerance)
        self.certified = good_enough and not self._is_vetoed(names[leader])
        return self.certified

    def _is_vetoed(self, leader: str) -> bool:
        """Whether rare failures of the leader would reverse the decision; next asked at twice the replications."""
        if self.rules.failures == 1:
            return False
        if self.replications < self.decides_at:
            return True
        policies = {name: self.experiment.policies[name] for name in self.names}
        whole = self.experiment.replace(policies=policies, control=leader)
        self.vetoed = reversing_failures(whole, self.environment, self.rules.tolerance)
        self.decides_at = 2 * self.replications if self.vetoed else 0
        return bool(self.vetoed)

    def result(self) -> Race:
        """The race as far as it went."""
        means = {name: float(np.mean(self.rewards[name])) for name in self.remaining}
        leader = max(means, key=lambda name: means[name])
        runners = [self._runner(name, leader) for name in self.names]
        runners.sort(
            key=lambda r: (r.policy != leader, r.dropped_by is not None, -r.replications, r.behind)
        )
        rewards = self._common_rewards(leader, runners[1].policy)
        each = len(self.names) * self.experiment.horizon
        naive = naive_users(*rewards, self.replications, each, self.rules.level)
        return Race(
            experiment=self.experiment,
            tolerance=self.rules.tolerance,
            level=self.rules.level,
            certified=self.certified,
            failures=self.rules.failures,
            replications=self.replications,
            users=self.users,
            policy_runs=sum(map(len, self.rewards.values())),
            fixed_policy_runs=self.replications * len(self.names),
            fixed_users=round(self.replications * float(np.mean(self.undropped_users))),
            naive_users=naive.users,
            naive_users_low=naive.low,
            naive_users_high=naive.high,
            runners=tuple(runners),
            vetoed=tuple(self.vetoed),
        )

    def _runner(self, name: str, leader: str) -> Runner:
        dropped_by = self.dropped.get(name)
        rival = dropped_by or leader
        own, better = self._common_rewards(name, rival)
        values = better - own
        half = 0.0 if name == rival else anytime_half_width(values, self.level)
        behind, sd = float(values.mean()), float(values.std()) if varies(values) else 0.0
        skewness = float(np.mean(((values - behind) / sd) ** 3)) if sd else 0.0
        means = (float(own.mean()), behind, behind - half, behind + half)
        return Runner(name, *means, skewness, own.size, dropped_by)

    def _common_rewards(self, first: str, second: str) -> tuple[Floats, Floats]:
        count = min(len(self.rewards[first]), len(self.rewards[second]))
        return np.array(self.rewards[first][:count]), np.array(self.rewards[second][:count])

    def _save(self) -> None:
        if self.kept is None:
            return
        self.kept.write(
            {
                "rewards": self.rewards,
                "dropped": self.dropped,
                "played": self.replications,
                "users": self.users,
                "everybody": self.undropped_users,
                "certified": self.certified,
                "vetoed": self.vetoed,
                "decides_at": self.decides_at,
            }
        )

    def _load(self) -> None:
        kept = None if self.kept is None else self.kept.read(self.names)
        if kept is not None:
            self.replications, self.rewards, self.dropped = (
                kept.replications,
                kept.rewards,
                kept.dropped,
            )
            self.users, self.undropped_users = kept.users, kept.undropped_users
            self.certified, self.vetoed, self.decides_at = (
                kept.certified,
                kept.vetoed,
                kept.decides_at,
            )


def _differences(table: Floats, level: float) -> tuple[Floats, Floats]:
    """Row minus column: mean difference and anytime half-width, for every two policies (policy, policy)."""
    mean, half = np.zeros((len(table), len(table))), np.full((len(table), len(table)), np.inf)
    for first, second in itertools.combinations(range(len(table)), 2):
        values = table[first] - table[second]
        mean[first, second] = values.mean()
        mean[second, first] = -mean[first, second]
        half[first, second] = half[second, first] = anytime_half_width(values, level)
    return mean, half
