"""`sameluck live assign`, `expose`, `reward`, `void`, `tick`: what an application does, by hand."""

from __future__ import annotations

import shlex

import click

from sameluck.cli.live.store_options import (
    aligned,
    following,
    name_argument,
    one_experiment,
    store_options,
)
from sameluck.cli.output import as_json_option
from sameluck.files import to_json
from sameluck.live.experiment import LiveExperiment
from sameluck.live.records import REASONS, Assignment, Description

_id_argument = click.argument("id")


@click.command("assign")
@name_argument
@click.option("--unit", required=True, help="Who has arrived: any text that names the user.")
@store_options
@as_json_option
def assign_command(
    name: str, unit: str, url: str, makers: tuple[str, ...], *, as_json: bool
) -> None:
    """Say which arm to show a user."""
    with one_experiment(url, name, makers) as live:
        answer = live.assign(unit)
        live.status()  # counts the call before this process ends
        text = to_json(answer._asdict()) if as_json else _assigned(live, url, answer)
    click.echo(text)


def _assigned(live: LiveExperiment, url: str, answer: Assignment) -> str:
    if answer.id is None:
        because = f"not enrolled: {REASONS[answer.reason]}"
        return aligned(("arm", f"{answer.arm} (the fallback)"), ("reason", because))
    rows = [
        ("arm", answer.arm),
        ("assignment", answer.id),
        ("reason", REASONS[answer.reason]),
    ]
    words = (shlex.quote(live.name), answer.id)
    if live.live.exposure == "explicit":
        rows.append(("once shown", following(url, "expose", *words)))
    rows.append(("report", following(url, "reward", *words, "VALUE")))
    return aligned(*rows)


@click.command("expose")
@name_argument
@_id_argument
@store_options
@as_json_option
def expose_command(name: str, id: str, url: str, makers: tuple[str, ...], *, as_json: bool) -> None:
    """Say that a user has seen the arm: from now on the user counts."""
    with one_experiment(url, name, makers) as live:
        live.expose(id)
        _show(live.describe(id), as_json=as_json)


@click.command("reward", context_settings={"ignore_unknown_options": True})  # values below zero
@name_argument
@_id_argument
@click.argument("value", type=float)
@store_options
@as_json_option
def reward_command(
    name: str, id: str, value: float, url: str, makers: tuple[str, ...], *, as_json: bool
) -> None:
    """Report what a user brought. The first value counts; the same value again changes nothing."""
    with one_experiment(url, name, makers) as live:
        receipt = live.reward(id, value)
    if as_json:
        click.echo(to_json(receipt._asdict()))
    elif receipt.duplicate:
        click.echo(f"{receipt.value:g} was reported for {id} before; nothing changed")
    else:
        click.echo(f"{receipt.value:g} counts for {id}")


@click.command("void")
@name_argument
@_id_argument
@store_options
@as_json_option
def void_command(name: str, id: str, url: str, makers: tuple[str, ...], *, as_json: bool) -> None:
    """Say that a user never saw the arm: it is offered to somebody else."""
    with one_experiment(url, name, makers) as live:
        live.void(id)
        _show(live.describe(id), as_json=as_json)


@click.command("tick")
@name_argument
@store_options
@as_json_option
def tick_command(name: str, url: str, makers: tuple[str, ...], *, as_json: bool) -> None:
    """Deal with every assignment whose time is up: default rewards and offers to somebody else.

    `assign` does it now and then too; a job that runs this is needed only where nobody calls.
    """
    with one_experiment(url, name, makers) as live:
        done = live.tick()
    said = "1 assignment was due" if done == 1 else f"{done:,} assignments were due"
    click.echo(to_json({"name": name, "due": done}) if as_json else said)


def _show(found: Description, *, as_json: bool) -> None:
    if as_json:
        click.echo(to_json(found._asdict()))
        return
    until = f", a reward counts until {found.due_at}" if found.due_at else ""
    click.echo(f"{found.id}: arm {found.arm}, {found.status}{until}")
