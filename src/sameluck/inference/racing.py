"""`race`: any number of policies on the same rewards, replication by replication, until one is good enough.

After each replication a policy is dropped if another is better by the anytime interval of their difference, at level
1 - (1 - level) / (N - 1). The race stops when the leader is within the tolerance of every remaining policy. Policies
are dropped only between replications, their data stay, and any two are compared on the replications that both have, a
prefix by construction.

The certificate is as good as the anytime interval: exact for normal differences. A policy that fails rarely and
badly (too little exploration) looks excellent until it fails, to any method that does not know how bad it can get. So
nothing is decided before `least` replications or on differences that have not varied, and skewness gives a caution.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.environments.base import Environment, EnvironmentLike
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.files import write_whole
from sameluck.intervals import anytime_half_widths, check_level
from sameluck.policies.base import Policy
from sameluck.reporting import tables
from sameluck.reporting.wording import percent
from sameluck.simulation.preconditions import checked_environment
from sameluck.simulation.simulate import simulate
from sameluck.validation import require_callable, require_number

LEAST = 30
LARGE_SKEWNESS = 2.0
BLOCK = 16  # replications simulated at once; decisions are made after each


class Runner(NamedTuple):
    """One policy at the end of a race."""

    policy: str
    reward: float  # mean over its replications
    behind: float  # mean reward of the policy that beat it (else the leader) minus its own, on common replications
    low: float  # anytime interval of that difference
    high: float
    skewness: float  # of that difference
    replications: int
    dropped_by: str | None  # the policy that beat it; None if it remained


@dataclass(frozen=True, eq=False, repr=False)
class Race:
    """What `race` returns: the policies in order, and the cost."""

    experiment: Experiment
    tolerance: float
    level: float
    certified: bool  # the leader is within the tolerance of the best, at the level
    replications: int
    users: int  # real users in total, under replay
    policy_runs: int  # replications, summed over policies
    fixed_policy_runs: int  # without dropping: every policy in every replication
    fixed_users: int  # without dropping, at the mean of the replications before the first drop
    naive_users: float  # under the naive design, for the same precision and without dropping
    runners: tuple[Runner, ...]  # the leader first

    @property
    def best(self) -> str:
        """The leader."""
        return self.runners[0].policy

    @property
    def remaining(self) -> tuple[str, ...]:
        """The policies that were not dropped, the leader first."""
        return tuple(one.policy for one in self.runners if one.dropped_by is None)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The runners as plain records."""
        return [one._asdict() for one in self.runners]

    @property
    def verdict(self) -> str:
        """The outcome and its cost, as sentences."""
        if self.certified:
            level = percent(self.level)
            outcome = (
                f"{self.best} is within {self.tolerance:g} of the best with {level} confidence."
            )
        else:
            names = ", ".join(self.remaining)
            outcome = f"Undecided after {self.replications:,} replications: {names} remain."
        cost = (
            f"It took {self.replications:,} replications, {self.users:,} users and "
            f"{self.policy_runs:,} policy runs; without dropping about {self.fixed_users:,} users and "
            f"{self.fixed_policy_runs:,} policy runs; the naive design about {self.naive_users:,.0f} users "
            "for the same precision."
        )
        return " ".join([outcome, cost, *(f"Caution: {caution}" for caution in self.cautions)])

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences to read before relying on the certificate."""
        rivals = [one for one in self.runners[1:] if one.dropped_by is None]
        equal = [one.policy for one in rivals if one.low == one.high]
        skewed = [one.policy for one in rivals if abs(one.skewness) > LARGE_SKEWNESS]
        sentences = []
        if equal:
            sentences.append(
                f"{', '.join(equal)} earned exactly what {self.best} did, in every replication."
            )
        if skewed:
            sentences.append(
                f"the differences from {', '.join(skewed)} are skewed: a policy may fail rarely and badly; "
                "require more replications with least=..."
            )
        return tuple(sentences)

    def __str__(self) -> str:
        interval = f"{percent(self.level)} interval"
        header = ["policy", "reward", "behind", interval, "replications", "dropped by"]
        rows = [
            [
                one.policy,
                f"{one.reward:,.2f}",
                f"{one.behind:,.2f}",
                f"{one.low:,.2f} to {one.high:,.2f}" if math.isfinite(one.low) else "too few",
                f"{one.replications:,}",
                one.dropped_by or "-",
            ]
            for one in self.runners
        ]
        return f"{tables.text_table(header, rows)}\n\n{tables.wrapped(self.verdict)}"

    __repr__ = __str__


def race(  # noqa: PLR0913
    policies: Mapping[str, Policy],
    environment: EnvironmentLike,
    *,
    tolerance: float,
    horizon: int = 1_000,
    level: float = 0.95,
    least: int = LEAST,
    most: int = 1_000,
    arms: int | None = None,
    seed: int = 0,
    progress: Callable[[int, tuple[str, ...]], object] | None = None,
    keep: str | Path | None = None,
) -> Race:
    """Find a policy that is within `tolerance` of the best, with a level of confidence.

    Args:
        policies: Name -> policy or its text form; two or more.
        environment: Where rewards come from, or its text form.
        tolerance: How much less cumulative reward than the best is good enough. Must be above 0: a race of two
            nearly equal policies would not end.
        horizon: Periods per replication.
        level: Confidence of the certificate.
        least: Replications before any decision; choose more where a policy may fail rarely.
        most: Replications after which the race ends undecided.
        arms: Their number, where the environment fits any number.
        seed: The same seed gives the same race.
        progress: Called as `progress(replications, names of the remaining policies)`.
        keep: A file that holds the race after every block of replications; a race with the same settings
            continues from it.
    """
    environment = as_environment(environment)
    require_number("tolerance", tolerance, above=0)
    check_level(level)
    require_number("level", level, at_most=1 - 1e-12)
    require_callable("progress", progress)
    require_number("least", least, at_least=5)
    require_number("most", most, at_least=least)
    arms = environment.arms if arms is None else arms
    if arms is None:
        raise Invalid("give the number of arms: the environment fits any number")
    experiment = Experiment(
        policies=policies, arms=arms, horizon=horizon, replications=most, seed=seed
    )
    if len(experiment.policies) < 2:
        raise Invalid("a race needs at least two policies")
    checked_environment(experiment, environment)
    rules = _Rules(tolerance, level, int(least))
    state = _RaceState(experiment, environment, rules, None if keep is None else Path(keep))
    state.run(progress)
    return state.result()


class _Rules(NamedTuple):
    tolerance: float
    level: float
    least: int


class _RaceState:
    """A race in progress: the rewards of every policy in its replications, and which were dropped."""

    def __init__(
        self, experiment: Experiment, environment: Environment, rules: _Rules, keep: Path | None
    ) -> None:
        self.experiment = experiment
        self.environment = environment
        self.rules = rules
        self.keep = keep
        self.names = list(experiment.policies)
        self.level = 1 - (1 - rules.level) / (len(self.names) - 1)  # of one pair, by Bonferroni
        self.rewards: dict[str, list[float]] = {name: [] for name in self.names}
        self.dropped: dict[str, str] = {}
        self.replications = 0
        self.users = 0
        self.undropped_users: list[int] = []  # of the replications before the first was dropped
        self.certified = False
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
        block = range(first, min(first + BLOCK, self.experiment.replications))
        experiment = self.experiment.replace(policies=policies)
        runs = simulate(experiment, self.environment, replications=block)
        for row in range(runs.replications):
            columns = [index for index, name in enumerate(names) if name not in self.dropped]
            for column in columns:
                self.rewards[names[column]].append(float(runs.rewards[row, column, 0]))
            self.users += int(runs.pulls[row, columns, 0].max(axis=0).sum())
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
        self.certified = bool(max(behind, default=0.0) <= self.rules.tolerance)
        return self.certified

    def result(self) -> Race:
        means = {name: float(np.mean(self.rewards[name])) for name in self.remaining}
        leader = max(means, key=lambda name: means[name])
        runners = [self._runner(name, leader) for name in self.names]
        runners.sort(
            key=lambda r: (r.policy != leader, r.dropped_by is not None, -r.replications, r.behind)
        )
        return Race(
            experiment=self.experiment,
            tolerance=self.rules.tolerance,
            level=self.rules.level,
            certified=self.certified,
            replications=self.replications,
            users=self.users,
            policy_runs=sum(map(len, self.rewards.values())),
            fixed_policy_runs=self.replications * len(self.names),
            fixed_users=round(self.replications * float(np.mean(self.undropped_users))),
            naive_users=self._naive_users(leader, runners[1].policy),
            runners=tuple(runners),
        )

    def _runner(self, name: str, leader: str) -> Runner:
        dropped_by = self.dropped.get(name)
        own, better = self._common_rewards(name, dropped_by or leader)
        values = better - own
        half = 0.0 if name == leader else float(anytime_half_widths(values, self.level)[-1])
        behind, sd = float(values.mean()), float(values.std())
        skewness = float(np.mean(((values - behind) / sd) ** 3)) if sd else 0.0
        means = (float(own.mean()), behind, behind - half, behind + half)
        return Runner(name, *means, skewness, own.size, dropped_by)

    def _common_rewards(self, first: str, second: str) -> tuple[Floats, Floats]:
        count = min(len(self.rewards[first]), len(self.rewards[second]))
        return np.array(self.rewards[first][:count]), np.array(self.rewards[second][:count])

    def _naive_users(self, leader: str, rival: str) -> float:
        """Every policy on its own users, in as many replications as the leader and its rival need."""
        own, other = self._common_rewards(leader, rival)
        paired = float((own - other).var(ddof=1))
        ratio = float(own.var(ddof=1) + other.var(ddof=1)) / paired if paired else 1.0
        replications = math.ceil(self.replications * max(1.0, ratio))
        return replications * len(self.names) * self.experiment.horizon

    def _settings(self) -> str:
        environment = text_forms.write(self.environment)
        # Without `most`: an undecided race may be continued with more.
        digest = self.experiment.replace(replications=1).digest
        return f"{digest} {environment} {tuple(self.rules)!r}"

    def _save(self) -> None:
        if self.keep is None:
            return
        state = {
            "settings": self._settings(),
            "rewards": self.rewards,
            "dropped": self.dropped,
            "played": self.replications,
            "users": self.users,
            "everybody": self.undropped_users,
            "certified": self.certified,
        }
        write_whole(self.keep, json.dumps(state).encode())

    def _load(self) -> None:
        if self.keep is None or not self.keep.exists():
            return
        try:
            state = dict(json.loads(self.keep.read_text()))
            replications, users = int(state["played"]), int(state["users"])
            rewards = {name: [float(x) for x in state["rewards"][name]] for name in self.names}
            dropped = {str(name): str(by) for name, by in dict(state["dropped"]).items()}
            undropped_users = [int(x) for x in state["everybody"]]
            settings, certified = str(state["settings"]), bool(state["certified"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise Invalid(f"{str(self.keep)!r} does not hold a race; name another file") from None
        if settings != self._settings():
            raise Invalid(
                f"{str(self.keep)!r} holds a race with other settings; name another file or remove it"
            )
        self.replications, self.rewards, self.dropped = replications, rewards, dropped
        self.users, self.undropped_users, self.certified = users, undropped_users, certified


def _differences(table: Floats, level: float) -> tuple[Floats, Floats]:
    """Row minus column: mean difference and anytime half-width, for every two policies (policy, policy)."""
    mean, half = np.zeros((len(table), len(table))), np.full((len(table), len(table)), np.inf)
    for first, second in itertools.combinations(range(len(table)), 2):
        values = table[first] - table[second]
        mean[first, second] = values.mean()
        mean[second, first] = -mean[first, second]
        if values.std() > 0:  # a difference that has not varied yet is no evidence
            half[first, second] = half[second, first] = anytime_half_widths(values, level)[-1]
    return mean, half
