"""An environment from a Python function: the same rewards compiled and in plain Python, and refusals."""

import random

import pytest

import sameluck as sl
from budget import SEED
from sameluck import text_forms
from sameluck.simulation.rewards import reward_at

EXPERIMENT = sl.Experiment(
    policies={"it": sl.UCB1()}, arms=2, horizon=30, replications=4, seed=SEED
)


def squares(arm, uniform):
    """Uses what cannot be compiled: a dictionary of functions."""
    return {0: lambda: uniform, 1: lambda: 2 * uniform**2}[arm]()


@pytest.mark.slow
def test_the_function_is_called_for_every_reward():
    """Compiled and in plain Python, in the addresses' order; as text; saved as its name."""
    environment = sl.python_environment(squares, [1 / 2, 2 / 3])
    trace = sl.trace(EXPERIMENT, environment, 1, guard=True)["it"]

    for arm, position, reward in zip(trace.arms, trace.positions, trace.rewards, strict=True):
        assert reward == reward_at(EXPERIMENT, environment, 1, None, int(arm), int(position))
    assert (environment.best_arm, environment.binary) == (1, False)
    assert text_forms.write(environment) == f"squares(0.5, {2 / 3})"


@pytest.mark.slow
def test_an_error_during_the_runs_is_no_reward():
    """It cannot pass through machine code, and raises `Invalid` after it."""
    environment = sl.python_environment(
        lambda arm, u: u if u < 0.5 or u == 0.5 else 1 / (u > 0.9), [1, 1], name="x"
    )
    with pytest.raises(sl.Invalid, match="environment X gave a reward that is not a finite number"):
        sl.trace(EXPERIMENT, environment)


REFUSED = {
    "needs a function and a name": lambda: sl.python_environment(lambda arm, u: u, [1, 1]),
    "needs a function and a name that": lambda: sl.python_environment(3, [1, 1], name="three"),
    r"reward\(1, 0\) raised IndexError": lambda: sl.python_environment(
        lambda arm, u: [u][arm], [1, 1], name="own"
    ),
    r"reward\(0, 0\) must be a finite number, got None": lambda: sl.python_environment(
        lambda arm, u: None, [1, 1], name="own"
    ),
    "it must depend on its arguments alone": lambda: sl.python_environment(
        lambda arm, u: random.random(), [1, 1], name="own"
    ),
    "sameluck has an environment called Bernoulli": lambda: sl.python_environment(
        squares, [1, 1], name="bernoulli"
    ),
    r"Own\.means\[0\] must be a finite number": lambda: sl.python_environment(
        squares, [float("nan"), 1], name="own"
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_an_environment_is_refused(message):
    with pytest.raises(sl.Invalid, match=message):
        REFUSED[message]()
