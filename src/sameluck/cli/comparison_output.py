"""Output of a comparison: as text, JSON, CSV, a figure and a page. Shared by `compare` and `live results`."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import click

import sameluck as sl
from sameluck import text_forms
from sameluck.cli.experiment_options import Command, Values
from sameluck.cli.output import (
    Outputs,
    check_outputs,
    horizon_grid,
    plot_option,
    report_option,
    report_written,
)
from sameluck.experiment import checked_checkpoints
from sameluck.files import to_json, write_whole
from sameluck.inference.effects import Request, check_request
from sameluck.reporting.pages import Card
from sameluck.reporting.tables import wrapped

pairs_option = click.option("--pairs", help="control, all or best.  [default: control]")
simultaneous_option = click.option(
    "--simultaneous",
    help="Let the intervals hold simultaneously over pairs, checkpoints or both.",
)


def output_options(command: Command) -> Command:
    """The files that a comparison can be written to."""
    save = click.option(
        "--save", "runs_path", metavar="FILE", help="Save the runs (.npz) for sameluck.Runs.load."
    )
    csv = click.option("--csv", "csv_path", metavar="FILE", help="Write the effects as CSV.")
    return csv(plot_option(report_option(save(command))))


def take_outputs(options: Values) -> dict[str, str | None]:
    """Remove the files from the options; raise `Invalid` for one that cannot be written."""
    outputs = {kind: options.pop(f"{kind}_path") for kind in ("csv", "plot", "report", "runs")}
    check_outputs(outputs)
    return outputs


def parse_checkpoints(checkpoints: object, experiment: sl.Experiment) -> list[int]:
    """The horizons to report: as typed, as a file has them, or the experiment's horizon."""
    if checkpoints is None:
        return [experiment.horizon]
    if not isinstance(checkpoints, list):
        words = [word for word in re.split(r"[\s,]+", str(checkpoints).strip()) if word]
        if not words or not all(re.fullmatch(r"\d[\d_]*", word) for word in words):
            raise sl.Invalid(
                f"--checkpoints must be whole numbers such as 100,1000, got {checkpoints!r}"
            )
        checkpoints = [int(word) for word in words]
    return [int(horizon) for horizon in checked_checkpoints(experiment, checkpoints)]


def read_request(values: Values, experiment: sl.Experiment, replications: int) -> Values:
    """The arguments of `sl.compare` among some values; raise `Invalid` for one that is not valid."""
    request = {name: values[name] for name in Request._fields if values.get(name) is not None}
    check_request(experiment, replications, Request(**request))
    return request


def curve_grid(checkpoints: list[int], outputs: Outputs) -> list[int]:
    """The horizons of a figure, which needs a curve; text and numbers have the checkpoints only."""
    drawn = outputs["plot"] or outputs["report"]
    return horizon_grid(checkpoints[-1]) if drawn and len(checkpoints) == 1 else []


def show_comparison(
    result: sl.Comparison,
    curve: sl.Comparison,
    outputs: Outputs,
    *,
    as_json: bool,
    split: sl.VarianceSplit | None = None,
) -> None:
    """Write the files and print the comparison."""
    note = [Card("Where the variance comes from", split.verdict)] if split else []
    writers: dict[str, Callable[[Path], object]] = {
        "csv": lambda path: write_whole(path, _as_csv(result).encode()),
        "plot": curve.plot,
        "report": lambda path: result.to_html(path, curve=curve, more=note),
        "runs": curve.runs.save,
    }
    for kind, path in outputs.items():
        if path is not None:
            writers[kind](Path(path))
    text = f"{result}\n\n{wrapped(split.verdict)}" if split else str(result)
    click.echo(to_json(comparison_record(result, split)) if as_json else text)
    report_written(outputs)


def comparison_record(result: sl.Comparison, split: sl.VarianceSplit | None = None) -> Values:
    """A comparison as values that JSON can hold."""
    environment = result.runs.environment
    return {
        "experiment": result.runs.experiment.to_dict(),
        "digest": result.runs.experiment.digest,
        "environment": environment and text_forms.write(environment),
        "effects": result.to_dicts(),
        "standings": [one._asdict() for one in result.standings],
        "verdict": result.verdict,
        "cautions": list(result.cautions),
        "split": split._asdict() if split else None,
    }


def _as_csv(result: sl.Comparison) -> str:
    records = result.to_dicts()
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
