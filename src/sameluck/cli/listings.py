"""`sameluck policies` and `sameluck environments`: the registered classes with their text forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import click

from sameluck import text_forms
from sameluck.cli.import_option import import_option
from sameluck.cli.output import Output, json_option
from sameluck.environments.base import ENVIRONMENTS
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid
from sameluck.policies.base import POLICIES, usable_contexts
from sameluck.wording import listed_with_or


@click.command("policies")
@import_option
@json_option
def policies_command() -> Output:
    """List the policies and their parameters, as `compare` takes them."""
    return _list_classes(POLICIES, _contexts_of_policy)


@click.command("environments")
@import_option
@json_option
def environments_command() -> Output:
    """List the environments and their parameters, as `--env` takes them."""
    return _list_classes(ENVIRONMENTS, _context_of_environment)


def _contexts_of_policy(example: str) -> str | None:
    names = usable_contexts(text_forms.parse(example, POLICIES, "policy"))
    return listed_with_or(names) if names else None


def _context_of_environment(example: str) -> str | None:
    context = as_environment(example).context
    return None if context is None else text_forms.name_of(type(context))


def _list_classes(registry: Mapping[str, type], context_of: Callable[[str], str | None]) -> Output:
    verb = "needs" if registry is POLICIES else "has"
    rows, texts = [], []
    for name, registered_class in registry.items():
        about = (registered_class.__doc__ or "").split("\n")[0]
        example = text_forms.example(registered_class)
        context = None
        with suppress(Invalid):  # the example of a class of yours may only name its fields
            context = context_of(example)
        rows.append({"name": name, "example": example, "about": about, "context": context})
        texts += [example, f"    {about}"]
        texts += [f"    It {verb} users with {context}."] if context else []
    return Output("\n".join(texts), rows)
