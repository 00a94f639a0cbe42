"""`sameluck live export`: the ledger as a file."""

from __future__ import annotations

import click

from sameluck.cli.live.store_options import DatabaseOptions, live_command, name_argument
from sameluck.cli.output import check_outputs
from sameluck.files import to_json
from sameluck.reporting.wording import counted

HELP_POSITION = 8


@live_command("export")
@name_argument
@click.argument("file")
@click.option(
    "--what", default="ledger", show_default=True, help="ledger, or rewards: every reported one."
)
@click.option("--format", help="csv, jsonl or parquet.  [default: by the file's ending]")
def export_command(
    name: str,
    file: str,
    what: str,
    format: str | None,
    database: DatabaseOptions,
    *,
    as_json: bool,
) -> None:
    """Write the ledger to a file: one row per assignment; users as keyed hashes."""
    check_outputs({"export": file})
    with database.open_experiment(name, read_only=True) as live:
        rows = live.export(file, what=what, format=format)
    text = f"wrote {counted(rows, 'row')} to {file}"
    click.echo(to_json({"file": file, "rows": rows}) if as_json else text)
