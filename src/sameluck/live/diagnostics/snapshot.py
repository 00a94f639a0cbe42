"""Diagnostics: what the rows of an experiment say about its assumptions. Reads rows; `checks` judges them.

Rewards, losses and delays are judged on the assignments made before the first that is still open: of later ones only
the quick have ended, and those are not like the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats, Ints
from sameluck.errors import Diverged, Invalid
from sameluck.experiment import Experiment
from sameluck.live import diagnostics as checks
from sameluck.live import records as say
from sameluck.live.databases.base import Transaction
from sameluck.live.diagnostics import Check, Outcome, span
from sameluck.live.engine.scheduler import Scheduler, is_randomised
from sameluck.live.ledger import read_replications, runs_of
from sameluck.live.options import Live
from sameluck.live.replications import GOING, found
from sameluck.reporting.wording import counted, sentence

SECOND = 1_000_000  # microseconds
OFTEN = 20  # an entry voided more often than this has something wrong with it
SLOW, ENOUGH = 3, 10  # times the slowest of so many complete replications
_OPEN = -1
_ROW = np.dtype(
    [
        ("arm", "i8"),
        ("assigned", "i8"),
        ("shown", "i8"),
        ("exposed", "?"),
        ("outcome", "i8"),
        ("overdue", "?"),
        ("value", "f8"),
        ("settled", "i8"),
    ]
)


class Snapshot(NamedTuple):
    """One experiment on one consistent state of the database."""

    transaction: Transaction
    id: int
    scheduler: Scheduler
    numbers: Sequence[int]  # of the replications begun
    live: Live
    now: int

    @property
    def experiment(self) -> Experiment:
        """What is being compared."""
        return self.scheduler.experiment


class _Ended(NamedTuple):
    """Assignments in the order they were made, up to the first that is still open."""

    arm: Ints
    outcome: Ints
    value: Floats
    delay: Floats  # seconds from showing to reward; of those observed


def diagnostics(snapshot: Snapshot, *, silence_is_zero: bool) -> tuple[Check, ...]:
    """Every check that applies."""
    rebuild = _rebuild(snapshot)
    calls = {str(reason): int(count) for reason, count in _all(snapshot, "answers")}
    ended = _ended(snapshot)
    return (
        rebuild,
        _open_slots(snapshot),
        checks.enrolment(calls),
        _sample_ratio(calls, snapshot.live.traffic_share),
        _drift(snapshot, ended),
        _loss(snapshot, ended, silence_is_zero=silence_is_zero),
        _delay(snapshot, ended),
        *_audit(snapshot),
        *(_same_policy(snapshot) if rebuild.verdict == "fine" else ()),
    )


def _all(snapshot: Snapshot, statement: str, **values: Any) -> list[tuple[Any, ...]]:
    return snapshot.transaction.all(statement, experiment=snapshot.id, **values)


def _rebuild(snapshot: Snapshot) -> Check:
    """Whether every replication is what the policies make of its ledger."""
    many = len(snapshot.numbers)
    try:
        for _ in read_replications(
            snapshot.transaction, snapshot.id, snapshot.scheduler, snapshot.numbers
        ):
            pass
    except (Diverged, Invalid) as error:
        return Check("rebuild", "alarm", sentence(str(error)), None, {"replications": many})
    said = (
        f"{counted(many, 'replication')} begun and derived from the ledger again: nothing differs."
    )
    return Check("rebuild", "fine", said, None, {"replications": many})


def _ended(snapshot: Snapshot) -> _Ended:
    each = snapshot.transaction.each("assignments", experiment=snapshot.id, now=snapshot.now)
    rows = np.fromiter(each, _ROW)
    rows = rows[np.argsort(rows["assigned"], kind="stable")]
    implicit = snapshot.live.exposure == "implicit"
    # Whose time is up has ended, whether or not anybody has ticked since.
    overdue, seen = rows["overdue"], rows["exposed"] | implicit
    rows["outcome"][overdue] = np.where(seen[overdue], Outcome.DEFAULTED, Outcome.VOIDED)
    rows["value"][overdue & seen] = snapshot.live.reward.default
    open_ones = np.flatnonzero(rows["outcome"] == _OPEN)
    rows = rows[: open_ones[0]] if open_ones.size else rows
    observed = rows[rows["outcome"] == Outcome.OBSERVED]
    delay = (observed["settled"] - observed["assigned" if implicit else "shown"]) / SECOND
    return _Ended(rows["arm"].copy(), rows["outcome"].copy(), rows["value"].copy(), delay)


def _drift(snapshot: Snapshot, ended: _Ended) -> Check:
    names = snapshot.experiment.arm_names
    # The default is part of what an arm pays: that fewer answer is a change, too.
    paid = ended.outcome != Outcome.VOIDED
    arm, value = ended.arm[paid], ended.value[paid]
    return checks.drift([value[arm == place] for place in range(len(names))], names)


def _loss(snapshot: Snapshot, ended: _Ended, *, silence_is_zero: bool) -> Check:
    names = snapshot.experiment.arm_names
    late = [0] * len(names)
    for arm, count in _all(snapshot, "count_late"):
        late[arm] = count
    blocks = checks.user_blocks(ended.arm.size)
    return checks.loss(
        ended.arm, blocks, ended.outcome, names, late=late, silence_is_zero=silence_is_zero
    )


def _delay(snapshot: Snapshot, ended: _Ended) -> Check:
    arm = ended.arm[ended.outcome == Outcome.OBSERVED]
    window = snapshot.live.reward.window_seconds
    return checks.delay(arm, ended.delay, snapshot.experiment.arm_names, window=window)


def _sample_ratio(calls: Mapping[str, int], share: float) -> Check:
    """The gate decides about units, and calls are counted: as many for each unit as those that take part make."""
    outside = calls.get(say.NOT_IN_TRAFFIC_SHARE, 0)
    inside = sum(calls.values()) - outside
    entered = calls.get(say.ASSIGNED, 0)
    each = 1.0 if not entered else 1 + calls.get(say.STICKY, 0) / entered
    found = checks.sample_ratio(round(inside / each), round(outside / each), share)
    return found._replace(details=found.details | {"calls_a_user": each})


def _audit(snapshot: Snapshot) -> list[Check]:
    if not snapshot.scheduler.audit_share:
        return []
    sums: dict[int, float] = {}
    unsettled = set()
    for number, difference in snapshot.transaction.each("audits", experiment=snapshot.id):
        if difference is None:
            unsettled.add(number)
        else:
            sums[number] = sums.get(number, 0.0) + difference
    differences = []
    for place, (number, state, *_) in enumerate(_all(snapshot, "replications")):
        if number != place or state != "complete" or number in unsettled:
            break
        if number in sums:
            differences.append(sums[number])
    return [checks.replay_audit(np.array(differences))]


def _same_policy(snapshot: Snapshot) -> list[Check]:
    """Every policy beside the first that is defined as it is."""
    groups: dict[str, list[str]] = {}
    for name, policy in snapshot.experiment.policies.items():
        groups.setdefault(text_forms.write(policy), []).append(name)
    groups = {text: names for text, names in groups.items() if len(names) > 1}
    if not groups:
        return []
    chosen = [name for names in groups.values() for name in names]
    end = np.array([snapshot.experiment.horizon])
    runs = runs_of(
        snapshot.transaction, snapshot.id, snapshot.scheduler, snapshot.numbers, end, chosen
    )
    earned = dict(zip(chosen, runs.rewards[:, :, -1].T, strict=True))
    found = []
    for first, *others in groups.values():
        exact = _exact(snapshot.experiment, first)
        for other in others:
            differences, names = earned[other] - earned[first], (other, first)
            found.append(checks.same_policy(differences, exact=exact, names=names))
    return found


def _exact(experiment: Experiment, policy: str) -> bool:
    """Whether policies defined as this one must earn the same to the bit."""
    design = experiment.design
    shared = design.shares_rewards
    same_coins = design.noise_owner("a") == design.noise_owner("b")
    return shared and (same_coins or not is_randomised(experiment.policies[policy]))


def _open_slots(snapshot: Snapshot) -> Check:
    """What the experiment waits for."""
    _, status, _ = found(snapshot.transaction.one("experiment_now", experiment=snapshot.id))
    entries = {"wanted": 0, "assigned": 0}
    for state, _, count in _all(snapshot, "count_entries"):
        entries[state] = entries.get(state, 0) + count
    times = _all(snapshot, "replication_times")
    voided = [
        {
            "replication": replication,
            "arm": snapshot.experiment.arm_names[arm],
            "position": position,
            "times": count,
        }
        for replication, arm, position, count in _all(snapshot, "often_voided", often=OFTEN)
    ]
    head, age, slowest = _head_of_line(times, snapshot.now)
    details = {
        "status": status,
        "wanted": entries["wanted"],
        "assigned": entries["assigned"],
        "head_of_line": head,
        "open_for_seconds": age,
        "slowest_complete_seconds": slowest,
        "voided_often": voided,
    }
    if status in GOING:
        sentences = [_waiting(entries, head, age), *_slow(age, slowest), *_voided_often(voided)]
    else:
        sentences = [_at_rest(status, head)]
    verdict = "watch" if len(sentences) > 1 else "fine"
    return Check("open slots", verdict, " ".join(sentences), None, details)


def _head_of_line(
    times: Sequence[tuple[Any, ...]], now: int
) -> tuple[int | None, float | None, float | None]:
    """The lowest open replication, for how long it has been open, and how long the slowest complete one took."""
    still = [(number, opened) for number, opened, completed in times if completed is None]
    took = [completed - opened for _, opened, completed in times if completed is not None]
    slowest = max(took) / SECOND if len(took) >= ENOUGH else None
    if not still:
        return None, None, slowest
    number, opened = min(still)
    return number, (now - opened) / SECOND, slowest


def _at_rest(status: str, head: int | None) -> str:
    if head is None:
        return "No replication is open."
    again = "" if status == "stopped" else " until it is resumed"
    return f"The experiment is {status}: nobody is enrolled, and replication {head} stays unfinished{again}."


def _waiting(entries: Mapping[str, int], head: int | None, age: float | None) -> str:
    if head is None or age is None:
        return "No replication is open."
    wanted, assigned = entries["wanted"], entries["assigned"]
    waiting = "entry waits" if wanted == 1 else "entries wait"
    return (
        f"{wanted:,} {waiting} for a user and {assigned:,} for a reward. Results wait for replication {head}, open "
        f"for {span(age)}."
    )


def _slow(age: float | None, slowest: float | None) -> list[str]:
    if age is None or not slowest or age <= SLOW * slowest:
        return []
    return [
        f"No complete one took longer than {span(slowest)}: see what holds it up (too few users, rewards that never "
        "come, a long window)."
    ]


def _voided_often(voided: Sequence[Mapping[str, Any]]) -> list[str]:
    if not voided:
        return []
    worst = voided[0]
    return [
        f"{counted(len(voided), 'entry was', 'entries were')} voided more than {OFTEN} times, that of arm "
        f"{worst['arm']} in replication {worst['replication']} {worst['times']:,} times: can that arm be shown at "
        "all?"
    ]
