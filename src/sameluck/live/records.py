"""What a live experiment answers: plain records."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from sameluck.reporting.wording import counted

ASSIGNED = "ASSIGNED"
STICKY = "STICKY"
NO_OPEN_SLOT = "NO_OPEN_SLOT"
NOT_RUNNING = "NOT_RUNNING"
NOT_IN_TRAFFIC_SHARE = "NOT_IN_TRAFFIC_SHARE"
DRAINING = "DRAINING"

REASONS = {
    ASSIGNED: "a new unit takes part",
    STICKY: "this unit takes part already: the same arm again",
    NO_OPEN_SLOT: "every open replication waits for rewards",
    NOT_RUNNING: "the experiment is paused, stopped or complete",
    NOT_IN_TRAFFIC_SHARE: "this unit is outside the traffic share",
    DRAINING: "the experiment is being stopped and needs nobody just now",
}


class Assignment(NamedTuple):
    """Which arm to show a unit. Says neither which policy asked nor in which replication."""

    id: str | None  # None if the unit does not take part: no reward is expected
    arm: str
    enrolled: bool
    reason: str  # one of REASONS


class Receipt(NamedTuple):
    """What became of a reported reward."""

    applied: bool  # it settled its entry, now
    duplicate: bool  # the same value was reported before
    value: float  # the value that counts


class Description(NamedTuple):
    """Everything about an assignment, for the analyst."""

    id: str
    experiment: str
    replication: int
    policy: str | None  # the owner of the entry; None where all policies share it
    arm: str
    arm_index: int
    position: int
    status: str  # assigned, exposed, settled or voided
    value: float | None
    source: str | None  # observed or default
    audit: bool
    assigned_at: str
    exposed_at: str | None
    settled_at: str | None
    due_at: str | None


class Status(NamedTuple):
    """How far an experiment has come."""

    name: str
    status: str
    reason: str
    planned: int  # replications
    opened: int
    complete: int
    prefix: int  # replications 0..prefix-1 are complete: what results use
    horizon: int
    users: int  # real users asked so far, audits included
    settled: int
    defaulted: int
    imported: int
    waiting: int  # assigned, no reward yet
    wanted: int  # entries that wait for a user
    voided: int
    answers: dict[str, int]  # calls by reason

    def __str__(self) -> str:
        calls = sum(self.answers.values())
        turned = [
            f"                {count:,} not enrolled: {REASONS.get(reason, reason)}"
            for reason, count in self.answers.items()
            if reason not in (ASSIGNED, STICKY)
        ]
        lines = [
            f"{self.name}: {self.status}" + (f" ({self.reason})" if self.reason else ""),
            f"  replications  {self.complete:,} complete of {self.planned:,} planned, "
            f"{self.opened - self.complete:,} open; results use the first {self.prefix:,}",
            f"  users         {self.users:,} asked, {self.settled:,} settled"
            f" ({self.defaulted:,} by default), {self.waiting:,} awaited, {self.voided:,} voided"
            + (f"; {self.imported:,} entries imported" if self.imported else ""),
            f"  wanted        {self._wanted()}",
            f"  calls         {calls:,}",
            *turned,
        ]
        return "\n".join(lines)

    def _wanted(self) -> str:
        if self.status in ("stopped", "complete"):
            return "nobody any more"
        when = "at this moment" if self.status in ("running", "draining") else "once it is resumed"
        return f"{counted(self.wanted, 'more user')}, {when}"


class Joining(NamedTuple):
    """What a policy that joins late will need."""

    policy: str
    replications: int  # already begun, which it walks through first
    finished: int  # of those, without asking anybody
    replayed: int  # periods it has played on what is known
    users_at_least: int  # entries it asks for at this moment; it will ask for more as it goes on
    users_so_far: int  # real users of the experiment before it progress

    def __str__(self) -> str:
        return (
            f"{self.policy} has replayed {counted(self.replayed, 'period')} of "
            f"{counted(self.replications, 'replication')} without a user and finished {self.finished:,} of them; at "
            f"this moment it asks for {counted(self.users_at_least, 'new user')}, and for more as it goes on (the "
            f"experiment has used {self.users_so_far:,}). Do not tune it on this ledger: it would be judged "
            "on what it was tuned on."
        )


def moment(microseconds: int | None) -> str | None:
    """A time as text, UTC."""
    if microseconds is None:
        return None
    seconds, rest = divmod(int(microseconds), 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest).isoformat()
