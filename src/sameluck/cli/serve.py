"""`sameluck serve`: the service over HTTP."""

from __future__ import annotations

from contextlib import suppress

import click

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
    help="0: any free one.",
)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="A further name by which the service is called, such as that of a proxy; may be repeated.",
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
    as_json: bool,
) -> None:
    """Serve live experiments over HTTP, for applications in any language.

    At a loopback address it prints a token for everything, which ends with the process. At any other address it needs
    a token in the database: sameluck token create. SIGTERM and Ctrl-C end it within 5 seconds; what was acknowledged
    is in the database.
    """
    optional("fastapi", "service")
    optional("uvicorn", "service")
    from sameluck.service.serving import Serving  # noqa: PLC0415 its packages are optional

    database = DatabaseOptions(url, makers)
    address = Address(host, port, names)
    with database.open(new=True, timeout=None) as store, address.bind() as listener:
        serving = Serving(store, address, listener, database.import_makers())
        record = {"url": serving.url, "database": database.safe_url, "token": serving.token}
        text = format_rows(
            ("serving", database.safe_url),
            ("at", serving.url),
            ("token", serving.token or "those of: sameluck token list"),
        )
        click.echo(to_json(record) if as_json else text)
        with suppress(KeyboardInterrupt):
            serving.run()
