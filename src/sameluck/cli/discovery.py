"""Discovery of commands: every click command that a module of a package defines belongs to the package's group."""

from __future__ import annotations

import math
import pkgutil
from collections.abc import Iterable
from importlib import import_module

import click


def add_commands(group: click.Group, package: str, path: Iterable[str]) -> None:
    """Add the commands of the package's modules to a group, ordered by `HELP_POSITION` (modules without it last)."""
    modules = [import_module(f"{package}.{module.name}") for module in pkgutil.iter_modules(path)]
    modules.sort(key=lambda module: getattr(module, "HELP_POSITION", math.inf))
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, click.Command):
                group.add_command(value)
