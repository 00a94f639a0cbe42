"""`sameluck token`: create, list and revoke tokens for the service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

import sameluck as sl
from sameluck.cli.command_list import CommandGroup
from sameluck.cli.live.store_options import DatabaseOptions, format_rows, url_option
from sameluck.cli.output import Output, json_option
from sameluck.live.store import Store
from sameluck.reporting.tables import text_table
from sameluck.service.api_tokens import SCOPES, Tokens


@click.group("token", cls=CommandGroup, prefix="token ", invoke_without_command=True)
@click.pass_context
def token_commands(context: click.Context) -> None:
    """Create, list and revoke tokens for applications that call `sameluck serve`.

    The experiments' database holds the SHA-256 digests of the tokens. While a service has a SQLite file open, this
    command cannot change the file: create tokens before the service starts, or over HTTP (POST /v1/tokens).
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


_SCOPES_HELP = "; ".join(f"{scope}: {purpose}" for scope, purpose in SCOPES.items())


@contextmanager
def _writing(url: str, *, new: bool = False) -> Iterator[Store]:
    try:
        with DatabaseOptions(url).open(new=new) as store:
            yield store
    except sl.Unavailable as error:  # usually because a service writes the SQLite file
        remedy = "while a service runs, use HTTP: POST /v1/tokens, DELETE /v1/tokens/NAME"
        raise sl.Unavailable(f"{error}; {remedy}") from None


@click.command("create")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(list(SCOPES)),
    help=f"Allowed calls; may be repeated. {_SCOPES_HELP}.",
)
@url_option
@json_option
def create_command(name: str, scopes: tuple[str, ...], url: str) -> Output:
    """Create a token and show it once. The history names the token with every change made with it."""
    with _writing(url, new=True) as store:
        secret = Tokens(store.database).create(name, scopes)
    rows = ("name", name), ("scopes", ", ".join(scopes)), ("token", secret)
    note = "keep the token: it is not shown again"
    return Output(format_rows(*rows), {"name": name, "scopes": scopes, "token": secret}, [note])


@click.command("list")
@url_option
@json_option
def list_command(url: str) -> Output:
    """List the tokens, without their secrets."""
    with DatabaseOptions(url).open(read_only=True) as store:
        tokens = Tokens(store.database).list()
    header = ("token", "scopes", "created", "revoked")
    rows = [(name, ", ".join(scopes), made, gone or "") for name, scopes, made, gone in tokens]
    text = text_table(header, rows) if rows else "no tokens yet"
    return Output(text, [token._asdict() for token in tokens])


@click.command("revoke")
@click.argument("name")
@url_option
@json_option
def revoke_command(name: str, url: str) -> Output:
    """Revoke a token. The service refuses it from now on, and its name cannot be used again."""
    with _writing(url) as store:
        Tokens(store.database).revoke(name)
    return Output(f"revoked {name!r}", {"name": name, "revoked": True})
