"""`rebuild`: whether every replication is what the policies do with its ledger.

`open slots`: the entries that the experiment waits for, and whether one holds it up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sameluck.live.databases.rows import ACTIVE, CurrentRow, EntryCount, ReplicationTimes, VoidCount
from sameluck.live.diagnostics.check import Check, Details, diagnostic
from sameluck.live.diagnostics.snapshot import SECOND, Snapshot
from sameluck.live.options import DAY, LONG_DAYS
from sameluck.live.records import moment
from sameluck.wording import counted, duration, sentence

OFTEN = 20  # voids of one entry; more deserve attention
SLOW, ENOUGH = 3, 10  # times the slowest complete replication, of at least so many


@diagnostic("rebuild")
def _rebuild(snapshot: Snapshot) -> Iterator[Check]:
    begun = len(snapshot.ledger.numbers)
    verdict = "fine" if snapshot.divergence is None else "alarm"
    text = (
        f"{counted(begun, 'replication')} begun and derived from the ledger again: nothing differs"
    )
    text = sentence(snapshot.divergence or text)
    yield Check("rebuild", verdict, text, None, {"replications": begun})


@diagnostic("open slots")
def _open_slots(snapshot: Snapshot) -> Iterator[Check]:
    [(_, status, *_)] = snapshot.rows(CurrentRow, "experiment_now")
    entries = {"wanted": 0, "assigned": 0}
    for state, _, count in snapshot.rows(EntryCount, "count_entries"):
        entries[state] = entries.get(state, 0) + count
    names = snapshot.experiment.arm_names
    voided: list[Details] = [
        one._asdict() | {"arm": names[one.arm]}
        for one in snapshot.rows(VoidCount, "often_voided", often=OFTEN)
    ]
    times = snapshot.rows(ReplicationTimes, "replication_times")
    slowest = _slowest(times)
    head = min((one for one in times if one.completed_us is None), default=None)
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
        sentences = [
            f"The experiment is {status}: no unit is enrolled, and replication {head.number} stays unfinished{until}."
        ]
    if status in ACTIVE:
        sentences += _voided_often(voided)
    verdict = "watch" if len(sentences) > 1 else "fine"
    yield Check("open slots", verdict, " ".join(sentences), None, details)


def _opened(head: ReplicationTimes, age: float) -> str:
    if 0 <= age <= LONG_DAYS * DAY:
        return f"open for {duration(age)}."
    return f"opened at {moment(head.opened_us)}, far from the time of this clock: is it right?"


def _slowest(times: Sequence[ReplicationTimes]) -> float | None:
    """The seconds that the slowest complete replication took; None if few are complete."""
    took = [one.completed_us - one.opened_us for one in times if one.completed_us is not None]
    return max(took) / SECOND if len(took) >= ENOUGH else None


def _slow(age: float, slowest: float | None) -> list[str]:
    if not slowest or age <= SLOW * slowest:
        return []
    return [
        f"No complete one took longer than {duration(slowest)}: see what holds it up (too few users, rewards that "
        "never come, a long window)."
    ]


def _voided_often(voided: Sequence[Details]) -> list[str]:
    if not voided:
        return []
    worst = "arm {arm} in replication {replication} {times:,} times".format_map(voided[0])
    return [
        f"{counted(len(voided), 'entry was', 'entries were')} voided more than {OFTEN} times, that of "
        f"{worst}: can that arm be shown at all?"
    ]
