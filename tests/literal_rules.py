"""The rule of every policy as its docstring states it: slow and obvious.

Nothing is shared with the bodies except the random numbers.
"""

import math
import operator
from functools import reduce
from itertools import accumulate
from typing import NamedTuple

from scipy.special import betaincinv

import sameluck as sl
from sameluck.randomness.samplers import (
    beta_log_odds,
    beta_odds,
    exponential,
    gamma,
    normal,
    uniform,
)
from sameluck.randomness.streams import again, at


class RuleInputs(NamedTuple):
    """All that the choice of an arm may depend on."""

    history: list
    period: int
    arms: int
    horizon: int
    noise: tuple

    def rewards(self):
        """The rewards of each arm so far."""
        seen = [[] for _ in range(self.arms)]
        for arm, reward in self.history:
            seen[arm].append(reward)
        return seen


def total(rewards):
    """Add up in order, as the compiled loops do; `sum` corrects its rounding errors from Python 3.12 on."""
    return reduce(operator.add, rewards, 0.0)


def mean(rewards):
    return total(rewards) / len(rewards) if rewards else 0.0


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
        bits = at(inputs.noise, inputs.period, arm)
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
        weighted = policy.prior_mean / policy.prior_sd**2 + total(seen) / policy.noise_sd**2
        standard = normal(at(inputs.noise, inputs.period, arm))
        draws.append(weighted / precision + standard / math.sqrt(precision))
    return first_of_the_largest(draws)


def epsilon_greedy(policy, inputs):
    if inputs.period <= inputs.arms:
        return inputs.period - 1
    greedy = first_of_the_largest([mean(seen) for seen in inputs.rewards()])
    if uniform(at(inputs.noise, inputs.period, 0)) >= policy.epsilon:
        return greedy
    candidates = list(range(inputs.arms))
    if policy.explore == "others":
        candidates.remove(greedy)
    return candidates[math.floor(uniform(at(inputs.noise, inputs.period, 1)) * len(candidates))]


def uniform_choice(policy, inputs):
    return math.floor(uniform(at(inputs.noise, inputs.period, 0)) * inputs.arms)


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
    return total(one * math.log(one / other) for one, other in chances)


def mean_within(rewards):
    """Of rewards that may be anything: a mean outside [0, 1] is replaced by 0 or 1."""
    return min(max(mean(rewards), 0.0), 1.0)


def kl_ucb(policy, inputs):
    """By bisection, until the interval cannot be halved."""
    if inputs.period <= inputs.arms:
        return inputs.period - 1
    level = exploration_level(policy, inputs)

    def bound(seen):
        if not seen:
            return math.inf
        low, high = mean_within(seen), 1.0
        while low < (middle := (low + high) / 2) < high:
            if len(seen) * divergence(mean_within(seen), middle) <= level:
                low = middle
            else:
                high = middle
        return high

    return first_of_the_largest([bound(seen) for seen in inputs.rewards()])


def imed(policy, inputs):
    if inputs.period <= inputs.arms:
        return inputs.period - 1
    highest = max(mean_within(seen) for seen in inputs.rewards())

    def index(seen):
        if not seen:
            return -math.inf
        return len(seen) * divergence(mean_within(seen), highest) + math.log(len(seen))

    return first_of_the_largest([-index(seen) for seen in inputs.rewards()])


def bayes_ucb(policy, inputs):
    """Quantiles by SciPy."""
    tail = min(0.5, 1 / (inputs.period * max(1.0, math.log(inputs.horizon)) ** policy.c))
    shapes = [(policy.a + total(s), policy.b + len(s) - total(s)) for s in inputs.rewards()]
    return first_of_the_largest([-float(betaincinv(b, a, tail)) for a, b in shapes])


# --- estimated variances -----------------------------------------------------------------------------------------


def variance(rewards):
    return max(0.0, mean([reward**2 for reward in rewards]) - mean(rewards) ** 2)


def ucb_tuned(policy, inputs):
    if inputs.period <= inputs.arms:
        return inputs.period - 1
    log = math.log(inputs.period - 1)

    def bound(seen):
        most = variance(seen) + math.sqrt(2 * log / len(seen))
        return mean(seen) + math.sqrt(log / len(seen) * min(0.25, most))

    return first_of_the_largest([bound(seen) for seen in inputs.rewards()])


def ucbv(policy, inputs):
    if inputs.period <= inputs.arms:
        return inputs.period - 1
    evidence = policy.zeta * math.log(inputs.period - 1)

    def bound(seen):
        likely = math.sqrt(2 * variance(seen) * evidence / len(seen))
        return mean(seen) + likely + 3 * policy.c * policy.b * evidence / len(seen)

    return first_of_the_largest([bound(seen) for seen in inputs.rewards()])


# --- rounds ------------------------------------------------------------------------------------------------------


def explore_then_commit(policy, inputs):
    explored = policy.plays * inputs.arms
    if inputs.period <= explored:
        return (inputs.period - 1) % inputs.arms
    committed = [arm for arm, _ in inputs.history[explored:]]
    return committed[0] if committed else first_of_the_largest(list(map(mean, inputs.rewards())))


def successive_elimination(policy, inputs):
    """The rounds are played again from the first."""
    remaining, history = list(range(inputs.arms)), inputs.history
    seen, rounds = {arm: [] for arm in remaining}, 0
    while len(history) >= len(remaining):
        for arm, reward in history[: len(remaining)]:
            seen[arm].append(reward)
        history, rounds = history[len(remaining) :], rounds + 1
        highest = max(mean(seen[arm]) for arm in remaining)
        log = math.log(4 * inputs.arms * rounds**2 / policy.delta)
        near = 2 * math.sqrt(log / rounds)
        remaining = [arm for arm in remaining if highest - mean(seen[arm]) < near]
    return remaining[len(history)]


# --- posteriors --------------------------------------------------------------------------------------------------


def thompson_normal_inverse_gamma(policy, inputs):
    if inputs.period <= policy.first_plays * inputs.arms:
        return (inputs.period - 1) % inputs.arms
    draws = []
    for arm, seen in enumerate(inputs.rewards()):
        weight = policy.prior_weight + len(seen)
        centre = (policy.prior_weight * policy.prior_mean + total(seen)) / weight
        squares = total((reward - mean(seen)) ** 2 for reward in seen)
        squares += policy.prior_weight * len(seen) * (mean(seen) - policy.prior_mean) ** 2 / weight
        bits = at(inputs.noise, inputs.period, arm)
        precision = gamma(again(bits, 1), policy.a + len(seen) / 2) / (policy.b + squares / 2)
        draws.append(centre + normal(again(bits, 2)) / math.sqrt(precision * weight))
    return first_of_the_largest(draws)


def thompson_poisson(policy, inputs):
    if inputs.period <= policy.first_plays * inputs.arms:
        return (inputs.period - 1) % inputs.arms
    draws = []
    for arm, seen in enumerate(inputs.rewards()):
        drawn = gamma(at(inputs.noise, inputs.period, arm), policy.a + max(0.0, total(seen)))
        draws.append(drawn / (policy.b + len(seen)))
    return first_of_the_largest(draws)


# --- probabilities -----------------------------------------------------------------------------------------------


def decreasing_epsilon_greedy(policy, inputs):
    epsilon = min(1.0, policy.c * inputs.arms / (policy.d**2 * inputs.period))
    if uniform(at(inputs.noise, inputs.period, 0)) < epsilon:
        return math.floor(uniform(at(inputs.noise, inputs.period, 1)) * inputs.arms)
    return first_of_the_largest([mean(seen) for seen in inputs.rewards()])


def softmax(policy, inputs):
    """Exponential clocks whose rates are the weights: the first to ring."""
    rates = exponentials([mean(seen) / policy.temperature for seen in inputs.rewards()])
    clocks = [exponential(at(inputs.noise, inputs.period, arm)) for arm in range(inputs.arms)]
    return first_of_the_largest(
        [-clock / rate if rate else -math.inf for clock, rate in zip(clocks, rates, strict=True)]
    )


def exponentials(scores):
    """In proportion, with the largest at 1."""
    return [math.exp(score - max(scores)) for score in scores]


def shares(weights):
    return [weight / total(weights) for weight in weights]


def drawn_by(probabilities, inputs):
    """The arm in whose part of [0, 1) the random number is."""
    number, ends = uniform(at(inputs.noise, inputs.period, 0)), list(accumulate(probabilities))
    return next((arm for arm, end in enumerate(ends) if number < end), inputs.arms - 1)


def gradient_bandit(policy, inputs):
    preferences, earned = [0.0] * inputs.arms, []
    for played, reward in inputs.history:
        chances = shares(exponentials(preferences))
        usual = mean(earned or [reward]) if policy.baseline else 0.0
        for arm in range(inputs.arms):
            slope = (arm == played) - chances[arm]
            preferences[arm] += policy.step * (reward - usual) * slope
        earned.append(reward)
    return drawn_by(shares(exponentials(preferences)), inputs)


def exp3(policy, inputs):
    arms, gamma = inputs.arms, policy.gamma
    if gamma is None:
        gamma = min(1.0, math.sqrt(arms * math.log(arms) / ((math.e - 1) * inputs.horizon)))
    weights = [1.0] * arms

    def chances():
        return [(1 - gamma) * share + gamma / arms for share in shares(weights)]

    for played, reward in inputs.history:
        weights[played] *= math.exp(gamma * reward / (chances()[played] * arms))
    return drawn_by(chances(), inputs)


def exp3_ix(policy, inputs):
    eta = policy.eta
    if eta is None:
        eta = math.sqrt(2 * math.log(inputs.arms) / (inputs.arms * inputs.horizon))
    losses = [0.0] * inputs.arms

    def chances():
        return shares(exponentials([-eta * loss for loss in losses]))

    for played, reward in inputs.history:
        losses[played] += (1 - reward) / (chances()[played] + eta / 2)
    return drawn_by(chances(), inputs)


# --- forgetting --------------------------------------------------------------------------------------------------


def sliding_window_ucb(policy, inputs):
    if inputs.period <= inputs.arms:
        return inputs.period - 1
    log = math.log(min(inputs.period - 1, policy.window))
    recent = inputs._replace(history=inputs.history[-policy.window :]).rewards()
    return first_of_the_largest(
        [upper_bound(seen, policy.b**2 * policy.xi * log) for seen in recent]
    )


def discounted(policy, inputs):
    """Discounted pulls and totals of each arm."""
    pulls, totals = [0.0] * inputs.arms, [0.0] * inputs.arms
    for age, (arm, reward) in enumerate(reversed(inputs.history)):
        pulls[arm] += policy.gamma**age
        totals[arm] += policy.gamma**age * reward
    return pulls, totals


def discounted_ucb(policy, inputs):
    if inputs.period <= inputs.arms:
        return inputs.period - 1
    pulls, totals = discounted(policy, inputs)
    log = max(0.0, math.log(sum(pulls)))
    return first_of_the_largest(
        [
            total / count + 2 * policy.b * math.sqrt(policy.xi * log / count)
            for count, total in zip(pulls, totals, strict=True)
        ]
    )


def discounted_thompson(policy, inputs):
    draws = []
    for arm, (count, won) in enumerate(zip(*discounted(policy, inputs), strict=True)):
        bits = at(inputs.noise, inputs.period, arm)
        draws.append(beta_log_odds(bits, policy.a + won, policy.b + count - won))
    return first_of_the_largest(draws)


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
    sl.BayesUCB: bayes_ucb,
    sl.UCBTuned: ucb_tuned,
    sl.UCBV: ucbv,
    sl.ExploreThenCommit: explore_then_commit,
    sl.SuccessiveElimination: successive_elimination,
    sl.ThompsonNormalInverseGamma: thompson_normal_inverse_gamma,
    sl.ThompsonPoisson: thompson_poisson,
    sl.DecreasingEpsilonGreedy: decreasing_epsilon_greedy,
    sl.Softmax: softmax,
    sl.GradientBandit: gradient_bandit,
    sl.EXP3: exp3,
    sl.EXP3IX: exp3_ix,
    sl.SlidingWindowUCB: sliding_window_ucb,
    sl.DiscountedUCB: discounted_ucb,
    sl.DiscountedThompson: discounted_thompson,
}
