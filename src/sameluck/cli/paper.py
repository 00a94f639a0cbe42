"""`sameluck paper`: the paper, reproduced and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sameluck.cli.output import as_json_option, progress_bar
from sameluck.files import to_json


@click.command("paper")
@click.option("--replications", default=10_000, show_default=True, help="Of every simulation.")
@click.option(
    "--out",
    default="paper-report",
    show_default=True,
    help="Folder for report, figures and tables.",
)
@click.option("--only", metavar="PARTS", help="Some parts, e.g. example1,theorems.  [default: all]")
@click.option("--seed", default=7, show_default=True, help="Same seed, same bits.")
@as_json_option
def paper_command(*, as_json: bool, **options: Any) -> int:
    """Reproduce the paper: its tables, figures and theorems beside the published numbers.

    Finished parts are kept in the folder, so an interrupted run goes on where it was. Exit code 1 if a published
    number is off by more than 4 standard errors or the check of a theorem fails.
    """
    from sameluck import paper  # noqa: PLC0415  other commands need not wait for it

    with progress_bar("starting", "million decisions") as advance:

        def report(what: str, done: int, total: int) -> None:
            advance(done // 1_000_000, total // 1_000_000, what)

        made = paper.reproduce(progress=report, **options)
    click.echo(to_json(made.result) if as_json else made.text)
    click.echo(f"report  {Path(options['out']) / 'report.html'}", err=as_json)
    return 0 if made.ok else 1
