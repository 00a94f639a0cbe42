"""`Drifting` and `Switching`: non-stationary rewards, as live traffic may have them.

Time is counted from 1: in a simulation it is the period of a replication, in a rehearsal the number of enrolled users
so far. A reward has the distribution of the time at which it is drawn. In a simulation a policy reads each address
once, in a period that is a function of its past, so its distribution is the same as in a solo run. Policies that
share the k-th reward of an arm read it at different times, so the design `replay` is not defined for these
environments. Users with features are cells of their own, so there it is.

With contexts the users move as the rewards do: the user of a period comes from an environment of the period, and so
does the reward given the user's context.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats, Ints
from sameluck.compilation.decorators import inlined
from sameluck.context import Context, States
from sameluck.environments.base import (
    CONTEXT_CHECKS,
    Environment,
    are_finite_and_within,
    check_environments,
    draw,
    draws,
    is_stationary,
    law_at,
    moves,
    prepared_parameters,
)
from sameluck.environments.checks import per_arm
from sameluck.environments.contextual.base import contexts, expected, expects, write_context
from sameluck.environments.contextual.linear import (
    Linear,
    compiled_weights,
    weighted_sum,
)
from sameluck.environments.normal import Gaussian
from sameluck.errors import Invalid, shown
from sameluck.randomness.samplers import normal, uniform
from sameluck.randomness.streams import Bits, Key, again, at, within
from sameluck.validation import require_flag, require_whole

_MAX_PERIODS = 1 << 40


class Moving(Environment):
    """Base class of environments that move between others, the phases."""

    __slots__ = ()
    is_moving = True

    if TYPE_CHECKING:
        environments: Sequence[text_forms.Parameters]

    def __init__(self, *_values: object, **_named: object) -> None:
        self.check(self._checked_arms())

    @property
    def moves_between(self) -> tuple[Environment, ...]:
        return cast(tuple[Environment, ...], tuple(self.environments))  # checked by `_checked_arms`

    @property
    def arms(self) -> int | None:
        return self.moves_between[0].arms

    @property
    def context(self) -> Context | None:
        return self.moves_between[0].context

    @property
    def hidden(self) -> int:
        """Numbers of a user that policies do not see."""
        return self.moves_between[0].hidden

    @property
    def binary(self) -> bool:
        """Whether all phases pay 0 and 1 only."""
        return all(phase.binary for phase in self.moves_between)

    @property
    def means(self) -> tuple[float, ...]:
        """Mean reward of each arm in the first period; `means_at` returns the means in other periods."""
        return tuple(float(mean) for mean in self.moves_between[0].means)

    def means_at(self, times: int | Sequence[int] | Ints | range) -> Floats:
        """Return the mean reward of each arm in a period (arm,), or in several periods (period, arm)."""
        periods = np.asarray(times)
        if periods.dtype.kind not in "iu" or (periods.size and periods.min() < 1):
            raise Invalid(f"means_at: periods are whole numbers from 1 on, got {shown(times)}")
        return self._shares(periods) @ np.array(
            [phase.means for phase in self.moves_between], float
        )

    def instance_means(self, seed: int, replications: range, arms: int) -> Floats:
        """Raise `Invalid`: an arm has no mean that holds in all periods."""
        raise Invalid(
            f"{type(self).__name__}: the means move with the period; call means_at(period)"
        )

    def _shares(self, times: Ints) -> Floats:
        """Return the probability that a reward comes from each phase (period, phase)."""
        raise NotImplementedError

    def _checked_arms(self) -> int:
        name = f"{type(self).__name__}.environments"
        rule = "an environment with a fixed number of arms, not a prior and not drifting or switching itself"
        check_environments(name, self.environments, 2, is_stationary, rule)
        counts = [phase.arms or 0 for phase in self.moves_between]
        for index, count in enumerate(counts):
            if count != counts[0]:
                raise Invalid(
                    f"{name}[{index}] has {count} arms, and the first has {counts[0]}; give all the same arms"
                )
        self._check_contexts(name)
        return counts[0]

    def _check_contexts(self, name: str) -> None:
        first = self.moves_between[0]
        for index, phase in enumerate(self.moves_between):
            if isinstance(phase.context, States):
                raise Invalid(f"{name}[{index}] has states, whose transitions do not move")
            same = phase.context == first.context and type(phase.context) is type(first.context)
            if not same or phase.hidden != first.hidden:
                texts = [
                    "no context" if context is None else context.text
                    for context in (phase.context, first.context)
                ]
                raise Invalid(
                    f"{name}[{index}] has users with {texts[0]}, and the first has {texts[1]}; give all the same "
                    "context"
                )

    def _check_arms(self, arms: int) -> None:
        if self._checked_arms() != arms:
            raise Invalid(
                f"{type(self).__name__}.environments have {self.arms} arms, but there are {arms}; give environments "
                f"with {arms} arms"
            )


class _DriftingFields(NamedTuple):
    environments: Sequence[text_forms.Parameters]
    over: int


class Drifting(_DriftingFields, Moving):
    """Rewards that drift from the first environment through the others to the last, evenly over `over` periods.

    Between two environments a reward comes from the later one with a probability that grows linearly, so that the
    success probability of Bernoulli rewards moves linearly. If all environments are `Gaussian`, rewards stay normal,
    and their mean and standard deviation move linearly. So do the weights if all are `Linear`. After `over` periods
    rewards come from the last environment. With contexts, users come from the environments likewise. In a rehearsal
    every user counts as a period. Rewards are not i.i.d.; the designs are `naive` and `time_coupled`.
    """

    __slots__ = ()
    sample = "drifting(bernoulli(0.7, 0.3), bernoulli(0.3, 0.7), over=1000)"

    def check(self, arms: int) -> None:
        self._check_arms(arms)
        require_whole("Drifting.over", self.over, 1, _MAX_PERIODS)

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> text_forms.Parameters:
        over = float(self.over)
        phases = self.moves_between
        gaussian = [phase for phase in phases if isinstance(phase, Gaussian)]
        linear = [phase for phase in phases if isinstance(phase, Linear)]
        if len(gaussian) == len(phases):
            means = np.array([phase.means for phase in gaussian], float)
            sds = np.array([per_arm(phase.sd, arms) for phase in gaussian])
            return CompiledDriftingGaussian(means, sds, over, 1)
        if len(linear) == len(phases):
            weights = compiled_weights(np.array([phase.weights for phase in linear]))
            sds = np.array([per_arm(phase.sd, arms) for phase in linear])
            return CompiledDriftingLinear(weights, sds, over, 1)
        selection = _selection(phases, seed, replications, arms)
        return CompiledDrifting(selection, len(phases) - 1, over, 1)

    def _shares(self, times: Ints) -> Floats:
        progress = np.minimum((times - 1) / self.over, 1.0) * (len(self.moves_between) - 1)
        distances = np.abs(np.asarray(progress)[..., None] - np.arange(len(self.moves_between)))
        return np.asarray(np.maximum(1 - distances, 0.0))


class _SwitchingFields(NamedTuple):
    environments: Sequence[text_forms.Parameters]
    every: int
    repeat: bool = True


class Switching(_SwitchingFields, Moving):
    """Rewards that switch to the next environment after every `every` periods.

    After the last environment the first comes again; with `repeat=False` the last stays. A reward is what the
    environment of its period pays, bit for bit. In a rehearsal every user counts as a period. Rewards are not i.i.d.;
    the designs are `naive` and `time_coupled`.
    """

    __slots__ = ()
    sample = "switching(bernoulli(0.7, 0.3), bernoulli(0.3, 0.7), every=500)"

    def check(self, arms: int) -> None:
        self._check_arms(arms)
        require_whole("Switching.every", self.every, 1, _MAX_PERIODS)
        require_flag("Switching.repeat", self.repeat)

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> text_forms.Parameters:
        phases = self.moves_between
        selection = _selection(phases, seed, replications, arms)
        return CompiledSwitching(selection, len(phases), int(self.every), bool(self.repeat), 1)

    def _shares(self, times: Ints) -> Floats:
        turns, count = (times - 1) // self.every, len(self.moves_between)
        phases = turns % count if self.repeat else np.minimum(turns, count - 1)
        return np.asarray(np.eye(count)[phases])


class SelectedParameters(NamedTuple):
    """Linked list of several environments' parameters, which may have different types, and the selected index."""

    first: text_forms.Parameters
    remaining: text_forms.Parameters
    selected: int  # 0 for the first


class CompiledDrifting(NamedTuple):
    """Parameters of the phases that users and rewards drift through, and the time."""

    selection: text_forms.Parameters
    last: int  # index of the last phase
    over: float
    time: int


class CompiledDriftingGaussian(NamedTuple):
    """Means and standard deviations of drifting normal rewards (phase, arm), and the time."""

    mean: Floats
    sd: Floats
    over: float
    time: int


class CompiledDriftingLinear(NamedTuple):
    """Weights and standard deviations of drifting linear rewards, a row per phase, and the time."""

    weights: text_forms.Parameters
    sd: Floats  # (phase, arm)
    over: float
    time: int


class CompiledSwitching(NamedTuple):
    """Parameters of the phases that users and rewards switch between, and the time."""

    selection: text_forms.Parameters
    phases: int
    every: int
    repeat: bool
    time: int


def _selection(
    phases: Sequence[Environment], seed: int, replications: range, arms: int
) -> text_forms.Parameters:
    # A linked list, because Numba cannot index a tuple of different types by a variable.
    *before, selection = (prepared_parameters(phase, seed, replications, arms) for phase in phases)
    for parameters in reversed(before):
        selection = SelectedParameters(parameters, selection, 0)
    return selection


@moves(SelectedParameters)
def _select_index(parameters: SelectedParameters, period: int) -> SelectedParameters:
    return SelectedParameters(parameters.first, parameters.remaining, period)


@moves(CompiledDrifting)
def _drifting_at(parameters: CompiledDrifting, period: int) -> CompiledDrifting:
    return CompiledDrifting(parameters.selection, parameters.last, parameters.over, period)


@moves(CompiledDriftingGaussian)
def _drifting_gaussian_at(
    parameters: CompiledDriftingGaussian, period: int
) -> CompiledDriftingGaussian:
    return CompiledDriftingGaussian(parameters.mean, parameters.sd, parameters.over, period)


@moves(CompiledDriftingLinear)
def _drifting_linear_at(parameters: CompiledDriftingLinear, period: int) -> CompiledDriftingLinear:
    return CompiledDriftingLinear(parameters.weights, parameters.sd, parameters.over, period)


@moves(CompiledSwitching)
def _switching_at(parameters: CompiledSwitching, period: int) -> CompiledSwitching:
    return CompiledSwitching(
        parameters.selection, parameters.phases, parameters.every, parameters.repeat, period
    )


@contexts(SelectedParameters)
def _write_selected(
    parameters: SelectedParameters, row: int, period: int, noise: Key, context: Floats
) -> None:
    if parameters.selected == 0:
        write_context(parameters.first, row, period, noise, context)
    else:
        following = law_at(parameters.remaining, parameters.selected - 1)
        write_context(following, row, period, noise, context)


@draws(SelectedParameters)
def _draw_selected(
    parameters: SelectedParameters, row: int, context: Floats | None, arm: int, bits: Bits
) -> float:
    if parameters.selected == 0:
        return draw(parameters.first, row, context, arm, bits)
    following = law_at(parameters.remaining, parameters.selected - 1)
    return draw(following, row, context, arm, bits)


@expects(SelectedParameters)
def _expect_selected(parameters: SelectedParameters, row: int, context: Floats, arm: int) -> float:
    if parameters.selected == 0:
        return expected(parameters.first, row, context, arm)
    following = law_at(parameters.remaining, parameters.selected - 1)
    return expected(following, row, context, arm)


@inlined
def _phase_switched_to(parameters: CompiledSwitching) -> int:
    turn = (parameters.time - 1) // parameters.every
    return turn % parameters.phases if parameters.repeat else min(turn, parameters.phases - 1)


@contexts(CompiledSwitching)
def _write_switching(
    parameters: CompiledSwitching, row: int, period: int, noise: Key, context: Floats
) -> None:
    current = law_at(parameters.selection, _phase_switched_to(parameters))
    write_context(current, row, period, noise, context)


@draws(CompiledSwitching)
def _draw_switching(
    parameters: CompiledSwitching, row: int, context: Floats | None, arm: int, bits: Bits
) -> float:
    current = law_at(parameters.selection, _phase_switched_to(parameters))
    return draw(current, row, context, arm, bits)


@expects(CompiledSwitching)
def _expect_switching(parameters: CompiledSwitching, row: int, context: Floats, arm: int) -> float:
    current = law_at(parameters.selection, _phase_switched_to(parameters))
    return expected(current, row, context, arm)


@inlined
def _drawn_phase(parameters: CompiledDrifting, bits: Bits) -> int:
    """Return one of the two phases of the time, the later with the share of the way that is done."""
    progress = min((parameters.time - 1) / parameters.over, 1.0) * parameters.last
    phase = int(progress)
    return phase + 1 if uniform(bits) < progress - phase else phase


@inlined
def _drift(over: float, time: int, last: int) -> tuple[int, float]:
    """Return the earlier of the two phases of a time, and the share of the way to the later."""
    progress = min((time - 1) / over, 1.0) * last
    phase = min(int(progress), last - 1)
    return phase, progress - phase


@contexts(CompiledDrifting)
def _write_drifting(
    parameters: CompiledDrifting, row: int, period: int, noise: Key, context: Floats
) -> None:
    phase = _drawn_phase(parameters, at(within(noise, 0), period, 0))
    write_context(law_at(parameters.selection, phase), row, period, noise, context)


@draws(CompiledDrifting)
def _draw_drifting(
    parameters: CompiledDrifting, row: int, context: Floats | None, arm: int, bits: Bits
) -> float:
    current = law_at(parameters.selection, _drawn_phase(parameters, bits))
    return draw(current, row, context, arm, again(bits, 1))


@expects(CompiledDrifting)
def _expect_drifting(parameters: CompiledDrifting, row: int, context: Floats, arm: int) -> float:
    phase, share = _drift(parameters.over, parameters.time, parameters.last)
    earlier = expected(law_at(parameters.selection, phase), row, context, arm)
    later = expected(law_at(parameters.selection, phase + 1), row, context, arm)
    return earlier + share * (later - earlier)


@draws(CompiledDriftingGaussian)
def _draw_drifting_gaussian(
    parameters: CompiledDriftingGaussian, row: int, arm: int, bits: Bits
) -> float:
    means, sds = parameters.mean, parameters.sd
    phase, share = _drift(parameters.over, parameters.time, means.shape[0] - 1)
    mean = means[phase, arm] + share * (means[phase + 1, arm] - means[phase, arm])
    sd = sds[phase, arm] + share * (sds[phase + 1, arm] - sds[phase, arm])
    return mean + sd * normal(bits)


@contexts(CompiledDriftingLinear)
def _write_linear(
    parameters: CompiledDriftingLinear, row: int, period: int, noise: Key, context: Floats
) -> None:
    write_context(parameters.weights, row, period, noise, context)


@expects(CompiledDriftingLinear)
def _expect_linear(
    parameters: CompiledDriftingLinear, row: int, context: Floats, arm: int
) -> float:
    phase, share = _drift(parameters.over, parameters.time, parameters.sd.shape[0] - 1)
    earlier = weighted_sum(parameters.weights, phase, context, arm)
    later = weighted_sum(parameters.weights, phase + 1, context, arm)
    return earlier + share * (later - earlier)


@draws(CompiledDriftingLinear)
def _draw_linear(
    parameters: CompiledDriftingLinear, row: int, context: Floats, arm: int, bits: Bits
) -> float:
    phase, share = _drift(parameters.over, parameters.time, parameters.sd.shape[0] - 1)
    earlier, later = parameters.sd[phase, arm], parameters.sd[phase + 1, arm]
    sd = earlier + share * (later - earlier)
    return expected(parameters, row, context, arm) + sd * normal(bits)


for _class in (CompiledDrifting, CompiledSwitching):
    CONTEXT_CHECKS[_class] = are_finite_and_within  # a phase may be a user's
