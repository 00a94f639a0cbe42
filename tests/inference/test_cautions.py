"""Each caution appears when it should and only then; healthy runs have none."""

import dataclasses
import re

import numpy as np
import pytest
from scipy import stats

import sameluck as sl

BERNOULLI = sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1))
GAUSSIAN = sl.Gaussian((1.0, 0.8, -2.0, -3.0, -4.0))
UCBS = {"low": sl.UCB1(2.5), "high": sl.UCB1(3.0)}
LATE = [1_000, 2_000, 4_000, 7_000, 10_000]


def played(policies, environment, **changes):
    settings = {"arms": environment.arms, "horizon": 1_000, "replications": 50, "seed": 7}
    settings.update(changes)
    checkpoints = settings.pop("checkpoints", None)
    experiment = sl.Experiment(policies=policies, **settings)
    return sl.simulate(experiment, environment, checkpoints=checkpoints)


def made_up(differences, design="replay", policies=2):
    """Two or more policies, the second earning these much more than the others; pulls that differ."""
    values = np.asarray(differences, float)
    rewards = np.zeros((values.size, policies, 1))
    rewards[:, 1, 0] = values
    pulls = np.full((*rewards.shape, 2), 5)
    pulls[:, 1, 0] = (6, 4)
    names = {f"p{index}": sl.EpsilonGreedy(1 - index / 100) for index in range(policies)}
    experiment = sl.Experiment(
        policies=names, arms=2, horizon=10, replications=values.size, design=design
    )
    spent = np.full((values.size, 1), 11)
    return sl.Runs(experiment, np.array([10]), rewards, pulls, spent)


def with_pulls(counts, horizons=LATE):
    """Policy p1 pulls arm 1 so often (replication, checkpoint), p0 never."""
    counts = np.asarray(counts)
    pulls = np.zeros((len(counts), 2, len(horizons), 2), np.int64)
    pulls[:, :, :, 0] = horizons
    pulls[:, 1, :, 1] = counts
    pulls[:, 1, :, 0] -= counts
    rng = np.random.default_rng(1)
    experiment = sl.Experiment(
        policies={"p0": sl.Uniform(), "p1": sl.EpsilonGreedy(1.0)},
        arms=["blue", "green"],
        horizon=horizons[-1],
        replications=len(counts),
    )
    return sl.Runs(
        experiment,
        np.array(horizons),
        rng.normal(0, 1, pulls.shape[:3]),
        pulls,
        np.full((len(counts), len(horizons)), horizons[-1]),
    )


@pytest.mark.slow
@pytest.mark.parametrize("interval", ["t", "bootstrap", "anytime"])
def test_a_healthy_run_has_no_caution(interval):
    """The first example with 50 replications, whatever the seed, unless the interval misses the true -10.45."""
    for seed in range(10):
        result = sl.compare(played(UCBS, BERNOULLI, seed=seed), interval=interval)
        is_right = result.effects[0].low < -10.45 < result.effects[0].high

        assert is_right == (seed != 1)
        assert (result.cautions == ()) == is_right
        assert ("Caution" not in str(result)) == is_right


@pytest.mark.slow
def test_a_healthy_run_has_no_caution_with_a_curve_either():
    """The same with the checkpoints behind a figure."""
    for seed in (0, *range(2, 10)):
        runs = played(UCBS, BERNOULLI, seed=seed, checkpoints=list(range(25, 1_001, 25)))

        assert sl.compare(runs).cautions == ()


@pytest.mark.parametrize(("replications", "cautioned"), [(2, True), (9, True), (10, False)])
def test_few_replications_give_a_caution(replications, cautioned):
    values = np.linspace(-1, 1, replications)
    found = sl.compare(made_up(values)).cautions

    assert [text.startswith(f"Only {replications} replications") for text in found] == [
        True
    ] * cautioned


def skewed(size):
    """A few large values among small ones; skewness about 4 for 40."""
    values = np.random.default_rng(3).normal(0, 0.1, size)
    values[: max(1, size // 20)] += 10
    return values


@pytest.mark.parametrize("sign", [1, -1])
def test_strong_skew_gives_a_caution_with_the_replications_it_needs(sign):
    """25 times the squared skewness (Cochran), to one digit; not for the median, which is exact."""
    values = sign * skewed(40)
    needed = float(f"{25 * stats.skew(values) ** 2:.1g}")
    expected = (
        "The differences of p1 and p0 are skewed: rare replications weigh heavily, and with 40 the interval is only "
        f'approximate; wait for more (about {needed:,.0f}), or see the median with interval="median".'
    )
    for interval in ("t", "anytime", "bootstrap"):
        assert sl.compare(made_up(values), interval=interval).cautions == (expected,)
    assert sl.compare(made_up(values), interval="median").cautions == ()
    simulated = dataclasses.replace(made_up(values), environment=sl.Bernoulli((0.5, 0.5)))
    assert "; run more (about " in sl.compare(simulated, check=False).cautions[0]


def test_skew_that_noise_explains_or_many_replications_outweigh_gives_no_caution():
    """Normal values never (200 samples; the rule's bound is 3 standard errors and at least 1); 25 x skewness^2 do."""
    rng = np.random.default_rng(4)
    samples = [made_up(rng.normal(size=20)) for _ in range(200)]
    assert sum(len(sl.compare(sample).cautions) for sample in samples) <= 2
    many = np.tile(skewed(40), 60)
    assert sl.compare(made_up(many)).cautions == ()


def test_a_difference_that_never_varies_gives_a_caution():
    (text,) = sl.compare(made_up([3.0] * 20)).cautions
    assert text.startswith("The difference of p1 and p0 is the same in every replication")

    still = played({"a": sl.Always(0), "b": sl.Always(1)}, sl.Gaussian((1.0, 0.5), sd=0.0))
    (text,) = sl.compare(still, check=False).cautions
    assert text.startswith("The difference of b and a is the same in every replication")
    assert sl.compare(still).cautions == ()  # other seeds have the same difference
    rarely = played(
        {"a": sl.UCB1(1.0), "b": sl.UCB1(1.001)}, BERNOULLI, replications=5, horizon=100
    )
    (text,) = sl.compare(rarely).cautions
    assert re.fullmatch(
        r"The difference of b and a is the same in every replication, but not on other seeds: b minus a is \S+ ± \S+ "
        r"\(1,000 replications\)\. Run more replications\.",
        text,
    )


def test_only_policies_that_never_diverge_give_a_caution():
    close = played({"a": sl.UCB1(2.0), "b": sl.UCB1(2.0 + 1e-9)}, BERNOULLI)
    (text,) = sl.compare(close).cautions
    assert text.startswith("b and a pulled every arm equally often in every replication: this env")

    # No environment distinguishes a policy from itself, and the verdict says so.
    three = {"a": sl.UCB1(), "b": sl.UCB1(), "c": sl.UCB1(2.5), "d": sl.UCB1(2.5 + 1e-9)}
    twins = sl.compare(played(three, BERNOULLI), pairs="all")
    assert "b and a are the same policy and earned exactly the same over" in twins.verdict
    (text,) = twins.cautions
    assert text.startswith("d and c pulled every arm")

    # The same at the last checkpoint, other before: not the same policy.
    two = with_pulls(np.zeros((20, 2), int), [5, 10])
    same = dataclasses.replace(two, rewards=np.repeat(two.rewards[:, :1], 2, axis=1))
    pulls = two.pulls.copy()
    pulls[3, 1, 0] = (4, 1)
    assert "pulled every arm equally often" in sl.compare(same).cautions[0]
    assert sl.compare(dataclasses.replace(two, pulls=pulls)).cautions == ()


def test_few_replications_do_not_matter_to_an_exact_interval():
    runs = made_up(np.arange(1.0, 8.0))
    assert (
        sl.compare(runs).cautions[0].startswith("Only 7 replications: the intervals assume normal")
    )
    assert not any("normal" in text for text in sl.compare(runs, interval="median").cautions)


def test_equal_pulls_with_independent_rewards_are_no_sign_of_equal_policies():
    runs = played({"a": sl.Always(0), "b": sl.Always(0)}, BERNOULLI, design="naive")

    assert sl.compare(runs).cautions == ()


def test_under_time_coupling_equal_counts_in_another_order_are_a_divergence():
    """UCB1 plays arms 0, 1; uniform in the replications kept plays 1, 0: other rewards, so they do diverge."""
    policies = {"order": sl.UCB1(), "random": sl.Uniform()}
    runs = played(policies, GAUSSIAN._replace(means=(1.0, -1.0)), horizon=2, design="time_coupled")
    keep = (runs.pulls[:, 1, 0] == 1).all(axis=1)
    names = ("rewards", "pulls", "totals", "interactions")
    kept = dataclasses.replace(runs, **{name: getattr(runs, name)[keep] for name in names})

    assert (kept.rewards[:, 0] != kept.rewards[:, 1]).any()
    assert not any("equally often" in text for text in sl.compare(kept).cautions)


def test_cautions_of_one_kind_are_one_sentence():
    """Each kind once, with all of its pairs; a long list is cut."""
    runs = made_up(skewed(40), policies=3)
    (text,) = sl.compare(runs, control="p1").cautions
    assert text.startswith("The differences of p0 and p1, p2 and p1 are skewed: ")
    same, skew = sl.compare(runs).cautions
    assert same.startswith("p2 and p0 pulled every arm equally often")
    assert skew.startswith("The differences of p1 and p0 are skewed: ")
    several = sl.compare(played(UCBS, BERNOULLI, replications=5, checkpoints=[10, 100, 1_000]))
    assert len(several.cautions) == len(set(several.cautions))
    many = {f"u{k}": sl.UCB1(0.01 * k) for k in range(8)}
    result = sl.compare(played(many, sl.Bernoulli((0.9, 0.5)), replications=30), pairs="all")
    kinds = [text.split(" are ")[0].split()[0:2] for text in result.cautions]
    assert len(result.cautions) <= 4
    assert len({tuple(sentence) for sentence in kinds}) == len(kinds)


@pytest.mark.parametrize(
    ("family", "remedy"),
    [("none", 'leave out simultaneous="none"'), ("checkpoints", 'use simultaneous="both"')],
)
def test_a_winner_chosen_on_the_same_data_is_cautioned_where_nothing_allows_for_it(family, remedy):
    runs = made_up(np.random.default_rng(1).normal(3, 1, 40), policies=3)
    others = sl.compare(runs, pairs="best").cautions
    expected = (
        f"p1 was chosen on the same data, so intervals of each pair alone favour it; {remedy}."
    )
    assert sl.compare(runs, pairs="best", simultaneous=family).cautions == (expected, *others)
    assert sl.compare(runs, pairs="best", simultaneous="both").cautions == others
    assert (
        sl.compare(runs, pairs="all", simultaneous=family).cautions
        == sl.compare(runs, pairs="all").cautions
    )


def heavy(replications, horizons=LATE):
    """Stuck for S periods with P(S > s) = 100 / s: the variance of min(S, T) grows linearly in T."""
    chances = (np.arange(replications) + 0.5) / replications
    return np.minimum.outer(100 / chances, np.array(horizons)).astype(int)


def light(replications, horizons=LATE):
    """Counts that grow like the logarithm, and their spread too."""
    spread = 1 + 0.1 * np.random.default_rng(2).normal(size=replications)
    return np.outer(spread, 50 * np.log(horizons)).astype(int)


def test_a_pull_count_that_rare_replications_dominate_gives_a_caution_with_the_policy():
    (text,) = sl.compare(with_pulls(heavy(200))).cautions
    assert text.startswith("How often p1 pulls an arm varies much between replications")
    assert sl.compare(with_pulls(heavy(200, [10_000]), [10_000])).cautions == (text,)
    assert sl.compare(with_pulls(light(200))).cautions == ()


def test_too_few_replications_show_nothing_of_rare_ones():
    assert sl.compare(with_pulls(heavy(25))).cautions == ()


@pytest.mark.parametrize("seed", range(3))
def test_upper_confidence_bounds_have_no_growing_pull_counts(seed):
    runs = played(UCBS, BERNOULLI, horizon=10_000, checkpoints=LATE, replications=200, seed=seed)

    assert sl.compare(runs).cautions == ()


@pytest.mark.slow
def test_the_third_example_is_cautioned_once_for_both_of_its_policies():
    """Gaussian Thompson sampling and epsilon-greedy: the case the caution is for, with 200 replications each."""
    policies = {"thompson": sl.ThompsonGaussian(first_plays=1), "greedy": sl.EpsilonGreedy()}
    for seed in range(3):
        runs = played(
            policies, GAUSSIAN, horizon=10_000, checkpoints=LATE, replications=200, seed=seed
        )
        found = sl.compare(runs, check=False).cautions
        assert [text for text in found if text.startswith("How often")] == [
            "How often thompson, greedy pull an arm varies much between replications: rare replications dominate, "
            "and a small run understates the spread. Run more replications before relying on the interval."
        ]


def test_cautions_are_printed_and_on_the_page():
    result = sl.compare(played(UCBS, BERNOULLI, replications=5), check=False)

    assert "Caution: Only 5 replications" in str(result)
    assert "Caution: Only 5 replications" in result._repr_html_()
    assert "Caution: Only 5 replications" in result.to_html()


@pytest.mark.parametrize(
    ("first", "second", "is_opposed"),
    [
        (sl.EXP3(), sl.EXP3IX(), True),
        (sl.GradientBandit(), sl.EXP3IX(), True),
        (sl.EXP3(), sl.EXP3(0.2), False),
    ],
)
def test_shared_noise_that_raises_the_variance_gives_a_caution(first, second, is_opposed):
    """The ratio of variances in 2,000 replications: 1.36 (0.06) and above for both pairs, 0.54 for the third."""
    arms, policies = sl.Bernoulli((0.7, 0.3)), {"a": first, "b": second}
    variances = []
    for design in ("replay(share_noise=true)", "replay"):
        runs = played(policies, arms, design=design, replications=2_000, horizon=500)
        variances.append(float((runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]).var()))
        said = [text for text in sl.compare(runs).cautions if text.startswith("Shared noise")]
        assert bool(said) == (is_opposed and "share_noise" in design)
    assert (variances[0] > 1.1 * variances[1]) == is_opposed
