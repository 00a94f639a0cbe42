"""Output of a comparison: as text, JSON, CSV, a figure and a page. Shared by `compare` and `live results`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import click

import sameluck as sl
from sameluck import text_forms
from sameluck.cli.experiment_options import Command, OptionValues
from sameluck.cli.output import (
    Output,
    Outputs,
    check_outputs,
    horizon_grid,
    plot_option,
    report_option,
    written,
)
from sameluck.experiment import checked_checkpoints
from sameluck.files import write_whole
from sameluck.inference.effects import Request, check_request
from sameluck.reporting.pages import Card
from sameluck.reporting.tables import csv_table, wrapped

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


def take_outputs(options: OptionValues) -> dict[str, str | None]:
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


def read_request(
    values: OptionValues, experiment: sl.Experiment, replications: int
) -> OptionValues:
    """The arguments of `sl.compare` among some values; raise `Invalid` for one that is not valid."""
    request = {name: values[name] for name in Request._fields if values.get(name) is not None}
    check_request(experiment, replications, Request(**request))
    return request


def with_curve(checkpoints: list[int], outputs: Outputs) -> list[int]:
    """The checkpoints, and the horizons of a figure, which needs a curve."""
    drawn = outputs["plot"] or outputs["report"]
    curve = horizon_grid(checkpoints[-1]) if drawn and len(checkpoints) == 1 else []
    return sorted({*checkpoints, *curve})


def write_comparison(
    runs: sl.Runs,
    checkpoints: list[int],
    request: OptionValues,
    outputs: Outputs,
    split: sl.VarianceSplit | None = None,
) -> Output:
    """Compare and write the files: the figure has all horizons of the runs, text and numbers the checkpoints."""
    result = sl.compare(runs.at(checkpoints), **request)
    curve = sl.compare(runs, **request) if len(runs.checkpoints) > len(checkpoints) else result
    note = [Card("Where the variance comes from", split.verdict)] if split else []
    writers: dict[str, Callable[[Path], object]] = {
        "csv": lambda path: write_whole(path, _csv(result.to_dicts()).encode()),
        "plot": curve.plot,
        "report": lambda path: result.to_html(path, curve=curve, more=note),
        "runs": curve.runs.save,
    }
    for kind, path in outputs.items():
        if path is not None:
            writers[kind](Path(path))
    text = f"{result}\n\n{wrapped(split.verdict)}" if split else result
    return Output(text, comparison_record(result, split), written(outputs))


def comparison_record(
    result: sl.Comparison, split: sl.VarianceSplit | None = None
) -> dict[str, object]:
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


def _csv(records: list[dict[str, object]]) -> str:
    return csv_table(list(records[0]), [list(one.values()) for one in records])
