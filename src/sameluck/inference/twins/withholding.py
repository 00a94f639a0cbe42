"""When the effect on a copy of the arms has no interval."""

from __future__ import annotations

from sameluck.inference.twins.copies import EmpiricalCopy, is_seldom, split_commonest
from sameluck.inference.twins.long_run import LongRun
from sameluck.inference.twins.records import Stability

FEWEST = 10  # rewards of an arm other than its commonest
FEWEST_SELDOM = 20  # where they are fewer than half of all, and decide the mean


def reasons_to_withhold(long: LongRun, stability: Stability) -> tuple[str, ...]:
    """Why the interval of the effect on the copy cannot be given, as sentences; none if it can."""
    names = long.observed.experiment.arm_names
    reasons = []
    if stability.rejected:
        reasons.append(
            f"the rewards of arm {names[stability.arm]} changed {stability.what} (p = {stability.p_value:.2g}), "
            "and a copy needs arms that stand still"
        )
    if isinstance(long.copy, EmpiricalCopy):
        for name, values in zip(names, long.copy.values, strict=True):
            _, others = split_commonest(values)
            needed = FEWEST_SELDOM if is_seldom(others, values) else FEWEST
            if others.size < needed:
                reasons.append(
                    f"arm {name} has fewer than {needed} rewards other than its commonest, too few to know its law"
                )
                break
    return tuple(reasons)
