"""How far an experiment is, and when it will have its planned replications."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from sameluck.live.records import ReplicationStatus, Status
from sameluck.service.dashboard.findings import Finding
from sameluck.wording import counted, duration

RECENT = 20  # completed replications from which the pace is measured
MOST_BARS = 120


class Bar(NamedTuple):
    """One replication in the strip: its place and width in per cent, and how full it is."""

    x: float
    width: float
    height: float
    kind: str  # counts, waits or open


class Progress(NamedTuple):
    """Counts and times of an experiment."""

    counted: float  # per cent of the planned replications
    open: float
    bars: list[Bar]
    sentence: str
    facts: list[tuple[str, str]]
    left: str  # "about 3 days to the plan", or why that is not known


def progress_of(
    status: Status, replications: Sequence[ReplicationStatus], now: datetime
) -> Progress:
    """The progress of an experiment."""
    target = status.planned if status.stop_after is None else status.stop_after
    left = _left(status, replications, target, now)
    share = 100 / max(status.planned, 1)
    return Progress(
        share * status.prefix,
        share * (status.opened - status.prefix),
        _bars(status, replications),
        _sentence(status),
        [
            (f"To the plan ({target:,})", left),
            *_going_on(status, replications, now),
            ("Real users", f"{status.users:,} asked, {status.settled:,} answered"),
            ("At this moment", _moment(status)),
            *_others(status),
        ],
        left,
    )


def milestones(
    finding: Finding, replications: Sequence[ReplicationStatus]
) -> list[tuple[str, str]]:
    """What could be said since when, the latest first: a time and a sentence."""
    marks = [
        (finding.first_at, "First interval with bounds, at replication {}"),
        (finding.decided_at, "The interval left zero at replication {}"),
    ]
    found = []
    for number, words in marks:
        ends = [one.completed_at for one in replications[: number or 0]]
        if ends and all(ends):
            found.append((max(end for end in ends if end), words.format(number)))
    return found[::-1]


def parsed(moment: str) -> datetime:
    """A time of the records."""
    return datetime.fromisoformat(moment).replace(tzinfo=UTC)


def _left(
    status: Status, replications: Sequence[ReplicationStatus], target: int, now: datetime
) -> str:
    if status.status in ("complete", "stopped"):
        return "it has ended"
    if status.status in ("paused", "failed"):
        return "nothing happens until it is resumed"
    missing = (status.opened if status.status == "draining" else target) - status.complete
    pace = _seconds_each(replications, now)
    if pace is None or missing <= 0:
        return "not known yet" if missing > 0 else "about to end"
    return _about(missing * pace)


def _seconds_each(replications: Sequence[ReplicationStatus], now: datetime) -> float | None:
    """Seconds from one replication to the next, by the last ones; None if too few are complete."""
    ends = sorted(parsed(one.completed_at) for one in replications if one.completed_at)
    recent = ends[-RECENT:]
    if len(recent) < 2:
        return None
    first = min(parsed(one.opened_at) for one in replications)
    began = ends[-RECENT - 1] if len(ends) > RECENT else first
    return (now - began).total_seconds() / len(recent)


def _about(seconds: float) -> str:
    return f"about {duration(float(f'{max(seconds, 1):.2g}'))}"


def _going_on(
    status: Status, replications: Sequence[ReplicationStatus], now: datetime
) -> list[tuple[str, str]]:
    """What draining now would take, and the pace; nothing while users do not arrive."""
    pace = _seconds_each(replications, now)
    complete = [one.settled for one in replications if one.state == "complete"]
    if pace is None or status.status != "running":
        return []
    usual = sum(complete) / len(complete)
    open_ones = [one.settled for one in replications if one.state == "open"]
    users = sum(max(usual - settled, 0.0) for settled in open_ones)
    drain = f"{_about(pace * users / usual)}, {float(f'{users:.2g}'):,.0f} more users"
    per_day = float(f"{86_400 * usual / max(pace, 1e-6):.3g}")
    return [
        (f"To drain now ({status.opened:,})", drain),
        ("Pace", f"{per_day:,.0f} users a day, {duration(float(f'{pace:.2g}'))} a replication"),
    ]


def _moment(status: Status) -> str:
    wanted = counted(status.wanted - status.held, "user wanted", "users wanted")
    return f"{wanted}, {counted(status.waiting, 'reward awaited', 'rewards awaited')}"


def _others(status: Status) -> list[tuple[str, str]]:
    facts = []
    if status.defaulted:
        facts.append(("No reward in the window", f"{status.defaulted:,}, counted by default"))
    if status.voided:
        facts.append(("Voided", f"{status.voided:,} who never saw their arm"))
    turned = sum(
        calls for reason, calls in status.answers.items() if reason not in ("ASSIGNED", "STICKY")
    )
    if turned:
        facts.append(("Got the fallback arm", f"{turned:,} calls"))
    return facts


def _sentence(status: Status) -> str:
    waiting = status.complete - status.prefix
    first = (
        f"Results use {counted(status.prefix, 'replication')} without a gap."
        if status.prefix
        else "No replication is complete yet."
    )
    if waiting > 0 and not status.prefix:
        first = "Replication 0 is not complete yet."
    if waiting > 0:
        later = counted(waiting, "later one is", "later ones are")
        first += f" {later} complete too, but only used in order: a quick replication is not like a slow one."
    return first


def _bars(status: Status, replications: Sequence[ReplicationStatus]) -> list[Bar]:
    """One bar for each planned replication that has begun; none if there are too many to see."""
    if status.planned > MOST_BARS:
        return []
    complete = [one.settled for one in replications if one.state == "complete"]
    usual = (
        sum(complete) / len(complete)
        if complete
        else max((one.settled for one in replications), default=1) * 2
    )
    width = 100 / max(status.planned, 1)
    bars = []
    for place in range(status.planned):
        if place >= len(replications):
            bars.append(Bar(place * width, width * 0.84, 100, "none"))
            continue
        one = replications[place]
        done = one.state == "complete"
        kind = "counts" if place < status.prefix else "waits"
        height = 100 if done else min(95.0, 100 * one.settled / max(usual, 1))
        bars.append(Bar(place * width, width * 0.84, height, kind))
    return bars
