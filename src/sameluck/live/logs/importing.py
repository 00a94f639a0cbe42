"""Import of a production log of one policy as the ledger of a new experiment.

Each row of a replication is the next entry of its arm's stack, which all policies share. This is valid under three
assumptions. The arm that a user got did not depend on rewards still to come, no row is missing because of its reward,
and users have not changed since. Everything is computed before the transaction that writes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats, Ints
from sameluck.errors import Invalid, did_you_mean, shown
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Transaction
from sameluck.live.engine.protocol import SHARED, Entry, SettledEntries, StackEngine, stack_engine
from sameluck.live.engine.walker import empty_results
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import (
    LiveOptions,
    Makers,
    check_fit,
    checked_makers,
    experiment_as_run,
)
from sameluck.live.records import AddedPolicy
from sameluck.live.state.definition import engine_of
from sameluck.logs.rows import Log, Problem, read_log, refuse_problems
from sameluck.policies.base import Policy, is_randomised, needs_binary
from sameluck.policies.registry import as_policy
from sameluck.validation import require_flag
from sameluck.wording import counted, sentence

Fill: TypeAlias = Callable[[Transaction, int, int], None]  # (transaction, experiment, time)
Start: TypeAlias = Callable[[str, Experiment, LiveOptions, Makers, Fill], LiveExperiment]

MIN_CORRELATION = 0.9  # of the largest possible correlation of reward and row
MIN_ERRORS = 5.0  # standard errors: by chance with probability 6e-7
MIN_BLOCK = 5  # rows of an arm that make a block


class Imported(NamedTuple):
    """Result of importing a log."""

    live: LiveExperiment
    rows: int  # imported
    skipped: tuple[str, ...]  # rows left out, with the reason
    replications: tuple[str, ...]  # names in the log; replication 0 is the first
    lengths: tuple[int, int]  # rows of the shortest replication and of the longest
    policies: dict[str, AddedPolicy]  # progress of each policy on the log alone
    agrees: bool | None  # True if `logged_by` would have written the log; None if it was not given
    agreement: str | None  # the same as text, with the first difference

    def __str__(self) -> str:
        arms = ", ".join(self.live.experiment.arm_names)
        lines = [self._sizes(), f"Arms: {arms}.", *self._horizon()]
        if self.agreement is not None:
            warning = "" if self.agrees else "BEWARE: "
            lines.append(sentence(warning + self.agreement))
        lines += [_progress(policy) for policy in self.policies.values()]
        lines.append(
            "Assumed: the arm that a user got did not depend on rewards still to come, no row is missing because of "
            "its reward, and users have not changed since."
        )
        return "\n".join(lines)

    def _sizes(self) -> str:
        experiment = self.live.experiment
        left = f", {len(self.skipped):,} left out" if self.skipped else ""
        more = experiment.replications - len(self.replications)
        planned = f", {more:,} more are planned" if more else ""
        return (
            f"{self.live.name}: {counted(self.rows, 'row')} imported{left}; "
            f"{counted(len(self.replications), 'replication')} of {counted(experiment.horizon, 'period')}{planned}."
        )

    def _horizon(self) -> list[str]:
        (shortest, longest), horizon = self.lengths, self.live.experiment.horizon
        if shortest == longest == horizon:
            return []
        to = f" to {longest:,}" if shortest < longest else ""
        text = f"Replications of the log have {shortest:,}{to} rows"
        if longest > horizon:
            text += "; rows beyond the horizon are kept as further entries of their arms' stacks"
        if shortest < horizon:
            text += "; if a replication ends before the horizon, even the policy that wrote the log needs users"
        if shortest < longest:
            text += ". Their lengths must not depend on their rewards"
        return [f"{text}."]


def _progress(added: AddedPolicy) -> str:
    replications = counted(added.replications, "replication")
    return (
        f"  {added.policy}: without a user {added.finished:,} of {replications} finished and "
        f"{counted(added.replayed, 'period')} replayed; at this moment it needs "
        f"{counted(added.users_at_least, 'user')}"
    )


class ImportRequest(NamedTuple):
    """Arguments of `Store.import_log`."""

    name: str
    source: object
    arm: str
    reward: str
    policies: Mapping[str, Policy]
    replication: str | int | None
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
        for flag in ("skip_bad", "sorted_ok", "mismatch_ok"):
            require_flag(flag, getattr(self, flag))
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
    engine = stack_engine(engine_of(experiment, options, makers), "import_log")
    numbers = range(len(log.replications))
    replications = [stacks.replay(engine, number, request.logged_by) for number in numbers]
    agreed = None
    if request.logged_by is not None:
        agreed = agreement(experiment, log, replications, request.logged_by)
    refuse_order(request, log, agreed)
    fill = partial(stacks.write, replications)
    live = start(request.name, experiment, options, makers, fill)
    lengths = np.bincount(log.replication)
    return Imported(
        live=live,
        rows=log.row.size,
        skipped=tuple(f"{log.unit} {problem.row}: {problem.reason}" for problem in log.problems),
        replications=log.replications,
        lengths=(int(lengths.min()), int(lengths.max())),
        policies={
            policy: AddedPolicy(
                policy=policy,
                replications=len(replications),
                finished=sum(row.periods_done[k] == experiment.horizon for row in replications),
                replayed=sum(row.periods_done[k] for row in replications),
                users_at_least=sum(row.wanted[k] for row in replications),
                users_so_far=0,
            )
            for k, policy in enumerate(experiment.policies)
        },
        agrees=agreed and agreed.agrees,
        agreement=agreed and agreed.text,
    )


class Agreement(NamedTuple):
    """Comparison of a log with the policy that is said to have written it."""

    agrees: bool
    text: str


def agreement(
    experiment: Experiment, log: Log, replications: Sequence[LoggedReplication], logged_by: str
) -> Agreement:
    policy = experiment.policies[logged_by]
    name = text_forms.write(policy)
    differences = [row.difference for row in replications if row.difference is not None]
    if not differences:
        return Agreement(agrees=True, text=f"{name} would have written the same log")
    first, arms = min(differences), experiment.arm_names
    text = (
        f"{name} would have written another log; first difference at {log.unit} {first.row}: it would have "
        f"played {arms[first.policy_arm]!r}, the log has {arms[first.log_arm]!r}; {len(differences):,} of "
        f"{len(replications):,} replications differ"
    )
    if is_randomised(policy, experiment.n_arms):
        text += " (it is randomised, and the log has other random choices)"
    if log.problems:
        text += " (rows that were left out may be the cause)"
    return Agreement(agrees=False, text=text)


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
    stacks = LogStacks(log)
    for rewards in np.split(stacks.value, np.flatnonzero(stacks.position == 0)[1:]):
        if rewards.size < 2:
            continue
        _, index, counts = np.unique(rewards, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2)[index]
        weights = 2.0 * np.arange(1, ranks.size + 1) - ranks.size - 1
        total += float(weights @ ranks)
        largest += float(weights @ np.sort(ranks))
        spread = float(np.sum((ranks - ranks.mean()) ** 2))
        variance += float(weights @ weights) * spread / (ranks.size - 1)
    is_sure = abs(total) >= MIN_ERRORS * math.sqrt(variance) > 0
    return is_sure and abs(total) >= MIN_CORRELATION * largest


def sorted_by_arm(log: Log) -> bool:
    """Return True if the rows of each arm are adjacent in every replication that can be judged.

    A replication can be judged if at least two of its arms have 5 rows or more.
    """
    starts = np.flatnonzero(np.diff(log.replication, prepend=-1))
    replications = np.split(log.arm, starts[1:])
    judged = [arms for arms in replications if np.sum(np.bincount(arms) >= MIN_BLOCK) > 1]
    blocks = [np.count_nonzero(np.diff(arms)) + 1 for arms in judged]
    return bool(judged) and blocks == [np.unique(arms).size for arms in judged]


class Difference(NamedTuple):
    """First row of a replication at which a policy plays another arm than the log."""

    row: int
    policy_arm: int
    log_arm: int


class LoggedReplication(NamedTuple):
    """State of one replication after every policy has run as far as the log reaches."""

    number: int
    version: int
    complete: bool
    periods_done: list[int]  # of each policy
    wanted: list[int]  # entries that each policy waits for
    outstanding: list[Entry]
    difference: Difference | None  # of the policy that wrote the log


class LogStacks:
    """Rows of a log by replication, arm and position."""

    def __init__(self, log: Log) -> None:
        self.log = log
        stack = log.replication * len(log.arms) + log.arm
        order = np.argsort(stack, kind="stable")
        stack = stack[order]
        self.replication: Ints = log.replication[order]
        self.arm: Ints = log.arm[order]
        self.position: Ints = np.arange(stack.size) - np.searchsorted(stack, stack)
        self.value: Floats = log.reward[order]
        numbers = np.arange(len(log.replications) + 1)
        self.starts: Ints = np.searchsorted(log.replication, numbers)
        self.settled: Ints = order - self.starts[self.replication] + 1  # the order of the log

    def span(self, number: int) -> slice:
        return slice(self.starts[number], self.starts[number + 1])

    def entries(self, number: int) -> SettledEntries:
        span = self.span(number)
        value = self.value[span]
        stack_owner, imported = np.full(value.size, SHARED), np.ones(value.size, bool)
        return SettledEntries(stack_owner, self.arm[span], self.position[span], value, imported)

    def replay(self, engine: StackEngine, number: int, logged_by: str | None) -> LoggedReplication:
        """Run every policy on a replication, and compare the policy that wrote the log with the log."""
        experiment = engine.experiment
        names = list(experiment.policies)
        results = [empty_results(experiment, trajectory=name == logged_by) for name in names]
        state = engine.rebuild(number, self.entries(number), [], results)
        difference = None
        if logged_by is not None:
            k = names.index(logged_by)
            walker = state.walkers[k]
            next_arms = np.array([arm for arm, _ in walker.next_entries()], np.int64)
            arms = np.concatenate([results[k].trajectory.arms[: walker.periods_done], next_arms])
            difference = self._difference(number, arms)
        wanted = [len(state.needed_by([k])) for k in range(len(names))]
        state_now = number, state.version, state.complete, state.periods_done
        return LoggedReplication(*state_now, wanted, state.want(), difference)

    def _difference(self, number: int, policy_arms: Ints) -> Difference | None:
        span = self.span(number)
        log_arms = self.log.arm[span]
        both = min(policy_arms.size, log_arms.size)
        differs = np.flatnonzero(policy_arms[:both] != log_arms[:both])
        if differs.size == 0:
            return None
        columns = self.log.row[span], policy_arms, log_arms
        return Difference(*(int(column[differs[0]]) for column in columns))

    def write(
        self,
        replications: Sequence[LoggedReplication],
        transaction: Transaction,
        experiment: int,
        now: int,
    ) -> None:
        """Write the replications, their entries and the entries that the policies wait for."""
        key: dict[str, str | float] = {"experiment": experiment}
        rows = [
            {
                **key,
                "number": replication.number,
                "state": "complete" if replication.complete else "open",
                "version": replication.version,
                "policies": len(replication.periods_done),
                "complete": replication.complete,
                "now": now,
            }
            for replication in replications
        ]
        transaction.execute_many("import_replication", rows)
        common = {
            **key,
            "now": now,
            "stack_owner": SHARED,
            "state": "settled",
            "source": "imported",
        }
        names = ("replication", "arm", "position", "value", "settled")
        columns = zip(*(getattr(self, name).tolist() for name in names), strict=True)
        # A generator, since a log may have millions of rows.
        entries = (common | dict(zip(names, values, strict=True)) for values in columns)
        transaction.execute_many("import_entry", entries)
        wanted = [
            {**key, "replication": replication.number, **entry.columns()}
            for replication in replications
            for entry in replication.outstanding
        ]
        transaction.execute_many("want", wanted)
