"""Print docs/cli.md: the current help of every command."""

from collections.abc import Iterator

import click

from sameluck.cli import commands
from sameluck.cli.discovery import DiscoveredGroup

INTRODUCTION = """\
Every command prints text or, with `--json`, JSON, on standard output. An error is one line on standard error: the
cause and the remedy. Exit codes:

* 0: success.
* 1: a failure that is not due to the call. The database cannot be reached or is being written by another process (try
  again), a ledger differs from what its policies would have chosen, or a file cannot be written. For `live doctor`:
  there is an alarm.
* 2: the call is not valid. An option, a value, a file, a name or an id is wrong, something is not installed, the
  database refuses this user or its settings, or the state of the experiment forbids it.
* 130: interrupted (Ctrl-C).
"""


def every_command(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """A command, followed by those of its group."""
    yield words, command
    if isinstance(command, DiscoveredGroup):
        for name, one in command.every_command().items():
            yield from every_command(f"{words} {name}", one)


def page() -> str:
    """The whole page."""
    parts = [f"# Command line\n\n{INTRODUCTION}"]
    for words, command in every_command("sameluck", commands):
        context = click.Context(
            command, info_name=words, terminal_width=100, help_option_names=["-h", "--help"]
        )
        parts.append(f"## {words}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
