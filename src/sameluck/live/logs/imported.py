"""`Imported`: the result of importing a log, as a record and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck import text_forms
from sameluck.experiment import Experiment
from sameluck.live.experiment import LiveExperiment
from sameluck.live.logs.stacks import LoggedReplication
from sameluck.live.records import AddedPolicy
from sameluck.logs.rows import Log
from sameluck.policies.base import is_randomised
from sameluck.wording import counted, sentence


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


class Agreement(NamedTuple):
    """Comparison of a log with the policy that is said to have written it."""

    agrees: bool
    text: str


def imported(
    live: LiveExperiment,
    log: Log,
    replications: Sequence[LoggedReplication],
    agreed: Agreement | None,
) -> Imported:
    experiment, lengths = live.experiment, np.bincount(log.replication)
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


def agreement(
    experiment: Experiment,
    log: Log,
    replications: Sequence[LoggedReplication],
    logged_by: str | None,
) -> Agreement | None:
    """Compare a log with the policy that is said to have written it; None without such a policy."""
    if logged_by is None:
        return None
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
