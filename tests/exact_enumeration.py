"""Exact distributions of several policies that read shared random numbers, by enumeration in rational arithmetic.

A run reads random numbers by address: `chance(address, probabilities)` returns an outcome, equal for equal addresses.
`distribution` runs it once for every combination of outcomes and returns the probability of each result.
"""

from collections import defaultdict
from fractions import Fraction


class _Unread(Exception):
    """An address whose outcome is not chosen yet."""


def distribution(run):
    """Return result -> probability of `run(chance)`, where equal addresses have equal outcomes."""
    results, waiting = defaultdict(Fraction), [({}, Fraction(1))]
    while waiting:
        outcomes, weight = waiting.pop()
        unread = []

        def chance(address, probabilities, outcomes=outcomes, unread=unread):
            if address not in outcomes:
                unread.extend([address, probabilities])
                raise _Unread
            return outcomes[address]

        try:
            results[run(chance)] += weight
        except _Unread:
            address, probabilities = unread
            waiting += [
                ({**outcomes, address: outcome}, weight * probability)
                for outcome, probability in enumerate(probabilities)
                if probability
            ]
    assert sum(results.values()) == 1
    return dict(results)


def marginal(joint, index):
    """Return the distribution of one component of the results."""
    single = defaultdict(Fraction)
    for result, probability in joint.items():
        single[result[index]] += probability
    return dict(single)


def total_variation(first, second):
    return sum(abs(first.get(key, 0) - second.get(key, 0)) for key in {*first, *second}) / 2
