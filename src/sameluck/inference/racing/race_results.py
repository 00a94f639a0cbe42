"""`Race`: the policies of a race in order, its outcome and its cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from sameluck.experiment import Experiment
from sameluck.frames import Frames
from sameluck.inference.assumptions import ScaleMismatch
from sameluck.inference.display import Displayed


class Runner(NamedTuple):
    """Policy at the end of a race."""

    policy: str
    reward: float  # mean over its replications
    # Mean loss against the policy that beat it, else the leader, on common replications.
    behind: float
    low: float  # anytime bounds of `behind`, each at the level over all policies
    high: float
    skewness: float  # of the differences behind
    replications: int
    dropped_by: str | None  # the policy that beat it; None if it remained


@dataclass(frozen=True, eq=False, repr=False)
class Race(Displayed, Frames):
    """Result of `race`: the policies in order, and the cost."""

    experiment: Experiment
    tolerance: float
    level: float
    certified: bool  # the leader is within the tolerance of the best, at the level
    failures: float  # the share of replications in which a policy may fail unseen
    replications: int
    users: int  # real users in total, under replay, or naive if the arms are non-stationary
    policy_runs: int  # replications, summed over policies
    fixed_policy_runs: int  # without dropping: every policy in every replication
    fixed_users: int  # without dropping, at the mean of the replications before the first drop
    naive_users: float  # under the naive design, for the same precision and without dropping
    runners: tuple[Runner, ...]  # the leader first
    naive_users_low: float = 0.0  # the interval of `naive_users`, at the level
    naive_users_high: float = math.inf
    scale: ScaleMismatch | None = None  # policies that assume another scale of rewards
    vetoed: tuple[str, ...] = ()  # the leader's rare failures that would reverse the decision
    moving_environment: str | None = None  # name of a simulated environment whose arms move

    _index = ("policy",)
    _presentation = "races"

    @property
    def best(self) -> str:
        """Leader of the race."""
        return self.runners[0].policy

    @property
    def remaining(self) -> tuple[str, ...]:
        """Policies that were not dropped, the leader first."""
        return tuple(runner.policy for runner in self.runners if runner.dropped_by is None)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the runners as plain records."""
        return [runner._asdict() for runner in self.runners]
