"""Race in progress: simulate a block of replications, drop beaten policies; kept in a file if wanted."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.environments.base import Environment
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.files import write_whole
from sameluck.inference.racing.race_results import Race, Runner
from sameluck.inference.simultaneous import one_sided_level
from sameluck.inference.twins.failures import MAX_PERIODS, failure_of
from sameluck.inference.twins.failures import MAX_REPLICATIONS as MAX_CHECKED
from sameluck.inference.twins.simulations import has_objects
from sameluck.inference.unseen import MIN_CHECKED, simulated_again
from sameluck.inference.variance_ratios import rounded_up, variance_ratio
from sameluck.intervals import anytime_half_width, varies
from sameluck.policies.external import Makers, makers_for, makers_of
from sameluck.simulation.simulate import simulate
from sameluck.wording import amount

BLOCK = 16  # replications simulated at once after the first decision; decisions are made after each


class Rules(NamedTuple):
    tolerance: float
    level: float
    min_replications: int
    failures: float


class RaceState:
    """Race in progress: the rewards of every policy in its replications, and the dropped policies."""

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
        self.file = None if keep is None else RaceFile(keep, experiment, environment, rules)
        self.makers = makers
        self.names = list(experiment.policies)
        # The level of one pair. Only comparisons with the true best matter: no policy may beat it, and it must not
        # be too far ahead of the leader.
        self.level = one_sided_level(rules.level, len(self.names) - 1)
        self.rewards: dict[str, list[float]] = {name: [] for name in self.names}
        self.dropped: dict[str, str] = {}
        self.replications = 0
        self.users = 0
        self.undropped_users: list[int] = []  # in each replication before the first drop
        self.certified = False
        self.vetoed: list[str] = []  # reasons why the leader was not certified, as sentences
        self.decides_at = 0  # replications, after a veto
        self._load()

    @property
    def remaining(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.dropped)

    def run(self, progress: Callable[[int, tuple[str, ...]], object] | None) -> None:
        while not self.certified and self.replications < self.experiment.replications:
            self._run_block()
            self._save()
            if progress is not None:
                progress(self.replications, self.remaining)

    def _run_block(self) -> None:
        names, first = self.remaining, self.replications
        policies = {name: self.experiment.policies[name] for name in names}
        # A block is simulated whole for speed. Replications after a decision are not used, so the result does not
        # depend on the block size.
        last = max(first + BLOCK, self.rules.min_replications)
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
            if self.replications >= self.rules.min_replications and self._decide():
                return

    def _decide(self) -> bool:
        """Drop beaten policies; return whether the leader is good enough."""
        names = self.remaining
        table = np.array([self.rewards[name][: self.replications] for name in names])
        # Every remaining policy has all replications: they are dropped only here, between replications.
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
        """Return whether rare failures of the leader would reverse the decision."""
        if self.rules.failures == 1:
            return False
        if self.replications < self.decides_at:
            return True
        self.vetoed = self._reversing_failures(leader)
        # After a veto the question is asked again at twice the replications.
        self.decides_at = 2 * self.replications if self.vetoed else 0
        return bool(self.vetoed)

    def _reversing_failures(self, leader: str) -> list[str]:
        """Describe rare failures of the leader on other seeds that put it behind another policy.

        A failure counts if the leader is then behind the other policy by more than the tolerance.
        """
        experiment, count = self.experiment, self._checked_replications()
        makers = makers_for(experiment.policies, self.makers)
        numbers = range(count)
        runs = simulated_again(experiment, self.environment, experiment.horizon, numbers, makers)
        rewards = dict(zip(self.names, runs.rewards[:, :, 0].T, strict=True))
        sentences = []
        for policy in self.names:
            losses, names = rewards[leader] - rewards[policy], (leader, policy)
            ahead = float(-losses.mean())
            failure = failure_of(names, experiment.horizon, losses, np.zeros(0), half_reward=0.5)
            if failure is not None and failure.policy == leader and ahead > self.rules.tolerance:
                sentences.append(
                    f"{leader} ends {amount(failure.loss)} or more behind {policy} in about 1 replication in "
                    f"{failure.one_in:,.0f}, and earns {amount(ahead)} less on average of {count:,}"
                )
        return sentences

    def _checked_replications(self) -> int:
        """Return how many replications on other seeds a leader is checked in: at most three times the race's."""
        if has_objects(self.experiment):
            return self.replications
        affordable = MAX_PERIODS // (len(self.names) * self.experiment.horizon)
        return min(MAX_CHECKED, max(affordable, min(MIN_CHECKED, 3 * self.replications)))

    def result(self) -> Race:
        means = {name: float(np.mean(self.rewards[name])) for name in self.remaining}
        leader = max(means, key=lambda name: means[name])

        def rank(runner: Runner) -> tuple[bool, bool, int, float]:
            is_dropped = runner.dropped_by is not None
            return runner.policy != leader, is_dropped, -runner.replications, runner.behind

        runners = sorted((self._runner(name, leader) for name in self.names), key=rank)
        # The naive design that is as precise about the leader and its rival.
        ratio = variance_ratio(*self._common_rewards(leader, runners[1].policy), self.rules.level)
        if not math.isfinite(ratio.value):  # the difference does not vary
            ratio = ratio._replace(value=1.0, low=1.0, high=1.0)
        naive_users, naive_low, naive_high = (
            len(self.names)
            * self.experiment.horizon
            * rounded_up(self.replications * max(1.0, factor))
            for factor in ratio
        )
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
            naive_users=naive_users,
            naive_users_low=naive_low,
            naive_users_high=naive_high,
            runners=tuple(runners),
            vetoed=tuple(self.vetoed),
        )

    def _runner(self, name: str, leader: str) -> Runner:
        dropped_by = self.dropped.get(name)
        rival = dropped_by or leader
        rewards, rival_rewards = self._common_rewards(name, rival)
        values = rival_rewards - rewards
        half = 0.0 if name == rival else anytime_half_width(values, self.level)
        behind, sd = float(values.mean()), float(values.std()) if varies(values) else 0.0
        skewness = float(np.mean(((values - behind) / sd) ** 3)) if sd else 0.0
        means = (float(rewards.mean()), behind, behind - half, behind + half)
        return Runner(name, *means, skewness, rewards.size, dropped_by)

    def _common_rewards(self, first: str, second: str) -> tuple[Floats, Floats]:
        count = min(len(self.rewards[first]), len(self.rewards[second]))
        return np.array(self.rewards[first][:count]), np.array(self.rewards[second][:count])

    def _save(self) -> None:
        if self.file is not None:
            self.file.write(KeptRace(*(getattr(self, field) for field in KeptRace._fields)))

    def _load(self) -> None:
        kept = None if self.file is None else self.file.read(self.names)
        if kept is not None:
            for field, value in kept._asdict().items():
                setattr(self, field, value)


def _differences(table: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the mean difference, row minus column, and its anytime half-width, for every two policies."""
    mean, half = np.zeros((len(table), len(table))), np.full((len(table), len(table)), np.inf)
    for first, second in itertools.combinations(range(len(table)), 2):
        values = table[first] - table[second]
        mean[first, second] = values.mean()
        mean[second, first] = -mean[first, second]
        half[first, second] = half[second, first] = anytime_half_width(values, level)
    return mean, half


class KeptRace(NamedTuple):
    """Content of a race's file; the fields are attributes of `RaceState`."""

    rewards: dict[str, list[float]]
    dropped: dict[str, str]
    replications: int
    users: int
    undropped_users: list[int]
    certified: bool
    vetoed: list[str]
    decides_at: int


_KEYS = {"replications": "played", "undropped_users": "everybody"}  # where a file has other names


class RaceFile:
    """File that holds a race, so that a race with the same settings continues from it."""

    def __init__(
        self, path: Path, experiment: Experiment, environment: Environment, rules: Rules
    ) -> None:
        self.path = path
        # Without the number of replications: an undecided race may be continued with more.
        digest = experiment.replace(replications=1).digest
        self.settings = f"{digest} {text_forms.write(environment)} {tuple(rules)!r}"

    def write(self, kept: KeptRace) -> None:
        fields = {_KEYS.get(field, field): value for field, value in kept._asdict().items()}
        write_whole(self.path, json.dumps({"settings": self.settings, **fields}).encode())

    def read(self, names: Sequence[str]) -> KeptRace | None:
        """Return the race in the file, None if there is no file; raise `Invalid` for other settings."""
        if not self.path.exists():
            return None
        try:
            record = dict(json.loads(self.path.read_text()))
            settings = str(record["settings"])
            kept = KeptRace(
                {name: [float(x) for x in record["rewards"][name]] for name in names},
                {str(name): str(by) for name, by in dict(record["dropped"]).items()},
                int(record["played"]),
                int(record["users"]),
                [int(x) for x in record["everybody"]],
                bool(record["certified"]),
                [str(x) for x in record.get("vetoed", [])],
                int(record.get("decides_at", 0)),
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise Invalid(f"{str(self.path)!r} does not hold a race; name another file") from None
        if settings != self.settings:
            raise Invalid(
                f"{str(self.path)!r} holds a race with other settings; name another file or remove it"
            )
        return kept
