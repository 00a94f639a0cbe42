"""`Call`: one request to the service as a value: what is sent, and how its answer is read."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Generic, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import numpy as np

from sameluck.client.answers import Answer
from sameluck.errors import Invalid, shown
from sameluck.validation import is_whole

T_co = TypeVar("T_co", covariant=True)
Plain: TypeAlias = str | int | float | bool | None
QueryValue: TypeAlias = Plain | Sequence[Plain]
LONGEST_ADDRESS = 60_000  # characters; httpx and servers take no longer ones


@dataclass(frozen=True)
class Call(Generic[T_co]):
    """A request, and what its answer means.

    Args:
        method: Of HTTP.
        path: Within the service.
        read: Returns the value of an answer.
        body: What is sent as JSON; None for nothing.
        query: The part of the address after the question mark.
        for_user: A user waits for it: it has less time.
        repeatable: Sending it twice is as good as once, so that it may be sent again if its answer was lost.
        media_type: Of the answer, unless that is empty.
    """

    method: str
    path: str
    read: Callable[[Answer], T_co]
    body: Mapping[str, object] | None = None
    query: Mapping[str, QueryValue] | None = None
    for_user: bool = False
    repeatable: bool = True
    media_type: str = "application/json"

    @property
    def address(self) -> str:
        """The path and the query."""
        pairs = [
            (name, _query_text(one))
            for name, value in (self.query or {}).items()
            for one in (value if isinstance(value, list) else [value])
        ]
        query = f"?{urlencode(pairs, errors='replace')}" if pairs else ""
        if len(self.path) + len(query) > LONGEST_ADDRESS:
            raise Invalid(f"the call is too long for an address: {shown(self.path + query)}")
        return self.path + query

    @property
    def content(self) -> bytes | None:
        """The body as it is sent."""
        return None if self.body is None else _json(self.body).encode()


def part_of_path(text: object) -> str:
    """A name as one part of a path; what is no text as one that no experiment, arm or policy has."""
    if not isinstance(text, str):
        text = f"\0{shown(text)[:99]}"
    if text in (".", ".."):
        return text.replace(".", "%2E")  # not the folder above
    return quote(text, safe="", errors="replace")


def _query_text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else _json(value)


def _json(value: object) -> str:
    try:
        return json.dumps(value, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:  # a number of 5,000 digits, say
        raise Invalid(f"the call cannot be sent as JSON: {error}") from None


def _plain(value: object) -> Plain:
    """A number of another kind, NumPy's for instance, as JSON has it; `Invalid` for anything else."""
    if isinstance(value, np.bool_):
        return bool(value)
    if is_whole(value):
        return operator.index(value)
    if isinstance(value, Real):
        return float(value)
    raise Invalid(f"a call takes text, numbers and lists of them, got {shown(value)}")
