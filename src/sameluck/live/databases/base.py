"""Interface of the databases: run a piece of work as one transaction.

All logic is in work on named statements (`statements.sql`), the same for every database. Another database is a class
with `write`, `read` and `close`; the tests in `tests/live/contract` check it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Protocol, TypeAlias, TypeVar

from sameluck.errors import Diverged, Unknown
from sameluck.live.calls.timing import SteadyClock

T = TypeVar("T")
Row = TypeVar("Row", bound=tuple[object, ...])
SqlValue: TypeAlias = str | float | None  # float includes int and bool
Values: TypeAlias = Mapping[str, SqlValue]  # of a statement's parameters, by name


class Transaction(Protocol):
    """Statements by name in one transaction; result rows have a class of `databases.rows`."""

    def fetch_one(self, row_class: type[Row], name: str, /, **values: SqlValue) -> Row:
        """Return the first row; raise `Unknown` if there is none."""

    def find(self, row_class: type[Row], name: str, /, **values: SqlValue) -> Row | None:
        """Return the first row, or None."""

    def find_many(
        self, row_class: type[Row], name: str, /, rows: Sequence[Values]
    ) -> list[Row | None]:
        """Return the result of `find` for each of several rows of parameters."""

    def fetch_all(self, row_class: type[Row], name: str, /, **values: SqlValue) -> list[Row]:
        """Return every row."""

    def iterate(self, row_class: type[Row], name: str, /, **values: SqlValue) -> Iterator[Row]:
        """Yield the rows of a result that may be long."""

    def execute(self, name: str, /, **values: SqlValue) -> None:
        """Run a statement that returns no rows."""

    def execute_many(self, name: str, /, rows: Iterable[Values]) -> None:
        """Run a statement for several rows of parameters."""

    def lock(self, hashes: Sequence[str]) -> None:
        """Lock hexadecimal hashes across processes, in this order, until the transaction ends."""

    def try_lock(self, hashes: Sequence[str]) -> list[bool]:
        """Lock the hashes that are free, without a wait; return True for each that was."""

    @property
    def hold_lock(self) -> Callable[[Lock], None] | None:
        """Function that holds a lock of this process until the transaction ends; None if transactions take turns."""

    def on_rollback(self, function: Callable[[], object], /) -> None:
        """Call a function if the transaction is not committed."""

    def defer(self, write: Callable[[], object], /) -> None:
        """Call a function before the next statement, or before the transaction ends."""


Work: TypeAlias = Callable[[Transaction], T]


class Database(Protocol):
    """A database that holds ledgers."""

    kind: str  # "sqlite" or "postgresql"
    read_only: bool
    clock: SteadyClock  # sets the time of leases and reward windows

    def write(self, work: Work[T]) -> T:
        """Run the work as one transaction and return its result once the transaction is durable.

        The work may be run several times, and in one transaction with other work.
        """

    def read(self, work: Work[T]) -> T:
        """Run work that changes nothing on a consistent snapshot, without blocking writers."""

    def close(self) -> None:
        """Close every connection."""


def deleted() -> Unknown:
    """Return the error for an experiment whose row is gone."""
    return Unknown("the experiment is not in this store any more: it was deleted")


def contradiction(error: Exception) -> Diverged:
    """Return the error for a row that violates a constraint: the ledger is not the one that this process knows."""
    reason = str(error).splitlines()[0]
    return Diverged(
        f"the database refused a change that contradicts its rows ({reason}). Was it edited? Restore a backup, or "
        "see live.repair()"
    )
