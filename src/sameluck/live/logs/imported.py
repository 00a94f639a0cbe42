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
    """The result of importing a log."""

    live: LiveExperiment
    rows: int  # imported
    skipped: tuple[str, ...]  # rows left out, with the reason
    replications: tuple[str, ...]  # their names in the log; replication 0 is the first of these
    lengths: tuple[int, int]  # rows of the shortest replication and of the longest
    policies: dict[str, AddedPolicy]  # how far each gets on the log alone
    agrees: bool | None  # whether `logged_by` would have written the log; None if it was not given
    agreement: str | None  # the same as text, with the first difference

    def __str__(self) -> str:
        arms = ", ".join(self.live.experiment.arm_names)
        lines = [self._sizes(), f"Arms: {arms}.", *self._horizon()]
        if self.agreement is not None:
            warning = "" if self.agrees else "BEWARE: "
            lines.append(sentence(warning + self.agreement))
        lines += [_progress(one) for one in self.policies.values()]
        lines.append(
            "Assumed: who got which arm did not depend on rewards still to come, no row is missing because of its "
            "reward, and users are what they were."
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
            text += "; where they end before the horizon, even the policy that wrote the log needs users"
        if shortest < longest:
            text += ". Their lengths must not depend on their rewards"
        return [f"{text}."]


def _progress(one: AddedPolicy) -> str:
    return (
        f"  {one.policy}: without a user {one.finished:,} of {counted(one.replications, 'replication')} finished and "
        f"{counted(one.replayed, 'period')} replayed; at this moment it needs "
        f"{counted(one.users_at_least, 'user')}"
    )


class Agreement(NamedTuple):
    """Whether the policy that is said to have written a log would have done so."""

    agrees: bool
    text: str


def imported(
    live: LiveExperiment,
    log: Log,
    replications: Sequence[LoggedReplication],
    found: Agreement | None,
) -> Imported:
    """The result of a log that has been imported."""
    experiment, lengths = live.experiment, np.bincount(log.replication)
    return Imported(
        live=live,
        rows=log.row.size,
        skipped=tuple(f"{log.unit} {one.row}: {one.what}" for one in log.problems),
        replications=log.replications,
        lengths=(int(lengths.min()), int(lengths.max())),
        policies={
            policy: AddedPolicy(
                policy=policy,
                replications=len(replications),
                finished=sum(one.periods_done[k] == experiment.horizon for one in replications),
                replayed=sum(one.periods_done[k] for one in replications),
                users_at_least=sum(one.wanted[k] for one in replications),
                users_so_far=0,
            )
            for k, policy in enumerate(experiment.policies)
        },
        agrees=found and found.agrees,
        agreement=found and found.text,
    )


def agreement(
    experiment: Experiment,
    log: Log,
    replications: Sequence[LoggedReplication],
    logged_by: str | None,
) -> Agreement | None:
    """Whether a policy would have done what the log has; None if none is said to have written it."""
    if logged_by is None:
        return None
    policy = experiment.policies[logged_by]
    name = text_forms.write(policy)
    differences = [one.difference for one in replications if one.difference is not None]
    if not differences:
        return Agreement(agrees=True, text=f"the log is what {name} would have done")
    first, arms = min(differences), experiment.arm_names
    text = (
        f"the log is not what {name} would have done; first difference at {log.unit} {first.row}: it would have "
        f"played {arms[first.policy_arm]!r}, the log has {arms[first.log_arm]!r}; {len(differences):,} of "
        f"{len(replications):,} replications differ"
    )
    if is_randomised(policy, experiment.n_arms):
        text += " (it is randomised, and the log has other random choices)"
    if log.problems:
        text += " (rows left out may be why)"
    return Agreement(agrees=False, text=text)
