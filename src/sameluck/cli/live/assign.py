"""`sameluck live assign`, `expose`, `reward`, `void`, `tick`: the calls of an application as commands."""

from __future__ import annotations

import click

import sameluck as sl
from sameluck.cli.live.store_options import (
    DatabaseOptions,
    format_rows,
    live_command,
    name_argument,
)
from sameluck.files import to_json
from sameluck.live.records import REASONS

HELP_POSITION = 3

_id_argument = click.argument("id")


@live_command("assign")
@name_argument
@click.option("--unit", required=True, help="The user: any text that identifies one.")
def assign_command(name: str, unit: str, database: DatabaseOptions, *, as_json: bool) -> None:
    """Choose the arm to show to a user."""
    with database.open_experiment(name) as live:
        assignment = live.assign(unit)
        live.status()  # counts the call before this process ends
        text = _assignment_text(live, database, assignment)
    click.echo(to_json(assignment._asdict()) if as_json else text)


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
    if live.live.exposure == "explicit":
        rows.append(("once shown", database.next_command("expose", *words)))
    rows.append(("report", database.next_command("reward", *words, "VALUE")))
    return format_rows(*rows)


@live_command("expose")
@name_argument
@_id_argument
def expose_command(name: str, id: str, database: DatabaseOptions, *, as_json: bool) -> None:
    """Report that a user has seen the arm: from now on the user counts."""
    with database.open_experiment(name) as live:
        live.expose(id)
        _print_description(live.describe(id), as_json=as_json)


@live_command("reward", ignore_unknown_options=True)  # values below zero
@name_argument
@_id_argument
@click.argument("value", type=float)
def reward_command(
    name: str, id: str, value: float, database: DatabaseOptions, *, as_json: bool
) -> None:
    """Report the reward of a user. The first value counts; the same value again changes nothing."""
    with database.open_experiment(name) as live:
        receipt = live.reward(id, value)
    if as_json:
        click.echo(to_json(receipt._asdict()))
    elif receipt.duplicate:
        click.echo(f"{receipt.value:g} was reported for {id} before; nothing changed")
    else:
        click.echo(f"{receipt.value:g} counts for {id}")


@live_command("void")
@name_argument
@_id_argument
def void_command(name: str, id: str, database: DatabaseOptions, *, as_json: bool) -> None:
    """Report that a user never saw the arm: it is offered to another user."""
    with database.open_experiment(name) as live:
        live.void(id)
        _print_description(live.describe(id), as_json=as_json)


def _print_description(assignment: sl.Description, *, as_json: bool) -> None:
    until = f", a reward counts until {assignment.due_at}" if assignment.due_at else ""
    text = f"{assignment.id}: arm {assignment.arm}, {assignment.status}{until}"
    click.echo(to_json(assignment._asdict()) if as_json else text)


@live_command("tick")
@name_argument
def tick_command(name: str, database: DatabaseOptions, *, as_json: bool) -> None:
    """Process every assignment whose time is up: default rewards, and arms offered to other users.

    `assign` does it from time to time too; a job that runs this command is needed only if there are no calls.
    """
    with database.open_experiment(name) as live:
        due = live.tick()
    text = "1 assignment was due" if due == 1 else f"{due:,} assignments were due"
    click.echo(to_json({"name": name, "due": due}) if as_json else text)
