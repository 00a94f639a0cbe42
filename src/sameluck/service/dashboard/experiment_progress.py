"""Progress of an experiment, and the time left until its planned replications are complete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from sameluck.live.records import ReplicationStatus, Status
from sameluck.service.dashboard.findings import Finding
from sameluck.wording import counted, duration

RECENT = 20  # completed replications from which the pace is measured
MAX_BARS = 120


class ReplicationBar(NamedTuple):
    """One replication in the strip; its position, width and height are in per cent."""

    x: float
    width: float
    height: float
    css_class: str  # counts, waits or none


class Progress(NamedTuple):
    """Counts and times of an experiment."""

    counted: float  # per cent of the planned replications
    open: float
    bars: list[ReplicationBar]
    sentence: str
    facts: list[tuple[str, str]]
    left: str  # such as "about 3 days", or why that is unknown


def progress_of(
    status: Status, replications: Sequence[ReplicationStatus], now: datetime
) -> Progress:
    target = status.planned if status.stop_after is None else status.stop_after
    left = _left(status, replications, target, now)
    share = 100 / max(status.planned, 1)
    requested = counted(status.wanted - status.held, "user wanted", "users wanted")
    awaited = counted(status.waiting, "reward awaited", "rewards awaited")
    return Progress(
        share * status.prefix,
        share * (status.opened - status.prefix),
        _bars(status, replications),
        _sentence(status),
        [
            (f"To the plan ({target:,})", left),
            *_pace_facts(status, replications, now),
            ("Real users", f"{status.users:,} enrolled, {status.settled:,} with a reward"),
            ("Now", f"{requested}, {awaited}"),
            *_exceptions(status),
        ],
        left,
    )


def milestones(
    finding: Finding, replications: Sequence[ReplicationStatus]
) -> list[tuple[str, str]]:
    """Return the times at which an interval first had bounds and first excluded 0, the latest first."""
    marks = [
        (finding.first_at, "First interval with bounds, at replication {}"),
        (finding.decided_at, "The interval excludes zero since replication {}"),
    ]
    reached = []
    for number, sentence in marks:
        ends = [replication.completed_at for replication in replications[: number or 0]]
        if ends and all(ends):
            reached.append((max(end for end in ends if end), sentence.format(number)))
    return reached[::-1]


def parsed(moment: str) -> datetime:
    return datetime.fromisoformat(moment).replace(tzinfo=UTC)


def _left(
    status: Status, replications: Sequence[ReplicationStatus], target: int, now: datetime
) -> str:
    if status.status in ("complete", "stopped"):
        return "ended"
    if status.status in ("paused", "failed"):
        return "waits until it is resumed"
    missing = (status.opened if status.status == "draining" else target) - status.complete
    pace = _seconds_each(replications, now)
    if pace is None or missing <= 0:
        return "unknown yet" if missing > 0 else "about to end"
    return _about(missing * pace)


def _seconds_each(replications: Sequence[ReplicationStatus], now: datetime) -> float | None:
    """Return the mean seconds per recent replication; None if too few are complete."""
    ends = sorted(parsed(item.completed_at) for item in replications if item.completed_at)
    recent = ends[-RECENT:]
    if len(recent) < 2:
        return None
    first = min(parsed(item.opened_at) for item in replications)
    # The recent replications began when the replication before them ended.
    began = ends[-RECENT - 1] if len(ends) > RECENT else first
    return (now - began).total_seconds() / len(recent)


def _about(seconds: float) -> str:
    return f"about {duration(float(f'{max(seconds, 1):.2g}'))}"


def _pace_facts(
    status: Status, replications: Sequence[ReplicationStatus], now: datetime
) -> list[tuple[str, str]]:
    """Return the cost of draining now, and the pace; empty while no users are enrolled."""
    pace = _seconds_each(replications, now)
    complete = [item.settled for item in replications if item.state == "complete"]
    if pace is None or status.status != "running":
        return []
    usual = sum(complete) / len(complete)
    still_open = [item.settled for item in replications if item.state == "open"]
    users = sum(max(usual - settled, 0.0) for settled in still_open)
    drain = f"{_about(pace * users / usual)}, {float(f'{users:.2g}'):,.0f} more users"
    per_day = float(f"{86_400 * usual / max(pace, 1e-6):.3g}")
    return [
        (f"To drain now ({status.opened:,})", drain),
        ("Pace", f"{per_day:,.0f} users per day, {duration(float(f'{pace:.2g}'))} per replication"),
    ]


def _exceptions(status: Status) -> list[tuple[str, str]]:
    facts = []
    if status.defaulted:
        facts.append(("No reward in the window", f"{status.defaulted:,}, with the default reward"))
    if status.voided:
        facts.append(("Voided", f"{status.voided:,} who never saw their arm"))
    fallbacks = sum(
        calls for reason, calls in status.answers.items() if reason not in ("ASSIGNED", "STICKY")
    )
    if fallbacks:
        facts.append(("Got the fallback arm", f"{fallbacks:,} calls"))
    return facts


def _sentence(status: Status) -> str:
    waiting = status.complete - status.prefix
    first = f"{'Replication 0 is not' if waiting > 0 else 'No replication is'} complete yet."
    if status.prefix:
        first = f"Results use {counted(status.prefix, 'replication')} without a gap."
    if waiting > 0:
        later = counted(waiting, "later replication is", "later replications are")
        first += f" {later} complete too, but used only in order, because quick replications differ from slow ones."
    return first


def _bars(status: Status, replications: Sequence[ReplicationStatus]) -> list[ReplicationBar]:
    """Return a bar for each planned replication; none if there are too many to see."""
    if status.planned > MAX_BARS:
        return []
    complete = [item.settled for item in replications if item.state == "complete"]
    usual = 2.0 * max((item.settled for item in replications), default=1)
    if complete:
        usual = sum(complete) / len(complete)
    width = 100 / max(status.planned, 1)
    bars = []
    for index in range(status.planned):
        height: float = 100
        css_class = "none"
        if index < len(replications):
            css_class = "counts" if index < status.prefix else "waits"
            if replications[index].state != "complete":
                height = min(95.0, 100 * replications[index].settled / max(usual, 1))
        bars.append(ReplicationBar(index * width, width * 0.84, height, css_class))
    return bars
