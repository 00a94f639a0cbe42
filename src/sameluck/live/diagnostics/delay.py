"""`delay`: how long rewards take, and whether the window cuts off rewards that were on their way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from sameluck.arrays import Floats, Ints
from sameluck.errors import Invalid
from sameluck.live.diagnostics.check import WATCH, Check
from sameluck.reporting.wording import arm_in, listed

DELAYS = 50
# Rewards in the last tenth of the window, of those within it. Were delays exponential, 1% there would mean that 2%
# of all rewards came too late, and 3% that 11% did.
TAIL_WATCH, TAIL_ALARM = 0.01, 0.03


def delay(arm: Ints, seconds: Floats, arm_names: Sequence[str], *, window: float | None) -> Check:
    """How long rewards take, and whether the window ends before they do.

    One element for each reward that came within the window: its arm and the time from showing to reward. Give only
    assignments old enough to have ended, or quick rewards are over-represented. Per arm the share of rewards in the
    last tenth of the window is bounded from below (Clopper and Pearson, 99% over all arms together): above 1% is
    something to watch, above 3% an alarm. Were delays exponential, these would mean that 2% and 11% of all rewards
    came after the window.
    """
    if arm.shape != seconds.shape:
        raise Invalid("delay needs arrays of one length")
    rows = [
        _delays_of(str(name), seconds[arm == place], window, len(arm_names))
        for place, name in enumerate(arm_names)
    ]
    details = {"window": window, "arms": rows}
    if seconds.size < DELAYS:
        need = f"Delays need {DELAYS} rewards to be judged; so far: {seconds.size}."
        return Check("delay", "unknown", need, None, details)
    times = listed(
        f"{arm_in(one['arm'])} {span(one['median'])} (99%: {span(one['p99'])})"
        for one in rows
        if one["rewards"]
    )
    told = f"Half of the rewards came within: {times}."
    if window is None:
        return Check("delay", "fine", f"{told} No window is set.", None, details)
    worst = max(rows, key=lambda one: one.get("last_tenth_at_least", 0.0))
    least = worst.get("last_tenth_at_least", 0.0)
    if least <= TAIL_WATCH:
        sentence = f"{told} Few come near the end of the window of {span(window)}."
        return Check("delay", "fine", sentence, None, details)
    sentence = (
        f"{told} {worst['last_tenth']:.1%} of arm {worst['arm']}'s came in the last tenth of the window of "
        f"{span(window)}, so more would have come later: the experiment judges rewards within the window, and a "
        "slow arm looks worse than it is. If later rewards matter, begin anew with a longer window."
    )
    return Check("delay", "alarm" if least > TAIL_ALARM else "watch", sentence, None, details)


def _delays_of(name: str, seconds: Floats, window: float | None, arms: int) -> dict[str, Any]:
    count = int(seconds.size)
    found: dict[str, Any] = {"arm": name, "rewards": count}
    if count == 0:
        return found
    median, p90, p99 = (float(one) for one in np.quantile(seconds, [0.5, 0.9, 0.99]))
    found |= {"median": median, "p90": p90, "p99": p99}
    if window is None:
        return found
    last = int(np.sum(seconds > 0.9 * window))
    least = float(scipy.special.betaincinv(last, count - last + 1, WATCH / arms)) if last else 0.0
    return found | {"last_tenth": last / count, "last_tenth_at_least": least}


def span(seconds: float) -> str:
    """A time in words."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
