"""Option `--import`: policies and environments from a user's Python file."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType

import click

from sameluck.errors import Invalid, SameluckError

import_option = click.option(
    "--import",
    metavar="FILE.py",
    multiple=True,
    expose_value=False,
    is_eager=True,
    callback=lambda _context, _option, paths: [import_file(path) for path in paths],
    help="Run your Python file that registers policies or environments (sl.selects, sl.draws).",
)


def import_file(path: str) -> ModuleType:
    """Import a file as a module named after it.

    Raises:
        Invalid: The file cannot be imported, or another module has its name.
    """
    file = Path(path).resolve()
    name = file.stem
    if file.suffix != ".py" or not name.isidentifier():
        raise Invalid(f"--import takes a Python file such as my_policies.py, got {path!r}")
    if not file.is_file():
        raise Invalid(f"--import {path}: no such file")
    if _is_taken(name, file):
        raise Invalid(f"--import {path}: another module is called {name!r}; rename the file")
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
        remedy = f"install it; for a file in the same folder, set PYTHONPATH={file.parent}"
        raise Invalid(f"--import {path}: {error}; {remedy}") from error
    except (Exception, SystemExit) as error:
        raise Invalid(f"--import {path}: {type(error).__name__}: {error}") from error
    return module


def _is_taken(name: str, file: Path) -> bool:
    if name in sys.modules:
        path = getattr(sys.modules[name], "__file__", None)
    else:
        spec = importlib.util.find_spec(name)
        if spec is None:
            return False
        path = spec.origin
    return path is None or Path(path).resolve() != file


@contextmanager
def mention_import() -> Iterator[None]:
    """Mention `--import` in the error about an unknown policy or environment."""
    try:
        yield
    except Invalid as error:
        message = str(error)
        if not any(f"unknown {noun} " in message for noun in ("policy", "environment")):
            raise
        raise type(error)(f"{message}; to use your own, name its file: --import FILE.py") from error
