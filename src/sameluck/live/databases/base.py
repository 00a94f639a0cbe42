"""What a database must do for live experiments: run a piece of work as one transaction.

All logic is in work on named statements (`statements.sql`), the same for every database. Another store is a class
with `write`, `read` and `close`; `tests/live/contract` tests it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Protocol, TypeAlias, TypeVar

from sameluck.errors import Diverged, Unknown
from sameluck.live.calls.clock import SteadyClock

T = TypeVar("T")
Row = TypeVar("Row", bound=tuple[object, ...])
SqlValue: TypeAlias = str | float | None  # a float, an int or a bool
Values: TypeAlias = Mapping[str, SqlValue]  # of a statement's parameters


class Transaction(Protocol):
    """Runs statements by name; rows are returned as the given class of `databases.rows`."""

    def fetch_one(self, row: type[Row], name: str, /, **values: SqlValue) -> Row:
        """The first row; there is one."""

    def find(self, row: type[Row], name: str, /, **values: SqlValue) -> Row | None:
        """The first row, or None."""

    def find_many(self, row: type[Row], name: str, /, rows: Sequence[Values]) -> list[Row | None]:
        """`find` for several rows of parameters, one after the other."""

    def fetch_all(self, row: type[Row], name: str, /, **values: SqlValue) -> list[Row]:
        """Every row."""

    def iterate(self, row: type[Row], name: str, /, **values: SqlValue) -> Iterator[Row]:
        """Row by row, for results that may be long."""

    def execute(self, name: str, /, **values: SqlValue) -> None:
        """Run a statement that returns no rows."""

    def execute_many(self, name: str, /, rows: Iterable[Values]) -> None:
        """Run a statement for several rows of parameters."""

    def lock(self, codes: Sequence[str]) -> None:
        """Take the locks of hashes, in hexadecimal digits, across processes, in this order, until the end."""

    def try_lock(self, codes: Sequence[str]) -> list[bool]:
        """As `lock` for several hashes, but without a wait: whether each of them was free."""

    def hold_lock(self, lock: Lock) -> None:
        """Take a lock of this process until the transaction ends."""

    def on_rollback(self, forget: Callable[[], object]) -> None:
        """Call a function if the transaction is not committed."""

    def defer(self, write: Callable[[], object]) -> None:
        """Call a function before the next statement of the transaction, and before its end."""


Work: TypeAlias = Callable[[Transaction], T]


def deleted() -> Unknown:
    """The error for a row that is not there although it was: that of an experiment."""
    return Unknown("the experiment is not in this store any more: it was deleted")


def contradiction(error: Exception) -> Diverged:
    """The error for a row that a constraint refuses: what a process knows of a ledger is not what it is."""
    (what, *_) = str(error).splitlines()
    return Diverged(
        f"the database refused a change that contradicts its rows ({what}). Was it edited? Restore a backup, or see "
        "live.repair()"
    )


class Database(Protocol):
    """A database that holds ledgers."""

    kind: str  # "sqlite" or "postgresql": what `sameluck live doctor` can examine
    read_only: bool
    clock: SteadyClock  # the time that deadlines follow

    def write(self, work: Work[T]) -> T:
        """Run the work as one transaction and return its result once that is durable.

        The work may be run again, and alone or together with other work.
        """

    def read(self, work: Work[T]) -> T:
        """Run work that changes nothing on one consistent state, without blocking writers."""

    def close(self) -> None:
        """Release everything."""
