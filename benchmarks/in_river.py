"""The paper's examples with river's policies in a plain loop, rewards from the standard library.

river's rules are not ours to the letter (its Gaussian Thompson samples rewards, not means): this measures speed.
"""

from __future__ import annotations

import math
import random

try:
    from river import bandit, proba, stats
except ImportError:
    bandit = None

INSTALL = "river is not installed: pip install river==0.26.1"


def ucb1(alpha):
    return bandit.UCB(delta=math.sqrt(alpha / 2), reward_obj=stats.Mean(), burn_in=1, seed=1)


def thompson_bernoulli():
    return bandit.ThompsonSampling(reward_obj=proba.Beta(), burn_in=1, seed=1)


def thompson_gaussian():
    return bandit.ThompsonSampling(reward_obj=proba.Gaussian(), burn_in=1, seed=1)


def epsilon_greedy(epsilon):
    return bandit.EpsilonGreedy(epsilon=epsilon, reward_obj=stats.Mean(), burn_in=1, seed=1)


def play(policy, draw, arms, horizon):
    names = list(range(arms))
    rng = random.Random(1)
    earned = 0.0
    for _ in range(horizon):
        arm = policy.pull(names)
        reward = draw(rng, arm)
        policy.update(arm, reward)
        earned += reward
    return earned


def bernoulli(chances):
    return lambda rng, arm: int(rng.random() < chances[arm])


def gaussian(means):
    return lambda rng, arm: rng.gauss(means[arm], 1.0)
