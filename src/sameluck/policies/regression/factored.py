"""Ridge regression with a factored P = U D U', for weights drawn from the normal distribution with covariance P.

U is upper triangular with ones on its diagonal, D is diagonal. A reward updates both by Bierman's recursion over the
columns of U ("Factorization methods for discrete sequential estimation", 1977), which keeps P positive definite.
Draws with covariance P are U sqrt(D) z for standard normal z.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from sameluck.compilation.decorators import inlined
from sameluck.compilation.lanes import (
    WIDTH,
    lane_sum,
    load_lanes,
    load_padded,
    spread,
    store_lanes,
)
from sameluck.context import Context
from sameluck.policies.base import Tally
from sameluck.policies.regression.ridge import features_of, in_lanes
from sameluck.randomness.samplers import normal
from sameluck.randomness.streams import Key, at


class FactoredRegression(NamedTuple):
    """Offsets of the numbers of a regression with features by arm in the memory, all multiples of `WIDTH`."""

    ridge: float
    features: int
    width: int  # features, rounded up to whole lanes
    diagonal: int  # D
    theta: int
    weights: int  # drawn
    gain: int  # Px
    contexts: int  # by arm, padded with zeros
    factor: int  # U, by column
    size: int  # of the memory


def factored_regression(arms: int, context: Context | None, ridge: float) -> FactoredRegression:
    features, _ = features_of(context)
    width = in_lanes(features)
    factor = (4 + arms) * width
    return FactoredRegression(
        ridge=ridge,
        features=features,
        width=width,
        diagonal=0,
        theta=width,
        weights=2 * width,
        gain=3 * width,
        contexts=4 * width,
        factor=factor,
        size=factor + features * width,
    )


@inlined
def begin(model: FactoredRegression, tally: Tally) -> None:
    """Make the regression that without a reward: theta = 0, P = I / ridge."""
    for index in range(model.features):
        tally.memory[model.diagonal + index] = 1.0 / model.ridge
        tally.memory[model.factor + index * (model.width + 1)] = 1.0


@inlined
def take_contexts(model: FactoredRegression, tally: Tally) -> None:
    """Copy the contexts into the memory, padded with zeros to whole lanes."""
    for arm in range(tally.pulls.size):
        first = arm * model.features
        for row in range(0, model.features, WIDTH):
            lanes = load_padded(tally.context, first + row, first + model.features)
            store_lanes(tally.memory, model.contexts + arm * model.width + row, lanes)


@inlined
def learn(model: FactoredRegression, tally: Tally) -> None:
    """Add the last reward, with the context that was taken for its arm."""
    memory, x = tally.memory, model.contexts + tally.last_arm * model.width
    for row in range(0, model.features, WIDTH):
        store_lanes(memory, model.gain + row, spread(0.0))
    variance = 1.0  # of the reward, from the noise and the columns so far
    for index in range(model.features):
        column, diagonal = model.factor + index * model.width, model.diagonal + index
        sums = spread(0.0)
        for row in range(0, index + 1, WIDTH):
            sums = sums + load_lanes(memory, x + row) * load_lanes(memory, column + row)
        share = lane_sum(sums)  # of U'x
        spread_share = memory[diagonal] * share
        before = variance
        variance += share * spread_share
        memory[diagonal] *= before / variance
        slope = -share / before
        # Below the column's diagonal both are 0; on it, the column is 1 and the gain 0.
        for row in range(0, index + 1, WIDTH):
            numbers, gain = load_lanes(memory, column + row), load_lanes(memory, model.gain + row)
            store_lanes(memory, column + row, numbers + slope * gain)
            store_lanes(memory, model.gain + row, gain + spread_share * numbers)
    error = tally.last_reward - _product(model, tally, model.theta, tally.last_arm)
    for row in range(0, model.features, WIDTH):
        moved = load_lanes(memory, model.theta + row) + error / variance * load_lanes(
            memory, model.gain + row
        )
        store_lanes(memory, model.theta + row, moved)


@inlined
def draw_weights(
    model: FactoredRegression, tally: Tally, v: float, period: int, noise: Key
) -> None:
    """Draw weights from the normal distribution with mean theta and covariance v^2 P."""
    memory = tally.memory
    for row in range(0, model.features, WIDTH):
        store_lanes(memory, model.weights + row, load_lanes(memory, model.theta + row))
    for index in range(model.features):
        column = model.factor + index * model.width
        sd = v * math.sqrt(memory[model.diagonal + index])
        factor = sd * normal(at(noise, period, index))
        for row in range(0, index + 1, WIDTH):
            drawn = load_lanes(memory, model.weights + row) + factor * load_lanes(
                memory, column + row
            )
            store_lanes(memory, model.weights + row, drawn)


@inlined
def product(model: FactoredRegression, tally: Tally, arm: int) -> float:
    """Return the product of an arm's context and the weights drawn."""
    return _product(model, tally, model.weights, arm)


@inlined
def _product(model: FactoredRegression, tally: Tally, weights: int, arm: int) -> float:
    sums, x = spread(0.0), model.contexts + arm * model.width
    for row in range(0, model.features, WIDTH):
        sums = sums + load_lanes(tally.memory, x + row) * load_lanes(tally.memory, weights + row)
    return lane_sum(sums)
