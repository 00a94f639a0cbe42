"""How a comparison leaves a command: as text, JSON, CSV, a figure and a page."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sameluck import text_forms
from sameluck.errors import Invalid
from sameluck.experiment import Experiment, checked_checkpoints
from sameluck.files import to_json, write_whole
from sameluck.inference.comparison import Comparison
from sameluck.inference.variance_split import VarianceSplit
from sameluck.reporting.pages import Card
from sameluck.reporting.tables import wrapped


def read_checkpoints(given: Any, experiment: Experiment) -> list[int]:
    """The horizons to report: as typed, as a file has them, or the experiment's own."""
    if given is None:
        return [experiment.horizon]
    if not isinstance(given, list):
        words = [word for word in re.split(r"[\s,]+", str(given).strip()) if word]
        whole = bool(words) and all(re.fullmatch(r"\d[\d_]*", word) for word in words)
        if not whole:
            raise Invalid(f"--checkpoints must be whole numbers such as 100,1000, got {given!r}")
        given = [int(word) for word in words]
    return [int(horizon) for horizon in checked_checkpoints(experiment, given)]


def write_outputs(
    result: Comparison,
    curve: Comparison,
    parts: VarianceSplit | None,
    outputs: Mapping[str, str | None],
) -> list[str]:
    """Write every file asked for; their paths."""
    note = [Card("Where the variance comes from", parts.verdict)] if parts else []
    writers: dict[str, Callable[[Path], Any]] = {
        "csv": lambda path: write_whole(path, _as_csv(result).encode()),
        "plot": curve.plot,
        "report": lambda path: result.to_html(path, curve=curve, more=note),
        "runs": curve.runs.save,
    }
    written = []
    for kind, path in outputs.items():
        if path is not None:
            writers[kind](Path(path))
            written.append(path)
    return written


def text_of(result: Comparison, parts: VarianceSplit | None = None) -> str:
    """What is printed."""
    return f"{result}\n\n{wrapped(parts.verdict)}" if parts else str(result)


def json_of(result: Comparison, parts: VarianceSplit | None = None) -> str:
    """What is printed with --json."""
    return to_json(as_dict(result, parts))


def as_dict(result: Comparison, parts: VarianceSplit | None = None) -> dict[str, Any]:
    """A comparison as plain values."""
    environment = result.runs.environment
    return {
        "experiment": result.runs.experiment.to_dict(),
        "digest": result.runs.experiment.digest,
        "environment": environment and text_forms.write(environment),
        "effects": result.to_dicts(),
        "standings": [one._asdict() for one in result.standings],
        "verdict": result.verdict,
        "cautions": list(result.cautions),
        "split": parts._asdict() if parts else None,
    }


def _as_csv(result: Comparison) -> str:
    records = result.to_dicts()
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
