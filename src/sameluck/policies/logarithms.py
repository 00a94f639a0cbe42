"""Logarithms for the tables of policies, with the same bits on every machine."""

from __future__ import annotations

import math

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import compiled

_FEW = 10_000  # numbers whose logarithms plain Python takes in less time than it takes to load machine code
_LEAST = 1e-9  # above 0, so that an arm without pulls has an infinite bound


def natural_logs(numbers: Floats) -> Floats:
    """The natural logarithm of each of some positive numbers."""
    if numbers.size <= _FEW:
        return np.array([math.log(number) for number in numbers.tolist()])
    logs = np.array(numbers, dtype=np.float64)
    _take_logs(logs)
    return logs


@compiled
def _take_logs(numbers: Floats) -> None:
    # One scalar logarithm at a time: a vector library's last bit may depend on the processor.
    for place in range(numbers.size):
        numbers[place] = math.log(numbers[place])


def exploration_levels(c: float, horizon: int) -> Floats:
    """max(1e-9, log(t) + c log(log(t))) with t = period - 1, the plays made so far, by period."""
    levels = np.full(horizon + 1, _LEAST)
    logs = natural_logs(np.arange(2.0, horizon))
    levels[3:] = np.maximum(_LEAST, logs + c * natural_logs(logs))
    return levels
