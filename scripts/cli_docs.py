"""Print docs/cli.md: the help of every command as it is now."""

from collections.abc import Iterator

import click

from sameluck.cli import commands


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
    intro = (
        "Every command prints text or, with `--json`, JSON; errors are one line and exit code 2."
    )
    parts = [f"# Command line\n\n{intro}\n"]
    for words, command in every_command("sameluck", commands):
        context = click.Context(
            command, info_name=words, terminal_width=100, help_option_names=["-h", "--help"]
        )
        parts.append(f"## {words}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
