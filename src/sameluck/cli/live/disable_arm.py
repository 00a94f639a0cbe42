"""`sameluck live disable-arm` and `enable-arm`: an arm that must not be shown any more."""

from __future__ import annotations

import click

import sameluck as sl
from sameluck.cli.live.store_options import DatabaseOptions, live_command, name_argument
from sameluck.cli.output import Output
from sameluck.reporting.tables import wrapped

HELP_POSITION = 12

_reason_option = click.option("--reason", default="", help="The reason, for the history.")


@live_command(
    "disable-arm", epilog='Example: sameluck live disable-arm shop blue --reason "page is broken"'
)
@name_argument
@click.argument("arm")
@click.option("--fallback", metavar="ARM", help="The fallback arm from now on, if ARM is it.")
@_reason_option
def disable_arm_command(
    name: str, arm: str, fallback: str | None, reason: str, database: DatabaseOptions
) -> Output:
    """Show an arm to nobody from now on, not even to users who saw it before.

    Replications that need the arm wait until it is enabled; results stay those of the complete prefix.
    """
    with database.open_experiment(name) as live:
        live.disable_arm(arm, reason=reason, fallback=fallback)
        enable = database.next_command("enable-arm", name, arm)
        return _output(live, f"; enable it again with: {enable}")


@live_command("enable-arm")
@name_argument
@click.argument("arm")
@_reason_option
def enable_arm_command(name: str, arm: str, reason: str, database: DatabaseOptions) -> Output:
    """Show a disabled arm again; the experiment continues."""
    with database.open_experiment(name) as live:
        live.enable_arm(arm, reason=reason)
        return _output(live, "")


def _output(live: sl.LiveExperiment, remedy: str) -> Output:
    status = live.status()
    disabled = status.disabled_note or "no arm is disabled"
    return Output(wrapped(f"{live.name}: {disabled}") + remedy, status._asdict())
