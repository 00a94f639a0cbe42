"""When the effect on a copy of the arms has no interval."""

from __future__ import annotations

import numpy as np

from sameluck.arrays import Floats
from sameluck.inference.twins.copies import EmpiricalCopy
from sameluck.inference.twins.long_run import LongRun
from sameluck.inference.twins.records import Stability

FEWEST_OFF_MODE = 20


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
        few = [
            name
            for name, one in zip(names, long.copy.values, strict=True)
            if _off_mode(one) < FEWEST_OFF_MODE
        ]
        if few:
            reasons.append(
                f"arm {few[0]} has fewer than {FEWEST_OFF_MODE} rewards other than its commonest, too few to "
                "know its law"
            )
    return tuple(reasons)


def _off_mode(values: Floats) -> int:
    return int(values.size - np.unique(values, return_counts=True)[1].max())
