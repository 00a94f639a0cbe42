"""Calls for a batch of items: one call for all of them, and a result or an error for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from sameluck.errors import Conflict, Diverged, Invalid, SameluckError, Unknown
from sameluck.validation import require_list

T = TypeVar("T")
S = TypeVar("S")

MAX_BATCH = 100  # items in one transaction: more would keep other callers waiting


def batches_of(name: str, items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items of a list in batches for one transaction each."""
    checked = require_list(name, items)
    for first in range(0, len(checked), MAX_BATCH):
        yield checked[first : first + MAX_BATCH]


def result_or_error(call: Callable[..., T], *arguments: object) -> T | SameluckError:
    """Return the result of a call, or the error that it raises because of its arguments."""
    try:
        return call(*arguments)
    except (Conflict, Diverged, Invalid, Unknown) as error:
        return error.with_traceback(None)


def map_valid(
    items: Sequence[T | S], valid_class: type[S], call: Callable[[list[S]], Sequence[T]]
) -> list[T]:
    """Return the items, those of the valid class replaced by their results, which one call returns."""
    valid = [item for item in items if isinstance(item, valid_class)]
    results = iter(call(valid) if valid else ())
    if len(valid) == len(items):
        return list(results)
    return [
        next(results) if isinstance(item, valid_class) else item  # type: ignore[misc]  # T is not S
        for item in items
    ]
