"""Output of all commands: text or JSON, files, progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, NamedTuple

import click

from sameluck.errors import Invalid, optional
from sameluck.files import check_writable, to_json
from sameluck.reporting import plots
from sameluck.runs import check_runs_path

if TYPE_CHECKING:
    from rich.progress import Progress

Outputs = Mapping[str, str | None]  # purpose of a file, such as "plot" -> its path

json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
plot_option = click.option(
    "--plot", "plot_path", metavar="FILE", help="Draw the effects: .svg, .pdf or .png."
)
report_option = click.option(
    "--report", "report_path", metavar="FILE", help="Write a self-contained HTML page."
)


class Output(NamedTuple):
    """Result of a command: its text (any object), its record for `--json`, notes and exit code."""

    text: object
    record: object  # values that JSON can hold, or a function that returns them
    notes: Sequence[str] = ()  # printed on standard error
    exit_code: int = 0


def prints(function: Callable[..., Output]) -> Callable[..., int]:
    """Make a function that prints the output of `function`, as JSON with `--json`, and returns the exit code."""

    @wraps(function)
    def printing(*, as_json: bool, **options: object) -> int:
        text, record, notes, exit_code = function(**options)
        if as_json:
            text = to_json(record() if callable(record) else record)
        click.echo(str(text))
        for note in notes:
            click.echo(note, err=True)
        return exit_code

    return printing


def json_option(function: Callable[..., Output]) -> Callable[..., int]:
    """Add `--json` to a command whose function returns its `Output`."""
    return json_flag(prints(function))


def horizon_grid(horizon: int) -> list[int]:
    """Return at most forty evenly spaced horizons for a curve; the last is the horizon itself."""
    return sorted({max(1, round(horizon * k / 40)) for k in range(1, 41)})


def check_outputs(outputs: Outputs) -> None:
    """Raise `Invalid` for a file that cannot be written. To be called before the work starts."""
    paths = [path for path in outputs.values() if path is not None]
    if outputs.get("runs") is not None:
        check_runs_path(outputs["runs"])
    if len(set(paths)) != len(paths):
        raise Invalid("two outputs have the same file; name different files")
    for path in paths:
        check_writable(path)
    if plot := outputs.get("plot"):
        plots.checked_path(plot)
        optional("matplotlib", "plots")


def written(outputs: Outputs) -> list[str]:
    return [f"wrote {path}" for path in outputs.values() if path]


@contextmanager
def progress_bar(
    task: str, unit: str = "replications of a policy"
) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error after the first second, if it is a terminal; yield the function to advance it."""
    started = time.monotonic()
    bars: list[Progress] = []

    def advance(done: int, total: int, description: str = task) -> None:
        if not bars and sys.stderr.isatty() and time.monotonic() - started > 1:
            bars.append(_started_bar(unit))
        for bar in bars:
            bar.update(bar.task_ids[0], completed=done, total=total, description=description)

    try:
        yield advance
    finally:
        for bar in bars:
            bar.stop()


def _started_bar(unit: str) -> Progress:
    # Importing rich takes long; a command that ends within a second does not wait for it.
    from rich import progress
    from rich.console import Console

    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn(f"{unit},"),
        progress.TimeRemainingColumn(compact=True),
        progress.TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
    )
    bar.add_task("", total=None)
    bar.start()
    return bar
