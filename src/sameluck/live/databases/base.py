"""What a database must do for the live engine: run a piece of work as one transaction.

All logic is in `LiveExperiment`, as work on named statements (`statements.sql`), the same for every database. Another
store is a class with `write`, `read` and `close`; `sameluck.testing.store_contract.StoreContract` tests it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import files
from operator import itemgetter
from threading import Lock
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]


class Transaction(Protocol):
    """Named statements, and what must happen if it comes to nothing."""

    def one(self, name: str, /, **values: Any) -> Row | None:
        """The first row, or None."""

    def all(self, name: str, /, **values: Any) -> list[Row]:
        """Every row."""

    def each(self, name: str, /, **values: Any) -> Iterator[Row]:
        """Row by row, for results that may be long."""

    def run(self, name: str, /, **values: Any) -> None:
        """Change something."""

    def many(self, name: str, /, rows: Iterable[dict[str, Any]]) -> None:
        """The same change for several rows."""

    def lock(self, number: int) -> None:
        """Let nobody else pass who names the same number, in any process, until the transaction has ended."""

    def hold(self, lock: Lock) -> None:
        """Take a lock of this process's and keep it until the transaction has ended."""

    def undo(self, forget: Callable[[], object]) -> None:
        """Call this if the transaction is not committed."""


Work: TypeAlias = Callable[[Transaction], T]


class Database(Protocol):
    """A place where ledgers are kept."""

    read_only: bool

    def write(self, work: Work[T]) -> T:
        """Run the work as one transaction and return what it returned, once that is durable.

        The work may be run again (it must not mind), and alone or together with others'.
        """

    def read(self, work: Work[T]) -> T:
        """Run work that changes nothing on one consistent state, without holding up those who write."""

    def close(self) -> None:
        """Give everything back."""


def statements() -> dict[str, str]:
    """Every statement by its name."""
    text = _package_text("statements.sql")
    found = {}
    for part in re.split(r"^-- name: ", text, flags=re.MULTILINE)[1:]:
        name, _, body = part.partition("\n")
        lines = [line for line in body.splitlines() if not line.startswith("--")]
        found[name.strip()] = "\n".join(lines).strip()
    return found


PARAMETER = re.compile(r"(?<![:\w]):(\w+)")  # but not a scheduler, ::text


def values_of(names: Sequence[str]) -> Callable[[dict[str, Any]], Sequence[Any]]:
    """A function that takes the values of these names, in their order."""
    if len(names) == 1:
        return lambda values: (values[names[0]],)
    return itemgetter(*names) if names else lambda _: ()


def migrations() -> dict[int, str]:
    """Every step of the schema by its number; a database at step n has all up to n."""
    folder = files("sameluck.live.databases") / "schema"
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".sql"))
    return {int(name[:4]): (folder / name).read_text(encoding="utf-8") for name in names}


def _package_text(name: str) -> str:
    return (files("sameluck.live.databases") / name).read_text(encoding="utf-8")


def for_postgres(sql: str) -> str:
    """The same text as PostgreSQL takes it."""
    opened = re.sub(r"/\*pg (.*?)\*/", r"\1", sql, flags=re.DOTALL)
    return opened.replace(" WITHOUT ROWID", "")
