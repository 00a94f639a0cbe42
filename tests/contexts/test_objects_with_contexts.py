"""Python objects with contexts: the rewards, users and counts of compiled policies."""

from typing import ClassVar

import numpy as np
import pytest

import sameluck as sl

LEVELS = sl.ByLevel([sl.Bernoulli([0.6, 0.5]), sl.Bernoulli([0.3, 0.45])], frequencies=[0.7, 0.3])
SHOP = sl.Linear([[0.5, 0.0], [0.3, 0.4]])


class Fixed:
    """Play arm 0 of `Always(0)`, and remember every observation."""

    made: ClassVar[list] = []

    def __init__(self, seed):
        self.contexts, self.observed = [], []
        Fixed.made.append(self)

    def select(self, context):
        self.contexts.append(context)
        return 0

    def update(self, context, arm, reward):
        self.observed.append((context, arm, reward))


class Blind:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def select(self, period):
        assert isinstance(period, int)
        return int(self.rng.integers(2))

    def update(self, arm, reward):
        pass


@pytest.mark.parametrize("design", ["replay", "naive"])
@pytest.mark.parametrize("environment", [LEVELS, SHOP], ids=["levels", "features"])
def test_an_object_has_the_users_and_rewards_of_a_compiled_policy(environment, design):
    policies = {"it": sl.External("fixed"), "blind": sl.External("blind")}
    makers = {"fixed": Fixed, "blind": Blind}
    settings = {"horizon": 25, "replications": 3, "design": design, "seed": 4}
    compiled = sl.Experiment(policies={"it": sl.Always(0)}, **settings)
    experiment = sl.Experiment(policies=policies, **settings)

    runs = sl.simulate(experiment, environment, checkpoints=[9, 25], makers=makers, workers=1)
    expected = sl.simulate(compiled, environment, checkpoints=[9, 25])
    trace = sl.trace(experiment, environment, 1, makers=makers, guard=True)

    for name in ("rewards", "pulls", "regret", "best_pulls", "visits", "level_rewards"):
        mine, theirs = getattr(runs, name), getattr(expected, name)
        assert theirs is None if mine is None else np.array_equal(mine[:, 0], theirs[:, 0])
    alone = sl.trace(compiled, environment, 1)["it"]
    assert np.array_equal(trace["it"].contexts, alone.contexts)
    assert np.array_equal(trace["it"].rewards, alone.rewards)
    assert trace.interactions == runs.interactions[1, -1]


def test_an_object_gets_arrays_that_it_may_keep_and_not_change():
    experiment = sl.Experiment(policies={"it": sl.External("fixed")}, horizon=12, replications=1)
    trace = sl.trace(experiment, SHOP, makers={"fixed": Fixed}, check=False)

    kept = Fixed.made[-1].contexts
    assert np.array_equal(np.array(kept), trace["it"].contexts)
    assert [reward for _, _, reward in Fixed.made[-1].observed] == trace["it"].rewards.tolist()
    with pytest.raises(ValueError, match="read-only"):
        kept[0][0] = 1.0


@pytest.mark.parametrize("policy", ["linucb", "per_level(ucb1)"])
def test_check_policy_finds_users_that_a_policy_can_use(policy):
    sl.check_policy(policy, horizon=20)
