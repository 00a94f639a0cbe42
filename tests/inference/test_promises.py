"""A fast version of `benchmarks/promises.py`: every promised error rate, on few experiments.

With 60 experiments a rate of 5% exceeds its bound of 3.3 standard errors with probability 0.3% per row, and in any
row with about 10% for a new seed; the seeds are fixed. A rate of 20% is detected with probability 0.88 per row.
"""

import importlib.util
from pathlib import Path

import pytest

from sameluck.inference import simultaneous

SOURCE = Path(__file__).parents[2] / "benchmarks" / "promises.py"
spec = importlib.util.spec_from_file_location("promises", SOURCE)
promises = importlib.util.module_from_spec(spec)
spec.loader.exec_module(promises)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", promises.PROMISES)
def test_promises_are_kept(name, monkeypatch):
    monkeypatch.setattr(simultaneous, "ROTATIONS", 2_500)
    monkeypatch.setattr(promises, "COUNTS", (10,))
    broken = [row for row in promises.PROMISES[name](60) if row.kept == "NO"]
    assert broken == []
