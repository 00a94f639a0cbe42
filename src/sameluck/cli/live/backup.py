"""`sameluck live backup` and `restore`: copy all experiments."""

from __future__ import annotations

import click

import sameluck as sl
from sameluck.cli.live.store_options import DatabaseOptions, live_command
from sameluck.cli.output import Output
from sameluck.wording import counted

_file_argument = click.argument("file")


@live_command("backup")
@_file_argument
def backup_command(file: str, database: DatabaseOptions) -> Output:
    """Write a snapshot of all experiments to a new SQLite file; the store may serve meanwhile."""
    with database.open(read_only=True) as store:
        store.backup(file)
        names = store.names()
    return Output(f"{counted(len(names), 'experiment')} in {file}", {"file": file, "names": names})


@live_command("restore")
@_file_argument
def restore_command(file: str, database: DatabaseOptions) -> Output:
    """Restore a backup to a SQLite file that does not exist yet, or to an empty PostgreSQL database."""
    sl.restore(file, database.url)
    with database.open(read_only=True) as store:
        names = store.names()
    text = f"{counted(len(names), 'experiment')} in {database.safe_url}"
    return Output(text, {"file": file, "names": names})
