"""Print docs/cli.md: the current help of every command."""

import click

from sameluck.cli import commands
from sameluck.cli.command_list import COMMANDS

INTRODUCTION = """\
Every command prints text, or JSON with `--json`, on standard output. An error is one line on standard error with its
cause and its remedy. Exit codes:

| code | meaning | causes |
|---|---|---|
| 0 | success | |
| 1 | failure outside the call | The database is unavailable or another process writes to it (try again). \
A ledger differs from its policies' choices. A file cannot be written. `live doctor` has an alarm. |
| 2 | invalid call | An option, a value, a file, a name or an id is wrong. A package is not installed. \
The database refuses this user or its settings, or the state of the experiment forbids the call. |
| 130 | interrupted | Ctrl-C |
"""


def find_command(words: str) -> click.Command:
    """Return the command that the words name, such as "live start"."""
    command: click.Command = commands
    for word in words.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return command


def page() -> str:
    """Return the whole page."""
    sections = [f"# Command line\n\n{INTRODUCTION}"]
    for words in ["", *COMMANDS]:
        command, title = find_command(words), f"sameluck {words}".strip()
        context = click.Context(
            command, info_name=title, terminal_width=100, help_option_names=["-h", "--help"]
        )
        sections.append(f"## {title}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(sections)


if __name__ == "__main__":
    print(page(), end="")
