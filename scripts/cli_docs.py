"""Print docs/cli.md: the current help of every command."""

import click

from sameluck.cli import commands
from sameluck.cli.command_list import COMMANDS

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
