import pytest

import sameluck as sl
from sameluck.live.contract import StoreContract
from sameluck.live.sqlite import Sqlite
from sameluck.live.store import Store


class Kept(Sqlite):
    """A database in memory that outlives its store."""

    def close(self):
        pass


class TestMemory(StoreContract):
    @pytest.fixture
    def open_store(self):
        database = Kept(None)
        yield lambda clock: Store(database, clock=clock)
        Sqlite.close(database)


class TestFile(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path):
        url = f"sqlite:///{tmp_path}/ledger.db?synchronous=normal"
        return lambda clock: sl.open(url, clock=clock)
