"""The paper's Algorithms 1 and 2 as they are printed: histories, marks, the earliest match. Slow and obvious.

Nothing is shared with the compiled code except the random numbers: which 64 bits an address has, and which draw they
give. So every trajectory must be *equal* to the compiled one, not close.

A history is a list of (arm, reward). Periods count from 1, arms from 0.
"""

import math
from typing import NamedTuple

import numpy as np

import sameluck as sl
from sameluck.randomness.samplers import beta_log_odds, beta_odds, normal, uniform
from sameluck.randomness.streams import (
    ALL_POLICIES,
    DECISION,
    REWARD,
    at,
    owner_of,
    stream,
    within,
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
        bits = word(within(self.key, arm), position)
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


# --- the policies, by their docstrings --------------------------------------------------------------------------


class RuleInputs(NamedTuple):
    """All that the choice of an arm may depend on."""

    history: list
    period: int
    arms: int
    horizon: int
    luck: tuple

    def rewards(self):
        """The rewards of each arm so far."""
        seen = [[] for _ in range(self.arms)]
        for arm, reward in self.history:
            seen[arm].append(reward)
        return seen


def choose(experiment, replication, name, history, period):
    """The arm the named policy plays next, given its own history and its own random numbers."""
    owner = owner_of(name)
    if getattr(experiment.design, "share_noise", False):
        owner = ALL_POLICIES
    luck = stream(np.uint64(experiment.seed), DECISION, replication, np.uint64(owner))
    policy = experiment.policies[name]
    inputs = RuleInputs(history, period, experiment.n_arms, experiment.horizon, luck)
    return RULES[type(policy)](policy, inputs)


def mean(rewards):
    return sum(rewards) / len(rewards) if rewards else 0.0


def upper_bound(rewards, scale):
    return mean(rewards) + math.sqrt(scale / len(rewards)) if rewards else math.inf


def first_of_the_largest(scores):
    return max(range(len(scores)), key=lambda arm: scores[arm])


def ucb1(policy, inputs):
    if inputs.period <= inputs.arms:
        return inputs.period - 1
    log = math.log(inputs.period - 1)
    return first_of_the_largest(
        [upper_bound(seen, policy.alpha * log) for seen in inputs.rewards()]
    )


def ucb_delta(policy, inputs):
    if inputs.period <= inputs.arms:
        return inputs.period - 1
    delta = inputs.horizon**-policy.d if policy.delta is None else policy.delta
    scale = 2 * math.log(1 / delta)
    return first_of_the_largest([upper_bound(seen, scale) for seen in inputs.rewards()])


def thompson_bernoulli(policy, inputs):
    if inputs.period <= policy.first_plays * inputs.arms:
        return (inputs.period - 1) % inputs.arms
    draws = []
    for arm, seen in enumerate(inputs.rewards()):
        successes, failures = seen.count(1.0), seen.count(0.0)
        bits = at(inputs.luck, inputs.period, arm)
        draws.append(beta_order(bits, policy, successes, failures))
    return first_of_the_largest(draws)


def beta_order(bits, policy, successes, failures):
    """A Beta draw's odds (the order of chances is the order of odds), by the sampler for these shapes."""
    a, b = policy.a + successes, policy.b + failures
    if policy.a < 1 or policy.b < 1:
        return beta_log_odds(bits, a, b)
    depth_a, depth_b = a - 1.0 / 3.0, b - 1.0 / 3.0
    return beta_odds(bits, depth_a, 1 / math.sqrt(9 * depth_a), depth_b, 1 / math.sqrt(9 * depth_b))


def thompson_gaussian(policy, inputs):
    if inputs.period <= policy.first_plays * inputs.arms:
        return (inputs.period - 1) % inputs.arms
    draws = []
    for arm, seen in enumerate(inputs.rewards()):
        precision = 1 / policy.prior_sd**2 + len(seen) / policy.noise_sd**2
        weighted = policy.prior_mean / policy.prior_sd**2 + sum(seen) / policy.noise_sd**2
        luck = normal(at(inputs.luck, inputs.period, arm))
        draws.append(weighted / precision + luck / math.sqrt(precision))
    return first_of_the_largest(draws)


def epsilon_greedy(policy, inputs):
    if inputs.period <= inputs.arms:
        return inputs.period - 1
    greedy = first_of_the_largest([mean(seen) for seen in inputs.rewards()])
    if uniform(at(inputs.luck, inputs.period, 0)) >= policy.epsilon:
        return greedy
    candidates = list(range(inputs.arms))
    if policy.explore == "others":
        candidates.remove(greedy)
    return candidates[math.floor(uniform(at(inputs.luck, inputs.period, 1)) * len(candidates))]


def uniform_choice(policy, inputs):
    return math.floor(uniform(at(inputs.luck, inputs.period, 0)) * inputs.arms)


def always(policy, inputs):
    return policy.arm


def batched(policy, inputs):
    batches_before = (inputs.period - 1) // policy.size
    seen = inputs.history[: batches_before * policy.size]
    return RULES[type(policy.policy)](policy.policy, inputs._replace(history=seen))


RULES = {
    sl.UCB1: ucb1,
    sl.UCBDelta: ucb_delta,
    sl.ThompsonBernoulli: thompson_bernoulli,
    sl.ThompsonGaussian: thompson_gaussian,
    sl.EpsilonGreedy: epsilon_greedy,
    sl.Uniform: uniform_choice,
    sl.Always: always,
    sl.Batched: batched,
}
