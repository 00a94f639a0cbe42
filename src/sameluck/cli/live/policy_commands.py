"""`sameluck live add-policy`, `remove-policy`, `replace-policy-code` and `repair`: change the policies."""

from __future__ import annotations

import click

from sameluck.cli.experiment_options import parse_policies
from sameluck.cli.live.store_options import DatabaseOptions, live_command, name_argument
from sameluck.cli.output import Output
from sameluck.live.control.policy_migration import LedgerChanges
from sameluck.reporting.tables import wrapped


@live_command(
    "add-policy", epilog='Example: sameluck live add-policy shop "ucb1(alpha=1)" --as bolder'
)
@name_argument
@click.argument("policy")
@click.option(
    "--as", "policy_name", metavar="NAME", help="Name of the policy.  [default: its text form]"
)
@click.option("--preview", is_flag=True, help="Only report the users it needs; change nothing.")
def add_policy_command(
    name: str, policy: str, policy_name: str | None, database: DatabaseOptions, *, preview: bool
) -> Output:
    """Add a policy to an experiment, which may be complete.

    The policy is run on the ledger first and needs users only for entries that no policy has revealed.
    """
    [(default_name, parsed)] = parse_policies([policy]).items()
    with database.open_experiment(name, read_only=preview) as live:
        add = live.preview_policy if preview else live.add_policy
        added = add(policy_name or default_name, parsed)
    outcome = (
        "This is a preview; nothing was changed." if preview else f"It takes part in {name} now."
    )
    return Output(wrapped(f"{added} {outcome}"), added._asdict())


_reason_option = click.option("--reason", default="", help="Reason to record in the history.")
_confirm_option = click.option("--confirm", is_flag=True, help="Make the change.")


@live_command(
    "remove-policy",
    epilog='Example: sameluck live remove-policy shop bolder --reason "it was a test"',
)
@name_argument
@click.argument("policy")
@_reason_option
def remove_policy_command(name: str, policy: str, reason: str, database: DatabaseOptions) -> Output:
    """Remove a policy from an experiment; the other policies still use the rewards it requested."""
    with database.open_experiment(name) as live:
        removed = live.remove_policy(policy, reason=reason)
    return _output(removed, f"{policy} no longer takes part in {name}.")


@live_command("replace-policy-code")
@name_argument
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
@_confirm_option
@_reason_option
def replace_policy_code_command(
    name: str, policies: tuple[str, ...], reason: str, database: DatabaseOptions, *, confirm: bool
) -> Output:
    """Replace the code of external policies by the code that --maker names.

    The output shows the period from which the ledger differs. Without --confirm nothing is changed.
    """
    with database.open_experiment(name, read_only=not confirm) as live:
        changes = live.replace_policy_code(policies, confirm=confirm, reason=reason)
    return _output(changes, _outcome(confirm=confirm))


@live_command("repair")
@name_argument
@_confirm_option
@_reason_option
def repair_command(name: str, reason: str, database: DatabaseOptions, *, confirm: bool) -> Output:
    """Derive the ledger again from the policies. Without --confirm nothing is changed.

    Afterwards `sameluck live resume` continues the experiment.
    """
    with database.open_experiment(name, read_only=not confirm) as live:
        changes = live.repair(confirm=confirm, reason=reason)
    return _output(changes, _outcome(confirm=confirm))


def _outcome(*, confirm: bool) -> str:
    return "The change was made." if confirm else "Nothing was changed; --confirm makes the change."


def _output(changes: LedgerChanges, outcome: str) -> Output:
    differences = [difference._asdict() for difference in changes.differences]
    return Output(wrapped(f"{changes} {outcome}"), changes._asdict() | {"differences": differences})
