"""`replay audit`: replayed rewards agree with the rewards of real users."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sameluck.arrays import Floats
from sameluck.errors import Invalid
from sameluck.intervals import t_interval
from sameluck.live.diagnostics.check import WATCH, Check, Details, diagnostic, p_text, verdict_of
from sameluck.live.diagnostics.snapshot import Snapshot
from sameluck.live.engine.protocol import stack_engine
from sameluck.wording import sentence

MIN_REPLICATIONS = 10


def replay_audit(differences: Floats) -> Check:
    """Check that replayed rewards agree with the rewards of real users.

    At some steps with a replayed reward a real user is assigned too, for comparison only. A replication gives the sum
    of (real - replayed) over these steps. While the arms' rewards do not change, its mean is zero whatever the
    policies are: t test over the replications that have audited steps.
    """
    sums = np.asarray(differences, float)
    count = int(sums.size)
    details: Details = {"replications": count}
    if count < MIN_REPLICATIONS:
        sentence = f"The replay audit needs {MIN_REPLICATIONS} replications with audited steps and has {count}."
        return Check("replay audit", "unknown", sentence, None, details)
    interval, mean = t_interval(sums, 1 - WATCH), float(sums.mean())
    details |= {"mean": mean, "low": interval.low, "high": interval.high, "level": 1 - WATCH}
    verdict = verdict_of(interval.p_value)
    where = f"({interval.low:.3g} to {interval.high:.3g} at {1 - WATCH:.0%}, {p_text(interval.p_value)})"
    where = f"{mean:+.3g} per replication {where}"
    sentence = f"Replayed rewards agree with real users' rewards: {where}."
    if verdict != "fine":
        sentence = (
            f"Real users now give other rewards than the replayed ones: {where}. The "
            "arms drift within a replication, or rewards are recorded differently; see the drift check for the arm."
        )
    return Check("replay audit", verdict, sentence, interval.p_value, details)


@diagnostic("replay audit")
def _replay_audit(snapshot: Snapshot) -> Iterator[Check]:
    """Read the sums of the complete prefix, up to the first replication with an unsettled audit."""
    if not snapshot.options.audit_share:
        return
    try:
        engine = stack_engine(snapshot.ledger.engine, "the replay audit")
    except Invalid as error:  # the other checks apply
        yield Check("replay audit", "unknown", sentence(str(error)), None, {})
        return
    if not engine.audit_share:
        return
    differences = []
    for expected, (number, summary) in enumerate(snapshot.summaries.items()):
        is_settled = summary.audit is None or not math.isnan(summary.audit)
        if number != expected or summary.mark.state != "complete" or not is_settled:
            break
        if summary.audit is not None:
            differences.append(summary.audit)
    yield replay_audit(np.array(differences))
