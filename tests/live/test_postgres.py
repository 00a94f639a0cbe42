import pytest

import sameluck as sl
from sameluck.live.contract import StoreContract


class TestPostgres(StoreContract):
    @pytest.fixture
    def open_store(self, postgres_url):
        return lambda clock: sl.open(postgres_url, clock=clock)
