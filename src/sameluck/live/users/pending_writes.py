"""`PendingWrites`: the rewards of one transaction, written together."""

from __future__ import annotations

from typing import Any

from sameluck.live.databases.base import SqlValue, Transaction
from sameluck.live.engine.digest import MODULUS


class PendingWrites:
    """Rows that a transaction writes before its next other statement, those of one statement together.

    A replication with several rewards is written once. So a list of rewards is as few statements as a single one.
    """

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self._begin()

    def _begin(self) -> None:
        # In this order: an entry that is wanted again may be settled next, but not the other way round.
        self._rows: dict[str, list[dict[str, SqlValue]]] = {
            "want": [],
            "settle": [],
            "note_reward": [],
        }
        self._replications: dict[int, dict[str, Any]] = {}
        self._is_deferred = False

    def add(self, statement: str, **values: SqlValue) -> None:
        """Write a row by one of the statements want, settle and note_reward."""
        self._defer()
        self._rows[statement].append(values)

    def advance(self, replication: int, defaulted: int, digest: int, **values: SqlValue) -> None:
        """Write the state of a replication."""
        self._defer()
        if earlier := self._replications.get(replication):
            values["before"] = earlier["before"]
            defaulted += earlier["defaulted"]
            digest = (digest + earlier["digest"]) % MODULUS
        known = {"replication": replication, "defaulted": defaulted, "digest": digest}
        self._replications[replication] = {**values, **known}

    def _defer(self) -> None:
        if not self._is_deferred:
            self._is_deferred = True
            self.transaction.defer(self._write)

    def _write(self) -> None:
        rows, replications = self._rows, self._replications
        self._begin()
        for statement, some in rows.items():
            if some:
                self.transaction.execute_many(statement, some)
        if replications:
            self.transaction.execute_many("advance_replication", list(replications.values()))
