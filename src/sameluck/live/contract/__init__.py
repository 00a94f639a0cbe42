"""`StoreContract`: the rules of live experiments as tests, for everybody who writes another store.

A store passes if its tests hold a class such as

    class TestMyStore(StoreContract):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda clock: Store(MyDatabase(tmp_path / "ledger"), clock=clock)

`open_store(clock)` opens a database that is empty at the beginning of a test; called again after that store was
closed, it opens the same one.

The rules stand in a module for each topic and are played on the stage of `scene`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sameluck.live.contract.concurrency import Concurrency
from sameluck.live.contract.results import Designs, Results
from sameluck.live.contract.rewards import Exposure, Rewards
from sameluck.live.contract.serving import Entries, Fallback, Units
from sameluck.live.contract.steering import Challengers, Steering
from sameluck.live.scene import OpenStore, Scene


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
    def scene(self, open_store: OpenStore) -> Iterator[Scene]:
        """The store with its clock and its users."""
        opened = Scene(open_store)
        yield opened
        opened.close()
