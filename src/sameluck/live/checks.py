"""What can be seen to be wrong with a live experiment while it runs: arrays in, one `Check` out.

| check          | asks whether                                              | p-value                           |
|----------------|-----------------------------------------------------------|-----------------------------------|
| `drift`        | an arm paid the same early and late                       | of one look; Holm over the arms   |
| `replay_audit` | replayed rewards are what real users would have given     | t test over replications          |
| `loss`         | one arm loses more users or rewards than another          | within time blocks; Holm over two |
| `delay`        | the reward window cuts off rewards that were on their way | none: an exact bound on a share   |
| `sample_ratio` | the traffic gate lets in the share it was told to         | anytime-valid                     |
| `same_policy`  | a policy beside itself makes no difference (A/A)          | anytime-valid, or exactly zero    |
| `enrolment`    | calls find a place in the experiment                      | none: a share                     |

A p-value below 0.01 is something to watch, one below 0.001 an alarm: there are several checks, and people look often.
A verdict is about the experiment's assumptions, never about which policy is better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, betaln, chdtrc, ndtr, ndtri

from sameluck.errors import require, require_number
from sameluck.intervals import anytime_p_values, holm, t_interval
from sameluck.live.answers import (
    ASSIGNED,
    DRAINING,
    NO_OPEN_SLOT,
    NOT_IN_TRAFFIC_SHARE,
    NOT_RUNNING,
    STICKY,
)

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

WATCH, ALARM = 0.01, 0.001  # p-values below

DRIFT_REWARDS = 50  # of an arm, and among them
DRIFT_UNUSUAL = 20  # other than the commonest: a mean of rarer ones is not yet normal
AUDIT_REPLICATIONS = 10
LOSSES = 20  # of a kind, over all arms
DELAYS = 50
CALLS = 100

LATE_WATCH = 0.05  # rewards after the window, of all that came
# Rewards in the last tenth of the window, of those within it. Were delays exponential, 1% there would mean that 2%
# of all rewards came too late, and 3% that 11% did.
TAIL_WATCH, TAIL_ALARM = 0.01, 0.03
PRIOR_USERS = 100  # how sure the gate's alternative is of the share: spread 5 points around a half
BLOCK_USERS, BLOCKS = 100, 20
CROWDED_OUT = 0.5  # calls without a place, of those that could have had one


class Check(NamedTuple):
    """What one check found."""

    name: str
    verdict: str  # "fine", "watch", "alarm", or "unknown" where there is too little data
    sentence: str  # what was found and what to do
    p_value: float | None
    details: dict[str, Any]  # plain values, ready for JSON


class Outcome(IntEnum):
    """How an assignment ended; one that is still open is none of these."""

    OBSERVED = 0  # a reward came within the window
    DEFAULTED = 1  # shown, but none came: the default reward counts
    VOIDED = 2  # never shown: the entry was offered again


def _verdict(p_value: float) -> str:
    if p_value < ALARM:
        return "alarm"
    return "watch" if p_value < WATCH else "fine"


def _p(p_value: float) -> str:
    return "p < 1e-9" if p_value < 1e-9 else f"p = {p_value:.2g}"


def drift(rewards_by_arm: Sequence[Floats], arm_names: Sequence[str]) -> Check:
    """Whether each arm paid the same throughout.

    An arm's rewards from real users stand in the order of assignment over the whole experiment: y_1..y_n. Their
    recursive residuals e_j = (y_j - mean(y_1..y_{j-1})) sqrt((j - 1) / j) are martingale differences whatever policy
    decided when to pull the arm. The statistic is the largest of three |z|, one for a step after a quarter, a half
    and three quarters of the rewards, each the sum of e_j / sqrt(j (j - 1)) over the j after the step, the best
    weights for a step there. By two identities that sum is mean(y_1..y_n) - mean(y_1..y_m), and the sum of e_j^2 is
    that of (y_j - mean)^2, so z = (mean after - mean before) sqrt(m (n - m) / n) / s with the arm's sd s. Its
    p-value is that of the standardised Brownian bridge at 1/4, 1/2 and 3/4; Holm over the arms.

    The p-value is for one look. It holds from about ten replications on: in one long replication whether an arm has
    enough rewards to be tested depends on the rewards themselves, and twice as many false findings were measured.
    """
    require(len(rewards_by_arm) == len(arm_names), "drift needs one array of rewards for each arm")
    arms = [
        _one_arm(str(name), np.asarray(rewards, float))
        for name, rewards in zip(arm_names, rewards_by_arm, strict=True)
    ]
    tested = [one for one in arms if "p_value" in one]
    details = {"arms": arms}
    if not tested:
        return Check("drift", "unknown", _drift_needs(arms), None, details)
    adjusted = holm(np.array([one["p_value"] for one in tested]))
    for one, p_value in zip(tested, adjusted, strict=True):
        one["p_adjusted"] = float(p_value)
        one["detectable_step"] = _detectable(one["sd"], one["rewards"], len(tested))
    worst = tested[int(adjusted.argmin())]
    p_value, verdict = worst["p_adjusted"], _verdict(worst["p_adjusted"])
    if verdict == "fine":
        sentence = _steady(tested, len(arms), p_value)
    else:
        sentence = (
            f"The rewards of arm {worst['arm']} changed: {worst['before']:.4g} on average in the first "
            f"{worst['step_at']:.0%} of its {worst['rewards']:,}, {worst['after']:.4g} since ({_p(p_value)}). "
            "Replay cancels a change that all policies share, not one within a replication: read the result as the "
            "effect over this period, look for what changed (a release, a campaign), and prefer lock-step order."
        )
    return Check("drift", verdict, sentence, p_value, details)


def _one_arm(name: str, rewards: Floats) -> dict[str, Any]:
    count = int(rewards.size)
    found: dict[str, Any] = {"arm": name, "rewards": count, "unusual": _unusual(rewards)}
    if count < DRIFT_REWARDS or found["unusual"] < DRIFT_UNUSUAL:
        return found
    sums = np.cumsum(rewards - rewards.mean())
    sd = float(rewards.std(ddof=1))
    cuts = np.array([count // 4, count // 2, 3 * count // 4])
    # mean before = sums[m - 1] / m; after - before = -sums[m - 1] n / (m (n - m)), as the deviations sum to zero.
    z = -sums[cuts - 1] * np.sqrt(count / (cuts * (count - cuts))) / sd
    at = int(np.abs(z).argmax())
    return found | {
        "mean": float(rewards.mean()),
        "sd": sd,
        "quarters": [float(part.mean()) for part in np.split(rewards, cuts)],
        "step_at": (0.25, 0.5, 0.75)[at],
        "before": float(rewards[: cuts[at]].mean()),
        "after": float(rewards[cuts[at] :].mean()),
        "z": float(z[at]),
        "p_value": _largest_of_three(abs(float(z[at]))),
    }


def _unusual(rewards: Floats) -> int:
    if rewards.size == 0:
        return 0
    return int(rewards.size - np.unique(rewards, return_counts=True)[1].max())


def _largest_of_three(bound: float) -> float:
    """The chance that |B(u)| / sqrt(u (1 - u)) of a Brownian bridge B exceeds the bound at u = 1/4, 1/2 or 3/4.

    Given the middle value the outer two are independent, each of correlation 1 / sqrt(3) with it, so that it is
    one integral.
    """
    if bound == 0:
        return 1.0
    nodes, weights = _nodes()
    middle, slope, rest = bound * nodes, 1 / math.sqrt(3), math.sqrt(2 / 3)
    outside = ndtr((slope * middle - bound) / rest) + ndtr((-bound - slope * middle) / rest)
    density = np.exp(-0.5 * middle**2) / math.sqrt(2 * math.pi)
    beyond = bound * float(np.sum(weights * density * outside * (2 - outside)))
    return min(1.0, 2 * float(ndtr(-bound)) + beyond)


@cache
def _nodes() -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(100)


def _detectable(sd: float, count: int, arms: int) -> float:
    """The step in the middle that is seen (p-value below `WATCH`) four times in five."""
    # Bonferroni over three cuts and the arms, a little above the bound of the largest of three.
    bound = -float(ndtri(WATCH / (6 * arms)))
    return (bound - float(ndtri(0.2))) * 2 * sd / math.sqrt(count)


def _steady(tested: list[dict[str, Any]], arms: int, p_value: float) -> str:
    parts = ", ".join(f"{one['arm']} {one['detectable_step']:.2g}" for one in tested)
    text = (
        f"No sign of drift ({_p(p_value)}). A lasting change of an arm's mean half-way would have been seen, four "
        f"times in five, from this size on: {parts}."
    )
    left = arms - len(tested)
    return text if not left else f"{text} {left} of {arms} arms have too few rewards to say."


def _drift_needs(arms: list[dict[str, Any]]) -> str:
    if not arms:
        return "There are no arms to see drift in."
    best = max(arms, key=lambda one: (min(one["rewards"], DRIFT_REWARDS), one["unusual"]))
    return (
        f"Too few rewards to see drift: an arm needs {DRIFT_REWARDS}, and {DRIFT_UNUSUAL} of them other than its "
        f"commonest reward; arm {best['arm']} has {best['rewards']:,} and {best['unusual']:,}."
    )


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
    verdict, mean = _verdict(interval.p_value), float(sums.mean())
    where = (
        f"({interval.low:.3g} to {interval.high:.3g} at {1 - WATCH:.0%}, {_p(interval.p_value)})"
    )
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
    verdict = _verdict(p_value)
    if verdict == "fine":
        sentence = (
            f"{pair} are the same policy and differ by luck alone: {mean:+.3g} ({_p(p_value)})."
        )
    else:
        sentence = (
            f"{pair} are the same policy and yet differ by {mean:+.3g} a replication ({_p(p_value)}): do not trust "
            "other differences of this experiment before the cause is found."
        )
    return Check("same policy", verdict, sentence, p_value, details)


def _exactly_equal(values: Floats, pair: str, details: dict[str, Any]) -> Check:
    wrong = np.flatnonzero(values != 0)
    details = details | {"different": int(wrong.size)}
    if values.size == 0:
        sentence = f"{pair} need one complete replication to be compared."
        return Check("same policy", "unknown", sentence, None, details)
    if wrong.size == 0:
        sentence = (
            f"{pair} are the same policy and earned the same in all {values.size:,} replications."
        )
        return Check("same policy", "fine", sentence, None, details)
    first = int(wrong[0])
    sentence = (
        f"{pair} are the same policy on the same luck, yet differ in {wrong.size:,} of {values.size:,} replications, "
        f"first in replication {first} by {values[first]:+.3g}. A policy that is not a function of what it has seen "
        "or an entry read twice does this: stop and find out."
    )
    return Check("same policy", "alarm", sentence, None, details | {"first": first})


def loss(
    arm: Ints,
    block: Ints,
    outcome: Ints,
    arm_names: Sequence[str],
    *,
    late: Sequence[int] | None = None,
    silence_is_zero: bool = False,
) -> Check:
    """Whether one arm loses more users or rewards than another.

    One element for each ended assignment: its arm, its time block and its `Outcome`. Two shares are compared between
    arms: voided of assigned, and defaulted of shown. Arm shares change over time by design and so may losses, so
    each comparison is made within blocks: the generalised Cochran-Mantel-Haenszel test of arm by lost or not,
    chi-square with arms - 1 degrees of freedom; Holm over the two. `user_blocks` makes blocks.

    Args:
        arm: Arms, from 0.
        block: Time blocks, from 0.
        outcome: `Outcome` values.
        arm_names: A name for each arm.
        late: For each arm, how many rewards came after the window and did not count.
        silence_is_zero: Silence is how this experiment reports the default reward (only purchases are sent, say).
            Then default shares are what the arms earn and differ as they do: shown, not tested.
    """
    require(arm.shape == block.shape == outcome.shape, "loss needs arrays of one length")
    late = [0] * len(arm_names) if late is None else [int(one) for one in late]
    table = _loss_table(arm, outcome, arm_names, late)
    shown = outcome != Outcome.VOIDED
    p_values: dict[str, float] = {}
    if not silence_is_zero:
        _test_loss(p_values, "defaulted", arm[shown], block[shown], outcome[shown])
    _test_loss(p_values, "voided", arm, block, outcome)
    details = {
        "arms": table,
        "blocks": int(np.unique(block).size),
        "silence_is_zero": silence_is_zero,
    }
    return _loss_check(table, p_values, details)


def user_blocks(users: int) -> Ints:
    """Time blocks for `loss`, for users in the order of assignment: of equal length, 100 users at least, at most 20.

    Shorter ones let more of the policies' own reaction to a lost reward into the comparison: with blocks of 40 users
    of one replication after the other up to 7.4% of p-values fell below 5%, with these 4 to 7%.
    """
    many = min(BLOCKS, max(1, users // BLOCK_USERS))
    return np.arange(users, dtype=np.int64) * many // max(users, 1)


def _loss_table(
    arm: Ints, outcome: Ints, names: Sequence[str], late: list[int]
) -> list[dict[str, Any]]:
    counts = np.zeros((len(names), len(Outcome)), np.int64)
    np.add.at(counts, (arm, outcome), 1)
    return [
        {
            "arm": str(name),
            "assigned": int(row.sum()),
            "observed": int(row[Outcome.OBSERVED]),
            "defaulted": int(row[Outcome.DEFAULTED]),
            "voided": int(row[Outcome.VOIDED]),
            "late": after,
        }
        for name, row, after in zip(names, counts, late, strict=True)
    ]


def _test_loss(
    p_values: dict[str, float], kind: str, arm: Ints, block: Ints, outcome: Ints
) -> None:
    lost = outcome == Outcome[kind.upper()]
    if lost.sum() >= LOSSES:
        p_values[kind] = stratified_p_value(arm, block, lost)


def stratified_p_value(arm: Ints, block: Ints, lost: NDArray[np.bool_]) -> float:
    """The generalised Cochran-Mantel-Haenszel test that being lost does not depend on the arm within a block.

    In a block with n users, m_a of them on arm a, and r lost, the losses of the arms are hypergeometric under the
    null: mean r m_a / n, covariance r (n - r) / (n^2 (n - 1)) (n diag(m) - m m'). Means and covariances add up over
    blocks; 1 where no block can tell.
    """
    places = np.unique(block, return_inverse=True)[1], np.unique(arm, return_inverse=True)[1]
    shape = tuple(int(one.max(initial=-1)) + 1 for one in places)
    pulls, losses = np.zeros(shape), np.zeros(shape)
    np.add.at(pulls, places, 1.0)
    np.add.at(losses, places, lost.astype(float))
    users, gone = pulls.sum(axis=1), losses.sum(axis=1)
    excess = (losses - pulls * (gone / users)[:, None]).sum(axis=0)
    spread = gone * (users - gone) / (users**2 * np.maximum(users - 1, 1))
    covariance = np.diag((spread * users) @ pulls) - (pulls * spread[:, None]).T @ pulls
    # One row is minus the sum of the others: the pseudo-inverse of all equals the inverse without it.
    freedom = int(np.linalg.matrix_rank(covariance, hermitian=True))
    if freedom == 0:
        return 1.0
    return float(chdtrc(freedom, excess @ np.linalg.pinv(covariance, hermitian=True) @ excess))


def _loss_check(
    table: list[dict[str, Any]], p_values: dict[str, float], details: dict[str, Any]
) -> Check:
    late = sum(one["late"] for one in table)
    came = late + sum(one["observed"] for one in table)
    shares = _loss_sentence(table)
    tail = _late_sentence(late, came)
    if not table or sum(one["assigned"] for one in table) == 0:
        return Check("loss", "unknown", "No assignment has ended yet.", None, details)
    if not p_values:
        verdict = "watch" if late > LATE_WATCH * came else _untested_verdict(table, details)
        few = (
            ""
            if verdict == "fine"
            else f" Too few to compare the arms: {LOSSES} of a kind are needed."
        )
        return Check("loss", verdict, shares + few + tail, None, details)
    adjusted = holm(np.array(list(p_values.values())))
    details = details | {
        "p_values": {kind: float(one) for kind, one in zip(p_values, adjusted, strict=True)}
    }
    worst = list(p_values)[int(adjusted.argmin())]
    p_value, verdict = float(adjusted.min()), _verdict(float(adjusted.min()))
    if verdict == "fine":
        sentence = f"{shares} No arm loses more than the others ({_p(p_value)})."
        verdict = "watch" if late > LATE_WATCH * came else "fine"
    else:
        sentence = f"{shares} {_REMEDIES[worst].format(p=_p(p_value))}"
    return Check("loss", verdict, sentence + tail, p_value, details)


_REMEDIES = {
    "defaulted": (
        "Within time blocks, rewards of one arm fail to come more often than of another ({p}): look for lost or slow "
        "reports of that arm. If silence is how a reward of nothing is reported here, say silence_is_zero."
    ),
    "voided": (
        "Within time blocks, one arm is more often not shown than another ({p}): its users are replaced, so it is "
        "judged by those to whom it could be shown. Mend the showing, or count such users as shown."
    ),
}


def _untested_verdict(table: list[dict[str, Any]], details: dict[str, Any]) -> str:
    silent = details["silence_is_zero"]
    lost = sum(one["voided"] + (0 if silent else one["defaulted"]) for one in table)
    return "unknown" if lost else "fine"


def _loss_sentence(table: list[dict[str, Any]]) -> str:
    assigned = sum(one["assigned"] for one in table)
    shown = assigned - sum(one["voided"] for one in table)
    defaults = ", ".join(
        f"{one['arm']} {_share(one['defaulted'], one['assigned'] - one['voided'])}" for one in table
    )
    voids = ", ".join(f"{one['arm']} {_share(one['voided'], one['assigned'])}" for one in table)
    return (
        f"Of {shown:,} shown, without a reward in the window: {defaults}. "
        f"Of {assigned:,} assigned, never shown: {voids}."
    )


def _late_sentence(late: int, came: int) -> str:
    if not late:
        return ""
    return (
        f" {late:,} rewards ({_share(late, came)} of all) came after the window and did not count: the experiment "
        "judges rewards within the window. If later ones matter, begin anew with a longer window."
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"


def delay(arm: Ints, seconds: Floats, arm_names: Sequence[str], *, window: float | None) -> Check:
    """How long rewards take, and whether the window ends before they do.

    One element for each reward that came within the window: its arm and the time from showing to reward. Give only
    assignments old enough to have ended, or quick rewards are over-represented. Per arm the share of rewards in the
    last tenth of the window is bounded from below (Clopper and Pearson, 99% over all arms together): above 1% is
    something to watch, above 3% an alarm. Were delays exponential, these would mean that 2% and 11% of all rewards
    came after the window.
    """
    require(arm.shape == seconds.shape, "delay needs arrays of one length")
    rows = [
        _delays_of(str(name), seconds[arm == place], window, len(arm_names))
        for place, name in enumerate(arm_names)
    ]
    details = {"window": window, "arms": rows}
    if seconds.size < DELAYS:
        need = f"Delays need {DELAYS} rewards to be judged and there are {seconds.size}."
        return Check("delay", "unknown", need, None, details)
    times = ", ".join(
        f"{one['arm']} {span(one['median'])} (99%: {span(one['p99'])})"
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
    least = float(betaincinv(last, count - last + 1, WATCH / arms)) if last else 0.0
    return found | {"last_tenth": last / count, "last_tenth_at_least": least}


def span(seconds: float) -> str:
    """A time in words."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def sample_ratio(inside: int, outside: int, share: float) -> Check:
    """Whether the traffic gate lets in the share it was told to; may be looked at after every user.

    The evidence against the share s is the ratio of the users' likelihood with the share drawn from
    Beta(100 s, 100 (1 - s)) to that under s, a martingale of mean 1; the p-value is one over it, at most 1
    (Lindon and Malek, 2022).
    """
    require_number("share", share, above=0, at_most=1)
    require(min(inside, outside) >= 0, "counts of users cannot be negative")
    total = inside + outside
    found = inside / total if total else None
    details = {"inside": inside, "outside": outside, "share": float(share), "found": found}
    if share == 1:
        return _no_gate(outside, details)
    if total < CALLS:
        need = f"The traffic gate needs {CALLS} users to be judged and has met {total}."
        return Check("sample ratio", "unknown", need, None, details)
    ours, theirs = PRIOR_USERS * share, PRIOR_USERS * (1 - share)
    evidence = float(betaln(ours + inside, theirs + outside) - betaln(ours, theirs))
    evidence -= inside * math.log(share) + outside * math.log1p(-share)
    p_value = math.exp(-max(0.0, evidence))
    verdict = _verdict(p_value)
    told = (
        f"{inside:,} of {total:,} users ({inside / total:.2%}) came through a gate of {share:.4g}"
    )
    if verdict == "fine":
        sentence = f"{told} ({_p(p_value)})."
    else:
        sentence = (
            f"{told}: that is not chance ({_p(p_value)}). Some users are lost, counted twice or routed on one side "
            "of the gate only; find out which before believing a result."
        )
    return Check("sample ratio", verdict, sentence, p_value, details)


def _no_gate(outside: int, details: dict[str, Any]) -> Check:
    if outside:
        sentence = f"All traffic is to enter, yet {outside:,} users were kept out at the gate."
        return Check("sample ratio", "alarm", sentence, None, details)
    return Check("sample ratio", "fine", "All traffic may enter: no gate to check.", None, details)


BY_DESIGN = {NOT_IN_TRAFFIC_SHARE, NOT_RUNNING, DRAINING}


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
        need = f"Enrolment needs {CALLS} calls to be judged and has had {could}."
        return Check("enrolment", "unknown", need, None, details)
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in out.items()) or "none"
    sentence = f"{entered:,} of {could:,} users who could enter did; left out: {reasons}."
    if sum(wanted.values()) <= CROWDED_OUT * could:
        return Check("enrolment", "fine", sentence, None, details)
    if wanted.get(NO_OPEN_SLOT, 0) > sum(wanted.values()) / 2:
        remedy = (
            " Most found every open replication waiting for a reward: more open replications (W) would use them. "
            "About arrivals a second times seconds to a reward are needed."
        )
    else:
        remedy = " The experiment ends later than it could; the largest number above says why."
    return Check("enrolment", "watch", sentence + remedy, None, details)
