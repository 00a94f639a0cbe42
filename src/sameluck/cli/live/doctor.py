"""`sameluck live doctor`: checks of the database and its experiments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

import sameluck as sl
from sameluck.cli.live.store_options import DatabaseOptions, live_command
from sameluck.cli.output import Output
from sameluck.live.diagnostics.database import examine
from sameluck.reporting.tables import wrapped
from sameluck.wording import sentence

HELP_POSITION = 6


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
