"""`sameluck live history`: what was done to experiments, by whom and why."""

from __future__ import annotations

import click

from sameluck.cli.live.store_options import DatabaseOptions, live_command
from sameluck.cli.output import Output

HELP_POSITION = 7


@live_command("history")
@click.argument("name", required=False)
def history_command(name: str | None, database: DatabaseOptions) -> Output:
    """Show every change of an experiment (status, policies, arms): when, by whom and why; without a name, of all."""
    with database.open(read_only=True) as store:
        changes = (
            store.peek(name, makers=database.import_makers()).history() if name else store.history()
        )
    return Output("\n".join(map(str, changes)), [change._asdict() for change in changes])
