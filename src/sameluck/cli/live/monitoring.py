"""`sameluck live status`: the progress of experiments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

import sameluck as sl
from sameluck.cli.live.store_options import DatabaseOptions, live_command
from sameluck.cli.output import Output
from sameluck.live.databases.rows import ENDED
from sameluck.live.diagnostics.database import examine
from sameluck.reporting.tables import text_table, wrapped
from sameluck.wording import sentence


@live_command("status")
@click.argument("name", required=False)
def status_command(name: str | None, database: DatabaseOptions) -> Output:
    """Show the progress of an experiment; without a name, of all experiments."""
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
            one.name,
            one.status,
            f"{one.complete:,} of {one.planned:,}",
            f"{one.opened - one.complete:,}",
            f"{one.users:,}",
            f"{one.waiting:,}",
            "0" if one.status in ENDED else f"{one.wanted:,}",
        )
        for one in statuses
    ]
    return text_table(header, rows)


@live_command("doctor")
@click.argument("name", required=False)
@click.option(
    "--silence-is-zero",
    is_flag=True,
    help="The default reward is never reported (only purchases are sent, for example).",
)
def doctor_command(name: str | None, database: DatabaseOptions, *, silence_is_zero: bool) -> Output:
    """Check the database and every experiment in it (or the one named); each check has a verdict.

    fine, watch (investigate), alarm (do not rely on the result before it is explained), unknown (not enough data
    yet). Exit code 1 if there is an alarm.
    """
    with database.open(read_only=True) as store:
        functions = database.import_makers()
        checks = {"": examine(store)}
        for one in [name] if name else store.names():
            try:
                live = store.peek(one, makers=functions)
                checks[one] = live.diagnostics(silence_is_zero=silence_is_zero)
            except (sl.Invalid, sl.OtherVersion) as error:  # a maker is missing; check the others
                if name:
                    raise
                checks[one] = (sl.Check("policies", "unknown", sentence(str(error)), None, {}),)
    records = {one: [check._asdict() for check in many] for one, many in checks.items()}
    record = {"store": records.pop(""), "experiments": records}
    parts = [f"{one or database.safe_url}\n{format_checks(many)}" for one, many in checks.items()]
    verdicts = Counter(check.verdict for many in checks.values() for check in many)
    words = [word for word in ("alarm", "watch", "unknown", "fine") if verdicts[word]]
    parts.append(", ".join(f"{verdicts[word]} {word}" for word in words))
    return Output("\n\n".join(parts), record, exit_code=int("alarm" in verdicts))


def format_checks(checks: Sequence[sl.Check]) -> str:
    """One paragraph per check: verdict, name, sentence."""
    width = max(len(check.name) for check in checks)
    return "\n".join(
        wrapped(one.sentence, f"  {one.verdict:<7}  {one.name:<{width}}  ", " " * (width + 13))
        for one in checks
    )


@live_command("history")
@click.argument("name", required=False)
def history_command(name: str | None, database: DatabaseOptions) -> Output:
    """Show every change of an experiment (status, policies, arms): when, by whom and why; without a name, of all."""
    with database.open(read_only=True) as store:
        changes = (
            store.peek(name, makers=database.import_makers()).history() if name else store.history()
        )
    return Output("\n".join(map(str, changes)), [change._asdict() for change in changes])
