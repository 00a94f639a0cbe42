"""`sameluck policies` and `sameluck environments`: the registered kinds with their text forms."""

from __future__ import annotations

from collections.abc import Mapping

import click

from sameluck import text_forms
from sameluck.cli.output import json_option
from sameluck.environments.base import ENVIRONMENTS
from sameluck.files import to_json
from sameluck.policies.base import POLICIES


@click.command("policies")
@json_option
def policies_command(*, as_json: bool) -> None:
    """List the policies and their parameters, as `compare` takes them."""
    _print_kinds(POLICIES, as_json=as_json)


@click.command("environments")
@json_option
def environments_command(*, as_json: bool) -> None:
    """List the environments and their parameters, as `--env` takes them."""
    _print_kinds(ENVIRONMENTS, as_json=as_json)


def _print_kinds(kinds: Mapping[str, type], *, as_json: bool) -> None:
    rows = [
        {
            "name": name,
            "example": text_forms.example(kind),
            "about": (kind.__doc__ or "").split("\n")[0],
        }
        for name, kind in kinds.items()
    ]
    text = "\n".join(f"{row['example']}\n    {row['about']}" for row in rows)
    click.echo(to_json(rows) if as_json else text)
