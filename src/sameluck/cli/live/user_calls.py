"""`sameluck live assign`, `expose`, `reward`, `void`, `tick`: an application's calls as commands."""

from __future__ import annotations

import click

import sameluck as sl
from sameluck.cli.live.store_options import (
    DatabaseOptions,
    format_rows,
    live_command,
    name_argument,
)
from sameluck.cli.output import Output
from sameluck.live.records import REASONS

_id_argument = click.argument("id")


@live_command("assign")
@name_argument
@click.option("--unit", required=True, help="The user: any text that identifies the user.")
def assign_command(name: str, unit: str, database: DatabaseOptions) -> Output:
    """Assign an arm to a user."""
    with database.open_experiment(name) as live:
        assignment = live.assign(unit, strict=True)
        return Output(_assignment_text(live, database, assignment), assignment._asdict())


def _assignment_text(
    live: sl.LiveExperiment, database: DatabaseOptions, assignment: sl.Assignment
) -> str:
    reason = REASONS[assignment.reason]
    if assignment.id is None:
        return format_rows(
            ("arm", f"{assignment.arm} (the fallback)"), ("reason", f"not enrolled: {reason}")
        )
    rows = [("arm", assignment.arm), ("assignment", assignment.id), ("reason", reason)]
    words = (live.name, assignment.id)
    if live.options.exposure == "explicit":
        rows.append(("once shown", database.next_command("expose", *words)))
    rows.append(("report", database.next_command("reward", *words, "VALUE")))
    return format_rows(*rows)


@live_command("expose")
@name_argument
@_id_argument
def expose_command(name: str, id: str, database: DatabaseOptions) -> Output:
    """Report that a user has seen the arm; from now on the user counts."""
    with database.open_experiment(name) as live:
        live.expose(id)
        return _description(live.describe(id))


@live_command("reward", ignore_unknown_options=True)  # values below zero
@name_argument
@_id_argument
@click.argument("value", type=float)
def reward_command(name: str, id: str, value: float, database: DatabaseOptions) -> Output:
    """Report a user's reward. The first value counts; the same value again changes nothing."""
    with database.open_experiment(name) as live:
        receipt = live.reward(id, value)
    repeated = f"was already reported for {id}; nothing changed"
    text = f"{receipt.value:g} {repeated if receipt.duplicate else f'counts for {id}'}"
    return Output(text, receipt._asdict())


@live_command("void")
@name_argument
@_id_argument
def void_command(name: str, id: str, database: DatabaseOptions) -> Output:
    """Report that a user never saw the arm; another user is offered it."""
    with database.open_experiment(name) as live:
        live.void(id)
        return _description(live.describe(id))


def _description(assignment: sl.AssignmentDetails) -> Output:
    until = f", a reward counts until {assignment.due_at}" if assignment.due_at else ""
    text = f"{assignment.id}: arm {assignment.arm}, {assignment.status}{until}"
    return Output(text, assignment._asdict())


@live_command("tick")
@name_argument
def tick_command(name: str, database: DatabaseOptions) -> Output:
    """Settle assignments that have expired: apply default rewards, offer unseen arms to other users.

    `assign` does this from time to time; run this command as a job only if there are no calls.
    """
    with database.open_experiment(name) as live:
        due = live.tick()
    text = "1 assignment was due" if due == 1 else f"{due:,} assignments were due"
    return Output(text, {"name": name, "due": due})
