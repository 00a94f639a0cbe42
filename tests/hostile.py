"""Values of every kind for every argument of a call, found by introspection."""

import inspect
import math
from decimal import Decimal

import numpy as np


class Contrary:
    """Whatever is asked of it raises an error of its own."""

    def _fails(self, *_):
        raise RuntimeError("no")

    __bool__ = __repr__ = __str__ = __len__ = __eq__ = __index__ = _fails
    __hash__ = object.__hash__


VALUES = {
    "None": None,
    "NaN": math.nan,
    "negative": -1,
    "huge": 10**5_000,
    "large": 1e300,
    "complex": 1j,
    "sNaN": Decimal("sNaN"),
    "bytes": b"x",
    "list": [1],
    "list of arrays": [np.zeros(2)],
    "dict": {"x": 1},
    "object": object(),
    "function": lambda *_: 1 / 0,
    "array": np.array([1.0, 2.0]),
    "empty array": np.array([]),
    "contrary": Contrary(),
    "empty text": "",
    "NUL": "a\0b",
    "surrogate": "\ud800",
    "long text": "x" * 100_000,
}
OF_DATABASES = ("NaN", "huge", "NUL", "surrogate", "long text")  # SQLite and PostgreSQL differ


def arguments_of(call):
    """The names of the arguments of a call."""
    return [one.name for one in _named(call)]


def needed(call, given):
    """Those of the given values that a call cannot do without, by argument."""
    return {one.name: given[one.name] for one in _named(call) if one.default is one.empty}


def _named(call):
    parameters = inspect.signature(call).parameters.values()
    return [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]


def methods(one):
    """The names of the public methods of an object that take arguments."""
    found = inspect.getmembers(type(one), inspect.isfunction)
    public = [name for name, _ in found if not name.startswith("_")]
    return [name for name in public if arguments_of(getattr(one, name))]
