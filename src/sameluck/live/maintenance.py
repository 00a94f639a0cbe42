"""`Maintenance`: what the operators of a store do with all of its experiments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import SupportsIndex
from uuid import UUID

from sameluck.live.calls.settings import StoreSettings
from sameluck.live.control.history import Change, all_changes
from sameluck.live.control.removal import delete_experiment, prune
from sameluck.live.databases import Database, write_backup
from sameluck.live.records import Status, read_experiments_of, read_statuses
from sameluck.live.start import find, find_row, names_in
from sameluck.validation import require_list


class Maintenance:
    """The methods of a store that list, back up and remove."""

    def __init__(self, database: Database, settings: StoreSettings) -> None:
        self._database = database
        self._settings = settings

    @property
    def database(self) -> Database:
        """The database that holds the experiments."""
        return self._database

    def names(self) -> list[str]:
        """The experiments of this store, the oldest first."""
        return names_in(self._database)

    def statuses(self) -> list[Status]:
        """The status of every experiment, the oldest first."""
        return self._database.read(read_statuses)

    def experiments_of(self, ids: Sequence[str]) -> list[str | None]:
        """The names of the experiments that assignments belong to; None for an id that is unknown."""
        every = require_list("experiments_of: ids", ids)
        return self._database.read(lambda transaction: read_experiments_of(transaction, every))

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write all experiments, as they are at this moment, to a new SQLite file; the store may serve meanwhile.

        `restore` makes a store from it, of either kind. A copy of a SQLite file made by other means lacks what is in
        its write-ahead log.
        """
        write_backup(self._database, path)

    def delete(self, name: str, *, reason: str = "") -> None:
        """Delete an experiment that is stopped, complete or failed, with its ledger and its audit log.

        Its lines in the history stay, with one that it was deleted. Its name may be used again. A long ledger takes
        several transactions; if this is interrupted, call it again.
        """
        delete_experiment(self._database, self._settings, find_row(self._database, name), reason)

    def erase(self, unit: str | SupportsIndex | UUID, *, reason: str = "") -> int:
        """Erase a unit from every experiment, as `LiveExperiment.erase` does; returns its assignments' number."""
        return sum(
            find(self._database, self._settings, name, None).erase(unit, reason=reason)
            for name in self.names()
        )

    def prune(self, older_than: float | timedelta, *, reason: str = "") -> int:
        """Remove lines of the audit log that are older than some seconds, or a `timedelta`; returns how many.

        Of complete replications: those of open ones are needed to extend windows. The sums of the digests of what
        was removed are kept, so that the ledger can still be compared with the audit log. Of experiments that ended
        before, the visits of units go too.
        """
        return prune(self._database, self._settings, older_than, reason)

    def history(self) -> list[Change]:
        """Every change of every experiment, the oldest first."""
        return self._database.read(all_changes)
