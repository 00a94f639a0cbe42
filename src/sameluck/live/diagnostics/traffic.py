"""Who gets into an experiment: `sample_ratio` judges the traffic gate, `enrolment` what happens behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import scipy

from sameluck.errors import Invalid
from sameluck.live.diagnostics.check import Check, p_text, verdict_of
from sameluck.live.records import (
    ASSIGNED,
    DRAINING,
    NO_OPEN_SLOT,
    NOT_IN_TRAFFIC_SHARE,
    NOT_RUNNING,
    REASONS,
    STICKY,
)
from sameluck.reporting.wording import counted
from sameluck.validation import require_number

CALLS = 100
PRIOR_USERS = 100  # how sure the gate's alternative is of the share: spread 5 points around a half
CROWDED_OUT = 0.5  # calls without a place, of those that could have had one
BY_DESIGN = {NOT_IN_TRAFFIC_SHARE, NOT_RUNNING, DRAINING}


def sample_ratio(inside: int, outside: int, share: float) -> Check:
    """Whether the traffic gate lets in the share it was told to; may be looked at after every user.

    The evidence against the share s is the ratio of the users' likelihood with the share drawn from
    Beta(100 s, 100 (1 - s)) to that under s, a martingale of mean 1; the p-value is one over it, at most 1
    (Lindon and Malek, 2022).
    """
    require_number("share", share, above=0, at_most=1)
    if not (min(inside, outside) >= 0):
        raise Invalid("counts of users cannot be negative")
    total = inside + outside
    found = inside / total if total else None
    details = {"inside": inside, "outside": outside, "share": float(share), "found": found}
    if share == 1:
        return _no_gate(outside, details)
    if total < CALLS:
        need = f"The traffic gate needs {CALLS} users to be judged; so far: {total}."
        return Check("sample ratio", "unknown", need, None, details)
    ours, theirs = PRIOR_USERS * share, PRIOR_USERS * (1 - share)
    evidence = float(
        scipy.special.betaln(ours + inside, theirs + outside) - scipy.special.betaln(ours, theirs)
    )
    evidence -= inside * math.log(share) + outside * math.log1p(-share)
    p_value = math.exp(-max(0.0, evidence))
    verdict = verdict_of(p_value)
    told = (
        f"{inside:,} of {total:,} users ({inside / total:.2%}) came through a gate of {share:.4g}"
    )
    if verdict == "fine":
        sentence = f"{told} ({p_text(p_value)})."
    else:
        sentence = (
            f"{told}: that is not chance ({p_text(p_value)}). Some users are lost, counted twice or routed on one "
            "side of the gate only; find out which before believing a result."
        )
    return Check("sample ratio", verdict, sentence, p_value, details)


def _no_gate(outside: int, details: dict[str, Any]) -> Check:
    if outside:
        sentence = f"All traffic is to enter, yet {counted(outside, 'user was', 'users were')} kept out at the gate."
        return Check("sample ratio", "alarm", sentence, None, details)
    return Check("sample ratio", "fine", "All traffic may enter: no gate to check.", None, details)


def enrolment(calls_by_reason: Mapping[str, int]) -> Check:
    """How many calls found a place in the experiment.

    Calls by the reason of the answer: ASSIGNED entered; STICKY came back and are not counted; those outside the
    traffic share or while the experiment does not run or is being stopped stay out by design. Of the rest, more than
    half without a place is something to watch. It biases nothing, so it is never an alarm: it costs time.
    """
    calls = {str(reason): int(count) for reason, count in calls_by_reason.items()}
    entered = calls.get(ASSIGNED, 0)
    out = {
        reason: count
        for reason, count in sorted(calls.items(), key=lambda one: (-one[1], one[0]))
        if count and reason not in {ASSIGNED, STICKY}
    }
    wanted = {reason: count for reason, count in out.items() if reason not in BY_DESIGN}
    could = entered + sum(wanted.values())
    left_out = sum(wanted.values()) / could if could else None
    details = {"calls": calls, "could_enter": could, "left_out": left_out}
    if could < CALLS:
        need = f"Enrolment needs {CALLS} calls to be judged; so far: {could}."
        return Check("enrolment", "unknown", need, None, details)
    reasons = "; ".join(f"{REASONS.get(one, one)}: {count:,}" for one, count in out.items())
    sentence = f"{entered:,} of {could:,} users who could enter did."
    if out:
        sentence += f" Not enrolled, by reason: {reasons}."
    if sum(wanted.values()) <= CROWDED_OUT * could:
        return Check("enrolment", "fine", sentence, None, details)
    if wanted.get(NO_OPEN_SLOT, 0) > sum(wanted.values()) / 2:
        remedy = (
            " More open replications (Live.open_replications) would use them: about as many are needed as users "
            "arrive in the time a reward takes."
        )
    else:
        remedy = " The experiment ends later than it could; the largest number above says why."
    return Check("enrolment", "watch", sentence + remedy, None, details)
