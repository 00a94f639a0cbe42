"""`sameluck live pause`, `resume` and `stop`."""

from __future__ import annotations

import click

import sameluck as sl
from sameluck.cli.live.store_options import DatabaseOptions, live_command, name_argument
from sameluck.cli.output import Output
from sameluck.reporting.tables import wrapped
from sameluck.wording import counted

_reason_option = click.option("--reason", default="", help="The reason, for the history.")


@live_command("pause")
@name_argument
@_reason_option
def pause_command(name: str, reason: str, database: DatabaseOptions) -> Output:
    """Enrol no users for now; rewards are still accepted."""
    with database.open_experiment(name) as live:
        live.pause(reason)
        resume = database.next_command("resume", name)
        return _status(live, f"users get the fallback arm; resume with: {resume}")


@live_command("resume")
@name_argument
@_reason_option
def resume_command(name: str, reason: str, database: DatabaseOptions) -> Output:
    """Continue after a pause, or after a failure once the policies agree with the ledger again."""
    with database.open_experiment(name) as live:
        live.resume(reason)
        return _status(live)


@live_command("stop")
@name_argument
@click.option(
    "--now",
    is_flag=True,
    help="Stop at once, for users who return too; results are those of the prefix.",
)
@click.option(
    "--after-replications",
    type=int,
    help="Complete exactly this many replications, the first ones. Their mean is unbiased if the number was chosen "
    "without looking at the rewards.",
)
@_reason_option
def stop_command(
    name: str,
    after_replications: int | None,
    reason: str,
    database: DatabaseOptions,
    *,
    now: bool,
) -> Output:
    """End an experiment before the planned number of replications.

    Open replications are finished first: how long one takes depends on its rewards, so leaving them out would bias
    the result. How many have begun depends on the rewards too, so the mean over them is not exactly unbiased; the
    anytime interval of the results stays valid.
    """
    if now and after_replications is not None:
        raise sl.Invalid(
            "--after-replications completes the first replications, and --now stops at once; give one"
        )
    with database.open_experiment(name) as live:
        live.stop(drain=not now, after_replications=after_replications, reason=reason)
        status = live.status()
        left = (status.stop_after or status.opened) - status.complete
        at_once = database.next_command("stop", name, "--now")
        draining = f"{counted(left, 'replication is', 'replications are')} finished first; to stop at once: {at_once}"
        return _status(live, "" if now or not left else draining)


def _status(live: sl.LiveExperiment, note: str = "") -> Output:
    status = live.status()
    text = f"{live.name}: {status.status}" + (f"; {note}" if note else "")
    return Output(text, status._asdict())


@live_command(
    "disable-arm", epilog='Example: sameluck live disable-arm shop blue --reason "page is broken"'
)
@name_argument
@click.argument("arm")
@click.option("--fallback", metavar="ARM", help="The fallback arm from now on, if ARM is it.")
@_reason_option
def disable_arm_command(
    name: str, arm: str, fallback: str | None, reason: str, database: DatabaseOptions
) -> Output:
    """Show an arm to nobody from now on, not even to users who saw it before.

    Replications that need the arm wait until it is enabled; results stay those of the complete prefix.
    """
    with database.open_experiment(name) as live:
        live.disable_arm(arm, reason=reason, fallback=fallback)
        enable = database.next_command("enable-arm", name, arm)
        return _output(live, f"; enable it again with: {enable}")


@live_command("enable-arm")
@name_argument
@click.argument("arm")
@_reason_option
def enable_arm_command(name: str, arm: str, reason: str, database: DatabaseOptions) -> Output:
    """Show a disabled arm again; the experiment continues."""
    with database.open_experiment(name) as live:
        live.enable_arm(arm, reason=reason)
        return _output(live, "")


def _output(live: sl.LiveExperiment, remedy: str) -> Output:
    status = live.status()
    disabled = status.disabled_note or "no arm is disabled"
    return Output(wrapped(f"{live.name}: {disabled}") + remedy, status._asdict())


@live_command(
    "extend-windows",
    epilog='Example: sameluck live extend-windows shop 3600 --reason "rewards were down for an hour"',
)
@name_argument
@click.argument("seconds", type=float)
@_reason_option
def extend_windows_command(
    name: str, seconds: float, reason: str, database: DatabaseOptions
) -> Output:
    """Let rewards come so many seconds later; late ones count where no policy has played on the default.

    Pause the experiment during the outage, and resume it afterwards.
    """
    with database.open_experiment(name) as live:
        extension = live.extend_windows(seconds, reason=reason)
    return Output(wrapped(f"{name}: {extension}"), extension._asdict())
