"""Calls for a list of items: one call for all of them, a result or an error for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from sameluck.errors import Conflict, Diverged, Invalid, SameluckError, Unknown
from sameluck.validation import require_list

T = TypeVar("T")
S = TypeVar("S")

MAX_BATCH = 100  # items in one transaction


def batches_of(name: str, items: Iterable[T]) -> Iterator[list[T]]:
    """Some items at a time: a transaction with very many of them would keep others waiting."""
    every = require_list(name, items)
    for first in range(0, len(every), MAX_BATCH):
        yield every[first : first + MAX_BATCH]


def result_or_error(call: Callable[..., T], *arguments: object) -> T | SameluckError:
    """What a call returns, or the error that it raises because of its arguments."""
    try:
        return call(*arguments)
    except (Conflict, Diverged, Invalid, Unknown) as error:
        return error.with_traceback(None)


def map_valid(
    items: Sequence[T | S], kind: type[S], call: Callable[[list[S]], Sequence[T]]
) -> list[T]:
    """The items, those of a kind replaced by their results: one call returns them all."""
    some = [item for item in items if isinstance(item, kind)]
    results = iter(call(some) if some else ())
    if len(some) == len(items):
        return list(results)
    return [next(results) if isinstance(item, kind) else item for item in items]  # type: ignore[misc]  # T is not S
