"""The paper's Algorithms 1 and 2 as they are printed: histories, marks, the earliest match. Slow and obvious.

Nothing is shared with the compiled code except the random numbers: which 64 bits an address has, and which draw they
give. So every trajectory must be *equal* to the compiled one, not close.

A history is a list of (arm, reward). Periods count from 1, arms from 0.
"""

import math
from typing import NamedTuple

import numpy as np

import sameluck as sl
from literal_rules import RULES, RuleInputs
from sameluck.randomness.samplers import normal, uniform
from sameluck.randomness.streams import (
    ALL_POLICIES,
    DECISION,
    REWARD,
    owner_of,
    stream,
    subkey,
    word,
)


class Path(NamedTuple):
    """What one policy did in one replication."""

    history: list  # (arm, reward) of every period
    replayed: list  # whether the reward of that period was found in the record


def play(experiment, environment, replication, periods=None):
    """Every policy's path in one replication under the experiment's design, for its horizon or fewer periods."""
    periods = experiment.horizon if periods is None else periods
    phases = {sl.Naive: naive, sl.Replay: artificial_replay, sl.TimeCoupled: time_coupled}
    return phases[type(experiment.design)](experiment, environment, replication, periods)


def interactions(paths):
    """How many rewards came from real users."""
    return sum(path.replayed.count(False) for path in paths.values())


# --- the designs ------------------------------------------------------------------------------------------------


def naive(experiment, environment, replication, periods):
    """Algorithm 1: each policy interacts with real users of its own."""
    paths = {}
    for name in experiment.policies:
        users = RealUsers(experiment, environment, replication, owner_of(name))
        history = []
        for period in range(1, periods + 1):
            arm = choose(experiment, replication, name, history, period)
            reward = users.pull(arm)
            history.append((arm, reward))
        paths[name] = Path(history, [False] * periods)
    return paths


def artificial_replay(experiment, environment, replication, periods):
    """Algorithm 2 for any number of policies: the record is what the earlier ones really pulled, in order."""
    users = RealUsers(experiment, environment, replication, ALL_POLICIES)
    record = []
    paths = {}
    for name in experiment.policies:
        history, replayed, fresh, used = [], [], [], set()
        for period in range(1, periods + 1):
            arm = choose(experiment, replication, name, history, period)
            match = earliest_unused(record, used, arm)
            if match is not None:
                reward = record[match][1]
                used.add(match)
            else:
                reward = users.pull(arm)
                fresh.append((arm, reward))
            history.append((arm, reward))
            replayed.append(match is not None)
        record += fresh
        paths[name] = Path(history, replayed)
    return paths


def earliest_unused(record, used, arm):
    """The first entry of the record with this arm that has not been replayed yet."""
    for index, (recorded_arm, _) in enumerate(record):
        if recorded_arm == arm and index not in used:
            return index
    return None


def time_coupled(experiment, environment, replication, periods):
    """One table of rewards by (period, arm) for all: an entry is replayed if an earlier policy requested it."""
    users = RealUsers(experiment, environment, replication, ALL_POLICIES)
    table = {}
    paths = {}
    for name in experiment.policies:
        history, replayed = [], []
        for period in range(1, periods + 1):
            arm = choose(experiment, replication, name, history, period)
            replayed.append((period, arm) in table)
            reward = table.setdefault((period, arm), users.reward(arm, period - 1))
            history.append((arm, reward))
        paths[name] = Path(history, replayed)
    return paths


# --- the real users ---------------------------------------------------------------------------------------------


class RealUsers:
    """The users of one replication: the k-th real pull of an arm gives the reward at address (arm, k)."""

    def __init__(self, experiment, environment, replication, owner):
        arms = experiment.n_arms
        if hasattr(environment, "instance"):
            environment = environment.instance(experiment.seed, replication, arms)
        self.environment = environment
        self.key = stream(np.uint64(experiment.seed), REWARD, replication, np.uint64(owner))
        self.pulled = [0] * arms

    def pull(self, arm):
        self.pulled[arm] += 1
        return self.reward(arm, self.pulled[arm] - 1)

    def reward(self, arm, position):
        bits = word(subkey(self.key, arm), position)
        return DRAWS[type(self.environment)](self.environment, arm, bits)


def bernoulli(environment, arm, bits):
    return 1.0 if uniform(bits) < environment.means[arm] else 0.0


def gaussian(environment, arm, bits):
    sd = environment.sd
    return environment.means[arm] + (sd[arm] if isinstance(sd, tuple | list) else sd) * normal(bits)


def empirical(environment, arm, bits):
    values = environment.samples[arm]
    return float(values[math.floor(uniform(bits) * len(values))])


DRAWS = {sl.Bernoulli: bernoulli, sl.Gaussian: gaussian, sl.Empirical: empirical}


def choose(experiment, replication, name, history, period):
    """The arm the named policy plays next, given its own history and its own random numbers."""
    owner = owner_of(name)
    if getattr(experiment.design, "share_noise", False):
        owner = ALL_POLICIES
    noise = stream(np.uint64(experiment.seed), DECISION, replication, np.uint64(owner))
    policy = experiment.policies[name]
    inputs = RuleInputs(history, period, experiment.n_arms, experiment.horizon, noise)
    return RULES[type(policy)](policy, inputs)
