"""The bands of distribution functions are those that are defined, contain the true laws, and their ends are found."""

import math

import numpy as np
import pytest

import sameluck as sl
from budget import SEED, standard_error, z_bound
from sameluck.inference.twins.bands import CELLS, SHARP, bands_of, half_width
from sameluck.inference.twins.observed_rewards import observed_stacks

RATINGS = sl.Empirical([[1, 2, 3, 4, 4, 5, 5], [1, 2, 2, 3, 3, 5]])
BOUNDS = (1, 5)
EFFORT = {"replications": 600, "draws": 20, "draw_replications": 60}


@pytest.fixture(scope="module")
def runs():
    experiment = sl.Experiment(
        policies={"a": "ucb1(20)", "b": "epsilon_greedy(0.1)"},
        arms=["x", "y"],
        horizon=300,
        replications=2,
        seed=3,
    )
    return sl.simulate(experiment, RATINGS)


@pytest.fixture(scope="module")
def twin(runs):
    return sl.twin(runs, bounds=BOUNDS, **EFFORT)


def distance(values, law):
    """The largest difference of two distribution functions, both of values that are equally likely."""
    points = np.unique(np.concatenate([values, law]))
    each = [np.searchsorted(np.sort(one), points, "right") / len(one) for one in (values, law)]
    return np.abs(each[0] - each[1]).max()


def test_the_width_is_that_of_the_theorem():
    """2 exp(-2 n width^2) is alpha / (n (n + 1)), and over all n these sum to alpha."""
    for count in (1, 10, 5_000):
        assert 2 * math.exp(-2 * count * half_width(count, 0.05) ** 2) == pytest.approx(
            0.05 / (count * (count + 1))
        )


def test_the_edges_are_the_farthest_laws_of_the_band():
    """In the band but for a cell of probability, and not from two cells farther on."""
    generator = np.random.Generator(np.random.PCG64(SEED))
    values = np.sort(generator.random(3_000))
    bands = bands_of([values], (0.0, 1.0), 0.95)
    width = half_width(3_000, 0.05)

    assert distance(values, bands.observed[0]) <= 1 / CELLS
    for edge in (bands.low[0], bands.high[0]):
        assert width - 1 / CELLS < distance(values, edge) <= width + 2 / CELLS


@pytest.mark.parametrize("point", [(1, 0), (-0.5, 0), (0, SHARP), (0.3, -SHARP), (0.2, 0.7)])
def test_every_point_is_a_law_between_the_edges(point):
    generator = np.random.Generator(np.random.PCG64(SEED))
    values = [np.sort(generator.normal(size=400).clip(-3, 3)) for _ in range(2)]
    bands = bands_of(values, (-3.0, 3.0), 0.9)
    (environment,) = bands.environments(np.array([[*point, 0.0, 0.0]]))

    assert np.all(np.diff(environment.samples[0]) >= 0)
    assert np.all(bands.low[0] <= environment.samples[0])
    assert np.all(environment.samples[0] <= bands.high[0])
    assert environment.samples[1].tolist() == bands.observed[1].tolist()


def test_few_rewards_leave_every_law_within_the_bounds():
    bands = bands_of([np.array([2.0])], (1.0, 5.0), 0.95)

    assert (bands.low.max(), bands.high.min()) == (1.0, 5.0)


def test_the_true_law_is_in_the_band_at_every_look():
    """100 arms, each looked at after every reward: at most 20% ever leave the band, and far fewer."""
    generator = np.random.Generator(np.random.PCG64(SEED))
    left = 0
    for values in generator.random((100, 60)):
        for count in range(1, 61):
            ranks = np.sort(values[:count])
            above = np.arange(1, count + 1) / count - ranks  # against the uniform law
            if max(above.max(), (1 / count - above).max()) > half_width(count, 0.2):
                left += 1
                break

    assert left <= 20


def test_no_law_of_the_bands_has_an_effect_beyond_the_ends(runs, twin):
    """Laws at either edge in eight parts at random, and the best of them changed at random."""
    bands = bands_of([np.sort(one) for one in observed_stacks(runs).by_arm()], BOUNDS, 0.95)
    edges = np.stack(bands)
    generator = np.random.Generator(np.random.PCG64(SEED))
    choices = generator.integers(3, size=(100, 2, 8))
    effects = [_differences(runs, edges, one, 100).mean() for one in choices]
    best = choices[[np.argmin(effects), np.argmax(effects)]].repeat(40, axis=0)
    changed = np.where(
        generator.random(best.shape) < 0.15, generator.integers(3, size=best.shape), best
    )
    effects = [_differences(runs, edges, one, 200).mean() for one in changed]
    lowest, highest = (
        _differences(runs, edges, changed[at], 4_000)
        for at in (np.argmin(effects), np.argmax(effects))
    )
    (end,) = twin.guaranteed

    assert lowest.mean() > end.low - z_bound(2) * standard_error(lowest)
    assert highest.mean() < end.high + z_bound(2) * standard_error(highest)
    assert highest.mean() - lowest.mean() > (end.high - end.low) / 2


def _differences(runs, edges, choice, count):
    parts = np.repeat(choice, CELLS // 8, axis=1)
    values = np.take_along_axis(edges, parts[None], 0)[0]
    law = sl.Empirical([np.maximum.accumulate(one) for one in values])
    rewards = sl.simulate(runs.experiment.replace(replications=count), law).rewards[:, :, 0]
    return rewards[:, 1] - rewards[:, 0]


def test_it_contains_the_interval_of_the_effect(twin):
    (end,), (effect,) = twin.guaranteed, twin.effects

    assert end.low < effect.low
    assert end.high > effect.high
    assert "guaranteed 95%" in str(twin)


def test_arms_that_may_be_equal_leave_0_possible():
    """The best effect of uniform choice against UCB1 is 0, on equal arms, which no search meets exactly."""
    experiment = sl.Experiment(
        policies={"a": "ucb1(20)", "b": "uniform"}, arms=2, horizon=200, replications=1, seed=2
    )
    runs = sl.simulate(experiment, sl.Empirical([[-1, 4, 5], [1, 2, 5]]))
    (end,) = sl.twin(runs, bounds=(-1, 5), **EFFORT).guaranteed

    assert end.low < 0 <= end.high


@pytest.mark.parametrize(("other", "equal"), [((0, 1), True), ((2, 3), False)])
def test_whether_arms_may_be_equal(other, equal):
    values = [np.linspace(*ends, 1_000) for ends in ((0, 1), other)]

    assert bands_of(values, (0.0, 3.0), 0.95).has_equal_arms is equal


def test_any_number_of_workers_gives_the_same_bits(runs, twin):
    assert sl.twin(runs, bounds=list(BOUNDS), workers=1, **EFFORT).guaranteed == twin.guaranteed


def test_without_bounds_there_is_none(runs):
    assert sl.twin(runs, **EFFORT).guaranteed == ()


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (5, "bounds must be the smallest and the largest possible reward, got 5"),
        ((1, 2, 5), "bounds must be the smallest and the largest"),
        ((1, math.nan), r"bounds\[1\] must be a finite number, got nan"),
        ((5, 1), r"bounds\[0\] must be below bounds\[1\], got 5 and 1"),
        ((1, 4), "arm x has a reward of 5, which is not within the bounds 1 and 4"),
    ],
)
def test_bounds_that_cannot_be(runs, bounds, words):
    with pytest.raises(sl.Invalid, match=words):
        sl.twin(runs, bounds=bounds, **EFFORT)


def test_bounds_of_arms_that_are_copied_by_a_family(runs):
    with pytest.raises(sl.Invalid, match="copied by the family gaussian; leave bounds out"):
        sl.twin(runs, bounds=BOUNDS, family="gaussian", **EFFORT)
    binary = sl.simulate(runs.experiment, sl.Bernoulli([0.5, 0.4]))
    with pytest.raises(sl.Invalid, match="copied by the family bernoulli"):
        sl.twin(binary, bounds=(0, 1), **EFFORT)
    (end,) = sl.twin(binary, bounds=(0, 1), family="empirical", **EFFORT).guaranteed
    assert end.low < end.high


def test_rewards_that_are_0_and_1_so_far_within_wider_bounds(runs):
    """An early look at revenue: nobody has paid anything but 0 and 1 yet."""
    early = sl.simulate(runs.experiment, sl.Bernoulli([0.3, 0.2]))
    twin = sl.twin(early, bounds=(0, 50), **EFFORT)

    assert twin.environment.samples[0][-1] == 1
    assert twin.guaranteed[0].high - twin.guaranteed[0].low > 50


def test_a_policy_that_counts_successes_takes_no_other_bounds(runs):
    policies = {"a": "ucb1", "b": "thompson_bernoulli"}
    counted = sl.simulate(runs.experiment.replace(policies=policies), sl.Bernoulli([0.3, 0.2]))
    with pytest.raises(sl.Invalid, match=r"policy 'b'.* needs rewards 0 and 1, but empirical"):
        sl.twin(counted, bounds=(0, 5), family="empirical", **EFFORT)
