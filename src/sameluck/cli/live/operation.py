"""`sameluck live pause`, `resume`, `stop`, `disable-arm`, `enable-arm` and `extend-windows`."""

from __future__ import annotations

import click

import sameluck as sl
from sameluck.cli.live.store_options import DatabaseOptions, live_command, name_argument
from sameluck.cli.output import Output
from sameluck.reporting.tables import wrapped
from sameluck.wording import counted

_reason_option = click.option("--reason", default="", help="Reason to record in the history.")


@live_command("pause")
@name_argument
@_reason_option
def pause_command(name: str, reason: str, database: DatabaseOptions) -> Output:
    """Pause enrolment; rewards are still accepted."""
    with database.open_experiment(name) as live:
        live.pause(reason)
        resume = database.next_command("resume", name)
        return _status(live, f"users get the fallback arm; resume with: {resume}")


@live_command("resume")
@name_argument
@_reason_option
def resume_command(name: str, reason: str, database: DatabaseOptions) -> Output:
    """Continue after a pause, or after a failure once the policies and the ledger agree."""
    with database.open_experiment(name) as live:
        live.resume(reason)
        return _status(live)


@live_command("stop")
@name_argument
@click.option(
    "--now",
    is_flag=True,
    help="Stop at once, also for returning users; results use the complete replications.",
)
@click.option(
    "--after-replications",
    type=int,
    help="Complete the first N replications. Their mean is unbiased if N was chosen without looking at the rewards.",
    metavar="N",
)
@_reason_option
def stop_command(
    name: str, after_replications: int | None, reason: str, database: DatabaseOptions, *, now: bool
) -> Output:
    """Stop an experiment before its planned number of replications.

    Open replications are finished first: their duration depends on their rewards, so leaving them out would bias the
    result. The number of open replications depends on the rewards too, so the mean is not exactly unbiased; the
    anytime interval stays valid.
    """
    if now and after_replications is not None:
        raise sl.Invalid(
            "--after-replications completes replications and --now stops at once; give one of them"
        )
    with database.open_experiment(name) as live:
        live.stop(drain=not now, after_replications=after_replications, reason=reason)
        status = live.status()
        unfinished = (status.stop_after or status.opened) - status.complete
        at_once = database.next_command("stop", name, "--now")
        draining = (
            f"{counted(unfinished, 'replication is', 'replications are')} finished first; "
            f"to stop at once: {at_once}"
        )
        return _status(live, "" if now or not unfinished else draining)


def _status(live: sl.LiveExperiment, note: str = "") -> Output:
    status = live.status()
    text = f"{live.name}: {status.status}" + (f"; {note}" if note else "")
    return Output(text, status._asdict())


@live_command(
    "disable-arm", epilog='Example: sameluck live disable-arm shop blue --reason "page is broken"'
)
@name_argument
@click.argument("arm")
@click.option("--fallback", metavar="ARM", help="The new fallback arm, if ARM is the fallback.")
@_reason_option
def disable_arm_command(
    name: str, arm: str, fallback: str | None, reason: str, database: DatabaseOptions
) -> Output:
    """Stop showing an arm, also to users who saw it before.

    Replications that need the arm wait until it is enabled; results use the complete replications.
    """
    with database.open_experiment(name) as live:
        live.disable_arm(arm, reason=reason, fallback=fallback)
        enable = database.next_command("enable-arm", name, arm)
        return _arm_status(live, f"; enable it again with: {enable}")


@live_command("enable-arm")
@name_argument
@click.argument("arm")
@_reason_option
def enable_arm_command(name: str, arm: str, reason: str, database: DatabaseOptions) -> Output:
    """Show a disabled arm again; the experiment continues."""
    with database.open_experiment(name) as live:
        live.enable_arm(arm, reason=reason)
        return _arm_status(live, "")


def _arm_status(live: sl.LiveExperiment, remedy: str) -> Output:
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
    """Extend the reward windows by SECONDS, after an outage.

    A late reward counts unless a policy has used the default reward in its place. Pause the experiment during the
    outage and resume it afterwards.
    """
    with database.open_experiment(name) as live:
        extension = live.extend_windows(seconds, reason=reason)
    return Output(wrapped(f"{name}: {extension}"), extension._asdict())
