"""`loss`: no arm loses more users or rewards than another, and few rewards come after the window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Bools, Ints
from sameluck.errors import Invalid
from sameluck.intervals import holm
from sameluck.live.diagnostics.check import Check, Details, diagnostic, p_text, verdict_of
from sameluck.live.diagnostics.snapshot import End, Snapshot
from sameluck.wording import arm_in, counted, listed

MIN_LOSSES = 20  # voided, or defaulted, over all arms
MAX_LATE = 0.05  # share of rewards after the window, of all reported rewards
MIN_BLOCK_USERS, MAX_BLOCKS = 100, 20
BURST_RATES = np.array([0.25, 0.5, 0.75, 0.95, 0.999])  # of losses in an outage
MAX_BURSTS = 50
EXCLUDED = -1e9  # log-likelihood that keeps a user out of every further burst


class ArmLosses(NamedTuple):
    """Ended assignments of one arm by their end, and its late rewards."""

    arm: str
    assigned: int
    observed: int
    defaulted: int
    voided: int
    late: int

    @property
    def shown(self) -> int:
        """Assignments that were not voided."""
        return self.assigned - self.voided


def loss(
    arm: Ints,
    block: Ints,
    end: Ints,
    arm_names: Sequence[str],
    *,
    late: Sequence[int] | None = None,
    silence_is_zero: bool = False,
    in_order: bool = False,
) -> Check:
    """Check that no arm loses more users or rewards than another.

    Two shares are compared between arms: voided of assigned, and defaulted of shown. Arm shares change over time by
    design, and losses may too, so each comparison is made within time blocks (`user_blocks`) and outages
    (`loss_bursts`): the generalised Cochran-Mantel-Haenszel test of arm by lost or not, chi-square with arms - 1
    degrees of freedom; Holm over both. With outages, 3 to 10% of p-values are below 5% and 0 to 3.5% below 1% under
    Thompson sampling and UCB1 (32 cells of 200 experiments, `benchmarks/losses.py`), because the policies react to
    losses; without `in_order`, up to 73% and 63%.

    Args:
        arm: The arm of each ended assignment, from 0.
        block: Its time block, from 0.
        end: How it ended, an `End`.
        arm_names: One name per arm.
        late: Per arm, the number of rewards that came after the window and did not count.
        silence_is_zero: Not reporting a reward means the default reward (for example if only purchases are sent).
            Then default shares differ as the arms' rewards do: they are listed, not tested.
        in_order: Assignments are in the order they were made, so that outages are found (`loss_bursts`).
    """
    if not (arm.shape == block.shape == end.shape):
        raise Invalid("loss needs arrays of equal length")
    late = [0] * len(arm_names) if late is None else [int(count) for count in late]
    table = _loss_table(arm, end, arm_names, late)
    shown, defaulted = end != End.VOIDED, end == End.DEFAULTED
    losses = {"voided": (arm, block, ~shown)}
    if not silence_is_zero:
        losses = {"defaulted": (arm[shown], block[shown], defaulted[shown])} | losses
    p_values = {
        name: stratified_p_value(
            arms, blocks * (MAX_BURSTS + 1) + in_order * loss_bursts(lost), lost
        )
        for name, (arms, blocks, lost) in losses.items()
        if lost.sum() >= MIN_LOSSES
    }
    details = {
        "arms": [row._asdict() for row in table],
        "blocks": int(np.unique(block).size),
        "silence_is_zero": silence_is_zero,
    }
    return _loss_check(table, p_values, details)


def user_blocks(users: int) -> Ints:
    """Return time blocks for `loss`, for users in the order of assignment: at most 20 of at least 100 users each.

    In shorter blocks the policies' reaction to a lost reward has a larger share in the comparison. With blocks of 40
    users and replications in sequence, up to 7.4% of p-values were below 5%; with these blocks, 4 to 7%.
    """
    blocks = min(MAX_BLOCKS, max(1, users // MIN_BLOCK_USERS))
    return np.arange(users, dtype=np.int64) * blocks // max(users, 1)


def loss_bursts(lost: Bools) -> Ints:
    """Return the burst of losses that each user belongs to, from 1; 0 outside bursts.

    During an outage nearly all reports are lost, and the arms of those users are not a fair sample: a policy repeats
    arms. So users of an outage are compared with each other only. Bursts are found from the losses alone, whatever
    the arms: intervals whose likelihood with a higher rate of losses exceeds its likelihood with the rate outside by
    a factor of 100 per user. Of losses at a constant rate, one sequence in 100 has such an interval (the inequality
    of Ville, for each first user of an interval and each of the rates).
    """
    bursts = np.zeros(lost.size, np.int64)
    for number in range(1, MAX_BURSTS + 1):
        outside = bursts == 0
        # Rates of 0 and 1 have no finite likelihood.
        rate = (lost[outside].sum() + 0.5) / (outside.sum() + 1.0)
        best, span = np.log(100 * BURST_RATES.size * lost.size), None
        for burst_rate in BURST_RATES[rate < BURST_RATES]:
            gains = np.log(burst_rate / rate), np.log((1 - burst_rate) / (1 - rate))
            sums = np.cumsum(np.where(outside, np.where(lost, *gains), EXCLUDED))
            before = np.minimum.accumulate(np.append(0.0, sums[:-1]))
            stop = int(np.argmax(sums - before))
            if sums[stop] - before[stop] > best:
                best = sums[stop] - before[stop]
                start = int(np.argmin(np.append(0.0, sums[:stop])))
                span = slice(start, stop + 1)
        if span is None:
            break
        bursts[span] = number
    return bursts


def _loss_table(arm: Ints, end: Ints, names: Sequence[str], late: list[int]) -> list[ArmLosses]:
    counts = np.zeros((len(names), len(End)), np.int64)
    np.add.at(counts, (arm, end), 1)
    return [
        ArmLosses(str(name), sum(row), row[0], row[1], row[2], after)
        for name, row, after in zip(names, counts.tolist(), late, strict=True)
    ]


def stratified_p_value(arm: Ints, block: Ints, lost: Bools) -> float:
    """Return the p-value of the generalised Cochran-Mantel-Haenszel test: losses do not depend on the arm.

    In a block with n users, m_a of them on arm a, and r lost, the losses of the arms are hypergeometric under the
    null: mean r m_a / n, covariance r (n - r) / (n^2 (n - 1)) (n diag(m) - m m'). Means and covariances add up over
    blocks. The p-value is 1 if no block has any information.
    """
    indices = np.unique(block, return_inverse=True)[1], np.unique(arm, return_inverse=True)[1]
    shape = tuple(int(index.max(initial=-1)) + 1 for index in indices)
    pulls, losses = np.zeros(shape), np.zeros(shape)
    np.add.at(pulls, indices, 1.0)
    np.add.at(losses, indices, lost.astype(float))
    users, lost_users = pulls.sum(axis=1), losses.sum(axis=1)
    excess = (losses - pulls * (lost_users / users)[:, None]).sum(axis=0)
    spread = lost_users * (users - lost_users) / (users**2 * np.maximum(users - 1, 1))
    covariance = np.diag((spread * users) @ pulls) - (pulls * spread[:, None]).T @ pulls
    # One row is minus the sum of the others: the pseudo-inverse of all equals the inverse without it.
    freedom = int(np.linalg.matrix_rank(covariance, hermitian=True))
    if freedom == 0:
        return 1.0
    inverse = np.linalg.pinv(covariance, hermitian=True)
    return float(scipy.special.chdtrc(freedom, excess @ inverse @ excess))


def _loss_check(table: Sequence[ArmLosses], p_values: dict[str, float], details: Details) -> Check:
    late = sum(row.late for row in table)
    reported = late + sum(row.observed for row in table)
    shares, tail = _loss_sentence(table), _late_sentence(late, reported)
    is_often_late = late > MAX_LATE * reported
    if sum(row.assigned for row in table) == 0:
        return Check("loss", "unknown", "No assignment has ended yet.", None, details)
    if not p_values:
        lost = sum(row.voided for row in table)
        lost += 0 if details["silence_is_zero"] else sum(row.defaulted for row in table)
        verdict = "watch" if is_often_late else "unknown" if lost else "fine"
        too_few = f" Too few to compare the arms: {MIN_LOSSES} of each sort are needed."
        return Check("loss", verdict, shares + too_few * (verdict != "fine") + tail, None, details)
    adjusted = holm(np.array(list(p_values.values())))
    details = details | {
        "p_values": {name: float(value) for name, value in zip(p_values, adjusted, strict=True)}
    }
    worst = list(p_values)[int(adjusted.argmin())]
    p_value, verdict = float(adjusted.min()), verdict_of(float(adjusted.min()))
    if verdict == "fine":
        sentence = f"{shares} No arm loses more than the others ({p_text(p_value)})."
        verdict = "watch" if is_often_late else "fine"
    else:
        sentence = f"{shares} {_REMEDIES[worst].format(p=p_text(p_value))}"
    return Check("loss", verdict, sentence + tail, p_value, details)


_REMEDIES = {
    "defaulted": (
        "Within time blocks, rewards of one arm fail to come more often than of another ({p}): look for lost or slow "
        "reports of that arm. If no report means the default reward here, check again with "
        "silence_is_zero=True (doctor --silence-is-zero)."
    ),
    "voided": (
        "Within time blocks, one arm is more often not shown than another ({p}): its users are replaced, so it is "
        "judged by the users to whom it could be shown. Repair how it is shown, or count such users as shown."
    ),
}


def _loss_sentence(table: Sequence[ArmLosses]) -> str:
    assigned, shown = sum(row.assigned for row in table), sum(row.shown for row in table)
    defaults = listed(f"{arm_in(row.arm)} {_share(row.defaulted, row.shown)}" for row in table)
    voids = listed(f"{arm_in(row.arm)} {_share(row.voided, row.assigned)}" for row in table)
    missing = f"No reward is missing ({shown:,} shown)."
    if any(row.defaulted for row in table):
        missing = f"Of {shown:,} shown, without a reward in the window: {defaults}."
    if assigned == shown:
        return f"{missing} No arm was left unshown ({assigned:,} assigned)."
    return f"{missing} Of {assigned:,} assigned, never shown: {voids}."


def _late_sentence(late: int, reported: int) -> str:
    if not late:
        return ""
    return (
        f" {counted(late, 'reward')} ({_share(late, reported)} of all) came after the window and did not count: only "
        "rewards within the window do. If later rewards matter, start again with a longer window."
    )


def _share(count: int, total: int) -> str:
    return f"{count / total:.1%}" if total else "none"


@diagnostic("loss")
def _loss(snapshot: Snapshot) -> Iterator[Check]:
    names, ended = snapshot.experiment.arm_names, snapshot.ended
    late = [round(count / ended.step) for count in snapshot.late]
    blocks, silence = user_blocks(ended.arm.size), snapshot.silence_is_zero
    check = loss(
        ended.arm, blocks, ended.end, names, late=late, silence_is_zero=silence, in_order=True
    )
    yield ended.describe(check)
