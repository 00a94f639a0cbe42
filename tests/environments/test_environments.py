"""Every environment keeps the contract, found by discovery, and pays what it says."""

import hashlib
import html
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import cases
import sameluck as sl
from budget import SEED, assert_distribution, assert_mean, assert_probabilities
from distributions import DISTRIBUTIONS
from nonempty import nonempty
from sameluck import text_forms
from sameluck.environments.base import ENVIRONMENTS
from sameluck.environments.registry import as_environment
from sameluck.simulation.rewards import RewardSource

ALL = cases.all_environments(3)
EVERY = [*ALL, *DISTRIBUTIONS]  # `test_laws` tests the rewards of the others


def rewards_of(environment, arm, draws, arms=3):
    """Rewards of one arm, in so many periods of one replication."""
    experiment = sl.Experiment(
        policies={"it": sl.Always(arm)}, arms=arms, horizon=draws, replications=1, seed=SEED
    )
    return sl.trace(experiment, environment)["it"].rewards


def first_rewards(environment, arm, replications, arms=3):
    """The first reward of one arm in each replication."""
    experiment = sl.Experiment(
        policies={"it": sl.Always(arm)}, arms=arms, horizon=1, replications=replications, seed=SEED
    )
    return sl.simulate(experiment, environment).rewards[:, 0, 0]


@pytest.mark.parametrize(
    "environment_class",
    cases.ENVIRONMENT_CLASSES,
    ids=lambda environment_class: environment_class.__name__,
)
def test_every_environment_is_documented_public_and_has_examples(environment_class):
    """Its docstring says what it pays; it is in the public list; the tests know parameters to try."""
    assert len(environment_class.__doc__) > 40
    assert getattr(sl, environment_class.__name__) is environment_class
    assert cases.environment_example(environment_class)
    assert ENVIRONMENTS[text_forms.name_of(environment_class)] is environment_class


@pytest.mark.parametrize("environment", EVERY, ids=cases.name)
def test_an_environment_is_frozen_and_survives_pickle(environment):
    """Other processes get the same one."""
    assert pickle.loads(pickle.dumps(environment)) == environment
    for field in environment._fields:
        with pytest.raises(AttributeError):
            setattr(environment, field, 1)


@pytest.mark.parametrize("environment", EVERY, ids=cases.name)
def test_it_knows_its_means_best_arm_and_gaps(environment):
    """Gaps are what the means lack to the best; the best arm is the first with no gap; `arms` fits."""
    means, gaps = environment.means, environment.gaps

    assert environment.arms in (None, 3)
    assert len(means) == len(gaps)
    assert min(gaps) == 0
    assert gaps[environment.best_arm] == 0
    assert environment.best_arm == gaps.index(0)
    assert all(gap == max(means) - mean for gap, mean in zip(gaps, means, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("environment", ALL, ids=cases.name)
def test_it_pays_its_means_on_average(environment):
    """The first reward of each of 20,000 replications. False alarm 1e-6 per arm; sees a mean off by 0.035 sd."""
    for arm in range(3):
        sample = first_rewards(environment, arm, 20_000)
        expected = environment.means[arm % len(environment.means)]
        if np.ptp(sample) == 0:
            assert sample[0] == expected
        else:
            assert_mean(sample, expected)


@pytest.mark.slow
@pytest.mark.parametrize("environment", ALL, ids=cases.name)
def test_binary_means_zeros_and_ones(environment):
    """Where `binary` is true nothing else is ever paid; where it is false something else is."""
    paid = set(np.concatenate([rewards_of(environment, arm, 500) for arm in range(3)]).tolist())

    assert (paid <= {0.0, 1.0}) is environment.binary


def test_bernoulli_certainties():
    """Chance 0 never pays and chance 1 always does."""
    certain = sl.Bernoulli((0.0, 1.0, 5e-324))

    assert rewards_of(certain, 0, 100_000).sum() == 0
    assert rewards_of(certain, 1, 100_000).sum() == 100_000


def test_gaussian_law():
    """Mean and sd of each arm of its own: KS at 50,000 draws, false alarm 1e-6, sees a shift of 0.03 sd."""
    environment = sl.Gaussian((-1.0, 0.0, 2.5), sd=(0.5, 1.0, 3.0))

    for arm in range(3):
        law = stats.norm(environment.means[arm], environment.sd[arm])
        assert_distribution(rewards_of(environment, arm, 50_000), law.cdf, looks=3)


def test_empirical_draws_each_value_as_often():
    """With replacement, each observed value (also a repeated one) with the same chance."""
    environment = sl.Empirical(((1.0,), (0.0, 0.5, 0.5, 9.0), tuple(range(100))))

    sample = rewards_of(environment, 1, 40_000)

    assert set(rewards_of(environment, 0, 50).tolist()) == {1.0}
    assert_probabilities([(sample == value).sum() for value in (0.0, 0.5, 9.0)], [0.25, 0.5, 0.25])
    hundred = rewards_of(environment, 2, 40_000).astype(int)
    assert_probabilities(np.bincount(hundred, minlength=100), np.full(100, 0.01))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "law"),
    [
        (sl.BernoulliPrior(2.0, 3.0), stats.beta(2, 3)),
        (sl.BernoulliPrior((0.5, 1.0, 1.0), (0.5, 1.0, 7.0)), stats.beta(0.5, 0.5)),
        (sl.GaussianPrior(1.0, 2.0), stats.norm(1, 2)),
        (sl.PoissonPrior(2.0, 4.0), stats.gamma(2, scale=1 / 4)),
    ],
)
def test_a_prior_draws_one_instance_a_replication(prior, law):
    """Instances follow the prior (KS at 4,000, false alarm 1e-6, sees 0.045), differ between arms and replications,
    and are what `simulate` plays: the same for any number of replications."""
    instances = [prior.instance(SEED, replication, 3).means for replication in range(4_000)]

    first = np.array(instances)[:, 0]

    assert np.unique(np.array(instances)).size == 12_000
    assert_distribution(first, law.cdf)
    chances = prior.compiled_parameters(SEED, range(7, 10), 3)[0]
    np.testing.assert_array_equal(chances, instances[7:10])


@pytest.mark.parametrize("prior", [sl.BernoulliPrior(), sl.GaussianPrior()], ids=cases.name)
def test_all_policies_and_designs_meet_the_same_instance(prior):
    """The instance belongs to the replication: its best arm pays best for all policies, under every design."""
    arms, periods = 4, 2_000
    policies = {f"always {arm}": sl.Always(arm) for arm in range(arms)}
    for design in nonempty(cases.ALL_DESIGNS):
        experiment = sl.Experiment(
            policies=policies, arms=arms, horizon=periods, replications=3, design=design, seed=SEED
        )
        runs = sl.simulate(experiment, prior)
        for replication in range(3):
            means = prior.instance(SEED, replication, arms).means
            paid = runs.rewards[replication, :, 0] / periods
            np.testing.assert_allclose(paid, means, atol=5.5 / np.sqrt(periods))


NAN, INF = float("nan"), float("inf")
EXAMPLES = [
    cases.environment_example(environment_class) for environment_class in cases.ENVIRONMENT_CLASSES
]
NONSENSE = [
    (
        sl.Bernoulli,
        "means",
        [(0.5, 0.5), (0.1, 0.2, 1.1), (-0.1, 0.2, 0.3), (NAN, 0.1, 0.2), (None,) * 3, 0.5, "abc"],
    ),
    (sl.Bernoulli, "means", [(), None, (True, 0.5, 0.5), ("0.1", 0.2, 0.3), ((0.1,), 0.2, 0.3)]),
    (sl.Gaussian, "means", [(0.5, 0.5), (INF, 0.1, 0.2), (NAN, 0.1, 0.2), 1.0, "abc", None]),
    (sl.Gaussian, "sd", [-1, NAN, INF, None, "1", (1.0, 2.0), (1.0, 2.0, -3.0), (1.0, 2.0, None)]),
    (
        sl.Empirical,
        "samples",
        [((1.0,), (2.0,)), ((1.0,), (2.0,), ()), ((1.0,), (2.0,), (NAN,)), 3, None, "abc"],
    ),
    (
        sl.Empirical,
        "samples",
        [((1.0,), (2.0,), 3.0), ((1.0,), (2.0,), "ab"), ((1.0,), (2.0,), (None,))],
    ),
    (sl.BernoulliPrior, "a", [0, -1, NAN, None, (1.0, 1.0), (1.0, 1.0, 0.0)]),
    (sl.BernoulliPrior, "b", [0, -1, NAN, None, (1.0, 1.0), (1.0, 1.0, 0.0)]),
    (sl.GaussianPrior, "mean", [NAN, INF, None, "x", (1.0, 2.0)]),
    (sl.GaussianPrior, "sd", [-1, NAN, INF, None, (1.0, 2.0)]),
    (sl.GaussianPrior, "noise_sd", [-1, NAN, INF, None, (1.0, 2.0)]),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment_class", "field", "value"),
    [
        (environment_class, field, value)
        for environment_class, field, values in NONSENSE
        for value in values
    ],
)
def test_nonsense_parameters_are_refused_by_name(environment_class, field, value):
    """`Invalid`, and the message says which parameter of which class."""
    usual = cases.environment_examples(3)[environment_class][0]
    experiment = sl.Experiment(policies={"it": "ucb1"}, arms=3, horizon=5, replications=1)

    for play in (sl.simulate, sl.trace):
        with pytest.raises(sl.Invalid) as refused:
            play(experiment, usual._replace(**{field: value}))
        assert f"{environment_class.__name__}.{field}" in str(refused.value)


@pytest.mark.parametrize("environment", EXAMPLES, ids=cases.name)
@pytest.mark.parametrize("value", [NAN, object()], ids=["nan", "object"])
def test_every_parameter_is_checked(environment, value):
    """Discovery: a parameter of a new environment is covered without a row in the table above."""
    experiment = sl.Experiment(
        policies={"it": "ucb1"}, arms=environment.arms or 3, horizon=5, replications=1
    )
    for field in nonempty(environment._fields):
        with pytest.raises(sl.Invalid) as refused:
            sl.simulate(experiment, environment._replace(**{field: value}))
        assert f"{type(environment).__name__}.{field}" in str(refused.value)


@pytest.mark.parametrize("environment", EXAMPLES, ids=cases.name)
@pytest.mark.parametrize("value", [NAN, object(), pd.DataFrame({"a": range(9)})], ids=type)
def test_every_constructor_refuses_what_is_not_valid(environment, value):
    """Discovery: when it is made, in one line without data."""
    environment_class = type(environment)
    for field in nonempty(environment_class._fields):
        with pytest.raises(sl.Invalid, match=f"{environment_class.__name__}.{field}") as refused:
            environment_class(**{**environment._asdict(), field: value})
        assert len(str(refused.value)) < 300
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sl.Bernoulli([1.6, 0.4]), r"Bernoulli\.means\[0\] must be <= 1, got 1\.6"),
        (lambda: sl.Bernoulli([]), r"Bernoulli\.means has 0 entries"),
        (lambda: sl.Gaussian([1, 2], sd=[1, 2, 3]), r"Gaussian\.sd has 3 entries.* 2 arms"),
        (
            lambda: sl.Empirical(np.zeros(10**6)),
            r"Empirical\.samples\[0\] must be a list.* got 0\.0$",
        ),
        (
            lambda: sl.Empirical("log.csv"),
            r"Empirical\.samples must be a list.* got 'log\.csv'; .*Empirical\.from_log\(log, arm=",
        ),
        (
            lambda: sl.Empirical(pd.DataFrame(LOG)),
            r"got <DataFrame of shape \(4, 2\)>; .*Empirical\.from_log\(log, arm=",
        ),
        (
            lambda: sl.ContinuousUniform([0, 2], high=1),
            r"\.high of arm 1 must be >= its low, 2, got 1",
        ),
        (
            lambda: sl.TruncatedGaussian([0.5, 50]),
            "arm 1 lies within its bounds with probability 0",
        ),
        (
            lambda: sl.Categorical([[0.5, 0.5], [0.2, 0.2]]),
            r"chances\[1\] must have the sum 1, got 0\.4",
        ),
        (lambda: sl.Categorical([[0.5, 0.5], [1]]), r"chances\[1\] has 1 entries, but must have 2"),
        (lambda: sl.GaussianMixture([[1, 2]], weights=[[1]]), r"weights\[0\] has 1 entries"),
        (lambda: sl.StudentT([1, 2], df=2), r"StudentT\.df must be > 2, got 2"),
    ],
)
def test_a_constructor_refuses_what_is_not_valid(make, message):
    """When it is made, in one short line."""
    with pytest.raises(sl.Invalid, match=message) as refused:
        make()
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_arms_of_several_families_pay_what_they_pay_alone():
    """The arms of one environment after another, bit for bit, and the same after the text form."""
    revenue = sl.ZeroInflatedLognormal((0.2,), amount=30.0)
    mixed = as_environment(
        "by_family(bernoulli(0.3, 0.6), zero_inflated_lognormal(0.2, amount=30))"
    )

    assert mixed == as_environment(sl.ByFamily([sl.Bernoulli([0.3, 0.6]), revenue]))
    assert as_environment(text_forms.write(mixed)) == mixed
    assert [type(one) for one in mixed.environments] == [sl.Bernoulli, sl.ZeroInflatedLognormal]
    assert (mixed.means, mixed.arms, mixed.binary) == ((0.3, 0.6, 6.0), 3, False)
    experiment = sl.Experiment(policies={"it": "ucb1"}, arms=3, horizon=200, replications=1)
    whole = [sl.Bernoulli((0.3, 0.6, 0.6))] * 2 + [revenue._replace(nonzero=(0.2,) * 3)]
    for arm, alone in enumerate(whole):
        paid, paid_alone = (
            RewardSource(experiment, one, "it", range(1)).draw(0, arm, 0, 200)
            for one in (mixed, alone)
        )
        assert paid == paid_alone


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], r"must be a list of 1 to 10 environments, got \[\]"),
        (sl.Bernoulli((0.5, 0.5)), "must be a list of 1 to 10 environments"),
        (
            [sl.Bernoulli((0.5,)), sl.BernoulliPrior()],
            r"environments\[1\] must be a built-in environment",
        ),
        (
            [sl.ByFamily([sl.Bernoulli((0.5,))])],
            r"environments\[0\] must be a built-in environment",
        ),
        (["bernoulli(0.5)"], r"environments\[0\] must be a built-in environment"),
        ([sl.Drifting([sl.Bernoulli((0.5,))] * 2, over=5)], "not drifting or switching"),
    ],
)
def test_what_is_no_family_is_refused(given, message):
    with pytest.raises(sl.Invalid, match=message):
        sl.ByFamily(given)
    with pytest.raises(sl.Invalid, match="have 2 arms together, but there are 3"):
        as_environment("by_family(bernoulli(0.5), poisson(2))").check(3)


def test_lists_arrays_and_whole_numbers_are_welcome():
    """However the means are given, it is the same environment with the same text."""
    forms = [[1, 0, 1], (1.0, 0.0, 1.0), np.array([1, 0, 1]), np.array([1.0, 0.0, 1.0])]

    assert len({as_environment(sl.ByFamily([sl.Bernoulli(form)])) for form in forms}) == 1
    assert len({as_environment(sl.Drifting([sl.Bernoulli(form)] * 2, 5)) for form in forms}) == 1
    assert {text_forms.write(as_environment(sl.Bernoulli(form))) for form in forms} == {
        text_forms.write(as_environment("bernoulli(1, 0, 1)"))
    }


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        "berno",
        sl.Bernoulli,
        sl.UCB1(),
        (0.5, 0.5),
        [0.5] * 10**5,
        pd.DataFrame([[1]] * 99),
    ],
    ids=type,
)
def test_what_is_no_environment_is_refused(value):
    """The message gives an example, and no data."""
    with pytest.raises(sl.Invalid, match=r"environment.*bernoulli") as refused:
        as_environment(value)
    assert len(str(refused.value)) < 700
    assert "\n" not in str(refused.value)


LOG = [
    {"arm": arm, "paid": paid} for arm, paid in (("a10", 2.5), ("a2", 0), ("a10", -1), ("a2", 1))
]


def test_many_values_are_counted_not_shown():
    """A notebook shows what an object is, not its data; few values are shown."""
    assert repr(sl.Empirical([range(10**5), [1, 2]])) == "Empirical(<100,002 values of 2 arms>)"
    assert repr(sl.Empirical([[0.5, 1.0], [2.0]])) == "Empirical(samples=[[0.5, 1.0], [2.0]])"


def test_rewards_of_a_log(tmp_path):
    """From records, frames and files; arms in the order of their names, or in the given one."""
    frame = pd.DataFrame(LOG)
    frame.to_csv(tmp_path / "log.csv")
    frame.to_parquet(tmp_path / "log.parquet")
    sources = [LOG, frame, pl.DataFrame(frame), tmp_path / "log.csv", str(tmp_path / "log.parquet")]
    found = [sl.Empirical.from_log(one, arm="arm", reward="paid") for one in sources]

    assert {log.samples for log in found} == {((0.0, 1.0), (2.5, -1.0))}
    assert {log.arm_names for log in found} == {("a2", "a10")}
    other = sl.Empirical.from_log(frame, arm="arm", reward="paid", arm_names=["a10", "a2"])
    assert other.means == (0.75, 0.5)


def test_a_bad_log_is_refused_without_its_data():
    """Bad rows are named, or left out; an arm without rewards is refused; a column that is missing is named."""
    bad = [*LOG, {"arm": "a2", "paid": "much"}]
    names = {"arm": "arm", "reward": "paid"}

    with pytest.raises(sl.Invalid, match="1 row cannot be used: record 5: reward is not a number"):
        sl.Empirical.from_log(bad, **names)
    skipping = sl.Empirical.from_log(bad, skip_bad=True, **names)
    assert skipping == sl.Empirical.from_log(LOG, **names)._replace(skipped=1)
    with pytest.raises(sl.Invalid, match=r"Empirical\.samples\[0\] must be a list of rewards"):
        sl.Empirical.from_log(LOG, arm_names=["a1", "a2", "a10"], **names)
    with pytest.raises(sl.Invalid, match="has no column 'revenue' for reward; known: arm, paid"):
        sl.Empirical.from_log(LOG, arm="arm", reward="revenue")


def test_wrong_numbers_of_parameters_have_a_remedy():
    with pytest.raises(
        sl.Invalid,
        match=r"got 2 values; write the arms' means as one list: Bernoulli\(\[0\.6, 0\.5\]\)",
    ):
        sl.Bernoulli(0.6, 0.5)
    with pytest.raises(sl.Invalid, match=r"^Bernoulli missing .*'means'; for example bernoulli\("):
        sl.Bernoulli()
    with pytest.raises(
        sl.Invalid, match=r"^Gaussian got an unexpected keyword argument 'variance'; for example"
    ):
        sl.Gaussian([1, 2], variance=3)


SHOP = "user;variant;paid, net\n1;blue;0\n2;red;2.5\n3;blue;1\n4;red;\n5;green;1\n"


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ";"), ("tsv", "\t"), ("csv", "|")])
def test_the_delimiter_of_a_log_is_recognised(tmp_path, suffix, delimiter):
    path = tmp_path / f"shop.{suffix}"
    path.write_text(SHOP.replace(";", delimiter))
    with pytest.raises(sl.Invalid, match=r"1 row cannot be used: line 5: .*--skip-bad"):
        sl.Empirical.from_log(path, arm="variant", reward="paid, net")
    log = sl.Empirical.from_log(path, arm="variant", reward="paid, net", skip_bad=True)
    assert log.samples == ((0.0, 1.0), (1.0,), (2.5,))


def test_a_log_names_the_arms_and_itself_in_reports(tmp_path):
    path = tmp_path / "shop.csv"
    path.write_text(SHOP)
    log = sl.Empirical.from_log(path, arm="variant", reward="paid, net", skip_bad=True)
    assert log.arm_names == ("blue", "green", "red")
    assert log.source == 'shop.csv:variant,"paid, net"'
    assert log.digest == hashlib.sha256(SHOP.encode()).hexdigest()[:16]
    assert as_environment(text_forms.write(log)) == log
    assert text_forms.write(sl.Empirical([[0, 1], [2]])) == "empirical([0, 1], [2])"

    policies = {"ucb": sl.UCB1(), "greedy": sl.EpsilonGreedy()}
    runs = sl.simulate(sl.Experiment(policies=policies, horizon=20, replications=5), log)
    assert runs.experiment.arms == ("blue", "green", "red")
    page = html.unescape(sl.compare(runs).to_html())
    assert f'shop.csv:variant,"paid, net", SHA-256 {log.digest}..., 1 row left out' in page
    assert """--env 'shop.csv:variant,"paid, net"' --horizon 20""" in page
    assert "--skip-bad" in page
    assert "pulls of blue" in page

    chosen = ["red", "blue", "green"]
    ordered = sl.Empirical.from_log(
        path, arm="variant", reward="paid, net", arm_names=chosen, skip_bad=True
    )
    assert ordered.source == "shop.csv"
    records = [{"a": "x", "r": 1}, {"a": "y", "r": 0}]
    assert sl.Empirical.from_log(records, arm="a", reward="r")[1:] == (("x", "y"), "", "", 0)
