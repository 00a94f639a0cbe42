"""Reward stacks, an implementation of the engine protocol: prepared policies and the order of their requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from sameluck.arrays import Ints
from sameluck.experiment import Experiment
from sameluck.live.engine.object_walker import ObjectWalker
from sameluck.live.engine.protocol import AUDITED, SHARED, Entry, SettledEntries
from sameluck.live.engine.replication import Replication, rebuild
from sameluck.live.engine.walker import CompiledWalker, PreparedPolicy, WalkResults, empty_results
from sameluck.live.options import LiveOptions, needs_binary_rewards
from sameluck.policies.base import as_compiled, memory_of, prepare
from sameluck.policies.batched import batch_of
from sameluck.policies.external import External, Makers, maker_of
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import ALL_POLICIES, AUDIT, stream, subkey, word


class Scheduler:
    """Prepared policies of an experiment, and the order in which they may request users."""

    def __init__(
        self,
        experiment: Experiment,
        options: LiveOptions | None = None,
        makers: Makers | None = None,
        stack_owners: Mapping[str, int] | None = None,
        unread_stack_owners: Collection[int] = (),
    ) -> None:
        """Prepare the policies; `stack_owners` numbers the policies' own stacks, by default 1, 2, ..."""
        self.experiment = experiment
        options = options or LiveOptions()
        self.order = options.order
        self.arm_names = experiment.arm_names
        self.binary_rewards = needs_binary_rewards(experiment)
        self.prepared = [_prepare(experiment, name, makers or {}) for name in experiment.policies]
        separate = not experiment.design.shares_rewards
        numbers = stack_owners or {name: k for k, name in enumerate(experiment.policies, start=1)}
        self.stack_owners = [numbers[name] if separate else SHARED for name in experiment.policies]
        self.unread_stack_owners = unread_stack_owners
        self.readers: dict[int, list[int]] = {}  # policies that read the stacks of a stack owner
        for k, stack_owner in enumerate(self.stack_owners):
            self.readers.setdefault(stack_owner, []).append(k)
        self.audit_share = 0.0 if separate else options.audit_share

    def start(self, number: int) -> tuple[Replication, list[Entry]]:
        """Return a new replication and the entries that its policies need first."""
        replication = Replication(self, number)
        return replication, replication.start()

    def rebuild(
        self,
        number: int,
        settled: SettledEntries,
        outstanding: Iterable[Entry],
        results: Sequence[WalkResults] | None = None,
    ) -> Replication:
        """Derive a replication from its ledger; fill `results`, one per policy."""
        return rebuild(self, number, settled, outstanding, results)

    def walker(
        self,
        k: int,
        replication: int,
        stack_sizes: Ints | None = None,
        results: WalkResults | None = None,
    ) -> CompiledWalker | ObjectWalker:
        """Return the k-th policy at the start of a replication; `stack_sizes` as in `CompiledWalker`."""
        prepared = self.prepared[k]
        results = results or empty_results(self.experiment)
        if prepared.make is not None:
            return ObjectWalker(prepared, replication, results)
        return CompiledWalker(prepared, replication, stack_sizes, results)

    def audit_entries(
        self, replication: int, cell: int, positions: Iterable[int]
    ) -> Iterator[Entry]:
        """Yield the audits of replayed entries: one more user each, whose reward is only compared."""
        key = subkey(stream(self.experiment.seed, AUDIT, replication, ALL_POLICIES), cell)
        for position in positions:
            if uniform(word(key, position)) < self.audit_share:
                yield Entry(AUDITED, cell, position)


def _prepare(experiment: Experiment, name: str, makers: Makers) -> PreparedPolicy:
    policy, arms, horizon = experiment.policies[name], experiment.n_arms, experiment.horizon
    if isinstance(policy, External):
        batch = min(policy.batch, horizon)
        return PreparedPolicy(experiment, name, policy, 0, batch, maker_of(name, policy, makers))
    prepared, batch = prepare(policy, arms, horizon), min(batch_of(policy), horizon)
    memory = memory_of(prepared, arms)
    return PreparedPolicy(experiment, name, as_compiled(prepared), memory, batch)
