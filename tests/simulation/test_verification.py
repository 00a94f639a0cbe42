"""`check_policy` accepts what keeps the rules, and says which rule is broken otherwise."""

import random
import time
from typing import NamedTuple

import numpy as np
import pytest

import sameluck as sl
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import at

BERNOULLI = sl.Bernoulli((0.3, 0.5, 0.6))


class Own(NamedTuple):
    """A policy with one parameter that each test gives a function."""

    number: object = 1


def of_clock(policy, tally, period, noise):
    return int(time.time()) % 2


def of_global_randomness(policy, tally, period, noise):
    return int(np.random.random() * 2)  # noqa: NPY002


def out_of_range(policy, tally, period, noise):
    return period


def twice(policy, tally, period, noise):
    return int(uniform(at(noise, period, 0)) + uniform(at(noise, period, 0)))


def first(policy, tally, period, noise):
    return 0


class Unseeded:
    """An object whose arms are no function of its seed."""

    def __init__(self, seed):
        pass

    def select(self):
        return random.randrange(3)

    def update(self, arm, reward):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["epsilon_greedy(0.3)", sl.UCB1(1.0), sl.Batched("uniform", 4)])
def test_policies_that_keep_the_rules_pass(policy):
    assert sl.check_policy(policy, environment=BERNOULLI) is None


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (of_clock, sl.Invalid, "time"),
        (of_global_randomness, sl.Invalid, "random"),
        (out_of_range, sl.Invalid, r"outside 0\.\.2 in period 3"),
        (twice, sl.AddressReused, "read twice"),
    ],
)
def test_a_rule_that_is_broken_is_named(function, error, message):
    sl.selects(Own)(function)
    with pytest.raises(error, match=message):
        sl.check_policy(Own(), environment=BERNOULLI)


def test_parameters_that_do_not_survive_the_text_form_are_named():
    sl.selects(Own)(first)
    with pytest.raises(sl.Invalid, match=r"has the text form .*own\("):
        sl.check_policy(Own(number={1: 2}))


def test_an_object_that_is_no_function_of_its_seed_is_refused():
    with pytest.raises(sl.Invalid, match="chose"):
        sl.check_policy(sl.External("it"), environment=BERNOULLI, makers={"it": Unseeded})
