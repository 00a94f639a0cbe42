"""`StoreContract`: the rules of live experiments as tests of a store.

A database is tested by a class such as

    class TestMyStore(StoreContract):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda clock: Store(MyDatabase(tmp_path / "ledger"), clock=clock)

`open_store(clock)` opens a database that is empty when a test begins. Called again after the store was closed, it
opens the same database. The rules are grouped by topic, one module each, and run on a `scenario.Scenario`.
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
    """All rules; a subclass must have a fixture `open_store`."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Return a function of a clock that opens the test's database, the same each time."""
        raise NotImplementedError("a class that tests a store needs a fixture open_store")

    @pytest.fixture
    def scenario(self, open_store: OpenStore) -> Iterator[Scenario]:
        scenario = Scenario(open_store)
        yield scenario
        scenario.close()
