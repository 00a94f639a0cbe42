"""`sameluck token`: who may call the service, and for what."""

from __future__ import annotations

import click

from sameluck.cli.discovery import DiscoveredGroup


@click.group("token", cls=DiscoveredGroup, package=__name__, invoke_without_command=True)
@click.pass_context
def token_commands(context: click.Context) -> None:
    """Create, list and revoke the tokens with which applications call `sameluck serve`.

    They are kept in the database of the experiments, as SHA-256 digests. While a service has a SQLite file open, this
    command cannot change it: create tokens before, or over HTTP (POST /v1/tokens).
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
