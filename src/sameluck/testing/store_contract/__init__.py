"""`StoreContract`: the rules of live experiments as tests, for everybody who writes another store.

A store passes if its tests hold a class such as

    class TestMyStore(StoreContract):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda clock: Store(MyDatabase(tmp_path / "ledger"), clock=clock)

`open_store(clock)` opens a database that is empty at the beginning of a test; called again after that store was
closed, it opens the same one.

The rules stand in a module for each topic and are played on the stage of `scenario`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sameluck.testing.scenario import OpenStore, Scenario
from sameluck.testing.store_contract.assignments import Entries, Fallback, Units
from sameluck.testing.store_contract.concurrency import Concurrency
from sameluck.testing.store_contract.control import Challengers, Steering
from sameluck.testing.store_contract.results import Designs, Results
from sameluck.testing.store_contract.rewards import Exposure, Rewards


class StoreContract(
    Units,
    Entries,
    Rewards,
    Exposure,
    Fallback,
    Steering,
    Results,
    Concurrency,
    Challengers,
    Designs,
):
    """All the rules; give it a fixture `open_store`."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """A function of a clock that opens the test's own database, the same one each time."""
        raise NotImplementedError("a class that tests a store needs a fixture open_store")

    @pytest.fixture
    def scenario(self, open_store: OpenStore) -> Iterator[Scenario]:
        """The store with its clock and its users."""
        opened = Scenario(open_store)
        yield opened
        opened.close()
