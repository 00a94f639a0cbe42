"""What one transaction settles is written together, before anything else is read or written."""

import pytest

import sameluck as sl
from sameluck.live.databases.rows import NumberRow, TextRow
from sameluck.live.engine.digest import MODULUS
from sameluck.live.state.replications import PendingWrites

START = {"definition": "", "fingerprints": "{}", "options": "", "salt": "", "streams": 1, "now": 0}


class Recorder:
    """A transaction that notes what it runs."""

    def __init__(self):
        self.ran, self.deferred = [], []

    def defer(self, write):
        self.deferred.append(write)

    def execute_many(self, name, rows):
        self.ran.append((name, list(rows)))

    def end(self):
        while self.deferred:
            self.deferred.pop(0)()


def test_an_entry_that_is_wanted_again_is_settled_afterwards():
    transaction = Recorder()
    writes = PendingWrites(transaction)
    writes.add("settle", position=1)
    writes.add("want", position=2)
    writes.add("settle", position=2)
    transaction.end()
    assert transaction.ran == [
        ("want", [{"position": 2}]),
        ("settle", [{"position": 1}, {"position": 2}]),
    ]


def test_a_replication_is_written_once_until_another_statement_comes():
    transaction = Recorder()
    writes = PendingWrites(transaction)
    writes.advance(3, version=1, before=0, defaulted=1, digest=MODULUS - 1)
    writes.advance(3, version=2, before=1, defaulted=0, digest=5)
    transaction.end()
    writes.advance(3, version=3, before=2, defaulted=0, digest=7)
    transaction.end()
    assert [rows for _, rows in transaction.ran] == [
        [{"replication": 3, "version": 2, "before": 0, "defaulted": 1, "digest": 4}],
        [{"replication": 3, "version": 3, "before": 2, "defaulted": 0, "digest": 7}],
    ]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request):
    url = "sqlite://" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with sl.open(url) as store:
        yield store.database


def names(database):
    return [name for (name,) in database.read(lambda t: t.fetch_all(TextRow, "names"))]


def test_what_is_deferred_is_done_before_the_next_statement_and_before_the_end(database):
    def work(transaction):
        transaction.defer(lambda: transaction.execute("start", name="a", **START))
        first = transaction.fetch_one(NumberRow, "start", name="b", **START).number
        transaction.defer(lambda: transaction.execute_many("start", [{"name": "c", **START}]))
        return first

    assert database.write(work) == 2
    assert names(database) == ["a", "b", "c"]


def test_what_is_deferred_counts_as_written_if_the_work_fails(database):
    """It is not done, and what was changed in memory for it is forgotten."""
    forgotten = []

    def work(transaction):
        transaction.on_rollback(lambda: forgotten.append(1))
        transaction.defer(lambda: transaction.execute("start", name="a", **START))
        raise sl.Unplayable("a policy")

    with pytest.raises(sl.Unplayable):
        database.write(work)
    assert forgotten == [1]
    assert names(database) == []
