"""Print docs/cli.md: the help of every command as it is now."""

import click

from sameluck.cli import commands


def page() -> str:
    """The whole page."""
    intro = (
        "Every command prints text or, with `--json`, JSON; errors are one line and exit code 2."
    )
    parts = [f"# Command line\n\n{intro}\n"]
    for name, command in [("", commands), *sorted(commands.commands.items())]:
        words = f"sameluck {name}".strip()
        context = click.Context(
            command, info_name=words, terminal_width=100, help_option_names=["-h", "--help"]
        )
        parts.append(f"## {words}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
