"""`sameluck live`: run experiments on real users."""

from __future__ import annotations

import click

from sameluck.cli.command_list import CommandGroup


@click.group("live", cls=CommandGroup, prefix="live ", invoke_without_command=True)
@click.pass_context
def live_commands(context: click.Context) -> None:
    """Run an experiment on real users; try `sameluck live simulate` first.

    A database holds the experiments: --db sqlite:///file.db (one process writes, any number may read) or
    --db postgresql://user@host/database (several processes serve). The variable SAMELUCK_DB sets the default.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
