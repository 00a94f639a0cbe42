"""`rebuild`: every replication agrees with its policies' requests.

`open slots`: the entries that the experiment waits for, and whether one of them holds it up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from sameluck.live.databases.rows import ACTIVE, EntryCount, ExperimentRow, ReplicationProgress
from sameluck.live.diagnostics.check import Check, Details, diagnostic
from sameluck.live.diagnostics.snapshot import SECOND, Snapshot
from sameluck.live.diagnostics.summaries import MAX_VOIDS
from sameluck.live.options import DAY, LONG_DAYS
from sameluck.live.records import moment
from sameluck.wording import counted, duration, sentence

MAX_ROWS = 100  # of entries that were voided often
SLOW_FACTOR = 3  # times the slowest complete replication
MIN_COMPLETE = 10  # replications, to know the slowest


@diagnostic("rebuild")
def _rebuild(snapshot: Snapshot) -> Iterator[Check]:
    begun = len(snapshot.ledger.numbers)
    verdict = "fine" if snapshot.divergence is None else "alarm"
    derived = f"{counted(begun, 'replication')} begun and derived from the ledger again"
    text = sentence(snapshot.divergence or f"{derived}: nothing differs")
    yield Check("rebuild", verdict, text, None, {"replications": begun})


@diagnostic("open slots")
def _open_slots(snapshot: Snapshot) -> Iterator[Check]:
    [status] = [row.status for row in snapshot.rows(ExperimentRow, "experiment_now")]
    entries = {"wanted": 0, "assigned": 0}
    entries |= dict(snapshot.rows(EntryCount, "count_entries"))
    names = snapshot.experiment.arm_names
    often = chain.from_iterable(summary.voided_often for summary in snapshot.summaries.values())
    voided: list[Details] = [
        row._asdict() | {"arm": names[row.arm]}
        for row in sorted(often, key=lambda row: (-row.times, row.replication))[:MAX_ROWS]
    ]
    times = snapshot.rows(ReplicationProgress, "replication_progress")
    took = [row.completed_us - row.opened_us for row in times if row.completed_us is not None]
    slowest = max(took) / SECOND if len(took) >= MIN_COMPLETE else None
    head = min((row for row in times if row.completed_us is None), default=None)
    age = (snapshot.now - head.opened_us) / SECOND if head else None
    details = {
        "status": status,
        "wanted": entries["wanted"],
        "assigned": entries["assigned"],
        "head_of_line": head.number if head else None,
        "open_for_seconds": age,
        "slowest_complete_seconds": slowest,
        "voided_often": voided,
    }
    sentences = ["No replication is open."]
    if head and age is not None and status in ACTIVE:
        waiting = "entry waits" if entries["wanted"] == 1 else "entries wait"
        sentences = [
            f"{entries['wanted']:,} {waiting} for a user and {entries['assigned']:,} for a reward. Results wait for "
            f"replication {head.number}, {_opened(head, age)}",
            *_slow(age, slowest),
        ]
    elif head:
        until = "" if status == "stopped" else " until it is resumed"
        text = f"no unit is enrolled, and replication {head.number} stays unfinished{until}."
        sentences = [f"The experiment is {status}: {text}"]
    if status in ACTIVE:
        sentences += _voided_often(voided)
    verdict = "watch" if len(sentences) > 1 else "fine"
    yield Check("open slots", verdict, " ".join(sentences), None, details)


def _opened(head: ReplicationProgress, age: float) -> str:
    if 0 <= age <= LONG_DAYS * DAY:
        return f"open for {duration(age)}."
    return f"opened at {moment(head.opened_us)}, far from the time of this clock: is it right?"


def _slow(age: float, slowest: float | None) -> list[str]:
    if not slowest or age <= SLOW_FACTOR * slowest:
        return []
    return [
        f"No complete replication took longer than {duration(slowest)}: look for the cause (too few users, rewards "
        "that never come, a long window)."
    ]


def _voided_often(voided: Sequence[Details]) -> list[str]:
    if not voided:
        return []
    worst = "arm {arm} in replication {replication} {times:,} times".format_map(voided[0])
    return [
        f"{counted(len(voided), 'entry was', 'entries were')} voided more than {MAX_VOIDS} times: "
        f"{worst}. Can that arm be shown at all?"
    ]
