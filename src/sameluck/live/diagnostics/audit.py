"""Two things that must agree, compared over replications.

`replay_audit` compares replayed rewards with those of real users asked again, `same_policy` two equal policies (A/A).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sameluck.arrays import Floats
from sameluck.intervals import anytime_p_values, t_interval
from sameluck.live.diagnostics.check import WATCH, Check, p_text, verdict_of
from sameluck.reporting.wording import counted

AUDIT_REPLICATIONS = 10


def replay_audit(differences: Floats) -> Check:
    """Whether replayed rewards are what real users would have given.

    At some steps whose reward is replayed a real user is asked too, and that reward is only compared. A replication
    gives the sum of (asked - replayed) over these steps. While the arms pay what they used to, its mean is zero
    whatever the policies are; t test over the replications (those without an audited step left out).
    """
    sums = np.asarray(differences, float)
    many = int(sums.size)
    if many < AUDIT_REPLICATIONS:
        need = f"needs {AUDIT_REPLICATIONS} replications with audited steps and has {many}"
        return Check(
            "replay audit", "unknown", f"The replay audit {need}.", None, {"replications": many}
        )
    interval = t_interval(sums, 1 - WATCH)
    details = {
        "replications": many,
        "mean": float(sums.mean()),
        "low": interval.low,
        "high": interval.high,
        "level": 1 - WATCH,
    }
    verdict, mean = verdict_of(interval.p_value), float(sums.mean())
    where = f"({interval.low:.3g} to {interval.high:.3g} at {1 - WATCH:.0%}, {p_text(interval.p_value)})"
    if verdict == "fine":
        sentence = f"Replayed rewards agree with those of real users asked again: {mean:+.3g} a replication {where}."
    else:
        sentence = (
            f"Real users now give other rewards than the replayed ones: {mean:+.3g} a replication {where}. The arms "
            "drift within a replication, or rewards are recorded differently; see the drift check for the arm."
        )
    return Check("replay audit", verdict, sentence, interval.p_value, details)


def same_policy(differences: Floats, *, exact: bool, names: Sequence[str]) -> Check:
    """Whether two equal policies make no difference: an A/A pair, one difference of earnings a replication.

    `exact` holds where they must agree to the bit: deterministic policies, or randomised ones that share their
    noise, under a design that shares rewards. Otherwise the mean is tested by the t-mixture p-value of
    `intervals.anytime_p_values`, which may be looked at after every replication.
    """
    values = np.asarray(differences, float)
    pair, many = " and ".join(names), int(values.size)
    details: dict[str, Any] = {"replications": many, "policies": list(names), "exact": exact}
    if exact:
        return _exactly_equal(values, pair, details)
    if many < AUDIT_REPLICATIONS:
        sentence = f"{pair} need {AUDIT_REPLICATIONS} replications for an A/A test and have {many}."
        return Check("same policy", "unknown", sentence, None, details)
    p_value, mean = float(anytime_p_values(values)[-1]), float(values.mean())
    details["mean"] = mean
    verdict = verdict_of(p_value)
    if verdict == "fine":
        sentence = (
            f"{pair} are the same policy and differ by luck alone: {mean:+.3g} ({p_text(p_value)})."
        )
    else:
        sentence = (
            f"{pair} are the same policy and yet differ by {mean:+.3g} a replication ({p_text(p_value)}): do not "
            "trust other differences of this experiment before the cause is found."
        )
    return Check("same policy", verdict, sentence, p_value, details)


def _exactly_equal(values: Floats, pair: str, details: dict[str, Any]) -> Check:
    wrong = np.flatnonzero(values != 0)
    details = details | {"different": int(wrong.size)}
    if values.size == 0:
        sentence = f"{pair} need one complete replication to be compared."
        return Check("same policy", "unknown", sentence, None, details)
    if wrong.size == 0:
        where = "the one replication" if values.size == 1 else f"all {values.size:,} replications"
        sentence = f"{pair} are the same policy and earned the same in {where}."
        return Check("same policy", "fine", sentence, None, details)
    first = int(wrong[0])
    sentence = (
        f"{pair} are the same policy on the same luck, yet differ in {wrong.size:,} of "
        f"{counted(values.size, 'replication')}, first in replication {first} by {values[first]:+.3g}. A policy that "
        "is not a function of what it has seen or an entry read twice does this: stop and find out."
    )
    return Check("same policy", "alarm", sentence, None, details | {"first": first})
