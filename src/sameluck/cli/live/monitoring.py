"""`sameluck live status`, `doctor`, `history` and `trace`: watch experiments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

import sameluck as sl
from sameluck.cli.live.store_options import DatabaseOptions, live_command, name_argument
from sameluck.cli.output import Output
from sameluck.live.databases.rows import ENDED
from sameluck.live.diagnostics.database import examine
from sameluck.reporting.tables import text_table, wrapped
from sameluck.wording import counted, sentence

MAX_ROWS = 5_000  # of a trace


@live_command("status")
@click.argument("name", required=False)
def status_command(name: str | None, database: DatabaseOptions) -> Output:
    """Show the progress of an experiment, or of all experiments."""
    with database.open(read_only=True) as store:
        makers = database.import_makers()
        statuses = [store.peek(name, makers=makers).status()] if name else store.statuses()
    if name:
        return Output(statuses[0], statuses[0]._asdict())
    start = database.next_command("start", "FILE.toml")
    text = _overview(statuses) if statuses else f"no experiments yet; start one with: {start}"
    return Output(text, [status._asdict() for status in statuses])


def _overview(statuses: Sequence[sl.Status]) -> str:
    header = ("experiment", "status", "complete", "open", "users", "awaited", "wanted")
    rows = [
        (
            status.name,
            status.status,
            f"{status.complete:,} of {status.planned:,}",
            f"{status.opened - status.complete:,}",
            f"{status.users:,}",
            f"{status.waiting:,}",
            "0" if status.status in ENDED else f"{status.wanted:,}",
        )
        for status in statuses
    ]
    return text_table(header, rows)


@live_command("doctor")
@click.argument("name", required=False)
@click.option(
    "--silence-is-zero",
    is_flag=True,
    help="The application does not report default rewards (it sends only purchases, for example).",
)
def doctor_command(name: str | None, database: DatabaseOptions, *, silence_is_zero: bool) -> Output:
    """Check the database and its experiments, or only the experiment NAME.

    Verdicts are fine, watch (investigate), alarm (explain it before you rely on the result) and unknown (too little
    data yet). The exit code is 1 if there is an alarm.
    """
    with database.open(read_only=True) as store:
        functions = database.import_makers()
        checks = {"": examine(store)}
        for experiment in [name] if name else store.names():
            try:
                live = store.peek(experiment, makers=functions)
                checks[experiment] = live.diagnostics(silence_is_zero=silence_is_zero)
            except (sl.Invalid, sl.OtherVersion) as error:  # a maker is missing; check the others
                if name:
                    raise
                unknown = sl.Check("policies", "unknown", sentence(str(error)), None, {})
                checks[experiment] = (unknown,)
    records, sections = {}, []
    for experiment, results in checks.items():
        records[experiment] = [check._asdict() for check in results]
        sections.append(f"{experiment or database.safe_url}\n{format_checks(results)}")
    record = {"store": records.pop(""), "experiments": records}
    verdicts = Counter(check.verdict for results in checks.values() for check in results)
    words = [word for word in ("alarm", "watch", "unknown", "fine") if verdicts[word]]
    sections.append(", ".join(f"{verdicts[word]} {word}" for word in words))
    return Output("\n\n".join(sections), record, exit_code=int("alarm" in verdicts))


def format_checks(checks: Sequence[sl.Check]) -> str:
    """Return one paragraph per check: verdict, name, sentence."""
    width = max(len(check.name) for check in checks)
    heads = [f"  {check.verdict:<7}  {check.name:<{width}}  " for check in checks]
    pairs = zip(checks, heads, strict=True)
    return "\n".join(wrapped(check.sentence, head, " " * len(head)) for check, head in pairs)


@live_command("history")
@click.argument("name", required=False)
def history_command(name: str | None, database: DatabaseOptions) -> Output:
    """Show the changes of an experiment, or of all: status, policies and arms; when, by whom and why."""
    with database.open(read_only=True) as store:
        source = store.peek(name, makers=database.import_makers()) if name else store
        changes = source.history()
    return Output("\n".join(map(str, changes)), [change._asdict() for change in changes])


@live_command("trace")
@name_argument
@click.argument("replication", type=int, default=0)
def trace_command(name: str, replication: int, database: DatabaseOptions) -> Output:
    """Show the periods of one replication so far; arms marked * were replayed."""
    with database.open_experiment(name, read_only=True) as live:
        trace = live.trace(replication)
    return Output(_trace_text(trace), trace.to_dicts)


def _trace_text(trace: sl.Trace) -> str:
    header = ("period", *(word for name in trace for word in (name, "reward")))
    periods = max(trajectory.arms.size for trajectory in trace.values())
    rows = [_trace_row(trace, period) for period in range(min(periods, MAX_ROWS))]
    decisions = sum(trajectory.arms.size for trajectory in trace.values())
    title = (
        f"replication {trace.replication}: {counted(trace.interactions, 'user')} for "
        f"{counted(decisions, 'period')} of all policies; * replayed, without a user"
    )
    hidden = periods - MAX_ROWS
    more = f"\n... {hidden:,} more periods; --json has all" if hidden > 0 else ""
    return f"{title}\n\n{text_table(header, rows)}{more}" if rows else title


def _trace_row(trace: sl.Trace, period: int) -> list[str]:
    cells = [str(period + 1)]
    for trajectory in trace.values():
        if period < trajectory.arms.size:
            mark = "*" if trajectory.replayed[period] else " "
            arm = trace.experiment.arm_names[trajectory.arms[period]]
            cells += [f"{arm}{mark}", f"{trajectory.rewards[period]:g}"]
        else:
            cells += ["", ""]
    return cells
