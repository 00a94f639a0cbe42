"""List of all commands in the order of the help, and the click group that reads it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

COMMANDS = {  # the words of a command -> its module in sameluck.cli
    "demo": "compare_commands",
    "compare": "compare_commands",
    "designs": "compare_commands",
    "plan": "plan_commands",
    "race": "plan_commands",
    "verify": "compare_commands",
    "policies": "listings",
    "environments": "listings",
    "paper": "paper",
    "live": "live",
    "live simulate": "live.simulate_command",
    "live start": "live.start_commands",
    "live assign": "live.user_calls",
    "live expose": "live.user_calls",
    "live reward": "live.user_calls",
    "live void": "live.user_calls",
    "live tick": "live.user_calls",
    "live status": "live.monitoring",
    "live results": "live.results_command",
    "live doctor": "live.monitoring",
    "live history": "live.monitoring",
    "live trace": "live.monitoring",
    "live export": "live.data_commands",
    "live add-policy": "live.operation",
    "live remove-policy": "live.operation",
    "live replace-policy-code": "live.operation",
    "live repair": "live.operation",
    "live import": "live.start_commands",
    "live pause": "live.operation",
    "live resume": "live.operation",
    "live stop": "live.operation",
    "live disable-arm": "live.operation",
    "live enable-arm": "live.operation",
    "live extend-windows": "live.operation",
    "live backup": "live.data_commands",
    "live restore": "live.data_commands",
    "live delete": "live.data_commands",
    "live erase": "live.data_commands",
    "live forget-units": "live.data_commands",
    "live prune": "live.data_commands",
    "serve": "serve",
    "token": "token",
    "token create": "token",
    "token list": "token",
    "token revoke": "token",
}


class CommandGroup(click.Group):
    """Group of the commands in `COMMANDS` that begin with `prefix`.

    A command's module is imported when the command is called or listed, so that `sameluck compare` does not wait for
    the packages of `sameluck serve`.

    Args:
        prefix: The group's words, such as "live "; empty for the group of all commands.
        attributes: Attributes of `click.Group`.
    """

    def __init__(self, *, prefix: str = "", **attributes: Any) -> None:
        super().__init__(**attributes)
        self.prefix = prefix

    def list_commands(self, context: click.Context) -> list[str]:
        listed = [words for words in COMMANDS if words.startswith(self.prefix)]
        names = [words.removeprefix(self.prefix) for words in listed]
        return [name for name in names if " " not in name]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        module_name = COMMANDS.get(self.prefix + name)
        if module_name is None:
            return None
        module = import_module(f"sameluck.cli.{module_name}")
        commands = (value for value in vars(module).values() if isinstance(value, click.Command))
        return next(command for command in commands if command.name == name)
