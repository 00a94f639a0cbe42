"""`sample ratio`: the traffic gate admits its share. `enrolment`: calls find an open entry.

`visits`: units that call often are enrolled as often as others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import scipy

from sameluck.errors import Invalid
from sameluck.live import records
from sameluck.live.databases.rows import ArrivalRow
from sameluck.live.diagnostics.check import ALARM, Check, Details, diagnostic, p_text, verdict_of
from sameluck.live.diagnostics.snapshot import Snapshot, step_of
from sameluck.validation import require_number
from sameluck.wording import counted

MIN_CALLS = 100
MAX_UNITS = 20_000  # whose visits are read; more hardly change the check
PRIOR_USERS = 100  # weight of the prior on the gate's share: standard deviation 0.05 at one half
MAX_LEFT_OUT = 0.5  # share of calls without an open entry, of calls that could be enrolled
UNEVEN_RATIO = 1.5  # of two shares of enrolled units
BY_DESIGN = {records.NOT_IN_TRAFFIC_SHARE, records.NOT_RUNNING, records.DRAINING}


def sample_ratio(inside: int, outside: int, share: float) -> Check:
    """Check that the traffic gate admits the share it is set to; the p-value is valid after every user.

    The evidence against the share s is a likelihood ratio: the users' likelihood with the share drawn from
    Beta(100 s, 100 (1 - s)), divided by their likelihood under s. It is a martingale of mean 1; the p-value is its
    inverse, at most 1 (Lindon and Malek, 2022).
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
    if total < MIN_CALLS:
        need = f"The traffic gate needs {MIN_CALLS} users to be judged; so far: {total}."
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
            f"{counts}: that is not chance ({p_text(p_value)}). Users are lost, counted twice or routed on one side "
            "of the gate only; find the cause before believing a result."
        )
    return Check("sample ratio", verdict, sentence, p_value, details)


def enrolment(calls_by_reason: Mapping[str, int]) -> Check:
    """Check how many calls found an open entry.

    Calls with the reason ASSIGNED were enrolled. STICKY and EXCLUDED calls come from units that called before and do
    not count. Calls outside the traffic share, or while the experiment does not run or is draining, are excluded by
    design. If more than half of the remaining calls found no open entry, the verdict is "watch". This causes delay
    but no bias, so it is never an alarm.
    """
    calls = dict(calls_by_reason)
    entered = calls.get(records.ASSIGNED, 0)
    excluded = {
        reason: count
        for reason, count in sorted(calls.items(), key=lambda item: (-item[1], item[0]))
        if count and reason not in {records.ASSIGNED, records.STICKY, records.EXCLUDED}
    }
    eligible = {reason: count for reason, count in excluded.items() if reason not in BY_DESIGN}
    could = entered + sum(eligible.values())
    left_out = sum(eligible.values()) / could if could else None
    details = {"calls": calls, "could_enter": could, "left_out": left_out}
    if could < MIN_CALLS:
        need = f"Enrolment needs {MIN_CALLS} calls to be judged; so far: {could}."
        return Check("enrolment", "unknown", need, None, details)
    reasons = "; ".join(
        f"{records.REASONS.get(reason, reason)}: {count:,}" for reason, count in excluded.items()
    )
    sentence = f"{entered:,} of {could:,} users who could enter did."
    if excluded:
        sentence += f" Not enrolled, by reason: {reasons}."
    if sum(eligible.values()) <= MAX_LEFT_OUT * could:
        return Check("enrolment", "fine", sentence, None, details)
    remedy = " The experiment ends later than it could; the largest number above is the cause."
    if eligible.get(records.NO_OPEN_SLOT, 0) > sum(eligible.values()) / 2:
        remedy = (
            " More open replications (LiveOptions.open_replications) would use them: about as many are needed as "
            "users arrive in the time a reward takes."
        )
    return Check("enrolment", "watch", sentence + remedy, None, details)


def visits(groups: Sequence[ArrivalRow]) -> Check:
    """Check that the share of enrolled units does not depend on how often units called.

    `groups` are units by their number of visits: 1, 2 to 3, 4 to 7, ... Two shares are compared: among units that
    called once, and among units that called more often. The verdict is "watch" if the larger is at least 1.5 times
    the smaller, and the z test of equal shares has a p-value below 0.001. One cause is a chance at every visit
    (`LiveOptions.sticky_exclusion`), another that units which called early had more time to return. So it is never an
    alarm.
    """
    arrived = sum(group.arrived for group in groups)
    enrolled = sum(group.enrolled for group in groups)
    rows = [{**group._asdict(), "share": group.enrolled / group.arrived} for group in groups]
    details: Details = {"arrived": arrived, "enrolled": enrolled, "by_visits": rows}
    once = next((group for group in groups if group.least == 1), ArrivalRow(1, 0, 0))
    often = ArrivalRow(2, arrived - once.arrived, enrolled - once.enrolled)
    if once.arrived >= MIN_CALLS and not often.arrived:
        sentence = f"{enrolled:,} of {arrived:,} units that arrived are enrolled; none came again."
        return Check("visits", "fine", sentence, None, details)
    if min(once.arrived, often.arrived) < MIN_CALLS:
        need = (
            f"Units by number of visits need {MIN_CALLS} that called once and {MIN_CALLS} that called more often; so "
            f"far: {once.arrived:,} and {often.arrived:,}."
        )
        return Check("visits", "unknown", need, None, details)
    p_value = _equal_shares(once, often)
    shares = ", ".join(
        f"{_visits_text(group)} {group.enrolled / group.arrived:.1%}" for group in groups
    )
    sentence = f"{enrolled:,} of {arrived:,} units that arrived are enrolled; by visits: {shares}."
    low, high = sorted(group.enrolled / group.arrived for group in (once, often))
    if p_value >= ALARM or high < UNEVEN_RATIO * low:
        return Check("visits", "fine", sentence, p_value, details)
    sentence += (
        " The result weighs units by their visits. Under LiveOptions.sticky_exclusion=None (the default) a unit "
        "has one chance, at its first call."
    )
    return Check("visits", "watch", sentence, p_value, details)


def _equal_shares(once: ArrivalRow, often: ArrivalRow) -> float:
    arrived, enrolled = once.arrived + often.arrived, once.enrolled + often.enrolled
    share = enrolled / arrived
    variance = share * (1 - share) * (1 / once.arrived + 1 / often.arrived)
    if variance == 0:
        return 1.0
    difference = once.enrolled / once.arrived - often.enrolled / often.arrived
    return 2 * float(scipy.special.ndtr(-abs(difference) / math.sqrt(variance)))


def _visits_text(group: ArrivalRow) -> str:
    return {1: "1", 16: "16 or more"}.get(group.least, f"{group.least} to {2 * group.least - 1}")


@diagnostic("visits")
def _visits(snapshot: Snapshot) -> Iterator[Check]:
    """Read the units whose hash is below a bound, if there are many."""
    calls = snapshot.calls
    returned = {records.STICKY, records.EXCLUDED, records.NOT_IN_TRAFFIC_SHARE, records.NOT_RUNNING}
    arrived = sum(count for reason, count in calls.items() if reason not in returned)
    step = step_of(max(arrived, snapshot.assigned), MAX_UNITS)
    bound = "g" if step == 1 else f"{2**32 // step:08x}"  # hashes are hexadecimal
    check = visits(snapshot.rows(ArrivalRow, "arrivals", bound=bound))
    if step > 1:
        note = f" Read: one unit in {step:,}."
        details = check.details | {"every": step}
        check = check._replace(sentence=check.sentence + note, details=details)
    yield check


@diagnostic("enrolment")
def _enrolment(snapshot: Snapshot) -> Iterator[Check]:
    yield enrolment(snapshot.calls)


@diagnostic("sample ratio")
def _sample_ratio(snapshot: Snapshot) -> Iterator[Check]:
    """Divide the counts of calls by the mean number of calls per enrolled unit, since the gate decides by unit."""
    calls = snapshot.calls
    outside = calls.get(records.NOT_IN_TRAFFIC_SHARE, 0)
    inside = sum(calls.values()) - outside
    enrolled = calls.get(records.ASSIGNED, 0)
    per_user = 1 + calls.get(records.STICKY, 0) / enrolled if enrolled else 1.0
    share = snapshot.options.traffic_share
    check = sample_ratio(round(inside / per_user), round(outside / per_user), share)
    yield check._replace(details=check.details | {"calls_a_user": per_user})
