"""Tables that rules read instead of computing logarithms and roots in every period."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import compiled
from sameluck.text_forms import Parameters

_MAX_PLAIN = 10_000  # logarithms that plain Python takes faster than machine code is loaded
_MIN_LEVEL = 1e-9  # above 0, so that an arm without pulls has an infinite bound
MAX_BYTES = 2**29  # of tables that are kept

_kept: dict[Hashable, Parameters] = {}
_lock = threading.Lock()


def natural_logs(numbers: Floats) -> Floats:
    """Return the natural logarithms of positive numbers, with the same bits on every machine."""
    if numbers.size <= _MAX_PLAIN:
        return np.array([math.log(number) for number in numbers.tolist()])
    logs = np.array(numbers, dtype=np.float64)
    _take_logs(logs)
    return logs


@compiled
def _take_logs(numbers: Floats) -> None:
    # Scalar logarithms: the last bit of a vector library may depend on the processor.
    for index in range(numbers.size):
        numbers[index] = math.log(numbers[index])


def exploration_levels(c: float, horizon: int) -> Floats:
    """Return max(1e-9, log(t) + c log(log(t))) by period, where t = period - 1 is the number of plays so far."""
    levels = np.full(horizon + 1, _MIN_LEVEL)
    logs = natural_logs(np.arange(2.0, horizon))
    levels[3:] = np.maximum(_MIN_LEVEL, logs + c * natural_logs(logs))
    return levels


def kept_tables(key: Hashable, make: Callable[[], Parameters]) -> Parameters:
    """Return the tables of a key, made once per process; the least recently used are dropped above `MAX_BYTES`."""
    # Under the lock also while tables are made: threads that need the same tables wait instead of making them twice.
    with _lock:
        if key in _kept:
            _kept[key] = _kept.pop(key)  # now the most recent
            return _kept[key]
        _kept[key] = make()
        total = sum(map(_bytes, _kept.values()))
        while len(_kept) > 1 and total > MAX_BYTES:
            total -= _bytes(_kept.pop(next(iter(_kept))))
        return _kept[key]


def _bytes(tables: Parameters) -> int:
    return sum(int(getattr(field, "nbytes", 0)) for field in tables)
