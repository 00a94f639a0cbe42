"""A policy that is added to a running experiment: what it would need, and adding it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Row, Transaction
from sameluck.live.databases.rows import CurrentRow, NumberRow, ProgressRow, ReplicationRow
from sameluck.live.options import Live, check_fit, experiment_as_run, needs_binary_rewards
from sameluck.live.records import Joining
from sameluck.live.replications import (
    ChallengerProgress,
    Definition,
    Derived,
    OpenReplications,
)
from sameluck.policies.base import Policy
from sameluck.validation import require_name


class DerivedChallenger(NamedTuple):
    """What a policy does in the replications of one state of the database."""

    before: str  # the definition without the policy
    after: Definition
    states: Mapping[int, Derived]  # by the number of the replication


class Challenger(NamedTuple):
    """A policy to be added, on one state of the database."""

    transaction: Transaction
    replications: OpenReplications
    name: str
    policy: Policy | str

    def preview(self) -> Joining:
        """What `join` would return; nothing is changed."""
        states = self.derive().states
        return self._summary([one.progress for one in states.values()], self._users())

    def derive(self) -> DerivedChallenger:
        """The replications begun so far with the policy: the long part of `join`, which changes nothing."""
        before = self._one(CurrentRow, "experiment_now").definition
        after = self.replications.read_definition(self._added_to(before).to_json())
        self._check_rewards(after.experiment)
        states = self.replications.derive_challenger(self.transaction, after)
        return DerivedChallenger(before, after, states)

    def join(self, derived: DerivedChallenger, now: int) -> Joining:
        """Add the policy. It reads the replications begun so far first; a complete one is opened again for it."""
        # In the order in which a reward locks them: its replication, then the experiment if that is complete.
        key = {"experiment": self.replications.id}
        self.transaction.all(ReplicationRow, "lock_all_replications", **key)
        definition, status, reason, *_ = self._one(CurrentRow, "lock_experiment")
        if status == "failed":
            raise Invalid(f"cannot add a policy: the experiment's status is failed ({reason})")
        if definition != derived.before:  # another policy was added meanwhile
            derived = self.derive()
        self._check_rewards(derived.after.experiment)
        users, open_before = self._users(), self._count("count_open")
        progress = self.replications.add_challenger(
            self.transaction, derived.after, derived.states, now
        )
        drained = status == "stopped" and not open_before  # stopped at once: it stays stopped
        self.replications.history.record(self.transaction, "policy added", subject=self.name)
        if (status == "complete" or drained) and self._count("count_open"):
            again = "running" if status == "complete" else "draining"
            self.transaction.run("set_sticky", experiment=self.replications.id, sticky=1)
            self.replications.set_status(self.transaction, again, reason)
        return self._summary(progress, users)

    def _one(self, row: type[Row], statement: str) -> Row:
        return self.transaction.one(row, statement, experiment=self.replications.id)

    def _users(self) -> int:
        row = self._one(ProgressRow, "progress")
        return row.settled - row.imported + row.waiting

    def _count(self, statement: str) -> int:
        return self._one(NumberRow, statement).number

    def _added_to(self, definition: str) -> Experiment:
        before, live, name = Experiment.from_json(definition), self.replications.live, self.name
        require_name("a policy's name", name)
        if name in before.policies:
            raise Invalid(f"the experiment has a policy {name!r} already; choose another name")
        if live.aa:
            raise Invalid(
                "cannot add a policy to an A/A rehearsal: every policy plays the control's rule. Start another "
                "experiment"
            )
        wider = before.replace(policies={**before.policies, name: self.policy})
        if isinstance(live.batch, int):
            wider = experiment_as_run(wider, Live(batch={name: live.batch}))
        check_fit(wider, live)
        return wider

    def _check_rewards(self, wider: Experiment) -> None:
        key = {"experiment": self.replications.id}
        if needs_binary_rewards(wider) and self.transaction.find(NumberRow, "not_binary", **key):
            raise Invalid(
                f"policy {self.name!r} needs rewards 0 and 1, but the experiment has had others"
            )

    def _summary(self, progress: Sequence[ChallengerProgress], users: int) -> Joining:
        finished, replayed, wanted = map(sum, zip(*progress, strict=True))
        return Joining(self.name, len(progress), finished, replayed, wanted, users)
