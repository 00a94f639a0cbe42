"""The option `--import`: policies and environments of the user's own, from a file that the user names."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType

import click

from sameluck.errors import Invalid, SameluckError


def _import_files(
    _context: click.Context, _option: click.Parameter, paths: tuple[str, ...]
) -> None:
    for path in paths:
        import_file(path)


import_option = click.option(
    "--import",
    metavar="FILE.py",
    multiple=True,
    expose_value=False,
    is_eager=True,
    callback=_import_files,
    help="Run a file of your own that registers policies or environments (sl.selects, sl.draws).",
)


def import_file(path: str) -> ModuleType:
    """Import a file as the module of its name; `Invalid` if it cannot be, or if another module has the name."""
    file = Path(path).resolve()
    name = file.stem
    if file.suffix != ".py" or not name.isidentifier():
        raise Invalid(f"--import takes a Python file such as my_policies.py, got {path!r}")
    if not file.is_file():
        raise Invalid(f"--import {path}: there is no such file")
    if _is_taken(name, file):
        raise Invalid(f"--import {path}: a module is called {name!r} already; rename the file")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with redirect_stdout(sys.stderr):  # standard output is for results
            spec.loader.exec_module(module)
    except SameluckError as error:
        raise Invalid(f"--import {path}: {error}") from error
    except ModuleNotFoundError as error:
        where = f"a file beside it is found with PYTHONPATH={file.parent}"
        raise Invalid(f"--import {path}: {error}; install it, or {where}") from error
    except (Exception, SystemExit) as error:
        raise Invalid(f"--import {path}: {type(error).__name__}: {error}") from error
    return module


def _is_taken(name: str, file: Path) -> bool:
    if name in sys.modules:
        other = getattr(sys.modules[name], "__file__", None)
    else:
        found = importlib.util.find_spec(name)
        if found is None:
            return False
        other = found.origin
    return other is None or Path(other).resolve() != file


@contextmanager
def mention_import() -> Iterator[None]:
    """Add to the message about a policy or an environment that is not known how one's own are given."""
    try:
        yield
    except Invalid as error:
        message = str(error)
        if not any(f"unknown {what} " in message for what in ("policy", "environment")):
            raise
        raise type(error)(f"{message}; for your own, name its file: --import FILE.py") from error
