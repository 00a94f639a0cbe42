"""Intervals keep their promises on real policies, and peeking at a t interval is shown to break it."""

import pytest

import sameluck as sl

COINS = sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1))
EXAMPLES = {
    "example 1": ({"a": sl.UCB1(2.5), "b": sl.UCB1(3.0)}, COINS),
    "example 2": (
        {"a": sl.UCB1(), "b": sl.ThompsonBernoulli(first_plays=1)},
        sl.Bernoulli((0.7, 0.3)),
    ),
    "example 3": (
        {"a": sl.ThompsonGaussian(first_plays=1), "b": sl.EpsilonGreedy()},
        sl.Gaussian((1.0, 0.8, -2.0, -3.0, -4.0)),
    ),
    "a/a": ({"a": sl.ThompsonBernoulli(), "b": sl.ThompsonBernoulli()}, COINS),
}


def experiment(name: str, replications: int) -> tuple[sl.Experiment, object]:
    policies, environment = EXAMPLES[name]
    arms = environment.arms
    return (
        sl.Experiment(policies=policies, arms=arms, horizon=200, replications=replications, seed=3),
        environment,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_t_at_the_planned_number_covers(name):
    """1,000 experiments of 30: 5 binomial sd (false alarm 6e-7) and 1.5 points where not normal."""
    found = sl.coverage(*experiment(name, 30))
    assert abs(found.covered - 0.95) < 5 * 0.0069 + 0.015
    assert found.experiments == 1_000


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_anytime_interval_survives_peeking_and_t_does_not(name):
    """Ever missed at some look from 5 to 60: at most alpha (plus 5 binomial sd, false alarm 6e-7) for anytime."""
    for_anytime = sl.coverage(*experiment(name, 60), interval="anytime", peek=True)
    for_t = sl.coverage(*experiment(name, 60), interval="t", peek=True)
    assert for_anytime.covered > 0.95 - 5 * 0.0069
    assert for_t.covered < 0.85


def test_equal_deterministic_policies_never_differ():
    twins = sl.Experiment(
        policies={"a": sl.UCB1(), "b": sl.UCB1()}, arms=5, horizon=50, replications=5
    )
    found = sl.coverage(twins, COINS, experiments=20)
    assert (found.covered, found.power, found.truth) == (1.0, 0.0, 0.0)


def test_power_against_an_effect_grows_with_it():
    one, environment = experiment("example 1", 10)
    small, large = (
        sl.coverage(one, environment, effect=effect, experiments=200) for effect in (0.2, 2.0)
    )
    assert small.truth == 0.2
    assert small.power < large.power


def test_bad_requests_are_refused():
    one, environment = experiment("example 1", 10)
    with pytest.raises(sl.Invalid, match="unknown interval 'z'; known: t, bootstrap, anytime"):
        sl.coverage(one, environment, interval="z")
    with pytest.raises(sl.Invalid, match="experiments must be a whole number >= 10"):
        sl.coverage(one, environment, experiments=1)
    with pytest.raises(sl.Invalid, match="peek=True takes"):
        sl.coverage(one, environment, interval="bootstrap", peek=True)
    with pytest.raises(sl.Invalid, match="one policy"):
        sl.coverage(one.replace(policies={"a": sl.UCB1()}), environment)
