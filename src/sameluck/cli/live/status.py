"""`sameluck live status`: the progress of experiments."""

from __future__ import annotations

from collections.abc import Sequence

import click

import sameluck as sl
from sameluck.cli.live.store_options import DatabaseOptions, live_command
from sameluck.cli.output import Output
from sameluck.live.databases.rows import ENDED
from sameluck.reporting.tables import text_table

HELP_POSITION = 4


@live_command("status")
@click.argument("name", required=False)
def status_command(name: str | None, database: DatabaseOptions) -> Output:
    """Show the progress of an experiment; without a name, of all experiments."""
    with database.open(read_only=True) as store:
        makers = database.import_makers()
        statuses = [store.peek(name, makers=makers).status()] if name else store.statuses()
    if name:
        return Output(statuses[0], statuses[0]._asdict())
    start = database.next_command("start", "FILE.toml")
    text = _overview(statuses) if statuses else f"no experiments yet; start one with: {start}"
    return Output(text, [status._asdict() for status in statuses])


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
