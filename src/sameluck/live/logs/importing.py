"""Importing a log: a production log of one policy becomes the ledger of a new experiment.

Each row of a replication is the next entry of its arm's stack, which all policies share. That is right if who got
which arm did not depend on rewards still to come, if no row is missing because of its reward, and if users were then
what they are now. Everything is worked out before the transaction that writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats, Ints
from sameluck.errors import Invalid, did_you_mean
from sameluck.experiment import Experiment
from sameluck.live.assignments import Clock
from sameluck.live.databases.base import Database, Transaction
from sameluck.live.engine.replication import Replication, Settled, rebuilt
from sameluck.live.engine.scheduler import SHARED, Entry, Scheduler, is_randomised
from sameluck.live.engine.walker import Maker, WalkResults, empty_results
from sameluck.live.experiment import LiveExperiment
from sameluck.live.logs import Columns, Log, Problem, read_log, refuse_problems
from sameluck.live.options import Live, check_fit, played
from sameluck.live.records import Joining
from sameluck.live.start import StartRequest, begin
from sameluck.policies.registry import as_policy
from sameluck.reporting.wording import counted, sentence
from sameluck.validation import require_name


class ImportRequest(NamedTuple):
    """What to make of a log."""

    policies: Mapping[str, Any]
    arms: Sequence[str] | None
    logged_by: str | None
    live: Live
    skip_bad: bool
    seed: int
    horizon: int | None
    replications: int | None
    makers: Mapping[str, Maker] | None


class Imported(NamedTuple):
    """What became of a log."""

    live: LiveExperiment
    rows: int  # imported
    skipped: tuple[str, ...]  # rows left out: which, and why
    replications: tuple[str, ...]  # as the log calls them; replication 0 is the first of these
    lengths: tuple[int, int]  # rows of the shortest replication and of the longest
    policies: dict[str, Joining]  # how far each gets on the log alone
    agrees: (
        bool | None
    )  # whether the log is what `logged_by` would have done; None if it was not given
    agreement: str | None  # the same in words, with the first difference

    def __str__(self) -> str:
        arms = ", ".join(self.live.experiment.arm_names)
        lines = [self._sizes(), f"Arms: {arms}.", *self._horizon()]
        if self.agreement is not None:
            warning = "" if self.agrees else "BEWARE: "
            lines.append(sentence(warning + self.agreement))
        lines += [_progress(one) for one in self.policies.values()]
        lines.append(
            "Taken for granted: who got which arm did not depend on rewards still to come, no row is missing because "
            "of its reward, and users are what they were."
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
        said = (
            f"Replications of the log have {shortest:,} to {longest:,} rows"
            if shortest < longest
            else f"Replications of the log have {shortest:,} rows"
        )
        if longest > horizon:
            said += "; rows beyond the horizon are kept as further entries of their arms' stacks"
        if shortest < horizon:
            said += "; where they end before the horizon, even the policy that wrote the log needs users"
        if shortest < longest:
            said += ". Their lengths must not depend on their rewards"
        return [f"{said}."]


def _progress(one: Joining) -> str:
    return (
        f"  {one.policy}: without a user {one.finished:,} of {counted(one.replications, 'replication')} finished and "
        f"{counted(one.replayed, 'period')} replayed; at this moment it asks for "
        f"{counted(one.users_at_least, 'user')}"
    )


class _Walked(NamedTuple):
    """How far the policies come in one replication on the log alone."""

    number: int
    version: int
    complete: bool
    reaches: list[int]
    wanted: list[int]  # entries that each policy waits for
    asks: list[Entry]
    difference: _Difference | None


class _Difference(NamedTuple):
    """Where a policy leaves the log."""

    row: int
    would: int
    has: int


class _Stacks:
    """The log as stacks: its rows by replication, arm and position."""

    def __init__(self, log: Log) -> None:
        arms, many = len(log.arms), log.row.size
        code = log.replication * arms + log.arm
        order = np.argsort(code, kind="stable")
        code = code[order]
        self.replication: Ints = log.replication[order]
        self.arm: Ints = log.arm[order]
        self.position: Ints = np.arange(many) - np.searchsorted(code, code)
        self.value: Floats = log.reward[order]
        numbers = np.arange(len(log.replications) + 1)
        self.starts: Ints = np.searchsorted(log.replication, numbers)
        self.settled: Ints = order - self.starts[self.replication] + 1  # the order of the log

    def of(self, number: int) -> Settled:
        """The entries of one replication."""
        span = slice(self.starts[number], self.starts[number + 1])
        value = self.value[span]
        owner, imported = np.full(value.size, SHARED), np.ones(value.size, bool)
        return Settled(owner, self.arm[span], self.position[span], value, imported)

    def rows(self, experiment: int, now: int) -> Iterator[dict[str, Any]]:
        """Every entry, as the database takes it."""
        common: dict[str, Any] = {"experiment": experiment, "owner": SHARED, "now": now}
        common |= {"state": "settled", "source": "imported"}
        names = ("replication", "arm", "position", "value", "settled")
        columns = (getattr(self, name).tolist() for name in names)
        for values in zip(*columns, strict=True):
            yield common | dict(zip(names, values, strict=True))


def imported(
    database: Database,
    clock: Clock,
    name: str,
    source: Any,
    columns: Columns,
    request: ImportRequest,
) -> Imported:
    """Read a log, walk every policy over it, and begin an experiment with what is known."""
    require_name("an experiment's name", name)
    _check_request(request)
    reward = request.live.reward
    log = read_log(
        source, **columns._asdict(), arm_names=request.arms, low=reward.min, high=reward.max
    )
    log = _usable(log, request)
    experiment = played(_experiment(log, request), request.live)
    check_fit(experiment, request.live)
    order, share = request.live.order, request.live.audit_share
    scheduler = Scheduler(experiment, order=order, audit_share=share, makers=request.makers)
    stacks = _Stacks(log)
    walked = [
        _walk(scheduler, log, stacks, number, request) for number in range(len(log.replications))
    ]
    new = StartRequest(name, experiment, request.live, request.makers)
    begun = begin(database, clock, new, lambda *at: _fill(stacks, walked, *at))
    agreement = _agreement(experiment, log, walked, request)
    lengths = np.diff(stacks.starts)
    return Imported(
        live=begun,
        rows=log.row.size,
        skipped=tuple(f"{log.unit} {one.row}: {one.what}" for one in log.problems),
        replications=log.replications,
        lengths=(int(lengths.min()), int(lengths.max())),
        policies={
            policy: _joining(k, policy, experiment.horizon, walked)
            for k, policy in enumerate(experiment.policies)
        },
        agrees=None if agreement is None else not any(one.difference for one in walked),
        agreement=agreement,
    )


def _check_request(request: ImportRequest) -> None:
    policies = request.policies
    if not isinstance(policies, Mapping) or not policies:
        raise Invalid(f"import_log: policies must map names to policies, got {policies!r}")
    if request.logged_by is not None and request.logged_by not in policies:
        raise Invalid(
            f"import_log: logged_by {request.logged_by!r} is not one of policies; "
            f"{did_you_mean(str(request.logged_by), policies)}"
        )


def _usable(log: Log, request: ImportRequest) -> Log:
    """The log without the rows that cannot be used; an error unless those may be skipped."""
    if len(log.arms) <= 1:
        raise Invalid(
            f"{log.name} has one arm, {log.arms[0]!r}; say which others there are: arms=[...]"
        )
    policies = [as_policy(policy, len(log.arms)) for policy in request.policies.values()]
    if any(getattr(policy, "needs_binary", False) for policy in policies):
        log = _binary(log)
    if not request.skip_bad:
        refuse_problems(log)
    if not (log.row.size > 0):
        raise Invalid(f"{log.name}: no row can be used: {log.problems[:1]}")
    return log


def _binary(log: Log) -> Log:
    good = np.isin(log.reward, (0.0, 1.0))
    if good.all():
        return log
    bad = zip(log.row[~good].tolist(), log.reward[~good].tolist(), strict=True)
    more = [
        Problem(row, f"reward {value:g} is neither 0 nor 1, and a policy counts successes")
        for row, value in bad
    ]
    left, replication = np.unique(log.replication[good], return_inverse=True)
    return log._replace(
        replications=tuple(log.replications[place] for place in left.tolist()),
        replication=replication,
        arm=log.arm[good],
        reward=log.reward[good],
        row=log.row[good],
        problems=tuple(sorted([*log.problems, *more])),
    )


def _experiment(log: Log, request: ImportRequest) -> Experiment:
    lengths = np.bincount(log.replication)
    many = request.replications
    experiment = Experiment(
        policies=request.policies,
        arms=log.arms,
        horizon=int(lengths.min()) if request.horizon is None else request.horizon,
        replications=lengths.size if many is None else many,
        control=request.logged_by or "",
        seed=request.seed,
    )
    if not (experiment.replications >= lengths.size):
        raise Invalid(
            f"import_log: replications is {many!r}, but the log has {lengths.size:,}; plan at least as many"
        )
    return experiment


def _walk(
    scheduler: Scheduler, log: Log, stacks: _Stacks, number: int, request: ImportRequest
) -> _Walked:
    names = list(scheduler.experiment.policies)
    results = [
        empty_results(scheduler.experiment, trajectory=name == request.logged_by) for name in names
    ]
    state = rebuilt(scheduler, number, stacks.of(number), [], results)
    difference = None
    if request.logged_by is not None:
        k = names.index(request.logged_by)
        span = slice(stacks.starts[number], stacks.starts[number + 1])
        difference = _difference(state, k, results[k], log.arm[span], log.row[span])
    wanted = [len(state.wants([k])) for k in range(len(names))]
    state_now = number, state.version, state.complete, state.reaches
    return _Walked(*state_now, wanted, state.ask(), difference)


def _difference(
    state: Replication, k: int, results: WalkResults, arms: Ints, rows: Ints
) -> _Difference | None:
    """The first row of a replication at which a policy would have played another arm."""
    walker = state.walkers[k]
    chosen = [arm for arm, _ in walker.picks()]
    would = np.concatenate([results.trajectory.arms[: walker.reach], np.array(chosen, np.int64)])
    both = min(would.size, arms.size)
    differs = np.flatnonzero(would[:both] != arms[:both])
    if differs.size == 0:
        return None
    first = int(differs[0])
    return _Difference(int(rows[first]), int(would[first]), int(arms[first]))


def _agreement(
    experiment: Experiment, log: Log, walked: Sequence[_Walked], request: ImportRequest
) -> str | None:
    if request.logged_by is None:
        return None
    policy = experiment.policies[request.logged_by]
    text = text_forms.write(policy)
    differences = [one.difference for one in walked if one.difference is not None]
    if not differences:
        return f"the log is what {text} would have done"
    first, names = min(differences), experiment.arm_names
    said = (
        f"the log is not what {text} would have done; first difference at {log.unit} {first.row}: it would have "
        f"played {names[first.would]!r}, the log has {names[first.has]!r}; {len(differences):,} of {len(walked):,} "
        "replications differ"
    )
    if is_randomised(policy):
        said += " (it tosses coins, and the log's were others)"
    if log.problems:
        said += " (rows left out may be why)"
    return said


def _joining(k: int, policy: str, horizon: int, walked: Sequence[_Walked]) -> Joining:
    reaches = [one.reaches[k] for one in walked]
    wanted = sum(one.wanted[k] for one in walked)
    return Joining(policy, len(walked), reaches.count(horizon), sum(reaches), wanted, 0)


def _fill(
    stacks: _Stacks, walked: Sequence[_Walked], transaction: Transaction, experiment: int, now: int
) -> None:
    replications = [
        {
            "experiment": experiment,
            "number": one.number,
            "state": "complete" if one.complete else "open",
            "version": one.version,
            "policies": len(one.reaches),
            "complete": one.complete,
            "now": now,
        }
        for one in walked
    ]
    transaction.many("import_replication", replications)
    transaction.many("import_entry", stacks.rows(experiment, now))
    wanted = [
        {"experiment": experiment, "replication": one.number, **entry._asdict()}
        for one in walked
        for entry in one.asks
    ]
    transaction.many("want", wanted)
