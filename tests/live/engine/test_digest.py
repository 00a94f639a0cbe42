"""The digest of a ledger: a sum of the digests of its entries, whatever their order."""

import numpy as np
import pytest

from sameluck.live.engine.digest import MODULUS
from sameluck.live.engine.replication import Replication, SettledEntries
from sameluck.live.engine.scheduler import Entry


@pytest.fixture
def settled():
    generator = np.random.default_rng(3)
    owner, arm = generator.integers(-1, 4, 500), generator.integers(0, 9, 500)
    values = np.append(generator.normal(size=497), [0.0, -0.0, 1e50])
    return SettledEntries(owner, arm, np.arange(500), values)


def entries(settled):
    columns = (column.tolist() for column in settled[:4])
    return [(Entry(*entry), value) for *entry, value in zip(*columns, strict=True)]


def test_is_the_sum_of_those_of_the_entries(settled):
    assert settled.digest() == sum(Replication.digest(*one) for one in entries(settled)) % MODULUS
    backwards = SettledEntries(*(np.ascontiguousarray(column[::-1]) for column in settled[:4]))
    assert backwards.digest() == settled.digest()
    assert SettledEntries(*(column[:0] for column in settled[:4])).digest() == 0


def test_differs_for_every_entry_and_value(settled):
    found = {Replication.digest(*one) for one in entries(settled)}
    assert len(found) == 500
    entry = Entry(0, 1, 2)
    for value in (0.0, -0.0, 1.0, np.nextafter(1.0, 2.0)):
        assert Replication.digest(entry, value) not in found
        found.add(Replication.digest(entry, float(value)))
