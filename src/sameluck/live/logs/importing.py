"""Import of a production log of one policy as the ledger of a new experiment.

Each row of a replication is the next entry of its arm's stack, which all policies share. This is valid under three
assumptions. The arm that a user got did not depend on rewards still to come, no row is missing because of its reward,
and users have not changed since. Everything is computed before the transaction that writes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.errors import Invalid, did_you_mean, shown
from sameluck.experiment import Experiment
from sameluck.live.logs.imported import Agreement, Imported, agreement, imported
from sameluck.live.logs.stacks import LogStacks, write_ledger
from sameluck.live.options import (
    LiveOptions,
    Makers,
    check_fit,
    check_flags,
    checked_makers,
    experiment_as_run,
)
from sameluck.live.start import Start, StartRequest
from sameluck.logs.rows import Log, Problem, read_log, refuse_problems
from sameluck.policies.base import Policy, needs_binary
from sameluck.policies.registry import as_policy

__all__ = ["ImportRequest", "Imported", "import_log"]

MIN_CORRELATION = 0.9  # of the largest possible correlation of reward and row
MIN_ERRORS = 5.0  # standard errors: by chance with probability 6e-7
MIN_BLOCK = 5  # rows of an arm that make a block


class ImportRequest(NamedTuple):
    """Arguments of `Store.import_log`."""

    name: str
    source: object
    arm: str
    reward: str
    policies: Mapping[str, Policy]
    replication: str | None
    time: str | None
    arms: Sequence[str] | None
    logged_by: str | None
    options: LiveOptions
    skip_bad: bool
    seed: int
    horizon: int | None
    replications: int | None
    makers: Makers | None
    sorted_ok: bool
    mismatch_ok: bool

    def check(self) -> None:
        if not isinstance(self.policies, Mapping) or not self.policies:
            raise Invalid(
                f"import_log: policies must map names to policies, got {shown(self.policies)}"
            )
        flags = ("skip_bad", "sorted_ok", "mismatch_ok")
        check_flags(**{flag: getattr(self, flag) for flag in flags})
        is_policy = isinstance(self.logged_by, str) and self.logged_by in self.policies
        if self.logged_by is not None and not is_policy:
            raise Invalid(
                f"import_log: logged_by {shown(self.logged_by)} is not one of policies; "
                f"{did_you_mean(self.logged_by, self.policies)}"
            )

    def read(self) -> Log:
        """Return the log without unusable rows; raise `Invalid` if there are any, unless they may be skipped."""
        columns = {role: getattr(self, role) for role in ("arm", "reward", "replication", "time")}
        low, high = self.options.reward.min, self.options.reward.max
        log = read_log(self.source, **columns, arm_names=self.arms, low=low, high=high)
        if len(log.arms) <= 1:
            raise Invalid(f"{log.name} has one arm, {log.arms[0]!r}; name all arms: arms=[...]")
        policies = [as_policy(policy, len(log.arms)) for policy in self.policies.values()]
        if any(needs_binary(policy) for policy in policies):
            log = _binary(log)
        if not self.skip_bad:
            refuse_problems(log)
        if log.row.size == 0:
            raise Invalid(f"{log.name}: no row can be used: {log.problems[:1]}")
        return log

    def experiment(self, log: Log) -> Experiment:
        lengths = np.bincount(log.replication)
        experiment = Experiment(
            policies=self.policies,
            arms=log.arms,
            horizon=int(lengths.min()) if self.horizon is None else self.horizon,
            replications=lengths.size if self.replications is None else self.replications,
            control=self.logged_by or "",
            seed=self.seed,
        )
        if experiment.replications < lengths.size:
            raise Invalid(
                f"import_log: replications is {shown(self.replications)}, but the log has {lengths.size:,}; plan at "
                "least as many"
            )
        experiment = experiment_as_run(experiment, self.options)
        check_fit(experiment, self.options)
        return experiment


def _binary(log: Log) -> Log:
    """Return the log with every reward other than 0 and 1 as a problem."""
    good = np.isin(log.reward, (0.0, 1.0))
    problems = [
        Problem(row, f"reward {value:g} is neither 0 nor 1, and a policy counts successes")
        for row, value in zip(log.row[~good].tolist(), log.reward[~good].tolist(), strict=True)
    ]
    remaining, replication = np.unique(log.replication[good], return_inverse=True)
    return log._replace(
        replications=tuple(log.replications[index] for index in remaining.tolist()),
        replication=replication,
        arm=log.arm[good],
        reward=log.reward[good],
        row=log.row[good],
        problems=tuple(sorted([*log.problems, *problems])),
    )


def import_log(request: ImportRequest, start: Start) -> Imported:
    """Read a log, run every policy on it, and begin an experiment with the resulting ledger."""
    request.check()
    log, options, makers = request.read(), request.options, checked_makers(request.makers)
    experiment = request.experiment(log)
    stacks = LogStacks(log)
    replications = stacks.replay_all(experiment, options, makers, request.logged_by)
    agreed = agreement(experiment, log, replications, request.logged_by)
    refuse_order(request, log, agreed)
    new = StartRequest(request.name, experiment, options, makers)
    live = start(new, lambda *at: write_ledger(stacks, replications, *at))
    return imported(live, log, replications, agreed)


def refuse_order(request: ImportRequest, log: Log, agreed: Agreement | None) -> None:
    """Raise `Invalid` if the rows of a log are not in the order of its users, unless that was confirmed."""
    if not request.sorted_ok and sorted_by_reward(log):
        raise Invalid(
            f"{log.name}: the rewards of its arms are sorted, so its rows are not in the order of users; name the "
            "time column (time=), or export the log in its order. If they are, pass sorted_ok=True (--sorted-ok)"
        )
    if agreed is not None and not agreed.agrees and not request.mismatch_ok:
        raise Invalid(
            f"{log.name}: {agreed.text}. The order of the log, the policy or its parameters may be wrong; pass "
            "mismatch_ok=True (--mismatch-ok) if they are right, or leave out logged_by"
        )
    if not request.sorted_ok and not (agreed and agreed.agrees) and sorted_by_arm(log):
        raise Invalid(
            f"{log.name}: its rows are sorted by arm and not in the order of users; name the time column (time=), or "
            "export the log in its order. If each arm's rows are in the order of users, as in an exported ledger, "
            "pass sorted_ok=True (--sorted-ok)"
        )


def sorted_by_reward(log: Log) -> bool:
    """Return True if the rewards of arms rise, or fall, in the order of the log.

    For each arm of a replication let T be the sum of (2 i - n - 1) r_i over its n rows, with r_i the rank of the i-th
    reward (ties share the mean rank), and T_max its value if they were sorted. Under any exchangeable order T has
    mean 0 and variance sum (2 i - n - 1)^2 sum (r_i - mean)^2 / (n - 1). The log looks sorted if, summed over the
    arms, |T| is at least 0.9 T_max and at least 5 standard errors.
    """
    total = largest = variance = 0.0
    for rewards in _stacks(log):
        _, index, counts = np.unique(rewards, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2)[index]
        weights = 2.0 * np.arange(1, ranks.size + 1) - ranks.size - 1
        total += float(weights @ ranks)
        largest += float(weights @ np.sort(ranks))
        spread = float(np.sum((ranks - ranks.mean()) ** 2))
        variance += float(weights @ weights) * spread / (ranks.size - 1)
    is_sure = abs(total) >= MIN_ERRORS * math.sqrt(variance) > 0
    return is_sure and abs(total) >= MIN_CORRELATION * largest


def _stacks(log: Log) -> Iterator[Floats]:
    """Yield the rewards of each arm of each replication, if there are two or more."""
    stack = log.replication * len(log.arms) + log.arm
    order = np.argsort(stack, kind="stable")
    for rewards in np.split(log.reward[order], np.flatnonzero(np.diff(stack[order])) + 1):
        if rewards.size > 1:
            yield rewards


def sorted_by_arm(log: Log) -> bool:
    """Return True if the rows of each arm are adjacent in every replication that can be judged.

    A replication can be judged if at least two of its arms have 5 rows or more.
    """
    starts = np.flatnonzero(np.diff(log.replication, prepend=-1))
    replications = np.split(log.arm, starts[1:])
    judged = [arms for arms in replications if np.sum(np.bincount(arms) >= MIN_BLOCK) > 1]
    blocks = [np.count_nonzero(np.diff(arms)) + 1 for arms in judged]
    return bool(judged) and blocks == [np.unique(arms).size for arms in judged]
