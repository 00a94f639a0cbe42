"""`check_means`: whether the means that an environment states are the means of its draws.

Regret is computed from stated means, so wrong means give a verdict with the wrong sign. A difference is refused if it
is beyond an empirical Bernstein bound (Maurer and Pontil, 2009) with a false-alarm probability of 1e-9 in all.

The bound needs rewards in an interval, and rare large rewards may not be among the draws. Where the draws exceed the
stated mean, rewards above a quantile of the first 1,000 draws count as this quantile. That only lowers their mean, so
no assumption about the upper tail is needed. Where the draws fall short of the stated mean, rewards may lie `UNSEEN`
times as far up as all that were drawn. The lower tail is treated likewise.
"""

from __future__ import annotations

import math
import time
from itertools import product

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import compiled
from sameluck.context import States
from sameluck.environments.base import (
    Environment,
    draw,
    law_at,
    prepared_parameters,
)
from sameluck.environments.contextual.base import expected, write_context
from sameluck.environments.moving import Moving
from sameluck.errors import Invalid, shown
from sameluck.randomness.streams import AUDIT, Bits, stream, subkey, word
from sameluck.text_forms import Parameters

FALSE_ALARM = 1e-9  # of all arms together
UNSEEN = 10.0  # how many times as far out as the draws rewards may lie, and at least this far
FIRST_DRAWS = 1_000
QUANTILES = (0.5, 0.9, 0.99, 1.0)  # of the first draws
MAX_DRAWS = 100_000  # of each arm
SECONDS = 0.05
_INSTANCES = 1_000  # of a prior
_CONTEXTS = 4  # drawn
_PATIENCE = 10
_SLOW_DRAW = 1e-3  # seconds


def check_means(
    environment: Environment,
    arms: int,
    horizon: int,
    *,
    draws: int = MAX_DRAWS,
    seconds: float = SECONDS,
    seed: int = 0,
) -> None:
    """Raise `Invalid` if an arm's stated mean differs from the mean of its draws beyond chance.

    The seed has nothing to do with an experiment's: the answer does not depend on it. A slow draw function is called
    less often, and not checked if 2,000 draws of each arm would take ten times as long as `seconds`.
    """
    if environment.context is not None:
        _check_expectations(environment, arms, horizon, draws, seconds, seed)
        return
    rows = range(_INSTANCES if environment.is_prior else 1)
    parameters = prepared_parameters(environment, seed, rows, arms)
    periods = sorted({1, (1 + horizon) // 2, horizon}) if environment.is_moving else [1]
    for period in periods:
        current = law_at(parameters, period)
        if isinstance(environment, Moving):
            means = environment.means_at(period)[None]
        else:
            means = environment.instance_means(seed, rows, arms)
        deviations = _drawn_deviations(current, means, seed, draws, seconds / len(periods))
        for arm in range(arms) if deviations.size else ():
            false_alarm = FALSE_ALARM / (arms * len(periods))
            if _differs(deviations[arm], false_alarm, binary=environment.binary):
                when = f" in period {period:,}" if environment.is_moving else ""
                raise Invalid(_message(environment, arm, when, means[:, arm], deviations[arm]))


def _check_expectations(
    environment: Environment, arms: int, horizon: int, draws: int, seconds: float, seed: int
) -> None:
    """Raise `Invalid` if a stated mean in a drawn context differs from the mean of draws in this context."""
    context = environment.context
    if context is None or isinstance(context, States):  # a state depends on the policy
        return
    shape = context.shape(arms)
    user = np.zeros(math.prod(shape) + environment.hidden)
    user = user if environment.hidden else user.reshape(shape)
    rows = range(_CONTEXTS if environment.is_prior else 1)
    parameters = prepared_parameters(environment, seed, rows, arms)
    periods = sorted({1, (1 + horizon) // 2, horizon}) if environment.is_moving else [1]
    pairs = list(product(periods, range(_CONTEXTS), range(arms)))
    size = max(2 * FIRST_DRAWS, draws // (_CONTEXTS * len(periods)))
    _draw_in_context(parameters, 0, 0, np.uint64(seed), user, 0, np.empty(1))  # compiles
    end = time.thread_time() + _PATIENCE * seconds
    # Contexts before arms, so that a slow function is checked for each arm first.
    for period, number, arm in sorted(pairs, key=lambda pair: pair[1]):
        if time.thread_time() > end and number > 0:
            return
        current, rewards = law_at(parameters, period), np.empty(size)
        row = number % len(rows)
        stated = _draw_in_context(current, row, number, np.uint64(seed), user, arm, rewards)
        if math.isnan(stated):  # it states no means
            return
        if _differs(rewards - stated, FALSE_ALARM / len(pairs), binary=environment.binary):
            numbers = shown(user.ravel()[: math.prod(shape)].tolist())
            when = f" in period {period:,}" if environment.is_moving else ""
            raise Invalid(
                f"environment {type(environment).__name__} states the mean {stated:.6g} for arm {arm} in the context "
                f"{numbers}{when}, and {size:,} draws have the mean {rewards.mean():.6g}; let the function of "
                "sameluck.expects return the mean of what the draw function returns, or correct one of them"
            )


@compiled
def _draw_in_context(
    parameters: Parameters,
    row: int,
    number: int,
    seed: Bits,
    user: Floats,
    arm: int,
    rewards: Floats,
) -> float:
    """Draw a user and the user's rewards of an arm; return the arm's stated mean."""
    write_context(parameters, row, number + 1, stream(seed, AUDIT, 2, 0), user)
    key = subkey(stream(seed, AUDIT, 1, number), arm)
    for index in range(rewards.size):
        bits = word(key, np.uint64(index))
        rewards[index] = draw(parameters, row, user, arm, bits)
    return float(expected(parameters, row, user, arm))


def _drawn_deviations(
    parameters: Parameters, means: Floats, seed: int, draws: int, seconds: float
) -> Floats:
    """Return draws minus stated means (arm, draw), of a prior their means over each instance (arm, instance)."""
    rows, arms = means.shape
    per_draw = max(_seconds_per_draw(parameters, rows, seed), 1e-9)
    affordable = _PATIENCE * seconds / (per_draw * arms)  # of a function that waits
    if affordable < 2 * FIRST_DRAWS:
        return np.empty((arms, 0))
    # Processor time, because a busy machine should not check less.
    end, blocks, drawn = time.thread_time() + seconds, [], 0
    while drawn < min(draws, affordable) and (drawn < 2 * FIRST_DRAWS or time.thread_time() < end):
        block = np.empty((arms, max(FIRST_DRAWS, min(drawn, draws - drawn))))
        for arm in range(arms):
            _draw_block(parameters, rows, np.uint64(seed), arm, drawn, block[arm])
        blocks.append(block - means.T[:, np.arange(drawn, drawn + block.shape[1]) % rows])
        drawn += block.shape[1]
    deviations = np.concatenate(blocks, axis=1)
    return deviations if rows == 1 else deviations.reshape(arms, -1, rows).mean(axis=1)


def _seconds_per_draw(parameters: Parameters, rows: int, seed: int) -> float:
    _draw_block(parameters, rows, np.uint64(seed), 0, 0, np.empty(1))  # compiles
    seconds = 0.0
    # A call may take longer than a few draws, so a quick trial is repeated with more of them.
    for trial in (np.empty(5), np.empty(500)):
        times = []
        for _ in range(3):  # some may be interrupted
            started = time.perf_counter()
            _draw_block(parameters, rows, np.uint64(seed), 0, 0, trial)
            times.append(time.perf_counter() - started)
        seconds = min(times) / trial.size
        if seconds > _SLOW_DRAW:
            break
    return seconds


@compiled
def _draw_block(
    parameters: Parameters, rows: int, seed: Bits, arm: int, start: int, rewards: Floats
) -> None:
    key = subkey(stream(seed, AUDIT, 1, 0), arm)
    for index in range(rewards.size):
        position = start + index
        rewards[index] = draw(
            parameters, position % rows, None, arm, word(key, np.uint64(position))
        )


def _differs(deviations: Floats, false_alarm: float, *, binary: bool) -> bool:
    """Return whether the mean of the deviations differs from 0, by a bound for each side and quantile."""
    first, later = np.split(deviations, [min(FIRST_DRAWS, deviations.size // 2)])
    log = math.log(2 * 2 * len(QUANTILES) / false_alarm)
    for sign in (1.0, -1.0):
        for limit in np.quantile(sign * first, QUANTILES):
            values = np.minimum(sign * later, limit)
            width = 1.0 if binary else UNSEEN * max(1.0, float(np.ptp(values)))
            chance = math.sqrt(2 * values.var(ddof=1) * log / values.size)
            if values.mean() > chance + 7 * width * log / (3 * (values.size - 1)):
                return True
    return False


def _message(
    environment: Environment, arm: int, when: str, means: Floats, deviations: Floats
) -> str:
    stated = float(means.mean())
    return (
        f"environment {type(environment).__name__} states the mean {stated:.6g} for arm {arm}{when}, and "
        f"{deviations.size:,} draws have the mean {stated + deviations.mean():.6g}; state the mean of what the draw "
        "function returns (of a lognormal distribution exp(mu + sigma^2 / 2)), or correct the function. If rewards "
        "that are too rare to be drawn make the difference, simulate with check=False"
    )
