"""Linear and logistic policies against their rules with fresh solves, and against other packages."""

import math

import numba
import numpy as np
import pytest
from scipy.optimize import minimize

import sameluck as sl
from budget import SEED
from sameluck.compilation.decorators import load_compiler
from sameluck.policies.base import Tally, rule_of, select
from sameluck.policies.epsilon_greedy import EXPLORES, WHICH_ARM
from sameluck.randomness.samplers import normal, uniform
from sameluck.randomness.streams import DECISION, at, stream
from sameluck.trajectories import empty_trajectory

HORIZON = 150
NOISE = stream(SEED, DECISION, 0, 1)


def linear(features, arms=3, sd=0.5):
    weights = np.random.default_rng(features).normal(size=(arms, features)) / math.sqrt(features)
    return sl.Linear(weights.tolist(), sd=sd)


def experiment_of(policy, arms=3, horizon=HORIZON, **changes):
    return sl.Experiment(
        policies={"it": policy}, arms=arms, horizon=horizon, replications=1, seed=SEED, **changes
    )


def noise_of(experiment, replication=0):
    owner = experiment.design.noise_owner("it")
    return stream(experiment.seed, DECISION, replication, owner)


def played(policy, contexts, rewards_of):
    """The arms and rewards of a policy in plain Python; contexts are (period, feature) or (period, arm, feature)."""
    arms, per_arm = 4, contexts.ndim == 3
    features = sl.Features(contexts.shape[-1], per_arm=per_arm)
    rule = rule_of(policy, arms, len(contexts), features)
    memory, counts, sums = np.zeros(rule.memory(arms)), np.zeros(arms, int), np.zeros(arms)
    trajectory, last = empty_trajectory(len(contexts)), np.zeros_like(contexts[0])
    arm, reward = 0, 0.0
    for period, context in enumerate(contexts, start=1):
        tally = Tally(counts, sums, sums, memory, arm, reward, context, last, 0, 0, 0)
        arm = int(select(rule, tally, period, NOISE))
        reward = float(rewards_of(context[arm] if per_arm else context, arm))
        trajectory.arms[period - 1], trajectory.rewards[period - 1] = arm, reward
        last = context
    return trajectory._replace(contexts=contexts)


def literal_arms(policy, trajectory, arms, noise, start=0):
    """The arm that the rule plays in each period after the recorded past, with regressions solved anew."""
    contexts, periods = trajectory.contexts, len(trajectory.arms)
    if contexts.ndim == 2:
        contexts = np.broadcast_to(contexts[:, None], (periods, arms, contexts.shape[1]))
    of_played_arms = contexts[np.arange(periods), trajectory.arms]
    choices = []
    for past in range(start, periods):
        models = []
        for arm in range(arms):
            mine = np.full(past, True) if policy.shared else trajectory.arms[:past] == arm
            x, rewards = of_played_arms[:past][mine], trajectory.rewards[:past][mine]
            precision = policy.ridge * np.eye(x.shape[1]) + x.T @ x
            models.append((np.linalg.solve(precision, x.T @ rewards), np.linalg.inv(precision)))
        choices.append(literal_rule(policy)(policy, models, contexts[past], past + 1, noise))
    return choices


def lin_ucb(policy, models, contexts, period, noise):
    pairs = zip(models, contexts, strict=True)
    return np.argmax(
        [x @ theta + policy.alpha * math.sqrt(x @ inverse @ x) for (theta, inverse), x in pairs]
    )


def lin_ts(policy, models, contexts, period, noise):
    draws = [normal(at(noise, period, arm)) for arm in range(len(contexts))]
    return np.argmax(
        [
            x @ theta + policy.v * math.sqrt(x @ inverse @ x) * z
            for (theta, inverse), x, z in zip(models, contexts, draws, strict=True)
        ]
    )


def lin_ts_shared(policy, models, contexts, period, noise):
    """The factor U sqrt(D) with U upper triangular: a Cholesky factor of the matrix read backwards."""
    theta, inverse = models[0]
    factor = np.linalg.cholesky(inverse[::-1, ::-1])[::-1, ::-1]
    z = np.array([normal(at(noise, period, index)) for index in range(len(theta))])
    return np.argmax(contexts @ (theta + policy.v * factor @ z))


def lin_greedy(policy, models, contexts, period, noise):
    if uniform(at(noise, period, EXPLORES)) < policy.epsilon:
        return int(uniform(at(noise, period, WHICH_ARM)) * len(contexts))
    return np.argmax([x @ theta for (theta, _), x in zip(models, contexts, strict=True)])


RULES = {sl.LinUCB: lin_ucb, sl.LinTS: lin_ts, sl.LinGreedy: lin_greedy}
POLICIES = [
    sl.LinUCB(),
    sl.LinUCB(alpha=0.3, ridge=0.01),
    sl.LinTS(),
    sl.LinTS(v=0.2, ridge=5.0),
    sl.LinGreedy(),
    sl.LinGreedy(epsilon=0.0, ridge=0.5),
]
WITH_FEATURES_BY_ARM = [
    sl.LinUCB(alpha=0.5, shared=True),
    sl.LinTS(v=0.5, shared=True),
    sl.LinGreedy(shared=True),
    sl.LinTS(v=0.5),
]


def literal_rule(policy):
    is_drawn_once = policy.shared and isinstance(policy, sl.LinTS)
    return lin_ts_shared if is_drawn_once else RULES[type(policy)]


@pytest.mark.parametrize("features", [1, 5, 8, 9, 20])
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_linear_policy_plays_the_arms_of_a_fresh_solve(policy, features):
    """In machine code: one panel of eight features and several, even and odd numbers of features."""
    experiment = experiment_of(policy)
    trajectory = sl.trace(experiment, linear(features), guard=False)["it"]
    assert trajectory.arms.tolist() == literal_arms(policy, trajectory, 3, noise_of(experiment))


@pytest.mark.parametrize("features", [3, 17])
@pytest.mark.parametrize("policy", WITH_FEATURES_BY_ARM, ids=str)
def test_a_policy_with_features_by_arm_plays_the_arms_of_a_fresh_solve(policy, features):
    random = np.random.default_rng(features)
    weights, contexts = random.normal(size=features), random.normal(size=(HORIZON, 4, features))
    trajectory = played(policy, contexts, lambda x, _: x @ weights + random.normal())
    assert trajectory.arms.tolist() == literal_arms(policy, trajectory, 4, NOISE)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES[::2], ids=str)
def test_machine_code_and_plain_python_play_the_same_arms(policy):
    """A guarded trace runs both and compares every bit."""
    for features in (5, 11):
        sl.trace(experiment_of(policy, horizon=60), linear(features), guard=True)


def play_clicks(rule, contexts, memory, arms, numbers):
    """Play arms whose clicks are the sign of a feature; the loop compiles as it is."""
    arm, reward = 0, 0.0
    for period in range(1, contexts.shape[0] + 1):
        context, last = contexts[period - 1], contexts[max(period - 2, 0)]
        tally = Tally(arms[:4], numbers, numbers, memory, arm, reward, context, last, 0, 0, 0)
        arm = select(rule, tally, period, NOISE)
        reward = 1.0 if context[arm, arm] > 0.0 else 0.0
        arms[period + 3] = arm


@pytest.mark.slow
@pytest.mark.parametrize("policy", [sl.LinTS(shared=True), sl.LogisticTS()], ids=str)
def test_machine_code_and_plain_python_agree_on_features_by_arm(policy):
    """Arms and every number in the memory are equal, to the bit."""
    contexts = np.random.default_rng(SEED).normal(size=(60, 4, 9))
    rule = rule_of(policy, 4, 60, sl.Features(9, per_arm=True))
    load_compiler()
    results = []
    for play in (play_clicks, numba.njit(error_model="numpy", _nrt=False)(play_clicks)):
        memory, arms = np.zeros(rule.memory(4)), np.zeros(64, np.int64)
        play(rule, contexts, memory, arms, np.zeros(4))
        results.append((memory, arms))
    for plain, compiled in zip(*results, strict=True):
        np.testing.assert_array_equal(plain, compiled)
    assert len(set(arms[4:])) == 4


@pytest.mark.parametrize("policy", ["LinUCB", "LinGreedy"])
def test_mabwiser_plays_the_same_arms(policy):
    """MABWiser has a regression of each arm after its first call, which gets contexts of zeros here."""
    mab = pytest.importorskip("mabwiser.mab")
    ours, theirs = {
        "LinUCB": (sl.LinUCB(0.7), mab.LearningPolicy.LinUCB(alpha=0.7)),
        "LinGreedy": (sl.LinGreedy(0.0), mab.LearningPolicy.LinGreedy(epsilon=0.0)),
    }[policy]
    random = np.random.default_rng(SEED)
    weights, contexts = random.normal(size=(4, 6)), random.normal(size=(60, 6))
    trajectory = played(ours, contexts, lambda x, arm: x @ weights[arm] + random.normal())
    peer = mab.MAB([0, 1, 2, 3], theirs)
    peer.fit([0, 1, 2, 3], [0.0] * 4, np.zeros((4, 6)))
    arms = []
    for context, arm, reward in zip(contexts, trajectory.arms, trajectory.rewards, strict=True):
        arms.append(peer.predict(context[None]))
        peer.partial_fit([arm], [reward], context[None])
    assert trajectory.arms[1:].tolist() == arms[1:]  # in the first period greedy arms tie


@pytest.mark.parametrize("features", [5, 20])
def test_regressions_do_not_drift(features):
    """After 200,000 periods, with features whose weights have very different sizes."""
    horizon, sizes = 200_000, np.logspace(-2, 2, features)
    weights = np.random.default_rng(SEED).normal(size=(3, features)) / sizes
    environment, experiment = (
        sl.Linear(weights.tolist()),
        experiment_of(sl.LinUCB(), horizon=horizon),
    )
    trajectory = sl.trace(experiment, environment, guard=False)["it"]
    expected = literal_arms(sl.LinUCB(), trajectory, 3, noise_of(experiment), horizon - 5)
    assert trajectory.arms[-5:].tolist() == expected


def test_features_are_needed():
    for policy in (sl.LinUCB(), sl.LinTS(), sl.LinGreedy(), sl.LogisticTS()):
        with pytest.raises(sl.Invalid, match="needs users with features"):
            sl.simulate(experiment_of(policy), sl.Bernoulli((0.5, 0.4, 0.3)))
    with pytest.raises(sl.Invalid, match=r"LinUCB\.shared needs features by arm"):
        sl.simulate(experiment_of(sl.LinUCB(shared=True)), linear(3))


@pytest.mark.parametrize(
    ("policy_class", "parameters"),
    [
        (sl.LinUCB, {"alpha": -1.0}),
        (sl.LinTS, {"v": math.inf}),
        (sl.LinGreedy, {"epsilon": 1.5}),
        (sl.LinUCB, {"ridge": 0.0}),
        (sl.LinTS, {"shared": 2}),
        (sl.LogisticTS, {"ridge": -1.0}),
    ],
)
def test_wrong_parameters_are_refused(policy_class, parameters):
    (name,) = parameters
    with pytest.raises(sl.Invalid, match=rf"{policy_class.__name__}\.{name}"):
        policy_class(**parameters)


def literal_logistic_arms(policy, trajectory, arms):
    """Each posterior as a normal distribution, its mode found in all coordinates."""
    features = trajectory.contexts.shape[1]
    means, precisions = (
        np.zeros((arms, features)),
        policy.ridge * np.array([np.eye(features)] * arms),
    )
    choices = []
    for period, x in enumerate(trajectory.contexts, start=1):
        draws = []
        for arm in range(arms):
            sd = math.sqrt(x @ np.linalg.solve(precisions[arm], x))
            draws.append(x @ means[arm] + policy.v * sd * normal(at(NOISE, period, arm)))
        choices.append(int(np.argmax(draws)))
        arm, sign = trajectory.arms[period - 1], 2 * trajectory.rewards[period - 1] - 1
        mean, precision = means[arm].copy(), precisions[arm]

        def loss(w, x=x, sign=sign, mean=mean, precision=precision):
            error = precision @ (w - mean)
            value = 0.5 * (w - mean) @ error + np.logaddexp(0, -sign * (x @ w))
            return value, error - sign * x / (1 + np.exp(sign * (x @ w)))

        means[arm] = minimize(loss, mean, jac=True, method="BFGS", options={"gtol": 1e-12}).x
        probability = 1 / (1 + math.exp(-x @ means[arm]))
        precisions[arm] = precision + probability * (1 - probability) * np.outer(x, x)
    return choices


@pytest.mark.parametrize("policy", [sl.LogisticTS(), sl.LogisticTS(v=0.3, ridge=0.2)], ids=str)
@pytest.mark.parametrize("features", [2, 9])
def test_logistic_sampling_plays_the_arms_of_fresh_modes(policy, features):
    random = np.random.default_rng(features)
    weights, contexts = random.normal(size=(4, features)), random.normal(size=(60, features))
    trajectory = played(
        policy, contexts, lambda x, arm: random.random() < 1 / (1 + math.exp(-x @ weights[arm]))
    )
    assert trajectory.arms.tolist() == literal_logistic_arms(policy, trajectory, 4)
