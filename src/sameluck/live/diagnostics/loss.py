"""`loss`: whether one arm loses more users or rewards than another, and how many rewards come after the window."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from sameluck.arrays import Ints
from sameluck.errors import Invalid
from sameluck.intervals import holm
from sameluck.live.diagnostics.check import Check, p_text, verdict_of
from sameluck.reporting.wording import arm_in, counted, listed

LOSSES = 20  # of a kind, over all arms
LATE_WATCH = 0.05  # rewards after the window, of all that came
BLOCK_USERS, BLOCKS = 100, 20


class Outcome(IntEnum):
    """How an assignment ended; one that is still open is none of these."""

    OBSERVED = 0  # a reward came within the window
    DEFAULTED = 1  # shown, but none came: the default reward counts
    VOIDED = 2  # never shown: the entry was offered again


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
    if not (arm.shape == block.shape == outcome.shape):
        raise Invalid("loss needs arrays of one length")
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
    return float(
        scipy.special.chdtrc(freedom, excess @ np.linalg.pinv(covariance, hermitian=True) @ excess)
    )


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
    p_value, verdict = float(adjusted.min()), verdict_of(float(adjusted.min()))
    if verdict == "fine":
        sentence = f"{shares} No arm loses more than the others ({p_text(p_value)})."
        verdict = "watch" if late > LATE_WATCH * came else "fine"
    else:
        sentence = f"{shares} {_REMEDIES[worst].format(p=p_text(p_value))}"
    return Check("loss", verdict, sentence + tail, p_value, details)


_REMEDIES = {
    "defaulted": (
        "Within time blocks, rewards of one arm fail to come more often than of another ({p}): look for lost or slow "
        "reports of that arm. If silence is how the default reward is reported here, look again with "
        "silence_is_zero=True (doctor --silence-is-zero)."
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
    assigned, voided = (sum(one[kind] for one in table) for kind in ("assigned", "voided"))
    silent, shown = sum(one["defaulted"] for one in table), assigned - voided
    defaults = listed(
        f"{arm_in(one['arm'])} {_share(one['defaulted'], one['assigned'] - one['voided'])}"
        for one in table
    )
    voids = listed(
        f"{arm_in(one['arm'])} {_share(one['voided'], one['assigned'])}" for one in table
    )
    rewarded = (
        f"Of {shown:,} shown, without a reward in the window: {defaults}."
        if silent
        else f"No reward is missing ({shown:,} shown)."
    )
    seen = (
        f"Of {assigned:,} assigned, never shown: {voids}."
        if voided
        else f"No arm was left unshown ({assigned:,} assigned)."
    )
    return f"{rewarded} {seen}"


def _late_sentence(late: int, came: int) -> str:
    if not late:
        return ""
    return (
        f" {counted(late, 'reward')} ({_share(late, came)} of all) came after the window and did not count: the "
        "experiment judges rewards within the window. If later ones matter, begin anew with a longer window."
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"
