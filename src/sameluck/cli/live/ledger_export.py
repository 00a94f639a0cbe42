"""`sameluck live trace` and `export`: show a replication, or write the whole ledger to a file."""

from __future__ import annotations

import click

import sameluck as sl
from sameluck.cli.live.store_options import DatabaseOptions, live_command, name_argument
from sameluck.cli.output import Output, check_outputs
from sameluck.reporting.tables import text_table
from sameluck.wording import counted

MAX_ROWS = 5_000


@live_command("trace")
@name_argument
@click.argument("replication", type=int, default=0)
def trace_command(name: str, replication: int, database: DatabaseOptions) -> Output:
    """Show the periods of one replication so far; arms marked * were replayed."""
    with database.open_experiment(name, read_only=True) as live:
        trace = live.trace(replication)
    return Output(_text(trace), trace.to_dicts)


def _text(trace: sl.Trace) -> str:
    header = ("period", *(word for name in trace for word in (name, "reward")))
    periods = max(trajectory.arms.size for trajectory in trace.values())
    rows = [_row(trace, period) for period in range(min(periods, MAX_ROWS))]
    decisions = sum(trajectory.arms.size for trajectory in trace.values())
    title = (
        f"replication {trace.replication}: {counted(trace.interactions, 'user')} for "
        f"{counted(decisions, 'period')} of all policies; * replayed, without a user"
    )
    hidden = periods - MAX_ROWS
    more = f"\n... {hidden:,} more periods; --json has all" if hidden > 0 else ""
    return f"{title}\n\n{text_table(header, rows)}{more}" if rows else title


def _row(trace: sl.Trace, period: int) -> list[str]:
    cells = [str(period + 1)]
    for trajectory in trace.values():
        if period < trajectory.arms.size:
            mark = "*" if trajectory.replayed[period] else " "
            arm = trace.experiment.arm_names[trajectory.arms[period]]
            cells += [f"{arm}{mark}", f"{trajectory.rewards[period]:g}"]
        else:
            cells += ["", ""]
    return cells


@live_command("export")
@name_argument
@click.argument("file")
@click.option(
    "--what", default="ledger", show_default=True, help="ledger, or rewards: every reported reward."
)
@click.option("--format", help="csv, jsonl or parquet.  [default: by the file's ending]")
def export_command(
    name: str, file: str, what: str, format: str | None, database: DatabaseOptions
) -> Output:
    """Write the ledger to a file: one row per assignment, users as keyed hashes."""
    check_outputs({"export": file})
    with database.open_experiment(name, read_only=True) as live:
        rows = live.export(file, what=what, format=format)
    return Output(f"wrote {counted(rows, 'row')} to {file}", {"file": file, "rows": rows})
