"""`StoreContract`: the rules of live experiments as tests of a store.

To test a store of your own, write a class such as

    class TestMyStore(StoreContract):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda clock: Store(MyDatabase(tmp_path / "ledger"), clock=clock)

`open_store(clock)` opens a database that is empty at the beginning of a test; called again after that store was
closed, it opens the same one. The rules are in one module per topic and run on a `scenario.Scenario`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.assignments import AssignmentRules
from contract.control import ConcurrencyRules, ControlRules
from contract.extension import ExtensionRules
from contract.incidents import IncidentRules
from contract.lists import ListRules
from contract.participation import ParticipationRules
from contract.removal import RemovalRules
from contract.results import ResultRules
from contract.rewards import RewardRules
from contract.scenario import OpenStore, Scenario
from contract.versions import VersionRules


class StoreContract(
    AssignmentRules,
    ParticipationRules,
    RewardRules,
    ListRules,
    ControlRules,
    IncidentRules,
    ExtensionRules,
    RemovalRules,
    ResultRules,
    VersionRules,
    ConcurrencyRules,
):
    """All the rules; a subclass must have a fixture `open_store`."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """A function of a clock that opens the database of the test, the same one each time."""
        raise NotImplementedError("a class that tests a store needs a fixture open_store")

    @pytest.fixture
    def scenario(self, open_store: OpenStore) -> Iterator[Scenario]:
        """The store with its clock and its users."""
        scenario = Scenario(open_store)
        yield scenario
        scenario.close()
