"""Shared parts of the live commands: database options, and the commands to type next."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from typing import NamedTuple, TypeAlias

import click

import sameluck as sl
from sameluck.cli.import_option import import_option
from sameluck.cli.output import Output, json_flag, prints
from sameluck.live.databases import without_password
from sameluck.live.options import Clock, Maker
from sameluck.reporting.tables import wrapped
from sameluck.validation import require_name

Decorator: TypeAlias = Callable[[Callable[..., Output]], click.Command]

DEFAULT_URL = "sqlite:///sameluck.db"
URL_VARIABLE = "SAMELUCK_DB"
COMMAND_TIMEOUT = 5.0  # seconds

name_argument = click.argument("name")
reason_option = click.option("--reason", default="", help="Reason to record in the history.")
url_option = click.option(
    "--db",
    "url",
    metavar="URL",
    envvar=URL_VARIABLE,
    default=DEFAULT_URL,
    show_default=True,
    show_envvar=True,
    help="The experiments' database.",
)
makers_option = click.option(
    "--maker",
    "makers",
    multiple=True,
    metavar="NAME=MODULE:FUNCTION",
    help="For an external policy: the function that makes the policy NAME from a seed.",
)


def _check_name(context: click.Context, param: click.Parameter, name: str | None) -> str | None:  # noqa: ARG001
    if name is not None:
        require_name("--name", name)
    return name


name_option = partial(click.option, "--name", callback=_check_name)


class DatabaseOptions(NamedTuple):
    """Options --db and --maker: the database, and the functions that make external policies."""

    url: str
    makers: tuple[str, ...] = ()  # as NAME=MODULE:FUNCTION

    @contextmanager
    def open(
        self,
        *,
        read_only: bool = False,
        new: bool = False,
        clock: Clock = time.time,
        timeout: float | None = COMMAND_TIMEOUT,
    ) -> Iterator[sl.Store]:
        """Open the store; unless `new`, raise `Unknown` or `Invalid` if the database is missing or has no tables."""
        if self.url == "sqlite://" or self.url.startswith("sqlite:///"):
            self._check_file(new=new)
        # Opening for writing creates missing tables, so look for them first. An old schema raises `Invalid` here
        # and is migrated below.
        if not new and not read_only:
            with suppress(sl.Invalid):
                self._open(read_only=True, clock=clock, timeout=timeout).close()
        with self._open(read_only=read_only, clock=clock, timeout=timeout) as store:
            yield store

    @contextmanager
    def open_experiment(self, name: str, *, read_only: bool = False) -> Iterator[sl.LiveExperiment]:
        with self.open(read_only=read_only) as store:
            yield store.peek(name, makers=self.import_makers())

    def _open(self, *, read_only: bool, clock: Clock, timeout: float | None) -> sl.Store:
        try:
            return sl.open(self.url, read_only=read_only, clock=clock, timeout=timeout)
        except sl.Unknown:
            message = f"{self.safe_url} has no experiments; {self._how_to_start()}"
            raise sl.Unknown(message) from None

    def _check_file(self, *, new: bool) -> None:
        path = self.url.removeprefix("sqlite://").partition("?")[0][1:]
        if path == "":
            message = f"{self.url} is in memory and ends with the command; name a file, such as --db {DEFAULT_URL}"
            raise sl.Invalid(message)
        if not new and not Path(path).exists():
            raise sl.Invalid(f"no database {path!r}; {self._how_to_start()}")
        folder = Path(path).parent
        if not folder.is_dir():
            raise sl.Invalid(f"cannot create {path!r}: no folder {str(folder)!r}")

    def _how_to_start(self) -> str:
        return f"start an experiment with: {self.next_command('start', 'FILE.toml')}, or name another --db"

    def import_makers(self) -> dict[str, Maker]:
        functions = {}
        for maker in self.makers:
            name, _, location = maker.partition("=")
            module, _, function = location.partition(":")
            if not (name and module and function):
                raise sl.Invalid(f"--maker must be NAME=MODULE:FUNCTION, got {maker!r}")
            if "" not in sys.path:
                sys.path.insert(0, "")  # as `python -m` does: modules of the current folder
            try:
                functions[name] = getattr(importlib.import_module(module), function)
            except (ImportError, AttributeError) as error:
                raise sl.Invalid(f"--maker {maker}: {error}") from None
        return functions

    @property
    def safe_url(self) -> str:
        return without_password(self.url)

    def next_command(self, *words: str) -> str:
        """Return a live command to type next, with these makers, and --db unless it is the default."""
        is_default = self.url in (DEFAULT_URL, os.environ.get(URL_VARIABLE))
        database = [] if is_default else ["--db", self.safe_url]
        makers = [word for maker in self.makers for word in ("--maker", maker)]
        return shlex.join(["sameluck", "live", *words, *database, *makers])

    @contextmanager
    def explain_name_conflict(self, name: str, remedy: str) -> Iterator[None]:
        """Extend the error about a taken name by the command that shows the experiment, and the remedy."""
        try:
            yield
        except sl.Conflict as error:
            if error.code != "name_taken":
                raise
            status = self.next_command("status", name)
            raise sl.Conflict(
                f"an experiment {name!r} exists; show it with: {status}, or {remedy}", error.code
            ) from None


def live_command(name: str, epilog: str | None = None, **context: bool) -> Decorator:
    """Return a decorator that makes a command with --db, --maker, --import and --json.

    The decorated function takes `database` and returns its `Output`.
    """

    def decorate(function: Callable[..., Output]) -> click.Command:
        @wraps(function)
        def callback(url: str, makers: tuple[str, ...], **options: object) -> Output:
            return function(database=DatabaseOptions(url, makers), **options)

        command = click.command(name, epilog=epilog, context_settings=context)(prints(callback))
        return json_flag(import_option(makers_option(url_option(command))))

    return decorate


def format_rows(*rows: tuple[str, str], indent: str = "") -> str:
    """Format labels and values, one pair per line."""
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{indent}{label.ljust(width)}  {value}" for label, value in rows)


@contextmanager
def collect_cautions() -> Iterator[list[str]]:
    """Collect the warnings issued within, instead of showing them."""
    cautions: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield cautions
        finally:
            cautions += [str(entry.message) for entry in caught if entry.category is UserWarning]


def caution_notes(cautions: Iterable[str]) -> list[str]:
    return [wrapped(f"caution: {caution}") for caution in cautions]
