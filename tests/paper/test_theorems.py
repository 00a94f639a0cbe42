"""Claims of the paper, each a check with a budget: its tables, and its theorems for every design."""

import numpy as np
import pytest

import cases
import sameluck as sl
from budget import SEED, assert_mean, assert_same_distribution, assert_same_mean, standard_error
from nonempty import nonempty

pytestmark = pytest.mark.slow

HORIZONS = [10, 100, 1_000, 10_000]
EXAMPLES = {
    1: (
        {"ucb 2.5": sl.UCB1(2.5), "ucb 3": sl.UCB1(3.0)},
        sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1)),
    ),
    2: (
        {"ucb": sl.UCB1(2.0), "thompson": sl.ThompsonBernoulli(first_plays=1)},
        sl.Bernoulli((0.7, 0.3)),
    ),
    3: (
        {"thompson": sl.ThompsonGaussian(first_plays=1), "greedy": sl.EpsilonGreedy(0.1)},
        sl.Gaussian((1.0, 0.8, -2.0, -3.0, -4.0)),
    ),
}

REPLAY = sl.Replay()


def play(example, replications, horizon, design=REPLAY, stream=0, checkpoints=None):
    """One of the paper's examples; another `stream` is independent of it."""
    policies, environment = EXAMPLES[example]
    experiment = sl.Experiment(
        policies=policies,
        arms=environment.arms,
        horizon=horizon,
        replications=replications,
        design=design,
        seed=1_000 * SEED + 10 * stream + example,
    )
    return sl.simulate(experiment, environment, checkpoints=checkpoints)


def effect(runs, checkpoint=-1):
    """Return the second policy's reward minus the first's, in each replication."""
    return runs.rewards[:, 1, checkpoint] - runs.rewards[:, 0, checkpoint]


# --- the tables -------------------------------------------------------------------------------------------------

PUBLISHED = {
    1: [10.46, 102.44, 1_027.08, 10_092.58],
    2: [11.05, 109.52, 1_038.62, 10_076.03],
}
# 2,000,000 runs of an independent C++ program, with their standard errors.
MEASURED = {
    1: ([10.4679, 102.4682, 1_027.071, 10_092.687], [0.0004, 0.0011, 0.007, 0.021]),
    2: ([11.0465, 109.645, 1_038.552, 10_075.843], [0.0007, 0.003, 0.008, 0.013]),
}


@pytest.fixture(scope="module", params=[1, 2], ids=["example 1", "example 2"])
def table(request):
    """Interactions of 4,000 replications at the horizons of the paper's Tables 1 and 2."""
    runs = play(request.param, 4_000, 10_000, checkpoints=HORIZONS)
    return request.param, runs


def test_the_published_tables(table):
    """Average interactions within 4 combined standard errors: ours of 4,000 runs, the paper's of its 10,000.

    False alarm 6e-5 a cell, but 1e-3 where Example 2 at T = 100 is concerned, whose published value is itself 2.65
    standard errors low. Sees another argument of the logarithm or random ties (T = 10: 12 standard errors or more).
    """
    example, runs = table
    for column, published in nonempty(enumerate(PUBLISHED[example])):
        spent = runs.interactions[:, column]
        ours = standard_error(spent)
        theirs = np.hypot(ours * np.sqrt(4_000 / 10_000), 0.005 / np.sqrt(3))

        assert abs(spent.mean() - published) < 4 * np.hypot(ours, theirs)


def test_the_tables_measured_by_another_program(table):
    """The same against 2,000,000 runs of another program. False alarm 1e-6 a cell; sees 0.04 at T = 10 and 2 at
    T = 10,000."""
    example, runs = table
    for column, (mean, error) in nonempty(enumerate(zip(*MEASURED[example], strict=True))):
        spent = runs.interactions[:, column]

        assert abs(spent.mean() - mean) < 4.9 * np.hypot(standard_error(spent), error)


def test_the_slope_of_example_3():
    """Interactions at T = 10,000 are 1.0926 T (standard error 0.0006 at 10,000 runs), within 4 combined standard
    errors at 2,000 runs. False alarm 6e-5; sees exploration among the other arms only (1.106)."""
    runs = play(3, 2_000, 10_000)
    slope = runs.interactions[:, 0] / 10_000

    assert abs(slope.mean() - 1.0926) < 4 * np.hypot(standard_error(slope), 0.0006)


# --- variance ---------------------------------------------------------------------------------------------------


def test_replay_has_a_hundredth_of_the_variance():
    """Example 1 at T = 10,000: naive variance over replay variance is about 113.

    With 2,000 runs each, the ratio's logarithm has a standard error of about 0.06: (80, 160) is 5 of them away.
    """
    replay, naive = (
        effect(play(1, 2_000, 10_000, design, stream=9)) for design in (sl.Replay(), sl.Naive())
    )

    assert 80 < naive.var() / replay.var() < 160


def test_the_naive_variance_is_the_sum_of_two():
    """Independent runs: Var(effect) = Var(control) + Var(treatment), so the two rewards do not correlate.

    False alarm 1e-6; sees a correlation of 0.05.
    """
    runs = play(1, 10_000, 200, sl.Naive())
    one, other = (runs.rewards[:, index, 0] - runs.rewards[:, index, 0].mean() for index in (0, 1))

    assert_mean(one * other, 0.0)


@pytest.mark.parametrize("example", EXAMPLES)
def test_coupling_lowers_the_variance(example):
    """Under Replay the two rewards correlate positively, in all three examples. False alarm below 1e-6 (the
    correlations are 0.3 or more, 30 standard errors)."""
    runs = play(example, 10_000, 200)

    assert np.corrcoef(runs.rewards[:, 0, 0], runs.rewards[:, 1, 0])[0, 1] > 0.1


# --- unbiasedness, symmetry, laws -------------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_design_has_the_same_mean_effect(example):
    """Unbiasedness: replay, shared noise and time coupling against the naive mean, all independent.

    False alarm 1e-6 per design; with 10,000 runs each it sees a bias of 0.07 naive standard deviations.
    """
    designs = [sl.Naive(), sl.Replay(), sl.Replay(share_noise=True), sl.TimeCoupled()]
    naive, *others = (
        effect(play(example, 10_000, 300, design, stream)) for stream, design in enumerate(designs)
    )

    for other in nonempty(others):
        assert_same_mean(naive, other)


def all_policies_together(design, seed):
    """Return an experiment with every example of the policies that are run everywhere."""
    experiment = sl.Experiment(
        policies={cases.name(policy): policy for policy in cases.POLICIES_EVERYWHERE},
        arms=3,
        horizon=60,
        replications=5_000,
        design=design,
        seed=seed,
    )
    return sl.simulate(experiment, sl.Bernoulli((0.6, 0.5, 0.2)))


@pytest.fixture(scope="module")
def solo():
    """Return the rewards and pulls of each policy when nothing is shared, as if it ran alone."""
    return all_policies_together(sl.Naive(), 77 + SEED)


@pytest.mark.parametrize(
    "design", [sl.Replay(), sl.Replay(share_noise=True), sl.TimeCoupled()], ids=cases.name
)
def test_every_policy_keeps_its_solo_law(solo, design):
    """Symmetry and the fresh-key lemma: whatever is shared, a policy's own rewards and pulls have the law they have
    alone. Two-sample chi-square on 5,000 runs each; false alarm 1e-6 per policy; sees a shift of 0.15 sd."""
    shared = all_policies_together(design, 990 + SEED)

    for index in nonempty(range(len(solo.policies))):
        assert_same_distribution(solo.rewards[:, index, 0], shared.rewards[:, index, 0])
        for arm in range(3):
            assert_same_distribution(
                solo.pulls[:, index, 0, arm], shared.pulls[:, index, 0, arm], looks=3
            )


def test_swapping_the_order_swaps_the_results():
    """Symmetry, exactly: treatment first or control first, the same rewards and the same interactions."""
    policies, environment = EXAMPLES[2]
    runs = play(2, 200, 500)
    swapped = runs.experiment.replace(policies=dict(reversed(policies.items())))

    other = sl.simulate(swapped, environment)

    np.testing.assert_array_equal(other.rewards[:, ::-1], runs.rewards)
    np.testing.assert_array_equal(other.interactions, runs.interactions)


# --- sums of rewards --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", cases.ALL_DESIGNS, ids=cases.name)
@pytest.mark.parametrize("example", EXAMPLES)
def test_centred_sums_have_mean_zero_and_the_variance_of_their_pulls(example, design):
    """S = sum of (reward - mean of its arm): E S = 0 and Var S = sum over arms of sigma^2 E N.

    Checked as the means of S and of S^2 - sigma^2 N, which are 0. False alarm 1e-6 each; sees a mean of 0.05 sd and a
    variance off by 7%.
    """
    runs = play(example, 10_000, 300, design, stream=4)
    environment = EXAMPLES[example][1]
    means = np.array(environment.means)
    variances = means * (1 - means) if environment.binary else np.ones(means.size)

    for index in range(2):
        pulls = runs.pulls[:, index, 0]
        centred = runs.rewards[:, index, 0] - pulls @ means
        assert_mean(centred, 0.0)
        assert_mean(centred**2 - pulls @ variances, 0.0)


@pytest.mark.parametrize(
    "policy", [sl.UCB1(), sl.ThompsonGaussian(), sl.EpsilonGreedy()], ids=cases.name
)
@pytest.mark.parametrize("arm", [0, 1, 2])
def test_the_sum_of_one_arm_alone(policy, arm):
    """Only one arm is noisy, so the rewards show that arm's S_a: E S_a = 0, Var S_a = sigma^2 E N_a under Replay,
    next to another policy. False alarm 1e-6 each; sees a mean of 0.05 sd and a variance off by 10%."""
    means = np.array([0.5, 0.4, 0.0])
    sd = tuple(2.0 if each == arm else 0.0 for each in range(3))
    experiment = sl.Experiment(
        policies={"other": sl.Uniform(), "it": policy},
        arms=3,
        horizon=100,
        replications=10_000,
        seed=SEED,
    )

    runs = sl.simulate(experiment, sl.Gaussian(tuple(means.tolist()), sd))

    centred = runs.rewards[:, 1, 0] - runs.pulls[:, 1, 0] @ means
    assert_mean(centred, 0.0)
    assert_mean(centred**2 - 4.0 * runs.pulls[:, 1, 0, arm], 0.0)
