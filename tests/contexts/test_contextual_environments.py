"""Every environment with contexts keeps the contract, found by discovery, and pays what it says."""

import pickle

import numpy as np
import pytest

import cases
import sameluck as sl
from sameluck import text_forms
from sameluck.environments.registry import as_environment
from sameluck.environments.stated_means import check_means

pytest.importorskip("sklearn")

EXAMPLES = [
    as_environment(text_forms.example(kind)) for kind in cases.CONTEXTUAL_ENVIRONMENT_CLASSES
]
LINEAR = sl.Linear([[0.5, 0.0], [0.3, 0.4]])
SHARED = sl.Linear([0.5, -0.3], arms=3)
OTHERS = [
    SHARED,
    sl.Logistic([1.0, -0.5], arms=2),
    sl.FromContexts(
        [[[1.0, 0.0], [0.0, 1.0]], [[2.0, 1.0], [1.0, 1.0]]], sl.Logistic([0.7, 0.2], arms=2)
    ),
    sl.Switching([LINEAR, sl.Linear([[-0.5, 1.0], [0.0, 0.4]])], every=7),
    sl.Drifting([LINEAR, sl.Linear([[-0.5, 1.0], [0.0, 0.4]], sd=0.5)], over=20),
    sl.Drifting([sl.Logistic([[2.0], [0.5]]), sl.Logistic([[-2.0], [0.5]])], over=20),
    sl.Switching(
        [sl.ByLevel([sl.Bernoulli([0.2, 0.4])] * 2), sl.ByLevel([sl.Bernoulli([0.6, 0.4])] * 2)],
        every=9,
    ),
]
NAN = float("nan")


@pytest.mark.parametrize(
    "kind", cases.CONTEXTUAL_ENVIRONMENT_CLASSES, ids=lambda kind: kind.__name__
)
def test_every_environment_is_documented_and_public(kind):
    assert len(kind.__doc__) > 40
    assert getattr(sl, kind.__name__) is kind


@pytest.mark.parametrize("environment", [*EXAMPLES, *OTHERS], ids=cases.name)
def test_it_survives_its_text_form_and_pickle(environment):
    assert as_environment(text_forms.write(environment)) == text_forms.normal_form(environment)
    assert pickle.loads(pickle.dumps(environment)) == environment


@pytest.mark.parametrize("environment", [*EXAMPLES, *OTHERS], ids=cases.name)
def test_compiled_code_repeats_plain_python_and_stated_means_are_means_of_draws(environment):
    """False alarm 1e-9; sees a mean in a context that is off by about 0.3 standard deviations."""
    arms = environment.arms or 3
    experiment = sl.Experiment(
        policies={"uniform": sl.Uniform()}, arms=arms, horizon=40, replications=2, design="naive"
    )

    trace = sl.trace(experiment, environment, 1, guard=True)

    assert np.isfinite(trace["uniform"].contexts).all()
    assert set(trace["uniform"].rewards) <= {0.0, 1.0} or not environment.binary
    check_means(environment, arms, 40)


@pytest.mark.parametrize("prior", [sl.LinearPrior(3), sl.LogisticPrior(2, sd=2.0, shared=True)])
def test_a_prior_has_weights_of_its_own_in_each_replication(prior):
    weights = prior.instance_weights(5, range(4), 3)

    assert weights.shape == ((4, 2) if prior.shared else (4, 3, 3))
    assert len(np.unique(weights)) == weights.size
    assert np.array(prior.instance(5, 2, 3).weights) == pytest.approx(weights[2], abs=0)
    experiment = sl.Experiment(
        policies={"a": sl.Uniform(), "b": sl.UCB1()}, arms=3, horizon=20, replications=3, seed=5
    )
    whole = sl.trace(experiment, prior, 2)
    assert whole["a"].rewards.tolist() == (
        sl.trace(experiment, prior.instance(5, 2, 3), 2)["a"].rewards.tolist()
    )


def test_recorded_contexts_are_drawn_with_replacement():
    rows = np.arange(10.0).reshape(5, 2)
    experiment = sl.Experiment(policies={"a": sl.Uniform()}, horizon=400, replications=1)

    contexts = sl.trace(experiment, sl.FromContexts(rows, LINEAR))["a"].contexts

    found, counts = np.unique(contexts[:, 0], return_counts=True)
    assert found.tolist() == [0, 2, 4, 6, 8]
    assert counts.min() > 40  # 80 on average, standard deviation 8: false alarm below 1e-5
    assert (contexts[:, 1] == contexts[:, 0] + 1).all()


def test_the_right_label_pays_and_is_not_a_feature():
    features = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
    data = sl.Classification("mine", features, ["no", "yes", "no"])
    experiment = sl.Experiment(policies={"a": sl.Uniform()}, horizon=60, replications=1)
    runs = sl.simulate(experiment, data)

    played = sl.trace(experiment, data)["a"]

    right = (played.contexts[:, 0] == 1).astype(int)
    assert played.contexts.shape == (60, 2)
    assert played.rewards.tolist() == (played.arms == right).astype(float).tolist()
    assert runs.experiment.arms == ("no", "yes")
    assert runs.regret[0, 0, 0] == 60 - played.rewards.sum()
    assert runs.best_pulls[0, 0, 0] == played.rewards.sum()


def test_saved_runs_of_data_need_the_same_data(tmp_path):
    experiment = sl.Experiment(policies={"a": sl.Uniform()}, horizon=5, replications=2)
    sl.simulate(experiment, sl.Classification.iris()).save(tmp_path / "iris.npz")
    assert sl.Runs.load(tmp_path / "iris.npz").environment == sl.Classification.iris()

    with pytest.raises(sl.Invalid, match=r"are not known here: give them first.*'unknown', X, y"):
        as_environment("classification(unknown, digest=abc)")
    with pytest.raises(sl.Invalid, match=r"the digest .* is needed; give the same rows"):
        as_environment("classification(iris, digest=abc)")


def test_a_missing_scikit_learn_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)

    with pytest.raises(sl.Missing, match="pip install scikit-learn"):
        sl.Classification.wine()


def test_a_log_with_levels_becomes_an_environment():
    rows = [
        ("a10", "x", 1.0),
        ("a2", "x", 0.0),
        ("a2", "y", 2.0),
        ("a10", "y", 4.0),
        ("a2", "x", 1.0),
    ]
    log = [{"segment": level, "arm": arm, "paid": reward} for level, arm, reward in rows]

    shop = sl.ByLevel.from_log(log, level="segment", arm="arm", reward="paid")

    assert shop.context.names == ("a2", "a10")
    assert shop.arm_names == ("x", "y")
    assert shop.frequencies == (0.6, 0.4)
    assert shop.level_means().tolist() == [[0.5, 2.0], [1.0, 4.0]]
    experiment = sl.Experiment(policies={"a": sl.PerLevel(sl.UCB1())}, horizon=30, replications=2)
    assert sl.simulate(experiment, shop).experiment.arms == ("x", "y")
    with pytest.raises(sl.Invalid, match="level 'a2' has no reward of arm 'y'"):
        sl.ByLevel.from_log(log[:2] + log[3:], level="segment", arm="arm", reward="paid")
    with pytest.raises(sl.Invalid, match="level must be the name of a column"):
        sl.ByLevel.from_log(log, level=3, arm="arm", reward="paid")


def test_weights_switch_at_their_period():
    """The users and the noise are those of the first environment; the mean is the present phase's."""
    phases = [sl.Linear([[1.0], [0.0]], sd=0.0), sl.Linear([[-3.0], [0.0]], sd=0.0)]
    experiment = sl.Experiment(
        policies={"a": sl.Always(0)}, horizon=8, replications=1, design="time_coupled"
    )

    played = sl.trace(experiment, sl.Switching(phases, every=3))["a"]

    weights = np.array([1.0, 1, 1, -3, -3, -3, 1, 1])
    assert played.rewards == pytest.approx(weights * played.contexts[:, 0])


def test_weights_drift_linearly():
    phases = [sl.Linear([[1.0], [0.0]], sd=0.0), sl.Linear([[-3.0], [0.0]], sd=0.0)]
    experiment = sl.Experiment(
        policies={"a": sl.Always(0)}, horizon=8, replications=1, design="naive"
    )

    played = sl.trace(experiment, sl.Drifting(phases, over=4))["a"]

    weights = np.array([1.0, 0, -1, -2, -3, -3, -3, -3])
    assert played.rewards == pytest.approx(weights * played.contexts[:, 0])


def test_replay_of_moving_levels_is_refused():
    levels = [sl.ByLevel([sl.Bernoulli([p, 0.4])] * 2) for p in (0.2, 0.6)]
    experiment = sl.Experiment(policies={"a": sl.UCB1()}, horizon=8, replications=1)

    with pytest.raises(sl.Invalid, match="is not defined on switching"):
        sl.simulate(experiment, sl.Switching(levels, every=2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sl.Linear([[1.0, NAN], [0.0, 1.0]]), r"Linear.weights\[0\]\[1\]"),
        (lambda: sl.Linear(object()), "Linear.weights"),
        (lambda: sl.Linear([0.5, 0.1]), "Linear.arms is missing"),
        (lambda: sl.Linear([0.5, 0.1], arms=0), "Linear.arms"),
        (lambda: sl.Linear([[0.5], [0.1]], arms=3), "Linear.arms"),
        (lambda: sl.Linear([[0.5], [0.1]], sd=-1), "Linear.sd"),
        (lambda: sl.Logistic([[1.0], [NAN]]), r"Logistic.weights\[1\]\[0\]"),
        (lambda: sl.Logistic([[1.0], [1.0, 2.0]]), r"Logistic.weights\[1\]"),
        (lambda: sl.LinearPrior(0), "LinearPrior.features"),
        (lambda: sl.LinearPrior(2, sd=NAN), "LinearPrior.sd"),
        (lambda: sl.LinearPrior(2, mean=[1.0]), "LinearPrior.mean"),
        (lambda: sl.LinearPrior(2, noise_sd=-1.0), "LinearPrior.noise_sd"),
        (lambda: sl.LogisticPrior(2, shared=3), "LogisticPrior.shared"),
        (lambda: sl.FromContexts([[1.0, NAN]], LINEAR), r"FromContexts.contexts\[0\]\[1\]"),
        (lambda: sl.FromContexts([[1.0]], LINEAR), "rows of 1 numbers, and .* needs 2"),
        (lambda: sl.FromContexts([[1.0], [1.0, 2.0]], LINEAR), "FromContexts.contexts"),
        (lambda: sl.FromContexts([[1.0]], sl.Bernoulli([0.1, 0.2])), "FromContexts.environment"),
        (lambda: sl.Classification("a", [[NAN]], [1]), r"Classification.X\[0\]\[0\]"),
        (lambda: sl.Classification("a", [[1.0]], [1, 2]), "Classification.y"),
        (lambda: sl.Classification("a", [[1.0], [2.0]], [1, 1]), "1 different labels"),
        (lambda: sl.Classification(3), "Classification.name"),
        (
            lambda: sl.Switching([LINEAR, sl.Bernoulli([0.1, 0.2])], every=2),
            "no context, and the first",
        ),
        (lambda: sl.Switching([LINEAR, sl.Linear([[1.0], [2.0]])], every=2), "the same context"),
    ],
)
def test_bad_parameters_are_refused_by_name(make, message):
    with pytest.raises(sl.Invalid, match=message):
        make()
