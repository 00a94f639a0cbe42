"""`sameluck live extend-windows`: rewards may come later, after an outage."""

from __future__ import annotations

import click

from sameluck.cli.live.store_options import DatabaseOptions, live_command, name_argument
from sameluck.cli.output import Output
from sameluck.reporting.tables import wrapped

HELP_POSITION = 13


@live_command(
    "extend-windows",
    epilog='Example: sameluck live extend-windows shop 3600 --reason "rewards were down for an hour"',
)
@name_argument
@click.argument("seconds", type=float)
@click.option("--reason", default="", help="The reason, for the history.")
def extend_windows_command(
    name: str, seconds: float, reason: str, database: DatabaseOptions
) -> Output:
    """Let rewards come so many seconds later; late ones count where no policy has played on the default.

    Pause the experiment during the outage, and resume it afterwards.
    """
    with database.open_experiment(name) as live:
        extension = live.extend_windows(seconds, reason=reason)
    return Output(wrapped(f"{name}: {extension}"), extension._asdict())
