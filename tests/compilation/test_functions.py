"""A user's functions run with their current constants, in whatever order they are changed."""

from types import FunctionType, ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

import sameluck as sl
from sameluck.compilation.functions import changed_constants, compiled_class, constants_of
from sameluck.environments.base import draws, prepared_parameters
from sameluck.policies.base import as_compiled, selects


class Mine(NamedTuple):
    first: float = 1.0


def reads_constants(policy, tally, period, noise):
    return (limits[0] + int(table[0]) + settings.shift + helper(period)) % 3  # noqa: F821


def with_constants():
    settings = ModuleType("settings")
    settings.shift = 0
    constants = {"limits": (0, 1), "table": np.zeros(2), "settings": settings}
    return FunctionType(reads_constants.__code__, {**constants, "helper": njit(lambda period: 0)})


CHANGES = {
    "a tuple": lambda names: names.update(limits=(1, 0)),
    "an array": lambda names: names.update(table=np.ones(2)),
    "an array in place": lambda names: names["table"].fill(1.0),
    "an attribute of a module": lambda names: setattr(names["settings"], "shift", 1),
    "a helper": lambda names: names.update(helper=njit(lambda period: 1)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_constant_gives_another_class(change):
    function = with_constants()
    before = compiled_class(Mine, [function])
    function.__globals__["limits"] = (0, *[1])  # equal
    assert compiled_class(Mine, [function]) is before

    change(function.__globals__)

    after = compiled_class(Mine, [function])
    assert after is not before
    assert compiled_class(Mine, [function]) is after
    assert after.__name__ != before.__name__


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_constant_is_compiled_anew(change):
    function = with_constants()
    selects(Mine)(function)
    experiment = sl.Experiment(policies={"mine": Mine()}, arms=3, horizon=20, replications=1)
    environment = sl.Bernoulli((0.5, 0.5, 0.5))
    first = sl.simulate(experiment, environment).pulls[0, 0, 0].tolist()
    change(function.__globals__)
    assert first == [20, 0, 0]
    assert sl.simulate(experiment, environment).pulls[0, 0, 0].tolist() == [0, 20, 0]


def test_what_a_function_does_not_use_is_no_constant():
    function = with_constants()
    before = compiled_class(Mine, [function])
    function.__globals__["unused"] = 3
    assert "unused" not in {constant.name for constant in constants_of(function)}
    assert changed_constants(function) == []
    assert compiled_class(Mine, [function]) is before


def test_a_class_defined_again_is_another():
    def policy_of(arm):
        class Again(NamedTuple):
            pass

        selects(Again)(lambda policy, tally, period, noise: arm)
        return Again()

    assert type(as_compiled(policy_of(0))).__name__ != type(as_compiled(policy_of(1))).__name__


def test_an_environment_registered_again_is_compiled_anew():
    class Certain(NamedTuple):
        means: tuple[float, ...] = (0.5, 0.5)

    def reward(parameters, row, arm, bits):
        return 1.0

    draws(Certain)(reward)
    before = type(prepared_parameters(Certain(), 0, range(1), 2))
    draws(Certain)(lambda parameters, row, arm, bits: 0.0)
    assert type(prepared_parameters(Certain(), 0, range(1), 2)) is not before
    draws(Certain)(reward)
    assert type(prepared_parameters(Certain(), 0, range(1), 2)) is before
