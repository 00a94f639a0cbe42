"""Operators' commands: `sameluck live pause`, `resume`, `stop`, and changes of arms, windows and policies."""

from __future__ import annotations

import click

import sameluck as sl
from sameluck.cli.experiment_options import parse_policies
from sameluck.cli.live.store_options import (
    DatabaseOptions,
    live_command,
    name_argument,
    reason_option,
)
from sameluck.cli.output import Output
from sameluck.live.control.policy_changes import LedgerChanges
from sameluck.reporting.tables import wrapped
from sameluck.wording import counted

_confirm_option = click.option("--confirm", is_flag=True, help="Make the change.")


@live_command("pause")
@name_argument
@reason_option
def pause_command(name: str, reason: str, database: DatabaseOptions) -> Output:
    """Pause enrolment; rewards are still accepted."""
    with database.open_experiment(name) as live:
        live.pause(reason)
        resume = database.next_command("resume", name)
        return _status(live, f"users get the fallback arm; resume with: {resume}")


@live_command("resume")
@name_argument
@reason_option
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
@reason_option
def stop_command(
    name: str, after_replications: int | None, reason: str, database: DatabaseOptions, *, now: bool
) -> Output:
    """Stop an experiment before its planned number of replications.

    Open replications are finished first: their duration depends on their rewards, so leaving them out would bias the
    result. The number of open replications depends on the rewards too, so the mean is not exactly unbiased; the
    anytime interval stays valid.
    """
    if now and after_replications is not None:
        rule = "--after-replications completes replications and --now stops at once"
        raise sl.Invalid(f"{rule}; give one of them")
    with database.open_experiment(name) as live:
        live.stop(drain=not now, after_replications=after_replications, reason=reason)
        status = live.status()
        unfinished = (status.stop_after or status.opened) - status.complete
        replications = counted(unfinished, "replication is", "replications are")
        at_once = database.next_command("stop", name, "--now")
        draining = f"{replications} finished first; to stop at once: {at_once}"
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
@reason_option
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
@reason_option
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
@reason_option
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


@live_command(
    "add-policy", epilog='Example: sameluck live add-policy shop "ucb1(alpha=1)" --as bolder'
)
@name_argument
@click.argument("policy")
@click.option(
    "--as", "policy_name", metavar="NAME", help="Name of the policy.  [default: its text form]"
)
@click.option("--preview", is_flag=True, help="Only report the users it needs; change nothing.")
def add_policy_command(
    name: str, policy: str, policy_name: str | None, database: DatabaseOptions, *, preview: bool
) -> Output:
    """Add a policy to an experiment, which may be complete.

    The policy is run on the ledger first and needs users only for entries that no policy has revealed.
    """
    [(default_name, parsed)] = parse_policies([policy]).items()
    with database.open_experiment(name, read_only=preview) as live:
        add = live.preview_policy if preview else live.add_policy
        added = add(policy_name or default_name, parsed)
    done = f"It takes part in {name} now."
    outcome = "This is a preview; nothing was changed." if preview else done
    return Output(wrapped(f"{added} {outcome}"), added._asdict())


@live_command(
    "remove-policy",
    epilog='Example: sameluck live remove-policy shop bolder --reason "it was a test"',
)
@name_argument
@click.argument("policy")
@reason_option
def remove_policy_command(name: str, policy: str, reason: str, database: DatabaseOptions) -> Output:
    """Remove a policy from an experiment; the other policies still use the rewards it requested."""
    with database.open_experiment(name) as live:
        removed = live.remove_policy(policy, reason=reason)
    return _output(removed, f"{policy} no longer takes part in {name}.")


@live_command("replace-policy-code")
@name_argument
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
@_confirm_option
@reason_option
def replace_policy_code_command(
    name: str, policies: tuple[str, ...], reason: str, database: DatabaseOptions, *, confirm: bool
) -> Output:
    """Replace the code of external policies by the code that --maker names.

    The output shows the period from which the ledger differs. Without --confirm nothing is changed.
    """
    with database.open_experiment(name, read_only=not confirm) as live:
        changes = live.replace_policy_code(policies, confirm=confirm, reason=reason)
    return _output(changes, _outcome(confirm=confirm))


@live_command("repair")
@name_argument
@_confirm_option
@reason_option
def repair_command(name: str, reason: str, database: DatabaseOptions, *, confirm: bool) -> Output:
    """Derive the ledger again from the policies. Without --confirm nothing is changed.

    Afterwards `sameluck live resume` continues the experiment.
    """
    with database.open_experiment(name, read_only=not confirm) as live:
        changes = live.repair(confirm=confirm, reason=reason)
    return _output(changes, _outcome(confirm=confirm))


def _outcome(*, confirm: bool) -> str:
    return "The change was made." if confirm else "Nothing was changed; --confirm makes the change."


def _output(changes: LedgerChanges, outcome: str) -> Output:
    differences = [difference._asdict() for difference in changes.differences]
    return Output(wrapped(f"{changes} {outcome}"), changes._asdict() | {"differences": differences})
