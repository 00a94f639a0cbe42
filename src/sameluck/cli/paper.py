"""`sameluck paper`: reproduce and check the paper."""

from __future__ import annotations

from pathlib import Path

import click

from sameluck.cli.output import json_flag, progress_bar
from sameluck.files import to_json


@click.command("paper")
@click.option(
    "--replications", default=10_000, show_default=True, help="Replications of every simulation."
)
@click.option(
    "--out",
    default="paper-report",
    show_default=True,
    help="Folder for report, figures and tables.",
)
@click.option(
    "--only", metavar="PARTS", help="Only these parts, e.g. example1,theorems.  [default: all]"
)
@click.option("--seed", default=7, show_default=True, help="The same seed gives the same bits.")
@json_flag
def paper_command(
    replications: int, out: str, only: str | None, seed: int, *, as_json: bool
) -> int:
    """Reproduce the paper: its tables, figures and theorems beside the published numbers.

    Finished parts are kept in the folder; the same command continues an interrupted run. The exit code is 1 if a
    published number is off by more than 4 standard errors, or if the check of a theorem fails.
    """
    # No other command needs the reproduction, or waits for its import.
    from sameluck import paper

    with progress_bar("starting", "million decisions") as advance:

        def progress(task: str, done: int, total: int) -> None:
            advance(done // 1_000_000, total // 1_000_000, task)

        reproduction = paper.reproduce(
            replications=replications, seed=seed, only=only, out=out, progress=progress
        )
    click.echo(to_json(reproduction.result) if as_json else reproduction.text)
    click.echo(f"report  {Path(out) / 'report.html'}", err=as_json)
    return 0 if reproduction.ok else 1
