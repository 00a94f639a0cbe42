"""`drift`: the mean reward of an arm did not change. `moving arms`: a rehearsal on arms that drift or switch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TypedDict

import numpy as np
import scipy

from sameluck.arrays import Floats
from sameluck.errors import Invalid
from sameluck.intervals import holm
from sameluck.live.databases.rows import TextRow
from sameluck.live.diagnostics.check import WATCH, Check, diagnostic, p_text, verdict_of
from sameluck.live.diagnostics.snapshot import End, Snapshot
from sameluck.live.state.results import moving_caution
from sameluck.wording import arm_in, listed

MIN_REWARDS = 50  # of an arm
MIN_UNUSUAL = 20  # of them, other than the commonest reward: with fewer the mean is not yet normal


class ArmDrift(TypedDict, total=False):
    """Rewards of one arm; from `mean` on only if there are enough rewards."""

    arm: str
    rewards: int
    unusual: int  # other than the commonest reward
    mean: float
    sd: float
    quarters: list[float]  # means
    step_at: float  # share of the rewards before the step
    before: float
    after: float
    z: float
    p_value: float
    p_adjusted: float
    detectable_step: float


def drift(rewards_by_arm: Sequence[Floats], arm_names: Sequence[str]) -> Check:
    """Check that the mean reward of each arm stayed the same.

    Let y_1..y_n be an arm's rewards from real users in the order of assignment over the whole experiment. Their
    recursive residuals e_j = (y_j - mean(y_1..y_{j-1})) sqrt((j - 1) / j) are martingale differences, whatever policy
    decided when to pull the arm. The statistic is the largest of three |z|, for a step after a quarter, a half and
    three quarters of the rewards. Each is the sum of e_j / sqrt(j (j - 1)) over the j after the step, which are the
    best weights for it. Two identities simplify it. The sum is mean(y_1..y_n) - mean(y_1..y_m), and the sums
    of e_j^2 and of (y_j - mean)^2 are equal. So z = (mean after - mean before) sqrt(m (n - m) / n) / s, with the
    arm's standard deviation s. The p-value comes from the standardised Brownian bridge at 1/4, 1/2 and 3/4; Holm over
    the arms.

    The p-value is for one look. It is valid from about ten replications on. In one long replication, rewards decide
    whether an arm has enough rewards to be tested, and twice as many false alarms were measured.
    """
    if len(rewards_by_arm) != len(arm_names):
        raise Invalid("drift needs one array of rewards per arm")
    arms = [
        _arm_drift(str(name), np.asarray(rewards, float))
        for name, rewards in zip(arm_names, rewards_by_arm, strict=True)
    ]
    tested = [arm for arm in arms if "p_value" in arm]
    details = {"arms": arms}
    if not tested:
        return Check("drift", "unknown", _too_few(arms), None, details)
    adjusted = holm(np.array([arm["p_value"] for arm in tested]))
    for arm, p_value in zip(tested, adjusted, strict=True):
        arm["p_adjusted"] = float(p_value)
        arm["detectable_step"] = _detectable(arm["sd"], arm["rewards"], len(tested))
    worst = tested[int(adjusted.argmin())]
    p_value, verdict = worst["p_adjusted"], verdict_of(worst["p_adjusted"])
    if verdict == "fine":
        sentence = _steady(tested, len(arms), p_value)
    else:
        sentence = (
            f"The rewards of arm {worst['arm']} changed: {worst['before']:.4g} on average in the first "
            f"{worst['step_at']:.0%} of its {worst['rewards']:,}, {worst['after']:.4g} since ({p_text(p_value)}). "
            "Replay cancels a change that all policies share, not one within a replication: read the result as the "
            "effect over this period, look for what changed (a release, a campaign), and prefer lock-step order."
        )
    return Check("drift", verdict, sentence, p_value, details)


def _arm_drift(name: str, rewards: Floats) -> ArmDrift:
    count = int(rewards.size)
    unusual = count - int(np.unique(rewards, return_counts=True)[1].max(initial=0))
    row: ArmDrift = {"arm": name, "rewards": count, "unusual": unusual}
    if count < MIN_REWARDS or unusual < MIN_UNUSUAL:
        return row
    sums = np.cumsum(rewards - rewards.mean())
    sd = float(rewards.std(ddof=1))
    cuts = np.array([count // 4, count // 2, 3 * count // 4])
    # mean before = sums[m - 1] / m; after - before = -sums[m - 1] n / (m (n - m)), as the deviations sum to zero.
    z = -sums[cuts - 1] * np.sqrt(count / (cuts * (count - cuts))) / sd
    at = int(np.abs(z).argmax())
    return row | {
        "mean": float(rewards.mean()),
        "sd": sd,
        "quarters": [float(quarter.mean()) for quarter in np.split(rewards, cuts)],
        "step_at": (0.25, 0.5, 0.75)[at],
        "before": float(rewards[: cuts[at]].mean()),
        "after": float(rewards[cuts[at] :].mean()),
        "z": float(z[at]),
        "p_value": _largest_of_three(abs(float(z[at]))),
    }


def _largest_of_three(bound: float) -> float:
    """Return the probability that |B(u)| / sqrt(u (1 - u)) exceeds the bound at u = 1/4, 1/2 or 3/4.

    B is a Brownian bridge. Given the middle value, the outer two are independent, each with correlation 1 / sqrt(3)
    with it, so the probability is one integral.
    """
    if bound == 0:
        return 1.0
    nodes, weights = _nodes()
    middle, slope, residual_sd = bound * nodes, 1 / math.sqrt(3), math.sqrt(2 / 3)
    normal_cdf = scipy.special.ndtr
    outside = normal_cdf((slope * middle - bound) / residual_sd) + normal_cdf(
        (-bound - slope * middle) / residual_sd
    )
    density = np.exp(-0.5 * middle**2) / math.sqrt(2 * math.pi)
    beyond = bound * float(np.sum(weights * density * outside * (2 - outside)))
    return min(1.0, 2 * float(normal_cdf(-bound)) + beyond)


@cache
def _nodes() -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(100)


def _detectable(sd: float, count: int, arms: int) -> float:
    """Return the step in the middle that is detected (p-value below `WATCH`) with probability 0.8."""
    # Bonferroni over three steps and the arms: slightly above the exact bound.
    bound = -float(scipy.special.ndtri(WATCH / (6 * arms)))
    return (bound - float(scipy.special.ndtri(0.2))) * 2 * sd / math.sqrt(count)


def _steady(tested: Sequence[ArmDrift], arms: int, p_value: float) -> str:
    steps = listed(f"{arm_in(arm['arm'])} {arm['detectable_step']:.2g}" for arm in tested)
    text = (
        f"No sign of drift ({p_text(p_value)}). A lasting change of an arm's mean half-way would have been detected "
        f"with probability 80% from this size on: {steps}."
    )
    untested = arms - len(tested)
    if not untested:
        return text
    return f"{text} {untested} of {arms} arms {'has' if untested == 1 else 'have'} too few rewards to be tested."


def _too_few(arms: Sequence[ArmDrift]) -> str:
    if not arms:
        return "There are no arms to test for drift."
    best = max(arms, key=lambda arm: (min(arm["rewards"], MIN_REWARDS), arm["unusual"]))
    return (
        f"Too few rewards to test for drift: an arm needs {MIN_REWARDS}, and {MIN_UNUSUAL} of them other than its "
        f"commonest reward; arm {best['arm']} comes nearest with {best['rewards']:,} and {best['unusual']:,}."
    )


@diagnostic("drift")
def _drift(snapshot: Snapshot) -> Iterator[Check]:
    """Read rewards, including default rewards: a change of how often rewards are missing is a change of the arm."""
    names, ended = snapshot.experiment.arm_names, snapshot.ended
    counts = ended.end != End.VOIDED
    arm, value = ended.arm[counts], ended.value[counts]
    yield ended.describe(drift([value[arm == index] for index in range(len(names))], names))


@diagnostic("moving arms")
def _moving_arms(snapshot: Snapshot) -> Iterator[Check]:
    """Read the history of rehearsals. There is no p-value; `drift` tests the arms of real users."""
    rehearsed = [*dict.fromkeys(row.text for row in snapshot.rows(TextRow, "rehearsed_on"))]
    if rehearsed:
        sentence = " ".join(moving_caution(snapshot.experiment, text) for text in rehearsed)
        yield Check("moving arms", "alarm", sentence, None, {"environments": rehearsed})
