"""`race`: any number of policies on the same luck, replication by replication, until the best is certain enough.

After each replication a policy leaves when some other beats it for certain, by the anytime interval of their
difference at level 1 - (1 - level) / (N - 1). It stops when the leader is within the tolerance of everybody left, or
alone. Policies leave only between replications, their data stay, and any two are compared on the replications both
played, a prefix by construction.

The certificate is as good as the anytime interval: exact for normal differences. A policy that fails rarely and
badly (too little exploration) looks excellent until it fails, to any method that does not know how bad it can get. So
nothing is decided before `least` replications or on differences that have not varied, and skew is said aloud.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.files import write_whole
from sameluck.intervals import anytime_half_widths
from sameluck.reporting import tables
from sameluck.simulation.preconditions import checked_environment
from sameluck.simulation.simulate import simulate
from sameluck.validation import require_number

LEAST = 30
SKEWED = 2.0
BLOCK = 16  # replications simulated at once; dropping is decided one by one all the same


class Runner(NamedTuple):
    """One policy of a race when it stopped."""

    policy: str
    reward: float  # mean over the replications it played
    behind: float  # how much less it earned than who dropped it (or the leader), on the replications both played
    low: float  # of that difference, valid at whatever moment it stopped
    high: float
    skewness: float  # of that difference
    replications: int
    dropped_by: str | None  # who beat it; None if it was still in


@dataclass(frozen=True, eq=False, repr=False)
class Race:
    """What `race` returns: the leader board and what it cost."""

    experiment: Experiment
    tolerance: float
    level: float
    certified: bool  # the leader is within the tolerance of the best, with the level
    replications: int
    users: int  # real users, under replay
    policy_runs: int  # replications of a policy
    fixed_policy_runs: int  # with every policy in every replication
    fixed_users: int  # likewise, from the replications before anybody left
    naive_users: float  # the naive design at the same precision, every policy in every replication
    runners: tuple[Runner, ...]  # the leader first

    @property
    def best(self) -> str:
        """The leader."""
        return self.runners[0].policy

    @property
    def remaining(self) -> tuple[str, ...]:
        """Who was still in at the end."""
        return tuple(one.policy for one in self.runners if one.dropped_by is None)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The leader board as plain records."""
        return [one._asdict() for one in self.runners]

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        sure = f"with {100 * self.level:g}% confidence"
        if self.certified:
            outcome = f"{self.best} is within {self.tolerance:g} of the best {sure}."
        else:
            left = ", ".join(self.remaining)
            outcome = f"Undecided after {self.replications:,} replications: {left} are still in."
        said = (
            f"{outcome} It took {self.replications:,} replications, {self.users:,} users and "
            f"{self.policy_runs:,} policy runs; without dropping about {self.fixed_users:,} users and "
            f"{self.fixed_policy_runs:,} policy runs; the naive design about {self.naive_users:,.0f} users "
            "for the same precision."
        )
        return " ".join([said, *(f"Caution: {caution}" for caution in self.cautions)])

    @property
    def cautions(self) -> tuple[str, ...]:
        """What to know before believing the certificate."""
        rivals = [one for one in self.runners if one.dropped_by is None and one.policy != self.best]
        never = [one.policy for one in rivals if one.low == one.high]
        skewed = [one.policy for one in rivals if abs(one.skewness) > SKEWED]
        found = []
        if never:
            found.append(
                f"{', '.join(never)} earned exactly what {self.best} did, in every replication."
            )
        if skewed:
            found.append(
                f"the differences from {', '.join(skewed)} are skewed: a policy may fail rarely and badly; "
                "ask for more with least=..."
            )
        return tuple(found)

    def __str__(self) -> str:
        header = [
            "policy",
            "reward",
            "behind",
            f"{100 * self.level:g}% interval",
            "replications",
            "dropped by",
        ]
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
    policies: Mapping[str, Any],
    environment: Any,
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
    """Find a policy that is certainly within `tolerance` of the best.

    Args:
        policies: Name -> policy or its text form; two or more.
        environment: Where rewards come from, or its text form.
        tolerance: How much cumulative reward short of the best is good enough. Must be above 0: two policies that
            are nearly equal would race for ever.
        horizon: Periods in a replication.
        level: Confidence of the certificate.
        least: Replications before anything is decided; more, where a policy may fail rarely.
        most: Replications after which to give up undecided.
        arms: Their number, where the environment does not say.
        seed: The same seed gives the same race.
        progress: Called as `progress(replications, names still in)`.
        keep: A file to keep the race in after every block of replications; a race with the same settings goes on
            from it.
    """
    environment = as_environment(environment)
    require_number("tolerance", tolerance, above=0)
    require_number("level", level, above=0, at_most=1 - 1e-12)
    require_number("least", least, at_least=5)
    require_number("most", most, at_least=least)
    arms = environment.arms if arms is None else arms
    if arms is None:
        raise Invalid("say how many arms: the environment fits any number")
    experiment = Experiment(
        policies=policies, arms=arms, horizon=horizon, replications=most, seed=seed
    )
    if len(experiment.policies) < 2:
        raise Invalid("a race needs at least two policies")
    checked_environment(experiment, environment)
    rules = _Rules(tolerance, level, int(least))
    track = _Track(experiment, environment, rules, None if keep is None else Path(keep))
    track.run(progress)
    return track.result()


class _Rules(NamedTuple):
    tolerance: float
    level: float
    least: int


class _Track:
    """A race under way: rewards and pulls of every policy in every replication it played."""

    def __init__(
        self, experiment: Experiment, environment: Any, rules: _Rules, keep: Path | None
    ) -> None:
        self.experiment = experiment
        self.environment = environment
        self.rules = rules
        self.keep = keep
        self.names = list(experiment.policies)
        self.rewards: dict[str, list[float]] = {name: [] for name in self.names}
        self.dropped: dict[str, str] = {}
        self.played = 0
        self.users = 0
        self.everybody: list[int] = []  # users of the replications in which nobody had left yet
        self.certified = False
        self._load()

    @property
    def alive(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.dropped)

    def run(self, progress: Callable[[int, tuple[str, ...]], object] | None) -> None:
        while not self.certified and self.played < self.experiment.replications:
            self._block()
            self._save()
            if progress is not None:
                progress(self.played, self.alive)

    def _block(self) -> None:
        names = self.alive
        last = min(self.played + BLOCK, self.experiment.replications)
        some = {name: self.experiment.policies[name] for name in names}
        runs = simulate(
            self.experiment.replace(policies=some),
            self.environment,
            replications=range(self.played, last),
        )
        for row in range(runs.replications):
            still = [place for place, name in enumerate(names) if name not in self.dropped]
            for place in still:
                self.rewards[names[place]].append(float(runs.rewards[row, place, 0]))
            self.users += int(runs.pulls[row, still, 0].max(axis=0).sum())
            if not self.dropped:
                self.everybody.append(int(runs.interactions[row, 0]))
            self.played += 1
            if self.played >= self.rules.least and self._decide():
                return

    def _decide(self) -> bool:
        """Drop who is certainly beaten; True when the leader is certainly good enough."""
        each = 1 - (1 - self.rules.level) / (len(self.names) - 1)
        table = np.array([self.rewards[name][: self.played] for name in self.alive])
        behind, half = _differences(table, each)
        names = self.alive
        for place, name in enumerate(names):
            beaten = np.where(behind[:, place] - half[:, place] > 0)[0]
            if beaten.size:
                self.dropped[name] = names[int(beaten[np.argmax(behind[beaten, place])])]
        leader = int(table.mean(axis=1).argmax())
        left = [
            place
            for place, name in enumerate(names)
            if name not in self.dropped and place != leader
        ]
        worst = max((half[leader, place] - behind[leader, place] for place in left), default=0.0)
        self.certified = bool(worst <= self.rules.tolerance)
        return self.certified

    def result(self) -> Race:
        alive_means = {name: float(np.mean(self.rewards[name])) for name in self.alive}
        leader = max(alive_means, key=lambda name: alive_means[name])
        runners = sorted(
            (self._runner(name, leader) for name in self.names),
            key=lambda one: (
                one.policy != leader,
                one.dropped_by is not None,
                -one.replications,
                one.behind,
            ),
        )
        runs = sum(len(values) for values in self.rewards.values())
        return Race(
            experiment=self.experiment,
            tolerance=self.rules.tolerance,
            level=self.rules.level,
            certified=self.certified,
            replications=self.played,
            users=self.users,
            policy_runs=runs,
            fixed_policy_runs=self.played * len(self.names),
            fixed_users=round(self.played * float(np.mean(self.everybody))),
            naive_users=self._naive_users(runners),
            runners=tuple(runners),
        )

    def _runner(self, name: str, leader: str) -> Runner:
        many, rival = len(self.rewards[name]), self.dropped.get(name, leader)
        mine, theirs = np.array(self.rewards[name]), np.array(self.rewards[rival][:many])
        values = theirs - mine
        each = 1 - (1 - self.rules.level) / (len(self.names) - 1)
        half = 0.0 if name == leader else float(anytime_half_widths(values, each)[-1])
        behind, spread = float(values.mean()), float(values.std())
        skewness = float(np.mean(((values - behind) / spread) ** 3)) if spread else 0.0
        interval = (behind - half, behind + half)
        dropped_by = self.dropped.get(name)
        return Runner(name, float(mine.mean()), behind, *interval, skewness, many, dropped_by)

    def _naive_users(self, runners: Sequence[Runner]) -> float:
        """Every policy on its own users, as often as the closest rival's precision would then need."""
        rival = runners[1].policy
        many = len(self.rewards[rival])
        mine, theirs = (np.array(self.rewards[name][:many]) for name in (runners[0].policy, rival))
        shared = float((mine - theirs).var(ddof=1))
        ratio = float(mine.var(ddof=1) + theirs.var(ddof=1)) / shared if shared else 1.0
        return math.ceil(self.played * max(1.0, ratio)) * len(self.names) * self.experiment.horizon

    def _settings(self) -> str:
        where = text_forms.write(self.environment)
        # Not `most`: an undecided race may be taken up again with more.
        return f"{self.experiment.replace(replications=1).digest} {where} {tuple(self.rules)!r}"

    def _save(self) -> None:
        if self.keep is None:
            return
        state = {
            "settings": self._settings(),
            "rewards": self.rewards,
            "dropped": self.dropped,
            "played": self.played,
            "users": self.users,
            "everybody": self.everybody,
            "certified": self.certified,
        }
        write_whole(self.keep, json.dumps(state).encode())

    def _load(self) -> None:
        if self.keep is None or not self.keep.exists():
            return
        try:
            state = dict(json.loads(self.keep.read_text()))
            played = int(state["played"])
            rewards = {name: [float(x) for x in state["rewards"][name]] for name in self.names}
            dropped = {str(name): str(by) for name, by in dict(state["dropped"]).items()}
            users, everybody = int(state["users"]), [int(x) for x in state["everybody"]]
            settings, certified = str(state["settings"]), bool(state["certified"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise Invalid(f"{str(self.keep)!r} does not hold a race; name another file") from None
        if settings != self._settings():
            raise Invalid(
                f"{str(self.keep)!r} holds a race with other settings; name another file or remove it"
            )
        self.played, self.rewards, self.dropped = played, rewards, dropped
        self.users, self.everybody, self.certified = users, everybody, certified


def _differences(table: Floats, level: float) -> tuple[Floats, Floats]:
    """Row minus column: mean difference and anytime half-width, for every two policies (policy, policy)."""
    many = len(table)
    mean, half = np.zeros((many, many)), np.full((many, many), np.inf)
    for first in range(many):
        for second in range(many):
            values = table[first] - table[second]
            mean[first, second] = values.mean()
            if values.std() > 0:  # what has not varied yet proves nothing
                half[first, second] = anytime_half_widths(values, level)[-1]
    return mean, half
