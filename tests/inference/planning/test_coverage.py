"""Intervals cover at their level on real policies, and peeking at a t interval does not."""

import math

import numpy as np
import pytest

import sameluck as sl
from sameluck.inference.interval_methods import INTERVALS

BERNOULLI = sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1))
EXAMPLES = {
    "example 1": ({"a": sl.UCB1(2.5), "b": sl.UCB1(3.0)}, BERNOULLI),
    "example 2": (
        {"a": sl.UCB1(), "b": sl.ThompsonBernoulli(first_plays=1)},
        sl.Bernoulli((0.7, 0.3)),
    ),
    "example 3": (
        {"a": sl.ThompsonGaussian(first_plays=1), "b": sl.EpsilonGreedy()},
        sl.Gaussian((1.0, 0.8, -2.0, -3.0, -4.0)),
    ),
    "a/a": ({"a": sl.ThompsonBernoulli(), "b": sl.ThompsonBernoulli()}, BERNOULLI),
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
def test_t_covers_at_the_planned_number_of_replications(name):
    """1,000 experiments of 30 replications; 5 binomial sd (false alarm 6e-7), and 1.5 points for non-normality."""
    result = sl.coverage(*experiment(name, 30))
    assert abs(result.covered - 0.95) < 5 * 0.0069 + 0.015
    assert result.experiments == 1_000


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_anytime_interval_survives_peeking_and_t_does_not(name):
    """Anytime misses at any look from 5 to 60 in at most alpha of experiments, plus 5 sd (false alarm 6e-7)."""
    for_anytime = sl.coverage(*experiment(name, 60), interval="anytime", peek=True)
    for_t = sl.coverage(*experiment(name, 60), interval="t", peek=True)
    assert for_anytime.covered > 0.95 - 5 * 0.0069
    assert for_t.covered < 0.85


def test_equal_deterministic_policies_never_differ():
    twins = sl.Experiment(
        policies={"a": sl.UCB1(), "b": sl.UCB1()}, arms=5, horizon=50, replications=5
    )
    result = sl.coverage(twins, BERNOULLI, experiments=20)
    assert (result.covered, result.power, result.truth) == (1.0, 0.0, 0.0)
    assert result.error == pytest.approx(20**-1.5), "never 0"


@pytest.mark.slow
@pytest.mark.parametrize("interval", ["t", "anytime"])
def test_looks_at_constant_differences_have_no_interval(interval):
    """The first replications of 20 periods often tie; the coverage equals a count of single intervals."""
    whole, environment = experiment("example 1", 12)
    short = whole.replace(horizon=20)
    result = sl.coverage(short, environment, interval=interval, experiments=200, peek=True)
    runs = sl.simulate(short.replace(replications=2_400), environment)
    values = (runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]).reshape(200, 12)
    truth = values.mean()
    looks = [
        [INTERVALS[interval].interval(group[:m], 0.95) for m in range(5, 13)] for group in values
    ]
    covered = np.mean(
        [all(low <= truth <= high for low, high, _ in intervals) for intervals in looks]
    )
    assert sum(len(set(group[:5])) == 1 for group in values) > 20
    assert result.covered == pytest.approx(covered)


def test_power_against_an_effect_grows_with_it():
    whole, environment = experiment("example 1", 10)
    small, large = (
        sl.coverage(whole, environment, effect=effect, experiments=200) for effect in (0.2, 2.0)
    )
    assert small.truth == 0.2
    assert small.power < large.power


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interval", "peek", "effect"),
    [
        ("t", False, None),
        ("t", False, 1.0),
        ("bootstrap", False, None),
        ("median", False, None),
        ("median", False, 1.0),
        ("t", True, None),
        ("anytime", True, 1.0),
    ],
)
def test_coverage_is_the_share_of_experiments_counted_one_by_one(interval, peek, effect):
    whole, environment = experiment("example 1", 8)
    result = sl.coverage(
        whole, environment, level=0.8, interval=interval, experiments=40, peek=peek, effect=effect
    )
    runs = sl.simulate(whole.replace(replications=320), environment)
    values = runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]
    truth = np.median(values) if interval == "median" else values.mean()
    if effect is not None:
        values, truth = values - truth + effect, effect
    covered = decided = 0
    for group in values.reshape(40, 8):
        looks = [
            INTERVALS[interval].interval(group[:m], 0.8) for m in (range(5, 9) if peek else [8])
        ]
        covered += all(look.low <= truth <= look.high for look in looks)
        decided += any(look.low > 0 or look.high < 0 for look in looks)

    share = covered / 40
    assert 0 < share < 1 or interval in ("anytime", "median")
    assert (result.covered, result.power) == pytest.approx((share, decided / 40))
    assert result.truth == pytest.approx(truth, rel=1e-12)
    assert result.error == pytest.approx(
        math.sqrt(max(share * (1 - share), 40**-2) / 40), rel=1e-12
    )
    assert (result.level, result.experiments, result.replications) == (0.8, 40, 8)


def test_bad_requests_are_refused():
    whole, environment = experiment("example 1", 10)
    with pytest.raises(sl.Invalid, match="unknown interval 'z'; known: t, anytime, median"):
        sl.coverage(whole, environment, interval="z")
    with pytest.raises(sl.Invalid, match="effect must be a finite number, got nan"):
        sl.coverage(whole, environment, effect=math.nan)
    with pytest.raises(sl.Invalid, match="experiments must be a whole number >= 10"):
        sl.coverage(whole, environment, experiments=1)
    for interval in ("bootstrap", "median"):
        with pytest.raises(sl.Invalid, match='peek=True takes interval="t" or "anytime"'):
            sl.coverage(whole, environment, interval=interval, peek=True)
    with pytest.raises(sl.Invalid, match="the experiment has one policy"):
        sl.coverage(whole.replace(policies={"a": sl.UCB1()}), environment)
