"""`sameluck live delete`, `erase`, `forget-units` and `prune`: remove data permanently."""

from __future__ import annotations

import sys
from datetime import timedelta

import click

import sameluck as sl
from sameluck.cli.live.store_options import DatabaseOptions, live_command, name_argument
from sameluck.cli.output import Output
from sameluck.wording import counted

_reason_option = click.option("--reason", default="", help="Reason to record in the history.")
_yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def _confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal; without a terminal, require --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise sl.Invalid(f"{question} It cannot be undone; confirm with --yes")
    if not click.confirm(f"{question} It cannot be undone.", err=True):
        raise sl.Invalid("not confirmed; nothing was changed")


@live_command("delete")
@name_argument
@_reason_option
@_yes_option
def delete_command(name: str, reason: str, database: DatabaseOptions, *, yes: bool) -> Output:
    """Delete an experiment that has ended, with its ledger and audit log; its history stays."""
    with database.open() as store:
        users = store.peek(name, makers=database.import_makers()).status().users
        _confirm(f"Delete {name!r} and the rewards of {counted(users, 'user')}?", yes=yes)
        store.delete(name, reason=reason)
    return Output(f"deleted {name!r}", {"name": name, "users": users})


@live_command("erase", epilog="Example: sameluck live erase --unit user-17 --yes")
@click.argument("name", required=False)
@click.option("--unit", required=True, help="The user, as the application identifies it.")
@_reason_option
@_yes_option
def erase_command(
    name: str | None, unit: str, reason: str, database: DatabaseOptions, *, yes: bool
) -> Output:
    """Erase a user from an experiment, or from all without a name. Rewards stay, unlinked from the user."""
    with database.open() as store:
        scope = store.peek(name, makers=database.import_makers()) if name else store
        _confirm(f"Erase one user from {name or 'all experiments'}?", yes=yes)
        erased = scope.erase(unit, reason=reason)
    text = f"erased {counted(erased, 'assignment')} of the user"
    return Output(text, {"name": name, "assignments": erased})


@live_command("forget-units")
@name_argument
@_reason_option
@_yes_option
def forget_units_command(name: str, reason: str, database: DatabaseOptions, *, yes: bool) -> Output:
    """Destroy the key of the user hashes of an experiment that has ended; no user can be found in it again."""
    with database.open_experiment(name) as live:
        _confirm(f"Forget all users of {name!r}?", yes=yes)
        live.forget_units(reason=reason)
    return Output(f"the users of {name!r} can no longer be found", {"name": name})


@live_command("prune", epilog="Example: sameluck live prune --older-than-days 90 --yes")
@click.option(
    "--older-than-days",
    type=float,
    required=True,
    metavar="DAYS",
    help="The smallest age of the rows to remove.",
)
@_reason_option
@_yes_option
def prune_command(
    older_than_days: float, reason: str, database: DatabaseOptions, *, yes: bool
) -> Output:
    """Remove old audit rows of complete replications; the ledger stays and can still be verified."""
    with database.open() as store:
        _confirm(f"Remove audit rows older than {older_than_days:g} days?", yes=yes)
        try:
            age = timedelta(days=older_than_days)
        except (OverflowError, ValueError):
            raise sl.Invalid(
                f"--older-than-days must be a number of days such as 90, got {older_than_days}"
            ) from None
        removed = store.prune(age, reason=reason)
    return Output(f"removed {counted(removed, 'audit row')}", {"removed": removed})
