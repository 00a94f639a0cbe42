"""Ridge regressions in a policy's memory, one per arm or one for all arms, updated with every reward.

A regression is the estimate theta and P, the inverse of ridge * I + the sum of x x' over its rewards. A reward
changes P by a matrix of rank one (Sherman and Morrison, 1950), so that nothing is inverted. The rounding errors of P
shrink with P.

P is symmetric. Columns are taken eight at a time (`Lanes`), and a panel of eight columns has the rows from its first
column on. The blocks below the diagonal are stored twice as large: then a panel is summed in one loop over its rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import inlined
from sameluck.compilation.lanes import (
    WIDTH,
    Lanes,
    lane_sum,
    lane_sums,
    load_lanes,
    load_padded,
    spread,
    store_lanes,
)
from sameluck.context import Context, Features
from sameluck.policies.base import Tally


class Regressions(NamedTuple):
    """Sizes of a policy's regressions, and the offsets of their numbers in the memory, all multiples of `WIDTH`."""

    ridge: float
    features: int
    rows: int  # features, rounded up to an even number
    width: int  # features, rounded up to whole lanes
    contexts: int  # 1, or one per arm
    models: int  # 1, or one per arm
    means: int  # by arm: estimate of the reward
    variances: int  # by arm: x'Px
    context: int  # padded with zeros, by arm if arms have features of their own
    gain: int  # Px
    kept_gains: int  # by arm, if there is one panel: Px, from the predictions
    partial_sums: int  # of the rows of Px, if there are several panels
    first: int  # theta, then the panels of P
    stride: int  # from one regression to the next
    size: int  # of the memory


def regressions(arms: int, context: Context | None, ridge: float, *, shared: bool) -> Regressions:
    features, per_arm = features_of(context)
    rows, width = features + features % 2, in_lanes(features)
    contexts, models = arms if per_arm else 1, 1 if shared else arms
    panels = WIDTH * sum(rows - column for column in range(0, features, WIDTH))
    is_one_panel = width == WIDTH
    variances = in_lanes(arms)
    padded = 2 * variances
    gain = padded + contexts * width
    kept_gains = gain + width
    partial_sums = kept_gains + (WIDTH * arms if is_one_panel else 0)
    first = partial_sums + (0 if is_one_panel else WIDTH * width)
    return Regressions(
        ridge=ridge,
        features=features,
        rows=rows,
        width=width,
        contexts=contexts,
        models=models,
        means=0,
        variances=variances,
        context=padded,
        gain=gain,
        kept_gains=kept_gains,
        partial_sums=partial_sums,
        first=first,
        stride=width + panels,
        size=first + models * (width + panels),
    )


def features_of(context: Context | None) -> tuple[int, bool]:
    """Return how many features there are, and whether by arm; 1 where only the class of a rule matters."""
    return (context.number, context.per_arm) if isinstance(context, Features) else (1, False)


def in_lanes(size: int) -> int:
    """Return a size rounded up to whole lanes."""
    return -(-size // WIDTH) * WIDTH


@inlined
def _theta(model: Regressions, arm: int) -> int:
    """Return the offset of the estimate of an arm's regression."""
    return model.first + (arm if model.models > 1 else 0) * model.stride


@inlined
def _context(model: Regressions, arm: int) -> int:
    """Return the offset of an arm's padded context."""
    return model.context + (arm if model.contexts > 1 else 0) * model.width


@inlined
def begin(model: Regressions, tally: Tally) -> None:
    """Make the regressions those without a reward: theta = 0, P = I / ridge."""
    memory = tally.memory
    for index in range(model.models):
        panel = _theta(model, index) + model.width
        for column in range(0, model.features, WIDTH):
            for lane in range(min(WIDTH, model.features - column)):
                memory[panel + (WIDTH + 1) * lane] = 1.0 / model.ridge
            panel += WIDTH * (model.rows - column)


@inlined
def take_context(model: Regressions, tally: Tally) -> None:
    """Copy the context into the memory, padded with zeros to whole lanes."""
    for index in range(model.contexts):
        first = index * model.features
        for column in range(0, model.features, WIDTH):
            lanes = load_padded(tally.context, first + column, first + model.features)
            store_lanes(tally.memory, model.context + index * model.width + column, lanes)


@inlined
def mean(model: Regressions, tally: Tally, arm: int) -> float:
    """Return the estimate of an arm's reward in the context taken."""
    memory, x, theta = tally.memory, _context(model, arm), _theta(model, arm)
    sums = spread(0.0)
    for column in range(0, model.features, WIDTH):
        sums = sums + load_lanes(memory, x + column) * load_lanes(memory, theta + column)
    return lane_sum(sums)


@inlined
def predict(model: Regressions, tally: Tally, arm: int) -> tuple[float, float]:
    """Return the estimate of an arm's reward in the context taken, and its standard deviation for noise 1.

    `learn` needs the prediction of the arm played.
    """
    memory, x, theta = tally.memory, _context(model, arm), _theta(model, arm)
    row = theta + model.width
    means, variances = spread(0.0), spread(0.0)
    if model.width == WIDTH:  # without a loop over panels
        product = _product(memory, row, x, x + model.rows)
        store_lanes(memory, model.kept_gains + WIDTH * arm, product)
        variances = variances + load_lanes(memory, x) * product
        means = means + load_lanes(memory, x) * load_lanes(memory, theta)
    else:
        for column in range(0, model.features, WIDTH):
            product = _product(memory, row, x + column, x + model.rows)
            row += WIDTH * (model.rows - column)
            lanes = load_lanes(memory, x + column)
            variances = variances + lanes * product
            means = means + lanes * load_lanes(memory, theta + column)
    estimate = lane_sum(means)
    variance = max(lane_sum(variances), 0.0)  # rounding may make it negative
    memory[model.means + arm] = estimate
    memory[model.variances + arm] = variance
    return estimate, math.sqrt(variance)


@inlined
def _product(memory: Floats, row: int, start: int, end: int) -> Lanes:
    """Return the sum of a panel's rows times the numbers between two offsets, an even number of them."""
    product = spread(0.0)
    # Two rows at a time, because each sum waits for the one before. Unsigned indices need no check for negative ones.
    for index in range(start, end, 2):
        first = memory[np.uint64(index)] * load_lanes(memory, row)
        second = memory[np.uint64(index + 1)] * load_lanes(memory, row + WIDTH)
        product = product + (first + second)
        row += 2 * WIDTH
    return product


@inlined
def learn(model: Regressions, tally: Tally, step: float, weight: float) -> None:
    """Add a reward of the arm last played, which `predict` was called for, with the context taken then.

    theta moves by `step` times Px; the sum of x x' grows by `weight` times x x'.
    """
    memory, x, theta = tally.memory, _context(model, tally.last_arm), _theta(model, tally.last_arm)
    variance = memory[model.variances + tally.last_arm]
    # P shrinks by v v'. Multiplication commutes, so that the blocks on the diagonal stay symmetric to the bit.
    shrink = math.sqrt(weight / (1.0 + weight * variance))
    gain = model.gain
    if model.width == WIDTH:
        product = load_lanes(memory, model.kept_gains + WIDTH * tally.last_arm)
        store_lanes(memory, theta, load_lanes(memory, theta) + step * product)
        store_lanes(memory, gain, shrink * product)
    else:
        row = theta + model.width
        for column in range(0, model.features, WIDTH):
            lanes = load_lanes(memory, x + column)
            end = min(column + WIDTH, model.rows)
            product, doubled = spread(0.0), spread(0.0)
            for index in range(column, end):
                product = product + memory[np.uint64(x + index)] * load_lanes(memory, row)
                row += WIDTH
            if column > 0:
                doubled = lane_sums(memory, model.partial_sums + WIDTH * column)
            for index in range(end, model.rows):
                numbers = load_lanes(memory, row)
                row += WIDTH
                doubled = doubled + memory[np.uint64(x + index)] * numbers
                # The row is also a column above the diagonal, whose sum goes across lanes.
                sums = model.partial_sums + WIDTH * index
                before = load_lanes(memory, sums) if column > 0 else spread(0.0)
                store_lanes(memory, sums, before + lanes * numbers)
            product = product + 0.5 * doubled
            store_lanes(memory, theta + column, load_lanes(memory, theta + column) + step * product)
            store_lanes(memory, gain + column, shrink * product)
    row = theta + model.width
    for column in range(0, model.features, WIDTH):
        lanes = load_lanes(memory, gain + column)
        end = min(column + WIDTH, model.rows)
        row = _shrink_rows(memory, row, gain + column, gain + end, lanes)
        row = _shrink_rows(memory, row, gain + end, gain + model.rows, lanes + lanes)


@inlined
def _shrink_rows(memory: Floats, row: int, start: int, end: int, lanes: Lanes) -> int:
    """Subtract the lanes times the numbers between two offsets from a panel's rows; return where the rows end."""
    for index in range(start, end, 2):
        store_lanes(memory, row, load_lanes(memory, row) - memory[np.uint64(index)] * lanes)
        row += WIDTH
        store_lanes(memory, row, load_lanes(memory, row) - memory[np.uint64(index + 1)] * lanes)
        row += WIDTH
    return row
