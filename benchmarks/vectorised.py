"""The paper's examples in NumPy, all replications side by side: what one writes without a compiler.

One row per replication, since `argmax` is fastest along rows; only the pulled arm's numbers are touched; tables for
roots and logarithms; nothing is allocated that can be reused.
"""

from __future__ import annotations

import math

import numpy as np


class Table:
    """Totals and pulls of every replication, and which cell of the flat table each one pulls."""

    def __init__(self, replications, arms):
        self.pulls = np.zeros((replications, arms), np.int64)
        self.totals = np.zeros((replications, arms))
        self.first = np.arange(replications) * arms

    def note(self, arm, reward):
        """Count one pull in each replication; returns the cells and their new pulls and totals."""
        cells = self.first + arm
        pulls = self.pulls.ravel()[cells] + 1
        totals = self.totals.ravel()[cells] + reward
        self.pulls.ravel()[cells] = pulls
        self.totals.ravel()[cells] = totals
        return cells, pulls, totals


def bernoulli(chances):
    chances = np.array(chances)
    return lambda rng, arm: rng.random(arm.size) < chances[arm]


def gaussian(means):
    means = np.array(means)
    return lambda rng, arm: means[arm] + rng.standard_normal(arm.size)


def ucb1(rng, draw, arms, replications, horizon, alpha):
    table = Table(replications, arms)
    means, widths = np.zeros((replications, arms)), np.zeros((replications, arms))
    width = np.sqrt(alpha / np.maximum(np.arange(horizon + 1), 1))
    bound = np.empty_like(means)
    for played in range(horizon):
        if played < arms:
            arm = np.full(replications, played)
        else:
            np.multiply(widths, math.sqrt(math.log(played)), out=bound)
            arm = np.add(bound, means, out=bound).argmax(axis=1)
        cells, pulls, totals = table.note(arm, draw(rng, arm))
        means.ravel()[cells] = totals / pulls
        widths.ravel()[cells] = width[pulls]
    return table


def thompson_bernoulli(rng, draw, arms, replications, horizon):
    table = Table(replications, arms)
    wins, losses = np.ones((replications, arms)), np.ones((replications, arms))
    for played in range(horizon):
        first = played < arms
        arm = np.full(replications, played) if first else rng.beta(wins, losses).argmax(axis=1)
        cells, pulls, totals = table.note(arm, draw(rng, arm))
        wins.ravel()[cells] = 1.0 + totals
        losses.ravel()[cells] = 1.0 + pulls - totals
    return table


def thompson_gaussian(rng, draw, arms, replications, horizon):
    table = Table(replications, arms)
    means, sds = np.zeros((replications, arms)), np.ones((replications, arms))
    drawn = np.empty_like(means)
    for played in range(horizon):
        if played < arms:
            arm = np.full(replications, played)
        else:
            rng.standard_normal(out=drawn)
            np.multiply(drawn, sds, out=drawn)
            arm = np.add(drawn, means, out=drawn).argmax(axis=1)
        cells, pulls, totals = table.note(arm, draw(rng, arm))
        means.ravel()[cells] = totals / (1.0 + pulls)
        sds.ravel()[cells] = 1.0 / np.sqrt(1.0 + pulls)
    return table


def epsilon_greedy(rng, draw, arms, replications, horizon, epsilon):
    table = Table(replications, arms)
    means = np.zeros((replications, arms))
    for played in range(horizon):
        if played < arms:
            arm = np.full(replications, played)
        else:
            arm = means.argmax(axis=1)
            exploring = np.flatnonzero(rng.random(replications) < epsilon)
            arm[exploring] = rng.integers(arms, size=exploring.size)
        cells, pulls, totals = table.note(arm, draw(rng, arm))
        means.ravel()[cells] = totals / pulls
    return table
