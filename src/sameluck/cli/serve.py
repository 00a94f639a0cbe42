"""`sameluck serve`: serve live experiments over HTTP."""

from __future__ import annotations

from contextlib import suppress

import click
from click.core import ParameterSource

import sameluck as sl
from sameluck.cli.live.store_options import DatabaseOptions, format_rows, makers_option, url_option
from sameluck.cli.output import json_flag
from sameluck.errors import optional
from sameluck.files import to_json
from sameluck.service.addresses import Address

PORT = 8321


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port",
    default=PORT,
    show_default=True,
    type=click.IntRange(0, 65_535),
    help="The port; 0 takes any free port.",
)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="Another host name of the service, such as the proxy's; may be repeated.",
)
@click.option(
    "--demo",
    is_flag=True,
    help="Serve an experiment in memory, with two minutes of synthetic users to watch in a browser.",
)
@makers_option
@url_option
@json_flag
def serve_command(
    host: str,
    port: int,
    names: tuple[str, ...],
    makers: tuple[str, ...],
    url: str,
    *,
    demo: bool,
    as_json: bool,
) -> None:
    """Serve live experiments over HTTP, for applications in any language, with a dashboard for a browser.

    At a loopback address the command prints a token with all scopes, valid while the process runs, and a link that
    logs in to the dashboard once. At any other address a token in the database is needed: sameluck token create.
    SIGTERM and Ctrl-C end the service within 5 seconds; every acknowledged call is in the database.
    """
    # Its packages are optional; `optional` reports a missing package with its remedy.
    for package in ("fastapi", "uvicorn", "jinja2"):
        optional(package, "service")
    from sameluck.service.process import ServiceProcess

    source = click.get_current_context().get_parameter_source("url")
    if demo and source is ParameterSource.COMMANDLINE:
        message = "--demo runs an experiment in memory and uses no database; omit --db or --demo"
        raise sl.Invalid(message)
    database = DatabaseOptions(url, makers)
    address = Address(host, port, names)
    opened = sl.open("sqlite://", timeout=None) if demo else database.open(new=True, timeout=None)
    shown = "a demonstration in memory" if demo else database.safe_url
    with opened as store, address.bind() as listener:
        process = ServiceProcess(store, address, listener, database.import_makers(), demo=demo)
        url, token, dashboard = process.url, process.token, process.dashboard
        record = {"url": url, "database": shown, "token": token, "dashboard": dashboard}
        text = format_rows(
            ("serving", shown),
            ("at", url),
            ("token", token or "list the tokens with: sameluck token list"),
            ("browser", dashboard),
        )
        click.echo(to_json(record) if as_json else text)
        with suppress(KeyboardInterrupt):
            process.run()
