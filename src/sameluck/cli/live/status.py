"""`sameluck live status`: the progress of experiments."""

from __future__ import annotations

from collections.abc import Sequence

import click

import sameluck as sl
from sameluck.cli.live.store_options import DatabaseOptions, live_command
from sameluck.files import to_json
from sameluck.reporting.tables import text_table

HELP_POSITION = 4

ENDED = ("stopped", "complete")


@live_command("status")
@click.argument("name", required=False)
def status_command(name: str | None, database: DatabaseOptions, *, as_json: bool) -> None:
    """Show the progress of an experiment; without a name, of all experiments."""
    with database.open(read_only=True) as store:
        names = [name] if name else store.names()
        functions = database.import_makers()
        statuses = [store.peek(one, makers=functions).status() for one in names]
    records = [status._asdict() for status in statuses]
    if as_json:
        click.echo(to_json(records[0] if name else records))
    elif name:
        click.echo(str(statuses[0]))
    elif statuses:
        click.echo(_overview(statuses))
    else:
        click.echo(
            f"no experiments yet; start one with: {database.next_command('start', 'FILE.toml')}"
        )


def _overview(statuses: Sequence[sl.Status]) -> str:
    header = ("experiment", "status", "complete", "open", "users", "awaited", "wanted")
    rows = [
        (
            one.name,
            one.status,
            f"{one.complete:,} of {one.planned:,}",
            f"{one.opened - one.complete:,}",
            f"{one.users:,}",
            f"{one.waiting:,}",
            "0" if one.status in ENDED else f"{one.wanted:,}",
        )
        for one in statuses
    ]
    return text_table(header, rows)
