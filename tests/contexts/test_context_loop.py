"""Contexts in simulation against a literal walk: histories of (level, arm, reward), lists of users and records."""

from collections import defaultdict

import numpy as np
import pytest

import sameluck as sl
from nonempty import nonempty
from sameluck.environments.base import draw, prepared_parameters
from sameluck.policies.observations import empty_observations, no_context, observe, tally_of
from sameluck.randomness.samplers import normal, uniform
from sameluck.randomness.streams import (
    ALL_POLICIES,
    CONTEXT,
    DECISION,
    REWARD,
    at,
    owner_of,
    stream,
    subkey,
    within,
    word,
)

FREQUENCIES = (0.5, 0.3, 0.2)
BY_LEVEL = (sl.Bernoulli([0.6, 0.5]), sl.Bernoulli([0.3, 0.45]), sl.Bernoulli([0.2, 0.8]))
SEGMENTS = sl.ByLevel(BY_LEVEL, frequencies=FREQUENCIES)
WEIGHTS = np.array([[0.5, 0.0, -0.2], [0.3, 0.4, 0.1]])
SHOP = sl.Linear(WEIGHTS.tolist(), sd=0.5)
POLICIES = {
    "per level": sl.PerLevel(sl.ThompsonBernoulli()),
    "pooled": sl.ThompsonBernoulli(),
    "per level ucb": sl.PerLevel(sl.UCB1()),
}
BLIND = {"ucb": sl.UCB1(), "thompson": sl.ThompsonGaussian(), "uniform": sl.Uniform()}
DESIGNS = [sl.Naive(), sl.Replay(), sl.Replay(share_noise=True), sl.TimeCoupled()]


def experiment_of(policies, design):
    return sl.Experiment(policies=policies, horizon=60, replications=3, design=design, seed=11)


class Alone:
    """A policy without contexts that has seen a history of (arm, reward)."""

    def __init__(self, policy, key):
        self.policy, self.key = policy, key
        self.observations, self.last, self.period = empty_observations(2, 0), (0, 0.0), 0

    def choose(self):
        self.period += 1
        rule = self.policy if not hasattr(self.policy, "prepare") else self.policy.prepare(2, 60)
        return sl.policies.base.select(
            rule, tally_of(self.observations, *self.last, no_context()), self.period, self.key
        )

    def learn(self, arm, reward):
        observe(self.observations, arm, arm, reward)
        self.last = arm, reward


def walk_levels(experiment, replication):
    """Yield the arms, rewards and cells of each policy, and return the number of real users."""
    design, entries, paths = experiment.design, set(), {}
    for name, policy in experiment.policies.items():
        owner = ALL_POLICIES if design.shares_rewards else owner_of(name)
        noise = stream(
            experiment.seed,
            DECISION,
            replication,
            ALL_POLICIES if design.shares_noise else owner_of(name),
        )
        users = stream(experiment.seed, CONTEXT, replication, owner)
        rewards = stream(experiment.seed, REWARD, replication, owner)
        learners, visits, path = {}, defaultdict(int), []
        for period in range(1, experiment.horizon + 1):
            level = int(
                np.searchsorted(np.cumsum(FREQUENCIES), uniform(at(users, period, 0)), "right")
            )
            inner = policy.policy if isinstance(policy, sl.PerLevel) else policy
            place = level if isinstance(policy, sl.PerLevel) else None
            if place not in learners:
                learners[place] = Alone(inner, noise if place is None else within(noise, level))
            arm = learners[place].choose()
            position = period - 1 if design.indexed_by_period else visits[level, arm]
            visits[level, arm] += 1
            bits = word(subkey(rewards, level * 2 + arm), position)
            reward = draw(prepared_parameters(BY_LEVEL[level], 0, range(1), 2), 0, None, arm, bits)
            learners[place].learn(arm, reward)
            entries.add((owner, level, arm, position))
            path.append((level, arm, reward))
        paths[name] = path
    return paths, len(entries)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_levels_are_what_a_literal_walk_gives(design):
    experiment = experiment_of(POLICIES, design)
    runs = sl.simulate(experiment, SEGMENTS)

    for replication in nonempty(range(experiment.replications)):
        paths, users = walk_levels(experiment, replication)
        trace = sl.trace(experiment, SEGMENTS, replication, guard=True)
        for column, (name, path) in nonempty(enumerate(paths.items())):
            levels, arms, rewards = map(np.array, zip(*path, strict=True))
            assert trace[name].arms.tolist() == arms.tolist()
            assert trace[name].rewards.tolist() == rewards.tolist()
            assert trace[name].contexts[:, 0].tolist() == levels.tolist()
            assert runs.rewards[replication, column, 0] == rewards.sum()
            assert runs.visits[replication, column, 0].tolist() == (
                np.bincount(levels * 2 + arms, minlength=6).tolist()
            )
            assert runs.level_rewards[replication, column, 0].tolist() == (
                np.bincount(levels, rewards, 3).tolist()
            )
            means = np.array([level.means for level in BY_LEVEL])
            gaps = means[levels].max(axis=1) - means[levels, arms]
            assert runs.regret[replication, column, 0] == pytest.approx(gaps.sum())
            assert runs.best_pulls[replication, column, 0] == (gaps == 0).sum()
        assert trace.interactions == users == runs.interactions[replication, 0]


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_features_are_what_a_literal_walk_gives(design):
    experiment = experiment_of(BLIND, design)
    runs = sl.simulate(experiment, SHOP)

    for replication in nonempty(range(experiment.replications)):
        entries = set()
        trace = sl.trace(experiment, SHOP, replication, guard=True)
        for column, (name, policy) in enumerate(BLIND.items()):
            owner = ALL_POLICIES if design.shares_rewards else owner_of(name)
            noise_owner = ALL_POLICIES if design.shares_noise else owner_of(name)
            users = stream(experiment.seed, CONTEXT, replication, owner)
            stacks = stream(experiment.seed, REWARD, replication, owner)
            learner = Alone(policy, stream(experiment.seed, DECISION, replication, noise_owner))
            rewards, regret = [], 0.0
            for period in nonempty(range(1, experiment.horizon + 1)):
                context = [normal(at(users, period, feature)) for feature in range(3)]
                arm = learner.choose()
                mean = 0.0
                for feature in range(3):
                    mean += WEIGHTS[arm, feature] * context[feature]
                rewards.append(mean + 0.5 * normal(word(subkey(stacks, arm), period - 1)))
                regret += max(WEIGHTS @ context) - WEIGHTS[arm] @ context
                learner.learn(arm, rewards[-1])
                entries.add((owner, period, arm))
                assert trace[name].arms[period - 1] == arm
                assert trace[name].contexts[period - 1].tolist() == context
            assert trace[name].rewards.tolist() == rewards
            assert runs.regret[replication, column, 0] == pytest.approx(regret)
        assert trace.interactions == len(entries) == runs.interactions[replication, 0]


@pytest.mark.parametrize("environment", [SEGMENTS, SHOP], ids=["levels", "features"])
def test_neither_workers_nor_the_range_of_replications_change_a_bit(environment):
    policies = POLICIES if environment is SEGMENTS else BLIND
    experiment = sl.Experiment(policies=policies, horizon=50, replications=9, seed=3)
    whole = sl.simulate(experiment, environment, workers=1, checkpoints=[7, 50])

    parts = [
        sl.simulate(experiment, environment, checkpoints=[7, 50], replications=part, workers=2)
        for part in (range(4), range(4, 9))
    ]
    joined = sl.Runs.concat(parts)
    for name in (
        "rewards",
        "pulls",
        "interactions",
        "visits",
        "level_rewards",
        "regret",
        "best_pulls",
    ):
        first, second = getattr(whole, name), getattr(joined, name)
        assert (first is None and second is None) or first.tobytes() == second.tobytes()


def test_runs_with_contexts_survive_a_file(tmp_path):
    experiment = sl.Experiment(policies=POLICIES, horizon=20, replications=4)
    runs = sl.simulate(experiment, SEGMENTS, checkpoints=[5, 20])
    runs.save(tmp_path / "runs.npz")

    read = sl.Runs.load(tmp_path / "runs.npz")

    assert read.experiment == runs.experiment
    assert read.experiment.context == sl.Levels(3)
    assert read.visits.tobytes() == runs.visits.tobytes()
    assert read.at([5]).visits.shape == (4, 3, 1, 6)


def test_a_plain_bandit_has_no_context_in_its_definition():
    experiment = sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=10, replications=1)

    assert "context" not in experiment.to_dict()
    assert sl.simulate(experiment, "bernoulli(0.5, 0.4)").visits is None


def test_an_experiment_says_its_context_in_its_text_form():
    experiment = sl.Experiment(
        policies={"a": "ucb1"}, arms=2, horizon=10, replications=1, context=sl.Levels(["m", "d"])
    )

    assert experiment.to_dict()["context"] == "levels(size=[m, d])"
    assert sl.Experiment.from_json(experiment.to_json()) == experiment
    assert sl.Experiment.from_toml(experiment.to_toml()).context.names == ("m", "d")


@pytest.mark.parametrize(
    ("policy", "environment", "message"),
    [
        (
            sl.PerLevel("ucb1"),
            "bernoulli(0.5, 0.4)",
            "PerLevel needs users with levels, and they have no context",
        ),
        (sl.PerLevel("ucb1"), SHOP, "needs users with levels, and they have the context features"),
    ],
)
def test_a_policy_that_cannot_use_the_context_is_refused(policy, environment, message):
    experiment = sl.Experiment(policies={"it": policy}, horizon=10, replications=1)

    with pytest.raises(sl.Invalid, match=message):
        sl.simulate(experiment, environment)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sl.Features(0), "Features.size"),
        (lambda: sl.Levels(["a", "a"]), "a name twice"),
        (lambda: "levels(size=x)", "Levels.size"),
        (lambda: sl.ByLevel(BY_LEVEL, frequencies=[0.5, 0.2, 0.2]), "must sum to 1"),
        (lambda: sl.ByLevel(BY_LEVEL, levels=["a"]), "one name per environment"),
        (lambda: sl.ByLevel([sl.Bernoulli([0.1, 0.2]), sl.Bernoulli([0.1] * 3)]), "has 3 arms"),
        (lambda: sl.Linear([[1.0, 2.0], [1.0]]), r"Linear.weights\[1\]"),
        (lambda: sl.Linear([[float("nan")]]), r"Linear.weights\[0\]\[0\]"),
    ],
)
def test_bad_contexts_are_refused(make, message):
    with pytest.raises(sl.Invalid, match=message):
        sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=5, replications=1, context=make())
