"""`sample ratio`: whether the traffic gate admits its share. `enrolment`: whether calls find an open entry.

`visits`: whether units that call often are enrolled more often.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import scipy

from sameluck.errors import Invalid
from sameluck.live import records
from sameluck.live.databases.rows import ArrivalRow
from sameluck.live.diagnostics.check import ALARM, Check, Details, diagnostic, p_text, verdict_of
from sameluck.live.diagnostics.snapshot import Snapshot
from sameluck.validation import require_number
from sameluck.wording import counted

CALLS = 100
PRIOR_USERS = 100  # weight of the prior on the gate's share: standard deviation 0.05 at one half
CROWDED_OUT = 0.5  # share of calls without an open entry, of those that could be enrolled
UNEVEN = 1.5  # times the share of units enrolled
BY_DESIGN = {records.NOT_IN_TRAFFIC_SHARE, records.NOT_RUNNING, records.DRAINING}


def sample_ratio(inside: int, outside: int, share: float) -> Check:
    """Whether the traffic gate admits the share it is set to; the p-value is valid after every user.

    The evidence against the share s is the ratio of the users' likelihood with the share drawn from
    Beta(100 s, 100 (1 - s)) to that under s, a martingale of mean 1; the p-value is one over it, at most 1
    (Lindon and Malek, 2022).
    """
    require_number("share", share, above=0, at_most=1)
    if min(inside, outside) < 0:
        raise Invalid(f"counts of users must be >= 0, got {inside} and {outside}")
    total = inside + outside
    details: Details = {"inside": inside, "outside": outside, "share": float(share)}
    details["found"] = inside / total if total else None
    if share == 1:
        kept_out = f"All traffic may enter, yet the gate kept out {counted(outside, 'user')}."
        sentence = kept_out if outside else "All traffic may enter: no gate to check."
        return Check("sample ratio", "alarm" if outside else "fine", sentence, None, details)
    if total < CALLS:
        need = f"The traffic gate needs {CALLS} users to be judged; so far: {total}."
        return Check("sample ratio", "unknown", need, None, details)
    a, b = PRIOR_USERS * share, PRIOR_USERS * (1 - share)
    evidence = float(scipy.special.betaln(a + inside, b + outside) - scipy.special.betaln(a, b))
    evidence -= inside * math.log(share) + outside * math.log1p(-share)
    p_value = math.exp(-max(0.0, evidence))
    verdict = verdict_of(p_value)
    counts = f"{inside:,} of {total:,} users ({inside / total:.2%}) passed a gate of {share:.4g}"
    sentence = f"{counts} ({p_text(p_value)})."
    if verdict != "fine":
        sentence = (
            f"{counts}: that is not chance ({p_text(p_value)}). Some users are lost, counted twice or routed on one "
            "side of the gate only; find out which before believing a result."
        )
    return Check("sample ratio", verdict, sentence, p_value, details)


def enrolment(calls_by_reason: Mapping[str, int]) -> Check:
    """How many calls found an open entry.

    Calls by reason: ASSIGNED are enrolled; STICKY and EXCLUDED are of units that were enrolled or turned away before
    and do not count; those outside the traffic share, or while the experiment does not run or is draining, are
    excluded by design. If more than half of the rest found no open entry, the verdict is "watch". It causes no bias,
    only delay, so it is never an alarm.
    """
    calls = dict(calls_by_reason)
    entered = calls.get(records.ASSIGNED, 0)
    excluded = {
        reason: count
        for reason, count in sorted(calls.items(), key=lambda one: (-one[1], one[0]))
        if count and reason not in {records.ASSIGNED, records.STICKY, records.EXCLUDED}
    }
    eligible = {reason: count for reason, count in excluded.items() if reason not in BY_DESIGN}
    could = entered + sum(eligible.values())
    left_out = sum(eligible.values()) / could if could else None
    details = {"calls": calls, "could_enter": could, "left_out": left_out}
    if could < CALLS:
        need = f"Enrolment needs {CALLS} calls to be judged; so far: {could}."
        return Check("enrolment", "unknown", need, None, details)
    reasons = "; ".join(
        f"{records.REASONS.get(one, one)}: {count:,}" for one, count in excluded.items()
    )
    sentence = f"{entered:,} of {could:,} users who could enter did."
    if excluded:
        sentence += f" Not enrolled, by reason: {reasons}."
    if sum(eligible.values()) <= CROWDED_OUT * could:
        return Check("enrolment", "fine", sentence, None, details)
    remedy = " The experiment ends later than it could; the largest number above is the cause."
    if eligible.get(records.NO_OPEN_SLOT, 0) > sum(eligible.values()) / 2:
        remedy = (
            " More open replications (LiveOptions.open_replications) would use them: about as many are needed as "
            "users arrive in the time a reward takes."
        )
    return Check("enrolment", "watch", sentence + remedy, None, details)


def visits(groups: Sequence[ArrivalRow]) -> Check:
    """Whether the share of units that are enrolled depends on how often they called.

    `groups` are units by their number of visits: 1, 2 to 3, 4 to 7, ... The verdict is "watch" if the share among
    those that called more than once is 1.5 times that among the others or more, or less than 1 / 1.5 of it, and
    the z test of two equal shares has a p-value below 0.001. That a unit had a chance at every visit is one
    cause (`LiveOptions.sticky_exclusion`), that units which called early had more time to return is another; so it
    is never an alarm.
    """
    arrived, enrolled = (
        sum(getattr(one, name) for one in groups) for name in ("arrived", "enrolled")
    )
    rows = [{**one._asdict(), "share": one.enrolled / one.arrived} for one in groups]
    details: Details = {"arrived": arrived, "enrolled": enrolled, "by_visits": rows}
    once = next((one for one in groups if one.least == 1), ArrivalRow(1, 0, 0))
    often = ArrivalRow(2, arrived - once.arrived, enrolled - once.enrolled)
    if once.arrived >= CALLS and not often.arrived:
        sentence = f"{enrolled:,} of {arrived:,} units that arrived are enrolled; none came again."
        return Check("visits", "fine", sentence, None, details)
    if min(once.arrived, often.arrived) < CALLS:
        need = (
            f"Units by number of visits need {CALLS} that called once and {CALLS} that called more often; so far: "
            f"{once.arrived:,} and {often.arrived:,}."
        )
        return Check("visits", "unknown", need, None, details)
    p_value = _equal_shares(once, often)
    shares = ", ".join(f"{_visits_text(one)} {one.enrolled / one.arrived:.1%}" for one in groups)
    sentence = f"{enrolled:,} of {arrived:,} units that arrived are enrolled; by visits: {shares}."
    low, high = sorted(one.enrolled / one.arrived for one in (once, often))
    if p_value >= ALARM or high < UNEVEN * low:
        return Check("visits", "fine", sentence, p_value, details)
    sentence += (
        " The result weighs units by their visits. Under LiveOptions.sticky_exclusion=None (the default) a unit "
        "has one chance, at its first call."
    )
    return Check("visits", "watch", sentence, p_value, details)


def _equal_shares(one: ArrivalRow, other: ArrivalRow) -> float:
    arrived, enrolled = one.arrived + other.arrived, one.enrolled + other.enrolled
    variance = enrolled / arrived * (1 - enrolled / arrived) * (1 / one.arrived + 1 / other.arrived)
    if variance == 0:
        return 1.0
    difference = one.enrolled / one.arrived - other.enrolled / other.arrived
    return 2 * float(scipy.special.ndtr(-abs(difference) / math.sqrt(variance)))


def _visits_text(group: ArrivalRow) -> str:
    return {1: "1", 16: "16 or more"}.get(group.least, f"{group.least} to {2 * group.least - 1}")


@diagnostic("visits")
def _visits(snapshot: Snapshot) -> Iterator[Check]:
    yield visits(snapshot.rows(ArrivalRow, "arrivals"))


@diagnostic("enrolment")
def _enrolment(snapshot: Snapshot) -> Iterator[Check]:
    yield enrolment(snapshot.calls)


@diagnostic("sample ratio")
def _sample_ratio(snapshot: Snapshot) -> Iterator[Check]:
    """The gate decides by unit, but calls are counted: divided by the mean number of calls per enrolled unit."""
    calls = snapshot.calls
    outside = calls.get(records.NOT_IN_TRAFFIC_SHARE, 0)
    inside = sum(calls.values()) - outside
    enrolled = calls.get(records.ASSIGNED, 0)
    per_user = 1 + calls.get(records.STICKY, 0) / enrolled if enrolled else 1.0
    share = snapshot.options.traffic_share
    check = sample_ratio(round(inside / per_user), round(outside / per_user), share)
    yield check._replace(details=check.details | {"calls_a_user": per_user})
