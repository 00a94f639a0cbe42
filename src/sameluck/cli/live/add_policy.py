"""`sameluck live add-policy`: a policy joins an experiment."""

from __future__ import annotations

import click

from sameluck.cli.experiment_options import parse_policies
from sameluck.cli.live.store_options import DatabaseOptions, live_command, name_argument
from sameluck.cli.output import Output
from sameluck.reporting.tables import wrapped

HELP_POSITION = 9


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
