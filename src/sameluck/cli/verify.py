"""`sameluck verify`: simulate saved runs again and compare every bit."""

from __future__ import annotations

import click

import sameluck as sl
from sameluck import text_forms
from sameluck.cli.import_option import import_option, mention_import
from sameluck.cli.output import Output, json_option, progress_bar
from sameluck.simulation.verification import difference_from_rerun


@click.command("verify")
@click.argument("path", metavar="RUNS.npz")
@click.option("--workers", type=int, help="Threads.  [default: all cores]")
@import_option
@json_option
def verify_command(path: str, workers: int | None) -> Output:
    """Simulate saved runs again, from their file alone, and compare every bit.

    The exit code is 1 if a bit differs.
    """
    with mention_import():
        runs = sl.Runs.load(path)
    with progress_bar("simulating again") as progress:
        difference = difference_from_rerun(runs, workers=workers, progress=progress)
    about = f"{runs.replications:,} replications of {', '.join(runs.policies)}"
    text = f"equal: {about}, bit for bit" if difference is None else f"not equal: {difference}"
    record = {
        "equal": difference is None,
        "difference": difference,
        "digest": runs.experiment.digest,
        "environment": text_forms.write(runs.environment),
        "replications": runs.replications,
    }
    return Output(text, record, exit_code=0 if difference is None else 1)
