"""Arguments of calls, encoded as paths, queries and JSON; `Invalid` for a value that cannot be sent."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TypeAlias
from urllib.parse import quote, urlencode

import numpy as np

from sameluck.errors import Invalid, shown
from sameluck.live.control.history import check_reason
from sameluck.policies.base import Policy
from sameluck.text_forms import write
from sameluck.validation import is_whole

Plain: TypeAlias = str | int | float | bool | None
QueryValue: TypeAlias = Plain | Sequence[Plain]
PolicyLike: TypeAlias = Policy | str
MAX_ADDRESS = 60_000  # characters that httpx and servers accept


def address(path: str, query: Mapping[str, QueryValue]) -> str:
    pairs = [
        (name, _query_text(item))
        for name, value in query.items()
        for item in (value if isinstance(value, list) else [value])
    ]
    result = f"{path}?{urlencode(pairs, errors='replace')}" if pairs else path
    if len(result) > MAX_ADDRESS:
        raise Invalid(f"the arguments are too long for an address: {shown(result)}")
    return result


def path_segment(text: object) -> str:
    """Return a name as one segment of a path.

    A value that is not text becomes a name that no experiment, arm or policy has, so that the service answers.
    """
    if not isinstance(text, str):
        text = f"\0{shown(text)[:99]}"
    if text in (".", ".."):
        return text.replace(".", "%2E")  # not the folder above
    return quote(text, safe="", errors="replace")


def policy_text(policy: object) -> str:
    if isinstance(policy, str):
        return policy
    if not hasattr(policy, "_asdict"):
        raise Invalid(f"policy must be a policy or its text form, got {shown(policy)}")
    return write(policy)


def reason_query(reason: str) -> dict[str, QueryValue]:
    check_reason(reason)
    return {"reason": reason}


def json_text(value: object) -> str:
    """Return JSON; NumPy's numbers become numbers."""
    try:
        return json.dumps(value, default=_plain)
    # A number of 5,000 digits raises `ValueError`, for instance.
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"the call cannot be sent as JSON: {error}") from None


def _query_text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json_text(value)


def _plain(value: object) -> Plain:
    if isinstance(value, np.bool_):
        return bool(value)
    if is_whole(value):
        return operator.index(value)
    if isinstance(value, Real):
        return float(value)
    raise Invalid(f"a call takes text, numbers and lists of text or numbers, got {shown(value)}")
