"""`sample ratio`: whether the traffic gate admits its share. `enrolment`: whether calls find an open entry."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import scipy

from sameluck.errors import Invalid
from sameluck.live import records
from sameluck.live.diagnostics.check import Check, Details, diagnostic, p_text, verdict_of
from sameluck.live.diagnostics.snapshot import Snapshot
from sameluck.reporting.wording import counted
from sameluck.validation import require_number

CALLS = 100
PRIOR_USERS = 100  # weight of the prior on the gate's share: standard deviation 0.05 at one half
CROWDED_OUT = 0.5  # share of calls without an open entry, of those that could be enrolled
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

    Calls by reason: ASSIGNED are enrolled; STICKY are units enrolled before and do not count; those outside the
    traffic share, or while the experiment does not run or is draining, are excluded by design. If more than half of
    the rest found no open entry, the verdict is "watch". It causes no bias, only delay, so it is never an alarm.
    """
    calls = dict(calls_by_reason)
    entered = calls.get(records.ASSIGNED, 0)
    excluded = {
        reason: count
        for reason, count in sorted(calls.items(), key=lambda one: (-one[1], one[0]))
        if count and reason not in {records.ASSIGNED, records.STICKY}
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
            " More open replications (Live.open_replications) would use them: about as many are needed as users "
            "arrive in the time a reward takes."
        )
    return Check("enrolment", "watch", sentence + remedy, None, details)


@diagnostic(order=30)
def _enrolment(snapshot: Snapshot) -> Iterator[Check]:
    yield enrolment(snapshot.calls)


@diagnostic(order=40)
def _sample_ratio(snapshot: Snapshot) -> Iterator[Check]:
    """The gate decides by unit, but calls are counted: divided by the mean number of calls per enrolled unit."""
    calls = snapshot.calls
    outside = calls.get(records.NOT_IN_TRAFFIC_SHARE, 0)
    inside = sum(calls.values()) - outside
    enrolled = calls.get(records.ASSIGNED, 0)
    per_user = 1 + calls.get(records.STICKY, 0) / enrolled if enrolled else 1.0
    share = snapshot.live.traffic_share
    check = sample_ratio(round(inside / per_user), round(outside / per_user), share)
    yield check._replace(details=check.details | {"calls_a_user": per_user})
