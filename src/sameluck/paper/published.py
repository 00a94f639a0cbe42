"""Numbers that the paper prints, and their comparison with ours.

The paper is "Design Experiments to Compare Multi-armed Bandit Algorithms". All its means are over `RUNS` independent
runs, so a published mean has a sampling error: the standard deviation of one run over the root of `RUNS`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from sameluck.paper.chapters import Estimate

RUNS = 10_000
INTERVAL_RUNS = 10  # runs behind the confidence intervals
LEVEL = 0.99

# Average number of real interactions by horizon, printed with two decimals.
TABLE_STEP = 0.01
NAIVE_INTERACTIONS = {10: 20.0, 100: 200.0, 1_000: 2_000.0, 10_000: 20_000.0}
TABLE_1 = {10: 10.46, 100: 102.44, 1_000: 1_027.08, 10_000: 10_092.58}
TABLE_2 = {10: 11.05, 100: 109.52, 1_000: 1_038.62, 10_000: 10_076.03}

# Example 3 has no table: "an asymptotic slope of about 1.09".
SLOPE = 1.09
SLOPE_STEP = 0.01

# Upper ends of the figures' axes; no curve lies above.
HIGHEST_VARIANCE = 60_000.0  # of either estimator, Example 3
HIGHEST_PULL_VARIANCE_2 = 0.15  # Var(N_2)/T of Thompson sampling, Example 2
HIGHEST_PULL_VARIANCE_3 = 30.0  # the same, Example 3

# Illustration with three arms and ten periods: arms (from 1) and rewards of the two policies, and the reward stacks
# with the entries that neither policy used.
ARMS = ((1, 2, 3, 1, 2, 3, 3, 3, 2, 3), (1, 2, 3, 3, 1, 2, 1, 2, 3, 2))
REWARDS = ((1, 0, 1, 0, 0, 1, 1, 0, 0, 0), (1, 0, 1, 1, 0, 0, 0, 0, 1, 1))
STACKS = (
    (1, 0, 0, 0, 0, 0, 1, 1, 1, 0),
    (0, 0, 0, 1, 0, 0, 0, 0, 0, 1),
    (1, 1, 1, 0, 0, 1, 1, 0, 0, 0),
)
INTERACTIONS = 12
REPLAYED = 8

MAX_Z = 4.0  # combined standard errors; beyond, our number differs from the published number


# Evidence that a published number gives; only a test could fail if the reproduction were wrong.
EVIDENCE = {
    "test": "tests",
    "construction": "2T by construction",
    "illustration": "from the printed illustration",
    "axis": "below the end of an axis",
}


class Match(NamedTuple):
    name: str
    horizon: int | None
    ours: float
    error: float
    relation: str  # "=", or "<=" where the paper gives only the end of an axis
    published: float
    published_error: float
    z: float
    meets: bool
    kind: str  # a key of `EVIDENCE`


def match(
    name: str, horizon: int | None, ours: Estimate, printed: Estimate, evidence: str = "test"
) -> Match:
    """Compare our number with the published number, in combined standard errors."""
    z, below = ours.minus(printed).z, evidence == "axis"
    meets = z <= MAX_Z if below else abs(z) <= MAX_Z
    return Match(name, horizon, *ours, "<=" if below else "=", *printed, z, meets, evidence)


def printed_mean(value: float, sd: float, step: float) -> Estimate:
    """Return a published mean over `RUNS` runs with standard deviation `sd`, rounded to a step."""
    return Estimate(value, math.hypot(sd / math.sqrt(RUNS), step / math.sqrt(12)))
