"""The rule of every policy as its docstring states it: slow and obvious.

Nothing is shared with the bodies except the random numbers.
"""

import math
from typing import NamedTuple

import sameluck as sl
from sameluck.randomness.samplers import beta_log_odds, beta_odds, normal, uniform
from sameluck.randomness.streams import at


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


# --- bounds for a known horizon, and divergences -----------------------------------------------------------------


def moss(policy, inputs):
    if inputs.period <= inputs.arms:
        return inputs.period - 1

    def bound(seen):
        if not seen:
            return math.inf
        log = max(0.0, math.log(inputs.horizon / (inputs.arms * len(seen))))
        return mean(seen) + math.sqrt(policy.alpha * log / len(seen))

    return first_of_the_largest([bound(seen) for seen in inputs.rewards()])


def exploration_level(policy, inputs):
    plays = inputs.period - 1
    return max(1e-9, math.log(plays) + policy.c * math.log(math.log(plays)))


def kl_ucb_gaussian(policy, inputs):
    if inputs.period <= inputs.arms:
        return inputs.period - 1
    scale = 2 * policy.sd**2 * exploration_level(policy, inputs)
    return first_of_the_largest([upper_bound(seen, scale) for seen in inputs.rewards()])


def divergence(p, q):
    """Of Bernoulli distributions, by its definition."""
    chances = [(one, other) for one, other in ((p, q), (1 - p, 1 - q)) if one > 0]
    if any(other <= 0 for _, other in chances):
        return math.inf
    return sum(one * math.log(one / other) for one, other in chances)


def kl_ucb(policy, inputs):
    """By bisection, until the interval cannot be halved."""
    if inputs.period <= inputs.arms:
        return inputs.period - 1
    level = exploration_level(policy, inputs)

    def bound(seen):
        if not seen:
            return math.inf
        low, high = mean(seen), 1.0
        while low < (middle := (low + high) / 2) < high:
            if len(seen) * divergence(mean(seen), middle) <= level:
                low = middle
            else:
                high = middle
        return high

    return first_of_the_largest([bound(seen) for seen in inputs.rewards()])


def imed(policy, inputs):
    if inputs.period <= inputs.arms:
        return inputs.period - 1
    highest = max(mean(seen) for seen in inputs.rewards())

    def index(seen):
        if not seen:
            return -math.inf
        return len(seen) * divergence(mean(seen), highest) + math.log(len(seen))

    return first_of_the_largest([-index(seen) for seen in inputs.rewards()])


RULES = {
    sl.UCB1: ucb1,
    sl.UCBDelta: ucb_delta,
    sl.ThompsonBernoulli: thompson_bernoulli,
    sl.ThompsonGaussian: thompson_gaussian,
    sl.EpsilonGreedy: epsilon_greedy,
    sl.Uniform: uniform_choice,
    sl.Always: always,
    sl.Batched: batched,
    sl.MOSS: moss,
    sl.KLUCB: kl_ucb,
    sl.KLUCBGaussian: kl_ucb_gaussian,
    sl.IMED: imed,
}
