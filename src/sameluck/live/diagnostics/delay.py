"""`delay`: the time that rewards take, which the reward window must exceed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict

import numpy as np
import scipy

from sameluck.arrays import Floats, Ints
from sameluck.errors import Invalid
from sameluck.live.diagnostics.check import WATCH, Check, diagnostic
from sameluck.live.diagnostics.snapshot import End, Snapshot
from sameluck.wording import arm_in, duration, listed

MIN_REWARDS = 50
TAIL_WATCH, TAIL_ALARM = 0.01, 0.03  # share of the window's rewards that came in its last tenth


class ArmDelays(TypedDict, total=False):
    """Delays of one arm in seconds: quantiles if it has rewards, the last tenth if there is a window."""

    arm: str
    rewards: int
    median: float
    p90: float
    p99: float
    last_tenth: float
    last_tenth_at_least: float


def delay(arm: Ints, seconds: Floats, arm_names: Sequence[str], *, window: float | None) -> Check:
    """Check that the window does not end before rewards are reported.

    `arm` and `seconds` hold the arm and the time from showing to reward of each reward within the window. Only
    assignments old enough to have ended may be included, or quick rewards are over-represented. Per arm, the share of
    rewards in the last tenth of the window is bounded from below (Clopper and Pearson, 99% over all arms together).
    The verdict is "watch" above 1% and "alarm" above 3%. With exponential delays, 2% and 11% of all rewards then come
    after the window. There is no p-value.
    """
    if arm.shape != seconds.shape:
        raise Invalid("delay needs arrays of equal length")
    rows = [
        _delays_of(str(name), seconds[arm == index], window, len(arm_names))
        for index, name in enumerate(arm_names)
    ]
    details = {"window": window, "arms": rows}
    if seconds.size < MIN_REWARDS:
        need = f"Delays need {MIN_REWARDS} rewards to be judged; so far: {seconds.size}."
        return Check("delay", "unknown", need, None, details)
    times = listed(
        f"{arm_in(row['arm'])} {duration(row['median'])} (99%: {duration(row['p99'])})"
        for row in rows
        if row["rewards"]
    )
    half = f"Half of the rewards came within: {times}."
    if window is None:
        return Check("delay", "fine", f"{half} No window is set.", None, details)
    worst = max(rows, key=lambda row: row.get("last_tenth_at_least", 0.0))
    least = worst.get("last_tenth_at_least", 0.0)
    if least <= TAIL_WATCH:
        sentence = f"{half} Few come near the end of the window of {duration(window)}."
        return Check("delay", "fine", sentence, None, details)
    sentence = (
        f"{half} {worst['last_tenth']:.1%} of arm {worst['arm']}'s came in the last tenth of the window of "
        f"{duration(window)}, so more would have come later: only rewards within the window count, and a "
        "slow arm looks worse than it is. If later rewards matter, start again with a longer window."
    )
    return Check("delay", "alarm" if least > TAIL_ALARM else "watch", sentence, None, details)


def _delays_of(name: str, seconds: Floats, window: float | None, arms: int) -> ArmDelays:
    count = int(seconds.size)
    row: ArmDelays = {"arm": name, "rewards": count}
    if count == 0:
        return row
    median, p90, p99 = (float(value) for value in np.quantile(seconds, [0.5, 0.9, 0.99]))
    row |= {"median": median, "p90": p90, "p99": p99}
    if window is None:
        return row
    last = int(np.sum(seconds > 0.9 * window))
    least = float(scipy.special.betaincinv(last, count - last + 1, WATCH / arms)) if last else 0.0
    return row | {"last_tenth": last / count, "last_tenth_at_least": least}


@diagnostic("delay")
def _delay(snapshot: Snapshot) -> Iterator[Check]:
    ended, names = snapshot.ended, snapshot.experiment.arm_names
    arm, window = ended.arm[ended.end == End.OBSERVED], snapshot.options.reward.window_seconds
    yield ended.describe(delay(arm, ended.delay, names, window=window))
