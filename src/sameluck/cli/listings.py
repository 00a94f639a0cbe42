"""`sameluck policies` and `sameluck environments`: the registered classes with their text forms."""

from __future__ import annotations

from collections.abc import Mapping

import click

from sameluck import text_forms
from sameluck.cli.import_option import import_option
from sameluck.cli.output import Output, json_option
from sameluck.environments.base import ENVIRONMENTS
from sameluck.policies.base import POLICIES


@click.command("policies")
@import_option
@json_option
def policies_command() -> Output:
    """List the policies and their parameters, as `compare` takes them."""
    return _list_classes(POLICIES)


@click.command("environments")
@import_option
@json_option
def environments_command() -> Output:
    """List the environments and their parameters, as `--env` takes them."""
    return _list_classes(ENVIRONMENTS)


def _list_classes(registry: Mapping[str, type]) -> Output:
    rows = []
    for name, registered_class in registry.items():
        about = (registered_class.__doc__ or "").split("\n")[0]
        rows.append({"name": name, "example": text_forms.example(registered_class), "about": about})
    return Output("\n".join(f"{row['example']}\n    {row['about']}" for row in rows), rows)
