"""What every command shares: progress, JSON, files checked before the work and written after it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sameluck.errors import Invalid, optional
from sameluck.reporting import plots

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def horizon_grid(horizon: int, points: int = 40) -> list[int]:
    """Evenly spaced horizons for a curve, the last of them the horizon itself."""
    return sorted({max(1, round(horizon * k / points)) for k in range(1, points + 1)})


def check_outputs(outputs: Mapping[str, str | None]) -> None:
    """Refuse a file that could not be written, before the work that would be lost."""
    named = [path for path in outputs.values() if path is not None]
    if len(set(named)) != len(named):
        raise Invalid("two outputs have the same file; name different ones")
    for kind, path in outputs.items():
        if path is None:
            continue
        folder = Path(path).parent
        if not folder.is_dir():
            raise Invalid(f"cannot write {path!r}: no folder {str(folder)!r}")
        if not os.access(folder, os.W_OK):
            raise Invalid(f"cannot write {path!r}: the folder is not writable")
        if Path(path).is_dir():
            raise Invalid(f"cannot write {path!r}: it is a folder")
        if kind == "plot":
            plots.checked_path(path)
    drawn = outputs.get("plot") or outputs.get("report")
    if drawn:
        optional("matplotlib", "plots")


@contextmanager
def progress_bar(
    what: str, unit: str = "replications of a policy"
) -> Iterator[Callable[..., None]]:
    """A bar on standard error, once the work has proved long and if somebody watches."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit},"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
        console=console,
        transient=True,
    )
    started = time.monotonic()
    task = bar.add_task(what, total=None)

    def advance(done: int, total: int, now: str = what) -> None:
        if console.is_terminal and not bar.live.is_started and time.monotonic() - started > 1:
            bar.start()
        bar.update(task, completed=done, total=total, description=now)

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()
