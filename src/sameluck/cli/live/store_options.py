"""What every live command shares: the database, the experiment in it, the commands that may follow."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from sameluck.errors import Conflict, Invalid, Unknown
from sameluck.live import store as stores
from sameluck.live.assignments import Clock
from sameluck.live.experiment import LiveExperiment
from sameluck.live.store import Store, without_password

Command = TypeVar("Command", bound=Callable[..., Any])

USUAL = "sqlite:///sameluck.db"
VARIABLE = "SAMELUCK_DB"

name_argument = click.argument("name")
db_option = click.option(
    "--db",
    "url",
    metavar="URL",
    envvar=VARIABLE,
    default=USUAL,
    show_default=True,
    show_envvar=True,
    help="Where experiments are kept.",
)
_makers_option = click.option(
    "--maker",
    "makers",
    multiple=True,
    metavar="NAME=MODULE:FUNCTION",
    help="For external policies: the function of a seed that makes the one of that name.",
)


def store_options(command: Command) -> Command:
    """The database, and how to make policies that are Python objects."""
    return db_option(_makers_option(command))


@contextmanager
def opened(
    url: str, *, read_only: bool = False, new: bool = False, clock: Clock | None = None
) -> Iterator[Store]:
    """A store; unless `new`, it must be there and have been used before."""
    if url == "sqlite://" or url.startswith("sqlite:///"):
        _check_file(url, new=new)
    if not new and not read_only:  # what begins nothing makes no tables in an empty database
        with suppress(
            Invalid
        ):  # an old schema, say, which is migrated when it is opened for writing
            _open(url, read_only=True).close()
    settings: dict[str, Any] = {} if clock is None else {"clock": clock}
    with _open(url, read_only=read_only, **settings) as store:
        yield store


def _open(url: str, **settings: Any) -> Store:
    try:
        return stores.open(url, **settings)
    except Unknown:
        begin = following(url, "start", "FILE.toml")
        raise Unknown(
            f"no experiment was ever started in {without_password(url)}; begin with: {begin}, or say another --db"
        ) from None


def _check_file(url: str, *, new: bool) -> None:
    path = url.removeprefix("sqlite://").partition("?")[0][1:]
    if path == "":
        raise Invalid(f"{url} is gone when the command ends; give it a file, such as --db {USUAL}")
    there = Path(path).exists()
    if not new and not there:
        raise Invalid(
            f"no database {path!r}; begin with: {following(url, 'start', 'FILE.toml')}, or say another --db"
        )
    folder = Path(path).parent
    if not folder.is_dir():
        raise Invalid(f"cannot make {path!r}: no folder {str(folder)!r}")


@contextmanager
def one_experiment(
    url: str, name: str, makers: tuple[str, ...] = (), *, read_only: bool = False
) -> Iterator[LiveExperiment]:
    """An experiment by name."""
    with opened(url, read_only=read_only) as store:
        yield store.peek(name, makers=found_makers(makers))


@contextmanager
def taking(url: str, name: str, other: str) -> Iterator[None]:
    """A name that is taken is told with what to do here; `other`: how another one is given."""
    try:
        yield
    except Conflict as error:
        if error.code != "name_taken":
            raise
        look = following(url, "status", shlex.quote(name))
        said = f"there is an experiment {name!r} already; look at it with: {look}, or {other}"
        raise Conflict(said, error.code) from None


def found_makers(words: tuple[str, ...]) -> dict[str, Any]:
    """The functions that `--maker` names."""
    makers = {}
    for word in words:
        name, _, place = word.partition("=")
        module, _, function = place.partition(":")
        if not bool(name and module and function):
            raise Invalid(f"--maker must be NAME=MODULE:FUNCTION, got {word!r}")
        if "" not in sys.path:
            sys.path.insert(0, "")  # as `python -m` does: modules of the current folder
        try:
            makers[name] = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError) as error:
            raise Invalid(f"--maker {word}: {error}") from None
    return makers


def following(url: str, *words: str) -> str:
    """A command that may be typed next: with the makers of this one, and the database unless it is understood."""
    understood = url in (USUAL, os.environ.get(VARIABLE))
    database = [] if understood else ["--db", shlex.quote(without_password(url))]
    context = click.get_current_context(silent=True)
    makers = context.params.get("makers", ()) if context else ()
    again = [word for maker in makers for word in ("--maker", shlex.quote(maker))]
    return " ".join(["sameluck live", *words, *database, *again])


def next_steps(*steps: tuple[str, str]) -> str:
    """Commands and what they are for, one beneath the other."""
    width = max(len(command) for command, _ in steps)
    return "\n".join(f"  {command.ljust(width)}  {purpose}" for command, purpose in steps)


def aligned(*rows: tuple[str, str]) -> str:
    """Labels and values, one beneath the other."""
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label.ljust(width)}  {value}" for label, value in rows)


@contextmanager
def cautions_noted() -> Iterator[list[str]]:
    """Warnings as a list instead of on the screen."""
    noted: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield noted
        finally:
            noted += [str(one.message) for one in caught if one.category is UserWarning]
