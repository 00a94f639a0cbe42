"""Discovery of commands: every click command that a module of a package defines belongs to the package's group."""

from __future__ import annotations

import math
import pkgutil
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import click


class DiscoveredGroup(click.Group):
    """The commands of a package's modules; a module is imported when a command with its name is called.

    Help, a wrong name and a command that has another name than its module need all modules.

    Args:
        package: The package.
        attributes: Those of `click.Group`.
    """

    def __init__(self, *, package: str, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.package = package

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        module = name.replace("-", "_")
        if name not in self.commands and module in self._modules():
            self._add([module])
        if name not in self.commands:
            self._add(self._modules())
        return super().get_command(context, name)

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.every_command())

    def every_command(self) -> dict[str, click.Command]:
        """All commands, ordered by the `HELP_POSITION` of their modules; those of modules without it by name."""
        self.commands = {}
        self._add(self._modules())
        return self.commands

    def _modules(self) -> list[str]:
        return [one.name for one in pkgutil.iter_modules(import_module(self.package).__path__)]

    def _add(self, names: Iterable[str]) -> None:
        found = [
            (getattr(module, "HELP_POSITION", math.inf), command)
            for module in (import_module(f"{self.package}.{name}") for name in names)
            for command in vars(module).values()
            if isinstance(command, click.Command)
        ]
        found.sort(key=lambda one: (one[0], one[1].name if one[0] == math.inf else ""))
        for _, command in found:
            self.add_command(command)
