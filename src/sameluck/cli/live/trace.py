"""`sameluck live trace`: one replication, period by period."""

from __future__ import annotations

import click

import sameluck as sl
from sameluck.cli.live.store_options import DatabaseOptions, live_command, name_argument
from sameluck.files import to_json
from sameluck.reporting.tables import text_table
from sameluck.reporting.wording import counted

HELP_POSITION = 7

MOST_ROWS = 5_000


@live_command("trace")
@name_argument
@click.argument("replication", type=int, default=0)
def trace_command(name: str, replication: int, database: DatabaseOptions, *, as_json: bool) -> None:
    """Show every period of one replication so far; arms marked * were replayed."""
    with database.open_experiment(name, read_only=True) as live:
        trace = live.trace(replication)
    click.echo(to_json(trace.to_dicts()) if as_json else _text(trace))


def _text(trace: sl.Trace) -> str:
    header = ("period", *(word for name in trace for word in (name, "reward")))
    periods = max(one.arms.size for one in trace.values())
    rows = [_row(trace, period) for period in range(min(periods, MOST_ROWS))]
    decisions = sum(one.arms.size for one in trace.values())
    title = (
        f"replication {trace.replication}: {counted(trace.interactions, 'user')} for "
        f"{counted(decisions, 'period')} of all policies; * replayed, without a user"
    )
    left = periods - MOST_ROWS
    more = f"\n... {left:,} more periods; --json has all" if left > 0 else ""
    return f"{title}\n\n{text_table(header, rows)}{more}" if rows else title


def _row(trace: sl.Trace, period: int) -> list[str]:
    cells = [str(period + 1)]
    for one in trace.values():
        if period < one.arms.size:
            mark = "*" if one.replayed[period] else " "
            arm = trace.experiment.arm_names[one.arms[period]]
            cells += [f"{arm}{mark}", f"{one.rewards[period]:g}"]
        else:
            cells += ["", ""]
    return cells
