"""Functions of users' environments with contexts: guarded, repeated, compared, and checked against draws."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

import sameluck as sl
from sameluck.randomness.samplers import normal, uniform
from sameluck.randomness.streams import at


class Shop(NamedTuple):
    weights: Sequence[Sequence[float]]
    levels: int = 0

    arms = property(lambda self: len(self.weights))

    @property
    def context(self):
        return sl.Levels(self.levels) if self.levels else sl.Features(len(self.weights[0]))


def right_contexts(parameters, row, period, noise, context):
    for feature in range(context.size):
        context[feature] = normal(at(noise, period, feature))


def right_draw(parameters, row, context, arm, bits):
    return parameters.weights[arm, 0] * context[0] + normal(bits)


def right_mean(parameters, row, context, arm):
    return parameters.weights[arm, 0] * context[0]


SHOP = Shop(((1.0, 2.0), (0.0, 1.0)))
EXPERIMENT = sl.Experiment(policies={"it": sl.Uniform()}, horizon=300, replications=2)


def register(contexts=right_contexts, draw=right_draw, mean=right_mean):
    sl.draws(Shop)(draw)
    sl.contexts(Shop)(contexts)
    sl.expects(Shop)(mean)


def test_a_right_environment_passes_every_check():
    register()

    sl.check_environment(SHOP)
    table = sl.FromContexts([[1.0, 2.0], [0.0, 1.0]], SHOP)
    moving = sl.Switching([SHOP, Shop(((-1.0, 0.0), (0.0, 1.0)))], every=5)
    for environment in (table, moving):
        runs = sl.simulate(EXPERIMENT.replace(design="naive"), environment)
        assert np.isfinite(runs.regret).all()


def leaves_an_entry(parameters, row, period, noise, context):
    context[0] = normal(at(noise, period, 0))


def writes_nan(parameters, row, period, noise, context):
    for feature in range(context.size):
        context[feature] = np.nan


def writes_nan_late(parameters, row, period, noise, context):
    for feature in range(context.size):
        context[feature] = 0.5 if period < 280 else np.nan


def writes_outside(parameters, row, period, noise, context):
    context[2] = 0.5


def reads_twice(parameters, row, period, noise, context):
    context[0] = normal(at(noise, period, 0))
    context[1] = uniform(at(noise, period, 0))


def changes_the_context(parameters, row, context, arm, bits):
    context[0] = 1.0
    return normal(bits)


def pays_nan(parameters, row, context, arm, bits):
    return np.nan


def has_the_wrong_sign(parameters, row, context, arm):
    return -parameters.weights[arm, 0] * context[0]


def returns_nan(parameters, row, context, arm):
    return np.nan


def divides_by_zero(parameters, row, context, arm):
    return context[0] / (context[1] - context[1])


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"contexts": leaves_an_entry}, r"leaves context\[1\] nan: write a finite .*line \d+"),
        ({"contexts": writes_nan}, r"leaves context\[0\] nan"),
        ({"contexts": writes_nan_late}, "a context in period 280 of replication 0 that is not"),
        ({"contexts": writes_outside}, r"writes context\[2\], but the indices are 0 to 1 .*line"),
        ({"draw": changes_the_context}, r"writes to context, which it must not change \(.*line"),
        ({"draw": pays_nan}, r"it returns nan, which is not a finite number .*line"),
        ({"mean": has_the_wrong_sign}, r"states the mean .* for arm 0 in the context .*and 25,000"),
        ({"mean": returns_nan}, r"what it returns, nan, is not a finite number.*line"),
        ({"mean": divides_by_zero}, r"environment Shop cannot be run.*line \d+"),
    ],
    ids=lambda value: next(iter(value.values())).__name__ if isinstance(value, dict) else "",
)
def test_a_wrong_function_is_refused_with_its_line(functions, message):
    register(**functions)

    with pytest.raises(sl.Invalid, match=message):
        sl.simulate(EXPERIMENT, SHOP)


def test_a_random_number_read_twice_is_refused():
    register(contexts=reads_twice)

    with pytest.raises(sl.AddressReused, match="environment Shop"):
        sl.simulate(EXPERIMENT, SHOP)


class Rotation(NamedTuple):
    pass


@sl.selects(Rotation)
def next_arm(policy, tally, period, noise):
    return period % tally.pulls.size


def reads_outside(parameters, row, context, arm, bits):
    return parameters.weights[5, 0]


def means_outside(parameters, row, context, arm):
    return parameters.weights[arm, 9]


@pytest.mark.parametrize("functions", [{"draw": reads_outside}, {"mean": means_outside}])
@pytest.mark.parametrize(
    ("policy", "suspects"),
    [
        (
            Rotation(),
            r"policy 'it' \(Rotation\) or environment Shop cannot .* in one of replications 0 to 1;",
        ),
        (sl.Uniform(), "environment Shop cannot .* in one of replications 0 to 1;"),
        (
            sl.External("object"),
            r"environment Shop cannot .*such as sl.Uniform\(\), names the line",
        ),
    ],
    ids=["own", "builtin", "object"],
)
def test_machine_code_blames_all_that_may_have_read_a_wrong_index(functions, policy, suspects):
    """It does not know the function, so that none is named with a line where nothing is wrong."""
    register(**functions)
    experiment, makers = EXPERIMENT.replace(policies={"it": policy}), None
    if isinstance(policy, sl.External):
        makers = {"object": lambda seed: lambda arms, rewards: 0}

    with pytest.raises(sl.Invalid, match=f"^{suspects}") as refused:
        sl.simulate(experiment, SHOP, check=False, workers=1, makers=makers)
    assert "(line" not in str(refused.value)


def writes_level_two(parameters, row, period, noise, context):
    context[0] = 2.0 if period == 290 else 0.0


@pytest.mark.parametrize("horizon", [300, 289])
def test_a_level_that_does_not_exist_never_becomes_an_index(horizon):
    register(contexts=writes_level_two)
    shop, experiment = SHOP._replace(levels=2), EXPERIMENT.replace(horizon=horizon)

    if horizon < 290:
        sl.simulate(experiment, shop)
        return
    with pytest.raises(
        sl.Invalid, match=r"period 290 .* a level that does not exist; levels are 0 to 1"
    ):
        sl.simulate(experiment, shop)


@pytest.mark.parametrize(
    ("shop", "message"),
    [
        (Shop(((np.nan,), (1.0,))), "Shop.weights must be finite numbers"),
        (Shop(((1.0,), (1.0, 2.0))), "Shop.weights must be numbers in lists of equal lengths"),
    ],
)
def test_parameters_are_checked_by_name(shop, message):
    register()

    with pytest.raises(sl.Invalid, match=message):
        sl.simulate(EXPERIMENT, shop)
