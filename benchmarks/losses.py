"""False alarms and power of the check `loss`, with and without outages.

Run it with python benchmarks/losses.py [EXPERIMENTS]. Each cell plays experiments of 20 replications of 150 users on
three arms. A lost reward counts 0, and the policy reacts to it. The columns are shares of experiments: p-values below
5%, and verdicts other than fine (p < 1%).
"""

from __future__ import annotations

import sys

import numpy as np

from sameluck.live.diagnostics.loss import loss, user_blocks
from sameluck.live.diagnostics.snapshot import End

MEANS = np.array([0.6, 0.6, 0.4])
REPLICATIONS, HORIZON = 20, 150
USERS = REPLICATIONS * HORIZON


def no_outage(_, many):
    return np.zeros((USERS, many), bool)


def one_outage(length):
    def lost(rng, many):
        start = rng.integers(0, USERS - length, many)
        index = np.arange(USERS)[:, None]
        return (index >= start) & (index < start + length)

    return lost


def several_outages(rng, many):
    result = no_outage(rng, many)
    for _ in range(10):
        result |= one_outage(12)(rng, many)
    return result


def partial_outage(rng, many):
    return one_outage(200)(rng, many) & (rng.random((USERS, many)) < 0.6)


OUTAGES = {
    "none": no_outage,
    "one of 60 users": one_outage(60),
    "one of 300 users": one_outage(300),
    "one of 200, 60% lost": partial_outage,
    "ten of 12 users": several_outages,
}


def play(many, policy, outage, lost, *, together):
    """Return (user, experiment) arrays of arms and losses."""
    rng, run = np.random.default_rng(1), np.arange(many)
    outages, shares = outage(rng, many), np.broadcast_to(lost, MEANS.size)
    chosen, missing = np.empty((USERS, many), np.int64), np.empty((USERS, many), bool)
    pulls, wins = np.zeros((2, REPLICATIONS, many, MEANS.size))
    for user in range(USERS):
        turn, replication = divmod(user, REPLICATIONS) if together else divmod(user, HORIZON)[::-1]
        n, won = pulls[replication], wins[replication]
        if policy == "thompson":
            index = rng.beta(1 + won, 1 + n - won)
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                index = np.where(n > 0, won / n + np.sqrt(2 * np.log(turn + 1) / n), np.inf)
            index = index + 1e-9 * rng.random(index.shape)
        arm = index.argmax(axis=1)
        gone = outages[user] | (rng.random(many) < shares[arm])
        n[run, arm] += 1
        won[run, arm] += (rng.random(many) < MEANS[arm]) & ~gone
        chosen[user], missing[user] = arm, gone
    return chosen, missing


def main(many: int) -> None:
    blocks, names = user_blocks(USERS), ["a", "b", "c"]
    print(f"{many} experiments a cell; (p < 5%, not fine) by time blocks alone -> with outages")
    for policy in ("thompson", "ucb"):
        for together in (False, True):
            for lost in (0.02, 0.1, (0.05, 0.05, 0.12), (0.02, 0.02, 0.5)):
                for name, outage in OUTAGES.items():
                    played = play(many, policy, outage, lost, together=together)
                    cells = []
                    for in_order in (False, True):
                        checks = [
                            loss(arm, blocks, gone * int(End.DEFAULTED), names, in_order=in_order)
                            for arm, gone in zip(*(rows.T for rows in played), strict=True)
                        ]
                        low = np.mean([(check.p_value or 1.0) < 0.05 for check in checks])
                        bad = np.mean([check.verdict in ("watch", "alarm") for check in checks])
                        cells.append(f"{low:6.1%} {bad:6.1%}")
                    order = "side by side" if together else "in sequence"
                    print(
                        f"{policy:9} {order:12} lost {lost!s:18} outage {name:20} {' -> '.join(cells)}",
                        flush=True,
                    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
