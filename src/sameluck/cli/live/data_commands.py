"""`sameluck live export`, `backup`, `restore`, `delete`, `erase`, `forget-units`, `prune`: copy or remove data."""

from __future__ import annotations

import sys
from datetime import timedelta

import click

import sameluck as sl
from sameluck.cli.live.store_options import (
    DatabaseOptions,
    live_command,
    name_argument,
    reason_option,
)
from sameluck.cli.output import Output, check_outputs
from sameluck.wording import counted


@live_command("export")
@name_argument
@click.argument("file")
@click.option(
    "--what", default="ledger", show_default=True, help="ledger, or rewards: every reported reward."
)
@click.option("--format", help="csv, jsonl or parquet.  [default: by the file's ending]")
def export_command(
    name: str, file: str, what: str, format: str | None, database: DatabaseOptions
) -> Output:
    """Write the ledger to a file: one row per assignment, users as keyed hashes."""
    check_outputs({"export": file})
    with database.open_experiment(name, read_only=True) as live:
        rows = live.export(file, what=what, format=format)
    return Output(f"wrote {counted(rows, 'row')} to {file}", {"file": file, "rows": rows})


@live_command("backup")
@click.argument("file")
def backup_command(file: str, database: DatabaseOptions) -> Output:
    """Write a snapshot of all experiments to a new SQLite file; the store may serve meanwhile."""
    with database.open(read_only=True) as store:
        store.backup(file)
        names = store.names()
    return Output(f"{counted(len(names), 'experiment')} in {file}", {"file": file, "names": names})


@live_command("restore")
@click.argument("file")
def restore_command(file: str, database: DatabaseOptions) -> Output:
    """Restore a backup to a SQLite file that does not exist yet, or to an empty PostgreSQL database."""
    sl.restore(file, database.url)
    with database.open(read_only=True) as store:
        names = store.names()
    text = f"{counted(len(names), 'experiment')} in {database.safe_url}"
    return Output(text, {"file": file, "names": names})


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
@reason_option
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
@reason_option
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
@reason_option
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
@reason_option
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
            rule = "--older-than-days must be a number of days such as 90"
            raise sl.Invalid(f"{rule}, got {older_than_days}") from None
        removed = store.prune(age, reason=reason)
    return Output(f"removed {counted(removed, 'audit row')}", {"removed": removed})
