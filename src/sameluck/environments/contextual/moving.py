"""Compiled parameters of environments with contexts that drift or switch (`sameluck.environments.moving`).

The user of a period comes from an environment of the period, and so does the reward given the user's context. Where
environments drift, each is drawn from the later environment with the same probability. Linear rewards stay normal,
and their weights and standard deviations move linearly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import inlined
from sameluck.environments.base import (
    CONTEXT_CHECKS,
    Environment,
    are_finite_and_within,
    draws,
    law_at,
    moves,
    prepared_parameters,
)
from sameluck.environments.checks import per_arm
from sameluck.environments.contextual.base import (
    contexts,
    draw_in_context,
    expected,
    expects,
    write_context,
)
from sameluck.environments.contextual.linear import (
    Linear,
    _ArmWeights,
    _SharedWeights,
    compiled_weights,
    weighted_sum,
)
from sameluck.randomness.samplers import normal, uniform
from sameluck.randomness.streams import Bits, Key, again, at, within
from sameluck.text_forms import Parameters


class SelectedWithContexts(NamedTuple):
    """Linked list of several environments' parameters, which may have different types, and the selected index."""

    first: Parameters
    remaining: Parameters
    selected: int  # 0 for the first


class DriftingWithContexts(NamedTuple):
    """Parameters of the phases that users and rewards drift through, and the time."""

    selection: Parameters
    last: int  # index of the last phase
    over: float
    time: int


class DriftingLinear(NamedTuple):
    """Weights and standard deviations of drifting linear rewards, a row per phase, and the time."""

    weights: _ArmWeights | _SharedWeights
    sd: Floats  # (phase, arm)
    over: float
    time: int


class SwitchingWithContexts(NamedTuple):
    """Parameters of the phases that users and rewards switch between, and the time."""

    selection: Parameters
    phases: int
    every: int
    repeat: bool
    time: int


def compiled_drifting(
    phases: Sequence[Environment], over: float, seed: int, replications: range, arms: int
) -> DriftingLinear | DriftingWithContexts:
    """Return the parameters of phases with contexts that drift."""
    if all(isinstance(phase, Linear) for phase in phases):
        weights = compiled_weights(np.array([phase.weights for phase in phases]))  # type: ignore[attr-defined]
        sds = np.array([per_arm(phase.sd, arms) for phase in phases])  # type: ignore[attr-defined]
        return DriftingLinear(weights, sds, over, 1)
    selection = _selection(phases, seed, replications, arms)
    return DriftingWithContexts(selection, len(phases) - 1, over, 1)


def compiled_switching(
    phases: Sequence[Environment],
    every: int,
    repeat: bool,  # noqa: FBT001
    seed: int,
    replications: range,
    arms: int,
) -> SwitchingWithContexts:
    """Return the parameters of phases with contexts that switch."""
    selection = _selection(phases, seed, replications, arms)
    return SwitchingWithContexts(selection, len(phases), every, repeat, 1)


def _selection(
    phases: Sequence[Environment], seed: int, replications: range, arms: int
) -> Parameters:
    # A linked list, because Numba cannot index a tuple of different types by a variable.
    *before, selection = (prepared_parameters(phase, seed, replications, arms) for phase in phases)
    for parameters in reversed(before):
        selection = SelectedWithContexts(parameters, selection, 0)
    return selection


@moves(SelectedWithContexts)
def _select_index(parameters: SelectedWithContexts, period: int) -> SelectedWithContexts:
    return SelectedWithContexts(parameters.first, parameters.remaining, period)


@moves(DriftingWithContexts)
def _drifting_at(parameters: DriftingWithContexts, period: int) -> DriftingWithContexts:
    return DriftingWithContexts(parameters.selection, parameters.last, parameters.over, period)


@moves(DriftingLinear)
def _drifting_linear_at(parameters: DriftingLinear, period: int) -> DriftingLinear:
    return DriftingLinear(parameters.weights, parameters.sd, parameters.over, period)


@moves(SwitchingWithContexts)
def _switching_at(parameters: SwitchingWithContexts, period: int) -> SwitchingWithContexts:
    return SwitchingWithContexts(
        parameters.selection, parameters.phases, parameters.every, parameters.repeat, period
    )


@contexts(SelectedWithContexts)
def _write_selected(
    parameters: SelectedWithContexts, row: int, period: int, noise: Key, context: Floats
) -> None:
    if parameters.selected == 0:
        write_context(parameters.first, row, period, noise, context)
    else:
        following = law_at(parameters.remaining, parameters.selected - 1)
        write_context(following, row, period, noise, context)


@draws(SelectedWithContexts)
def _draw_selected(
    parameters: SelectedWithContexts, row: int, context: Floats, arm: int, bits: Bits
) -> float:
    if parameters.selected == 0:
        return draw_in_context(parameters.first, row, context, arm, bits)
    following = law_at(parameters.remaining, parameters.selected - 1)
    return draw_in_context(following, row, context, arm, bits)


@expects(SelectedWithContexts)
def _expect_selected(
    parameters: SelectedWithContexts, row: int, context: Floats, arm: int
) -> float:
    if parameters.selected == 0:
        return expected(parameters.first, row, context, arm)
    following = law_at(parameters.remaining, parameters.selected - 1)
    return expected(following, row, context, arm)


@contexts(SwitchingWithContexts)
def _write_switching(
    parameters: SwitchingWithContexts, row: int, period: int, noise: Key, context: Floats
) -> None:
    current = law_at(parameters.selection, _phase(parameters))
    write_context(current, row, period, noise, context)


@draws(SwitchingWithContexts)
def _draw_switching(
    parameters: SwitchingWithContexts, row: int, context: Floats, arm: int, bits: Bits
) -> float:
    current = law_at(parameters.selection, _phase(parameters))
    return draw_in_context(current, row, context, arm, bits)


@expects(SwitchingWithContexts)
def _expect_switching(
    parameters: SwitchingWithContexts, row: int, context: Floats, arm: int
) -> float:
    return expected(law_at(parameters.selection, _phase(parameters)), row, context, arm)


@inlined
def _phase(parameters: SwitchingWithContexts) -> int:
    turn = (parameters.time - 1) // parameters.every
    return turn % parameters.phases if parameters.repeat else min(turn, parameters.phases - 1)


@contexts(DriftingWithContexts)
def _write_drifting(
    parameters: DriftingWithContexts, row: int, period: int, noise: Key, context: Floats
) -> None:
    progress = min((parameters.time - 1) / parameters.over, 1.0) * parameters.last
    phase = int(progress)
    if uniform(at(within(noise, 0), period, 0)) < progress - phase:
        phase += 1
    current = law_at(parameters.selection, phase)
    write_context(current, row, period, noise, context)


@draws(DriftingWithContexts)
def _draw_drifting(
    parameters: DriftingWithContexts, row: int, context: Floats, arm: int, bits: Bits
) -> float:
    progress = min((parameters.time - 1) / parameters.over, 1.0) * parameters.last
    phase = int(progress)
    if uniform(bits) < progress - phase:
        phase += 1
    current = law_at(parameters.selection, phase)
    return draw_in_context(current, row, context, arm, again(bits, 1))


@expects(DriftingWithContexts)
def _expect_drifting(
    parameters: DriftingWithContexts, row: int, context: Floats, arm: int
) -> float:
    progress = min((parameters.time - 1) / parameters.over, 1.0) * parameters.last
    phase = min(int(progress), parameters.last - 1)
    share = progress - phase
    earlier = expected(law_at(parameters.selection, phase), row, context, arm)
    later = expected(law_at(parameters.selection, phase + 1), row, context, arm)
    return earlier + share * (later - earlier)


@contexts(DriftingLinear)
def _write_linear(
    parameters: DriftingLinear, row: int, period: int, noise: Key, context: Floats
) -> None:
    write_context(parameters.weights, row, period, noise, context)


@expects(DriftingLinear)
def _expect_linear(parameters: DriftingLinear, row: int, context: Floats, arm: int) -> float:
    last = parameters.sd.shape[0] - 1
    progress = min((parameters.time - 1) / parameters.over, 1.0) * last
    phase = min(int(progress), last - 1)
    earlier = weighted_sum(parameters.weights, phase, context, arm)
    later = weighted_sum(parameters.weights, phase + 1, context, arm)
    return earlier + (progress - phase) * (later - earlier)


@draws(DriftingLinear)
def _draw_linear(
    parameters: DriftingLinear, row: int, context: Floats, arm: int, bits: Bits
) -> float:
    last = parameters.sd.shape[0] - 1
    progress = min((parameters.time - 1) / parameters.over, 1.0) * last
    phase = min(int(progress), last - 1)
    earlier, later = parameters.sd[phase, arm], parameters.sd[phase + 1, arm]
    sd = earlier + (progress - phase) * (later - earlier)
    return expected(parameters, row, context, arm) + sd * normal(bits)


for _class in (DriftingWithContexts, SwitchingWithContexts):
    CONTEXT_CHECKS[_class] = are_finite_and_within  # a phase may be a user's
