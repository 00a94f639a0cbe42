"""An experiment's policies made ready to be played live, and who of them may ask for a user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sameluck.arrays import Ints
from sameluck.experiment import Experiment
from sameluck.live.engine.object_walker import ObjectWalker, maker_of
from sameluck.live.engine.walker import (
    CompiledWalker,
    Maker,
    PreparedPolicy,
    Walker,
    WalkResults,
    empty_results,
)
from sameluck.live.options import only_binary
from sameluck.policies.base import as_compiled, memory_of, prepare
from sameluck.policies.baselines import Always
from sameluck.policies.batched import Batched, batch_of
from sameluck.policies.external import External
from sameluck.policies.ucb import UCB1, UCBDelta
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import AUDIT, EVERYBODY, stream, within, word

SHARED = 0  # the owner of what all policies of a replication read; the k-th policy's own is k
AUDITED = -1


_WITHOUT_COINS = (UCB1, UCBDelta, Always)


def is_randomised(policy: Any) -> bool:
    """Whether a policy may read luck of its own; one that is not known never to do so may."""
    return not isinstance(policy.policy if isinstance(policy, Batched) else policy, _WITHOUT_COINS)


class Entry(NamedTuple):
    """A place in the ledger of a replication."""

    owner: int
    arm: int
    position: int


def _prepared(experiment: Experiment, name: str, makers: Mapping[str, Maker]) -> PreparedPolicy:
    given: Any = experiment.policies[name]
    if isinstance(given, External):
        batch = min(given.batch, experiment.horizon)
        return PreparedPolicy(experiment, name, None, 0, batch, maker_of(name, given, makers))
    prepared = prepare(given, experiment.n_arms, experiment.horizon)
    batch = min(batch_of(given), experiment.horizon)
    return PreparedPolicy(
        experiment, name, as_compiled(prepared), memory_of(prepared, experiment.n_arms), batch
    )


class Scheduler:
    """An experiment with its policies made ready, and the order in which they may ask."""

    def __init__(
        self,
        experiment: Experiment,
        *,
        order: str = "lockstep",
        audit_share: float = 0.0,
        makers: Mapping[str, Maker] | None = None,
    ) -> None:
        self.experiment = experiment
        self.order = order
        self.arm_names = experiment.arm_names
        self.binary = only_binary(experiment)
        self.prepared = [_prepared(experiment, name, makers or {}) for name in experiment.policies]
        design = experiment.design
        alone = not design.shares_rewards
        self.owners = [k + 1 if alone else SHARED for k in range(len(self.prepared))]
        self.readers = {
            owner: [k for k, own in enumerate(self.owners) if own == owner] for owner in self.owners
        }
        self.audit_share = 0.0 if alone else audit_share

    def walker(
        self,
        k: int,
        replication: int,
        counts: Ints | None = None,
        results: WalkResults | None = None,
    ) -> Walker:
        """The k-th policy at the start of a replication; `counts`, of each arm, makes room for a whole ledger."""
        prepared = self.prepared[k]
        results = results or empty_results(self.experiment)
        if prepared.make is not None:
            return ObjectWalker(prepared, replication, results)
        return CompiledWalker(prepared, replication, counts, results)

    def may_ask(self, reaches: Sequence[int]) -> list[int]:
        """Which policies may ask for a new user, given how far each has come."""
        horizon = self.experiment.horizon
        unfinished = [k for k, reach in enumerate(reaches) if reach < horizon]
        if self.order == "phase":
            return unfinished[:1]
        behind = min(reaches)
        return [k for k in unfinished if reaches[k] == behind]

    def audits(self, replication: int, arm: int, positions: Iterable[int]) -> Iterator[Entry]:
        """Which of an arm's replayed entries are asked for once more, only to be compared."""
        luck = within(stream(self.experiment.seed, AUDIT, replication, EVERYBODY), arm)
        for position in positions:
            if uniform(word(luck, position)) < self.audit_share:
                yield Entry(AUDITED, arm, position)
