"""Print docs/cli.md: the help of every command as it is now."""

from collections.abc import Iterator

import click

from sameluck.cli import commands

INTRODUCTION = """\
Every command prints text or, with `--json`, JSON, on standard output. An error is one line on standard error: what
was wrong and what to do. Exit codes:

* 0: done.
* 1: not the caller's fault. The database cannot be reached or is being written by another process (try again), a
  ledger is not what its policies would have done, or a file cannot be written. For `live doctor`: there is an alarm.
* 2: the caller's. A word, a value, a file, a name or an id is wrong, something is not installed, or what happened
  before forbids it.
* 130: interrupted (Ctrl-C).
"""


def every_command(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """A command and, after it, those of its group."""
    yield words, command
    if isinstance(command, click.Group):
        within = command.commands
        names = sorted(within) if words == "sameluck" else within
        for name in names:
            yield from every_command(f"{words} {name}", within[name])


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
