"""Every table and theorem in a fast version. Each random check raises a false alarm with probability at most 1e-6."""

import math

import numpy as np
import pytest
from scipy import stats

import sameluck as sl
from nonempty import nonempty
from sameluck.paper import asymptotics, examples, published, theorem_tests, theorems
from sameluck.paper.algorithms import Users, algorithm_2, centred_sums
from sameluck.paper.chapters import Estimate, Settings, mean, variance
from sameluck.paper.run import THEOREMS

ALARM = 1e-6


def far(tests):
    return stats.norm.isf(ALARM / tests / 2)


@pytest.mark.parametrize(
    ("part", "table"), [("example1", published.TABLE_1), ("example2", published.TABLE_2)]
)
def test_a_table_meets_the_published_one(report, part, table):
    cells = [
        match
        for match in report.parts[part]["published"]
        if match["name"] == "interactions, replay"
    ]

    assert {cell["horizon"]: cell["published"] for cell in cells} == table
    assert all(abs(cell["z"]) < far(8) for cell in cells)
    assert all(cell["meets"] for cell in cells)


def test_the_naive_rows_are_exact(report):
    for part in ("example1", "example2"):
        cells = [
            match
            for match in report.parts[part]["published"]
            if match["name"] == "interactions, naive"
        ]
        assert [cell["ours"] for cell in cells] == [20.0, 200.0, 2_000.0, 20_000.0]
        assert [cell["z"] for cell in cells] == [0.0] * 4


def test_the_published_sampling_error_is_counted_in():
    cell = published.match("x", 10, Estimate(10.5, 0.03), Estimate(10.4, 0.04))

    assert cell.z == pytest.approx(2.0)
    assert cell.meets
    assert not published.match("x", 10, Estimate(10.7, 0.03), Estimate(10.4, 0.04)).meets
    assert published.match("x", 10, Estimate(1.0, 0.1), Estimate(9.0, 0.1), "axis").meets
    assert not published.match("x", 10, Estimate(9.0, 0.1), Estimate(1.0, 0.1), "axis").meets


def test_intervals_from_ten_runs_say_what_the_paper_says(report):
    """Replay lies below zero at every horizon in example 1 and above it in example 2; naive straddles it."""
    first, second = (report.parts[name]["intervals"] for name in ("example1", "example2"))
    assert all(point["high"] < 0 for point in first["replay"])
    assert all(point["low"] <= 0 <= point["high"] for point in first["naive"])
    assert all(point["low"] > 0 for point in second["replay"])
    assert report.parts["example1"]["decided"]["replay"] == 1.0
    assert report.parts["example1"]["decided"]["naive"] < 0.6


def test_an_interval_is_students_of_the_first_ten_runs(report):
    experiment = examples.experiment(examples.EXAMPLE_1, Settings(10, 7))
    runs = sl.simulate(experiment, examples.EXAMPLE_1.environment)
    sample = runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]
    low, high = stats.t.interval(0.99, 9, sample.mean(), stats.sem(sample))

    last = report.parts["example1"]["intervals"]["replay"][-1]
    assert (last["effect"], last["low"], last["high"]) == pytest.approx((sample.mean(), low, high))


def test_the_slope_and_the_axes_of_example_3_are_met(report):
    found = {match["name"]: match for match in report.parts["example3"]["published"]}
    assert set(found) == {"slope", "variance, naive", "variance, replay", "Var(N_2)/T of thompson"}
    assert all(match["meets"] for match in found.values())

    readings = {
        (slope["explore"], slope["reading"][:4]): slope["value"]
        for slope in report.parts["example3"]["slopes"]
    }
    assert 1 < readings["all", "rise"] < readings["all", "line"] < readings["all", "inte"] < 1.12


def test_replay_varies_less_than_what_others_do_in_every_example(report):
    for name in ("example1", "example2", "example3"):
        designs = {design["design"]: design for design in report.parts[name]["designs"]}
        assert designs["replay"]["variance"] < designs["naive"]["variance"]
        assert designs["replay"]["interactions"] < designs["time-coupled"]["interactions"]
        ratio = designs["naive"]["variance"] / designs["replay"]["variance"]
        assert designs["replay"]["naive_replications"] == pytest.approx(10 * ratio)
        assert designs["naive"]["naive_users"] == pytest.approx(1)
        bounds = [designs["replay"][f"naive_replications_{end}"] for end in ("low", "high")]
        assert bounds[0] < 10 * ratio < bounds[1]
        assert math.prod(bounds) == pytest.approx((10 * ratio) ** 2)
        assert designs["naive"]["naive_replications_high"] == 10


def test_shared_noise_helps_within_a_family(report):
    for family in nonempty(report.parts["beyond"]["families"]):
        variances = {design["design"]: design["variance"] for design in family["designs"]}
        assert variances["replay, shared noise"] < variances["replay"] < variances["naive"]


@pytest.mark.parametrize("part", [part.name for part in THEOREMS])
def test_a_theorem_holds(report, part):
    """Budget 1e-6 for each theorem, shared among its tests."""
    found = report.parts[part]

    assert found["passes"], [test for test in found["looks"] if not test["passes"]]
    assert found["budget"] == ALARM
    for test in found["looks"]:
        if test["far"] is not None:
            sides = 2 if test["relation"] == "=" else 1
            assert test["far"] == pytest.approx(stats.norm.isf(ALARM / len(found["looks"]) / sides))


def test_a_check_sees_what_is_wrong():
    def fails(*pending):
        return not theorem_tests.check("", "", pending)["passes"]

    rng = np.random.default_rng(1)
    one, other = rng.normal(size=2_000), rng.normal(size=2_000)
    assert not fails(
        theorem_tests.equal("", mean(one), 0.0), theorem_tests.same_distribution("", one, other)
    )
    assert fails(theorem_tests.equal("", mean(one + 0.2), 0.0))
    assert fails(theorem_tests.at_most("", mean(one + 0.2), 0.0))
    assert not fails(theorem_tests.at_most("", mean(one - 0.2), 0.0))
    assert fails(theorem_tests.same_distribution("", one, other * 1.4))
    assert fails(theorem_tests.never("", 1))


def test_the_two_sample_test_is_scipys():
    rng = np.random.default_rng(2)
    one, other = rng.normal(size=300), rng.normal(0.1, 1, size=500)

    test = theorem_tests.same_distribution("", one, other)(1)
    assert test.measured == pytest.approx(
        stats.ks_2samp(one, other, method="asymp").pvalue, abs=0.05
    )


def test_the_error_of_a_variance_counts_heavy_tails():
    """2,000 samples of 400: the spread of their variances is the stated error (within 20%, for either law)."""
    rng = np.random.default_rng(3)
    for draw in (rng.standard_normal, rng.standard_exponential):
        estimates = [variance(draw(400)) for _ in range(2_000)]
        spread = np.std([estimate.value for estimate in estimates])
        assert np.mean([estimate.error for estimate in estimates]) == pytest.approx(spread, rel=0.2)


def test_algorithm_2_spends_what_simulate_counts():
    example = examples.EXAMPLE_2
    experiment = examples.experiment(example, Settings(3, 11), 50)
    runs = sl.simulate(experiment, example.environment)
    for replication in range(3):
        users = Users(experiment, example.environment, replication)
        histories = algorithm_2(experiment, replication, users, tuple(example.policies))
        real = sum(history.replayed.count(False) for history in histories.values())
        assert real == sum(users.pulls) == runs.interactions[replication, 0]


def test_altered_users_differ_only_from_that_position_on():
    example = examples.EXAMPLE_1
    experiment = examples.experiment(example, Settings(1, 11), 50)
    both = (
        Users(experiment, example.environment, 0),
        Users(experiment, example.environment, 0, altered=(2, 4)),
    )
    rewards = [[[u.reward(arm, k) for k in range(8)] for arm in range(5)] for u in both]

    differing = np.argwhere(np.array(rewards[0]) != np.array(rewards[1]))
    assert differing.tolist() == [[2, k] for k in range(4, 8)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "example", [examples.EXAMPLE_1, examples.EXAMPLE_3], ids=lambda one: one.name
)
def test_sums_along_the_stacks_are_what_the_policies_earned(example):
    experiment = examples.experiment(example, Settings(20, 5), 200)
    runs = sl.simulate(experiment, example.environment)
    means, pulls = np.array(example.environment.means), runs.pulls[:, :, 0, :]

    sums = centred_sums(experiment, example.environment, means, pulls)
    assert (sums + pulls * means).sum(axis=2) == pytest.approx(runs.rewards[:, :, 0])


def test_the_proofs_bounds_grow_as_the_square_of_the_logarithm():
    for bound in (asymptotics.ucb1_bound, asymptotics.ucb_delta_bound):
        ratios = [bound(0.4, horizon) / math.log(horizon) ** 2 for horizon in (1e80, 1e160)]
        assert ratios[1] == pytest.approx(ratios[0], rel=0.05)
    assert asymptotics.ucb1_bound(0.2, 1_000) == pytest.approx(
        2 * 1382**2 + 4 / 1382 + 8 * math.log(1_000)
    )


@pytest.mark.slow
def test_the_literal_checks_are_made_on_both_policies_of_all_examples():
    found = theorems.CHAPTERS[0].analyse(Settings(100, 3), {})
    assert [test["case"] for test in found["looks"]] == ["example1", "example2", "example3"]
