"""Digest of a ledger: the sum of the digests of its entries, in any order."""

import numpy as np
import pytest

from sameluck.live.engine.digest import MODULUS, entry_digest
from sameluck.live.engine.protocol import SettledEntries


@pytest.fixture
def settled():
    generator = np.random.default_rng(3)
    stack_owner, arm = generator.integers(-1, 4, 500), generator.integers(0, 9, 500)
    values = np.append(generator.normal(size=497), [0.0, -0.0, 1e50])
    return SettledEntries(stack_owner, arm, np.arange(500), values)


def entries(settled):
    return zip(*(column.tolist() for column in settled[:4]), strict=True)


def test_is_the_sum_of_those_of_the_entries(settled):
    assert settled.digest() == sum(entry_digest(*entry) for entry in entries(settled)) % MODULUS
    backwards = SettledEntries(*(np.ascontiguousarray(column[::-1]) for column in settled[:4]))
    assert backwards.digest() == settled.digest()
    assert SettledEntries(*(column[:0] for column in settled[:4])).digest() == 0


def test_differs_for_every_entry_and_value(settled):
    digests = {entry_digest(*entry) for entry in entries(settled)}
    assert len(digests) == 500
    for value in (0.0, -0.0, 1.0, np.nextafter(1.0, 2.0)):
        assert entry_digest(0, 1, 2, value) not in digests
        digests.add(entry_digest(0, 1, 2, float(value)))
