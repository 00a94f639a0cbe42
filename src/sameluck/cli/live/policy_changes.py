"""`sameluck live add-policy`: a policy joins an experiment."""

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
@click.option("--preview", is_flag=True, help="Only report what it would need; change nothing.")
def add_policy_command(
    name: str,
    policy: str,
    policy_name: str | None,
    database: DatabaseOptions,
    *,
    preview: bool,
) -> Output:
    """Add a policy to an experiment, even to a finished one.

    It is run on the ledger first and needs users only for entries that no policy has revealed.
    """
    [(default_name, parsed)] = parse_policies([policy]).items()
    with database.open_experiment(name, read_only=preview) as live:
        add = live.preview_policy if preview else live.add_policy
        joining = add(policy_name or default_name, parsed)
    outcome = "Only a preview: nothing was changed." if preview else f"It takes part in {name} now."
    return Output(wrapped(f"{joining} {outcome}"), joining._asdict())


_reason_option = click.option("--reason", default="", help="The reason, for the history.")
_confirm_option = click.option("--confirm", is_flag=True, help="Make the change.")


@live_command(
    "remove-policy",
    epilog='Example: sameluck live remove-policy shop bolder --reason "it was a test"',
)
@name_argument
@click.argument("policy")
@_reason_option
def remove_policy_command(name: str, policy: str, reason: str, database: DatabaseOptions) -> Output:
    """Remove a policy from an experiment; the rewards that were requested for it stay known to the others."""
    with database.open_experiment(name) as live:
        removed = live.remove_policy(policy, reason=reason)
    return _output(removed, f"{policy} takes no part in {name} any more.")


@live_command("replace-policy-code")
@name_argument
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
@_confirm_option
@_reason_option
def replace_policy_code_command(
    name: str,
    policies: tuple[str, ...],
    reason: str,
    database: DatabaseOptions,
    *,
    confirm: bool,
) -> Output:
    """Continue with the code of policies that this command has (--maker) in place of the experiment's.

    Shows from which period on the ledger differs; nothing is changed without --confirm.
    """
    with database.open_experiment(name, read_only=not confirm) as live:
        shown = live.replace_policy_code(policies, confirm=confirm, reason=reason)
    return _output(shown, _outcome(confirm=confirm))


@live_command("repair")
@name_argument
@_confirm_option
@_reason_option
def repair_command(name: str, reason: str, database: DatabaseOptions, *, confirm: bool) -> Output:
    """Bring the ledger in line with the policies again; nothing is changed without --confirm.

    `sameluck live resume` then continues the experiment.
    """
    with database.open_experiment(name, read_only=not confirm) as live:
        shown = live.repair(confirm=confirm, reason=reason)
    return _output(shown, _outcome(confirm=confirm))


def _outcome(*, confirm: bool) -> str:
    return "The change is made." if confirm else "Nothing is changed; --confirm makes the change."


def _output(shown: LedgerChanges, outcome: str) -> Output:
    record = shown._asdict() | {"differences": [one._asdict() for one in shown.differences]}
    return Output(wrapped(f"{shown} {outcome}"), record)
