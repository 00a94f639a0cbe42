"""What `race` returns: the policies in order, the outcome and its cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sameluck.arrays import Floats
from sameluck.experiment import Experiment
from sameluck.frames import Frames
from sameluck.inference.display import reporting
from sameluck.inference.scale import ScaleMismatch
from sameluck.inference.unseen import unseen_share
from sameluck.inference.variance_ratios import variance_ratio
from sameluck.reporting import plots, tables
from sameluck.wording import percent

LARGE_SKEWNESS = 2.0


class Runner(NamedTuple):
    """One policy at the end of a race."""

    policy: str
    reward: float  # mean over its replications
    behind: float  # mean reward of the policy that beat it (else the leader) minus its own, on common replications
    low: float  # anytime bounds of that difference, each at the level over all policies
    high: float
    skewness: float  # of that difference
    replications: int
    dropped_by: str | None  # the policy that beat it; None if it remained


@dataclass(frozen=True, eq=False, repr=False)
class Race(Frames):
    """What `race` returns: the policies in order, and the cost."""

    experiment: Experiment
    tolerance: float
    level: float
    certified: bool  # the leader is within the tolerance of the best, at the level
    failures: float  # the share of replications in which a policy may fail unseen
    replications: int
    users: int  # real users in total, under replay, or naive if the arms move
    policy_runs: int  # replications, summed over policies
    fixed_policy_runs: int  # without dropping: every policy in every replication
    fixed_users: int  # without dropping, at the mean of the replications before the first drop
    naive_users: float  # under the naive design, for the same precision and without dropping
    runners: tuple[Runner, ...]  # the leader first
    naive_users_low: float = 0.0  # the interval of `naive_users`, at the level
    naive_users_high: float = math.inf
    scale: ScaleMismatch | None = None  # policies that assume another scale of rewards
    vetoed: tuple[
        str, ...
    ] = ()  # rare failures of the leader that would reverse the decision, as sentences
    moving_environment: str | None = None

    _index = ("policy",)

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
            unseen = unseen_share(self.replications, self.level)
            outcome = (
                f"{self.best} is within {self.tolerance:g} of the best with {level} confidence, failures in up to "
                f"{100 * unseen:.2g}% of replications not excluded."
            )
        else:
            names = ", ".join(self.remaining)
            outcome = f"Undecided after {self.replications:,} replications: {names} remain."
        cautions = (f"Caution: {caution}" for caution in self.cautions)
        return " ".join([outcome, self._cost, *cautions])

    @property
    def _cost(self) -> str:
        took = f"{self.replications:,} replications, {self.users:,} users and {self.policy_runs:,} policy runs"
        undropped = f"without dropping about {self.fixed_users:,} users and {self.fixed_policy_runs:,} policy runs"
        low, high = (
            f"{one:,.0f}" if math.isfinite(one) else "no bound"
            for one in (self.naive_users_low, self.naive_users_high)
        )
        naive = f"the naive design about {self.naive_users:,.0f} users ({low} to {high}) for the same precision"
        dropped = [undropped] if self.policy_runs < self.fixed_policy_runs else []
        others = [naive] if self.experiment.design.shares_rewards else []
        return f"It took {'; '.join([took, *dropped, *others])}."

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences to read before relying on the certificate."""
        rivals = self.runners[1:]
        fixed = [one for one in rivals if one.dropped_by is None and not math.isfinite(one.low)]
        equal = [one.policy for one in fixed if one.behind == 0]
        skewed = [one.policy for one in rivals if abs(one.skewness) > LARGE_SKEWNESS]
        sentences = []
        if equal:
            sentences.append(
                f"{', '.join(equal)} earned exactly what {self.best} did, in every replication, so how far they may "
                "differ is not known; leave out policies that are the same."
            )
        if skewed:
            sentences.append(
                f"the differences from {', '.join(skewed)} are skewed: a policy may fail rarely and badly. A smaller "
                f"share than failures={self.failures:g} takes more replications and shows rarer failures."
            )
        sentences += [
            f"{reason}: it is not certified before that is settled." for reason in self.vetoed
        ]
        wording = reporting("cautions")
        movement = wording.movement_caution(self.moving_environment)
        return (*movement, *sentences, *wording.scale_caution(self.scale))

    def __str__(self) -> str:
        return f"{tables.text_table(*self._table)}\n\n{tables.wrapped(self.verdict)}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title = f"Race of {len(self.runners):,} policies over {self.experiment.horizon:,} periods"
        return tables.notebook(title, *self._table, [self.verdict])

    @property
    def _table(self) -> tuple[list[str], list[list[str]]]:
        bounds = f"{percent(self.level)} bounds"
        header = ["policy", "reward", "behind", bounds, "replications", "dropped by"]
        return header, [
            [
                one.policy,
                f"{one.reward:,.2f}",
                *(["-", "-"] if one.policy == self.best else _behind(one)),
                f"{one.replications:,}",
                one.dropped_by or "-",
            ]
            for one in self.runners
        ]

    def plot(self, path: str | Path | None = None, *, ax: plots.Axes | None = None) -> plots.Figure:
        """How far each policy is behind, with its bounds; written to `path` if given, or drawn on `ax`."""
        curves = [
            plots.Curve(
                f"{one.policy} minus {one.dropped_by or self.best}",
                (self.experiment.horizon,),
                (-one.behind,),
                (-one.high,),
                (-one.low,),
            )
            for one in self.runners[1:]
        ]
        title = f"race to {self.best}, {self.replications:,} replications"
        figure = plots.draw_effects(
            curves, level=self.level, title=title, scope=" (anytime)", ax=ax
        )
        return plots.saved(figure, path)


def _behind(one: Runner) -> list[str]:
    bounds = f"{one.low:,.2f} to {one.high:,.2f}" if math.isfinite(one.low) else "no bounds"
    return [f"{one.behind:,.2f}", bounds]


class NaiveUsers(NamedTuple):
    """How many users the naive design takes, with the interval of this number."""

    users: float
    low: float
    high: float


def naive_users(
    leader: Floats, rival: Floats, replications: int, each: int, level: float
) -> NaiveUsers:
    """Every policy on its own users, in as many replications as the leader and its rival need.

    `each` is how many users such a replication takes.
    """
    ratio = variance_ratio(leader, rival, level)
    if not math.isfinite(ratio.value):  # the difference does not vary
        ratio = ratio._replace(value=1.0, low=1.0, high=1.0)
    return NaiveUsers(
        *(
            math.ceil(replications * max(1.0, one)) * each if one < math.inf else one
            for one in ratio
        )
    )
