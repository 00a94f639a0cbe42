"""`StoredExperiment`: an experiment in a database, as this process knows it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from sameluck.experiment import Experiment
from sameluck.live.calls.settings import StoreSettings
from sameluck.live.control.history import History
from sameluck.live.databases.base import Database, Transaction
from sameluck.live.databases.rows import (
    CurrentRow,
    DefinitionRow,
    EntryRow,
    ExperimentRow,
    ReplicationRow,
)
from sameluck.live.engine.protocol import Engine, Entry
from sameluck.live.options import Maker, Makers, checked_makers, later_options, options_from
from sameluck.live.state.definition import Definition
from sameluck.live.state.ledger import Ledger

T = TypeVar("T")


class StoredExperiment:
    """An experiment, its options, and its policies with the code that this process has for them."""

    def __init__(
        self,
        database: Database,
        row: ExperimentRow,
        settings: StoreSettings,
        makers: Makers | None,
    ) -> None:
        self.database = database
        self.settings = settings
        self.id, self.name = row.id, row.name
        self.history = History(row.id, row.name, settings)
        self.options = options_from(row.options)
        self.later_options = later_options(row.options)
        self._makers = checked_makers(makers)
        self.definition = self.read_definition(row.policies)

    @property
    def experiment(self) -> Experiment:
        """The experiment as this process knows it; reading it prepares no policy."""
        return self.definition.experiment

    @property
    def engine(self) -> Engine:
        """The policies as this process knows them; raises if it does not have the experiment's code of each."""
        return self.definition.engine

    @property
    def makers(self) -> Makers:
        """How external policies are made, by their makers' names."""
        return self._makers

    def add_maker(self, name: str, make: Maker) -> None:
        """Remember how an external policy is made."""
        self._makers |= checked_makers({name: make})

    def read(self, work: Callable[[Ledger], T], *, needs: Collection[str] | None = None) -> T:
        """Run work on one consistent state of the ledger; work that `needs` only some policies, with their code."""

        def read(transaction: Transaction) -> T:
            definition = self.current(transaction)
            partial = needs is not None and definition.lacks_others(needs)
            engine = definition.playable if partial else definition.engine
            return work(self.ledger(transaction, engine)._replace(partial=partial))

        return self.database.read(read)

    def ledger(self, transaction: Transaction, engine: Engine) -> Ledger:
        """The ledger of every replication, for some policies."""
        rows = transaction.fetch_all(ReplicationRow, "replications", experiment=self.id)
        behind = {row.number for row in rows if row.behind}
        return Ledger(transaction, self.id, engine, [row.number for row in rows], behind)

    def outstanding(self, transaction: Transaction) -> dict[int, set[Entry]]:
        """The entries that are wanted or assigned, by replication."""
        entries: dict[int, set[Entry]] = {}
        for number, *entry in transaction.fetch_all(
            EntryRow, "all_outstanding", experiment=self.id
        ):
            entries.setdefault(number, set()).add(Entry(*entry))
        return entries

    def current(self, transaction: Transaction) -> Definition:
        """The policies as the database has them now; another process may have changed them."""
        return self._take(transaction.fetch_one(CurrentRow, "experiment_now", experiment=self.id))

    def refresh(self, transaction: Transaction) -> None:
        """As `current`, unless the experiment was deleted."""
        row = transaction.find(CurrentRow, "experiment_now", experiment=self.id)
        if row is not None:
            self._take(row)

    def _take(self, row: CurrentRow) -> Definition:
        """The definition in the database; it becomes that of this process unless that is a later one."""
        definition = self.definition
        if row.policies != definition.row:
            definition = self.read_definition(row.policies)
            if row.policy_revision >= self.definition.row.revision:
                self.definition = definition
        return definition

    def read_definition(self, row: DefinitionRow, makers: Makers | None = None) -> Definition:
        """A definition, with the makers of this process, or others."""
        known = self._makers if makers is None else makers
        return Definition(row, self.options, known)

    def set_definition(self, transaction: Transaction, after: Definition) -> None:
        """Use a definition from now on, in all processes; the rows of all replications are locked."""
        key, before, row = {"experiment": self.id}, self.definition, after.row
        transaction.execute("set_definition", **key, **row._asdict())
        policies = len(after.experiment.policies)
        transaction.execute("set_policies", **key, policies=policies, revision=row.revision)
        transaction.on_rollback(lambda: setattr(self, "definition", before))
        self.definition = after
