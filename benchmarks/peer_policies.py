"""The policies of other packages as functions that play some periods on given rewards, one replication at a time.

`rewards[arm][k]` is the k-th reward of an arm. A player returns the arms that it chose. Nothing is added to a package
but the loop around it; rlberry has a loop of its own, whose environment reads the same rewards.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import io
import warnings
from functools import cache, partial

import numpy as np
from scipy import special

import vectorised

HORIZON = 1_000
INSTALL = {
    "river": "pip install river",
    "MABWiser": "pip install mabwiser",
    "SMPyBandits": "pip install SMPyBandits",
    "rlberry": "pip install rlberry==0.5.0 'gymnasium<0.30'; from 0.7 on it has no bandits",
}
MODULES = {
    "river": "river.bandit",
    "MABWiser": "mabwiser.mab",
    "SMPyBandits": "SMPyBandits.Policies",
    "rlberry": "rlberry.agents.bandits",
}


@cache
def module_of(package):
    """The module with the policies of a package, imported without its messages; None if that fails."""
    if package == "SMPyBandits" and not hasattr(special, "btdtri"):
        special.btdtri = special.betaincinv  # its former name, which SMPyBandits 0.9.7 imports
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(MODULES[package])
        except Exception:  # whatever an old package raises beside new ones
            return None


def version_of(package):
    """The version that is installed, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def loop(select, update, rewards, horizon):
    """The arms that a policy chooses."""
    pulls, chosen = [0] * len(rewards), []
    for _ in range(horizon):
        arm = select()
        reward = rewards[arm][pulls[arm]]
        pulls[arm] += 1
        update(arm, reward)
        chosen.append(arm)
    return chosen


def river(kind, reward=None, **parameters):
    """A policy of `river.bandit`."""

    def play(rewards, horizon, seed):
        names = list(range(len(rewards)))
        objects = {"reward_obj": importlib.import_module("river.proba").Beta()} if reward else {}
        policy = getattr(module_of("river"), kind)(**parameters, **objects, seed=seed)
        return loop(lambda: policy.pull(names), policy.update, rewards, horizon)

    return play


def mabwiser(kind, **parameters):
    """A bandit of MABWiser: each arm once, then what it predicts."""

    def play(rewards, horizon, seed):
        mab, names = module_of("MABWiser"), list(range(len(rewards)))
        learning = getattr(mab.LearningPolicy, kind)(**parameters)
        bandit = mab.MAB(names, learning, seed=seed)
        bandit.fit(names, [rewards[arm][0] for arm in names])
        later = [stack[1:] for stack in rewards]
        observe = bandit.partial_fit
        update = lambda arm, reward: observe([arm], [reward])  # noqa: E731
        return names + loop(bandit.predict, update, later, horizon - len(names))

    return play


def smpybandits(kind, **parameters):
    """A policy of SMPyBandits."""

    def play(rewards, horizon, seed):
        np.random.seed(seed)  # noqa: NPY002 it draws from NumPy's global generator
        with np.errstate(all="ignore"):
            policy = getattr(module_of("SMPyBandits"), kind)(len(rewards), **parameters)
            policy.startGame()
            return loop(policy.choice, policy.getReward, rewards, horizon)

    return play


class RlberryBandit:
    """An environment of rlberry that reads given rewards and notes the arms."""

    def __init__(self, rewards):
        spaces = importlib.import_module("rlberry.spaces")
        self.action_space = spaces.Discrete(len(rewards))
        self.observation_space = spaces.Discrete(1)
        self.rewards, self.pulls, self.chosen = rewards, [0] * len(rewards), []

    def step(self, arm):
        reward = self.rewards[arm][self.pulls[arm]]
        self.pulls[arm] += 1
        self.chosen.append(int(arm))
        return 0, reward, True, False, {}

    def reseed(self, seeder):
        """Nothing is random here."""


def rlberry(agent, make, **parameters):
    """An agent of rlberry with an index or a prior."""

    def play(rewards, horizon, seed):
        bandits = module_of("rlberry")
        rule, tracked = getattr(bandits, make)(**parameters)
        environment = RlberryBandit(rewards)
        kind = getattr(bandits, agent)
        made = kind(
            environment, rule, tracker_params=tracked, copy_env=False, seeder=seed % (1 << 32)
        )
        made.fit(budget=horizon)
        return environment.chosen

    return play


def in_numpy(rule, **parameters):
    """A rule in NumPy, many replications side by side; returns the arms of each (replication, period)."""

    def play(rewards, horizon, seed):
        stacks = np.asarray(rewards)  # (replication, arm, position)
        rows, pulls = np.arange(len(stacks)), np.zeros(stacks.shape[:2], np.int64)
        chosen = np.empty((len(stacks), horizon), np.int64)
        places = iter(range(horizon))

        def draw(_, arm):
            chosen[:, next(places)] = arm
            drawn = stacks[rows, arm, pulls[rows, arm]]
            pulls[rows, arm] += 1
            return drawn

        size = (stacks.shape[1], len(stacks), horizon)
        rule(np.random.default_rng(seed), draw, *size, **parameters)
        return chosen

    return play


numpy_ucb1 = in_numpy(vectorised.ucb1, alpha=2.0)
numpy_thompson = in_numpy(vectorised.thompson_bernoulli)
numpy_epsilon_greedy = in_numpy(vectorised.epsilon_greedy, epsilon=0.1)
rlberry_index = partial(rlberry, "IndexAgent")
