"""`Policies`: the policies of a live experiment are added, removed, replaced."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sameluck.live.control.challengers import Challenger
from sameluck.live.control.policy_changes import PolicyChanges
from sameluck.live.control.policy_migration import LedgerChanges
from sameluck.live.databases.base import Transaction
from sameluck.live.options import Maker, Makers
from sameluck.live.records import AddedPolicy
from sameluck.live.results import Results
from sameluck.policies.base import Policy
from sameluck.validation import require_list


class Policies(Results):
    """The methods of a live experiment that change its policies."""

    def add_policy(
        self, name: str, policy: Policy | str, *, make: Maker | None = None
    ) -> AddedPolicy:
        """Add a challenger, even to a finished experiment.

        It first reads the entries that are settled, and requests users only for entries that no policy has requested.
        The result holds how many periods it has replayed and how many users it needs at least. Do not tune a
        challenger on the ledger that it is added to.

        Args:
            name: Its name among the policies.
            policy: The policy, or its text form.
            make: For `External(...)`: the maker it names.
        """
        self._add_maker(name, policy, make)
        new = partial(Challenger, replications=self._replications, name=name, policy=policy)
        # Not through `replications.write`: a challenger that fails is not added, no more.
        derived = self._database.read(lambda transaction: new(transaction).derive())
        self._database.read(lambda transaction: new(transaction).catch_up(derived))
        first = [derived]

        def work(transaction: Transaction) -> AddedPolicy:
            challenger = new(transaction)
            # It may be run again, and changes the states.
            return challenger.join(
                first.pop() if first else challenger.derive(), self._settings.now()
            )

        return self._database.write(work)

    def preview_policy(
        self, name: str, policy: Policy | str, *, make: Maker | None = None
    ) -> AddedPolicy:
        """Return what `add_policy` would return; nothing is changed."""
        self._add_maker(name, policy, make)
        return self._database.read(
            lambda transaction: Challenger(transaction, self._replications, name, policy).preview()
        )

    def remove_policy(self, name: str, *, reason: str = "") -> LedgerChanges:
        """Remove a policy from the experiment, in all processes; this one need not have its code.

        Its results go. The rewards that were requested for it stay known to the others, and those that are awaited
        are accepted; users who were to be enrolled for it alone are not. The others are not affected: a policy reads
        the same rewards whether or not another one has requested them. The control cannot be removed.
        """
        return self._policy_changes.remove(name, reason)

    def replace_policy_code(
        self,
        name: str | Sequence[str],
        *,
        makers: Makers | None = None,
        confirm: bool = False,
        reason: str = "",
    ) -> LedgerChanges:
        """Continue with the code that this process has for a policy, or for several, in place of the experiment's.

        The policy is run on the known rewards from the start, as a challenger is. The result shows in which
        replications, and from which period on, the ledger is not what the new code requests. Nothing is changed
        unless `confirm`. Other processes with the old code do not run the policies from then on.

        Args:
            name: The policy, or several.
            makers: The new makers of those that are `External`; those of this process if not given.
            confirm: Make the change.
            reason: For the history.
        """
        names = [name] if isinstance(name, str) else require_list("replace_policy_code: name", name)
        return self._policy_changes.replace_code(names, makers, reason, confirm=confirm)

    def repair(self, *, confirm: bool = False, reason: str = "") -> LedgerChanges:
        """Bring the ledger in line with the policies again, after `Diverged`.

        The process must have the experiment's code of every policy. The result shows what differs; nothing is
        changed unless `confirm`. Entries that no policy needs are released and those that are needed are wanted;
        rewards stay as they are. A ledger whose rewards were edited cannot be repaired so. `resume` continues the
        experiment.

        Args:
            confirm: Make the change.
            reason: For the history.
        """
        return self._policy_changes.repair(reason, confirm=confirm)

    @property
    def _policy_changes(self) -> PolicyChanges:
        return PolicyChanges(self._replications)

    def _add_maker(self, name: str, policy: Policy | str, make: Maker | None) -> None:
        if make is not None:
            self._replications.add_maker(getattr(policy, "name", name), make)
