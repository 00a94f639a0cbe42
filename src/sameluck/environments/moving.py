"""`Drifting` and `Switching`: arms whose rewards change with time, for rehearsing what live traffic does.

Time is counted from 1: in a simulation it is the period of a replication, in a rehearsal the number of the user among
those who take part. A reward has the law of the time at which it is drawn. In a simulation a policy reads each
address once, in a period that is a function of its past, so that it has the law that it has alone. The k-th reward of
an arm that policies share has no time: the design `replay` is not defined for these environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats, Ints
from sameluck.environments.base import (
    ENVIRONMENTS,
    NO_CONTEXT,
    Context,
    Environment,
    draw,
    draws,
    law_at,
    moves,
    prepared_parameters,
)
from sameluck.environments.checks import per_arm
from sameluck.environments.normal import Gaussian
from sameluck.errors import Invalid, shown
from sameluck.randomness.samplers import normal, uniform
from sameluck.randomness.streams import Bits, again
from sameluck.validation import is_listed, require_flag, require_whole

_MOST = 10  # environments: each combination of families has machine code of its own
_LONGEST = 1 << 40  # periods


class Moving(Environment):
    """What environments that change with time have in common."""

    __slots__ = ()
    is_moving = True

    if TYPE_CHECKING:
        environments: Sequence[text_forms.Parameters]

    def __init__(self, *_values: object, **_named: object) -> None:
        """Raise `Invalid` for what is not a list of environments with the same arms."""
        self.check(self._checked_arms())

    @property
    def moves_between(self) -> tuple[Environment, ...]:
        """The environments, in their order."""
        return tuple(self.environments)  # type: ignore[arg-type]  # as `_checked_arms` has found

    @property
    def arms(self) -> int | None:
        """How many arms it has."""
        return self.moves_between[0].arms

    @property
    def binary(self) -> bool:  # type: ignore[override]  # it depends on the environments
        """Whether all of them pay 0 and 1 only."""
        return all(one.binary for one in self.moves_between)

    @property
    def means(self) -> tuple[float, ...]:
        """The mean reward of each arm in the first period; those of others are `means_at`."""
        return tuple(float(mean) for mean in self.moves_between[0].means)

    def means_at(self, times: int | Sequence[int] | Ints | range) -> Floats:
        """The mean reward of each arm in a period (arm,), or in some of them (period, arm)."""
        periods = np.asarray(times)
        if periods.dtype.kind not in "iu" or (periods.size and periods.min() < 1):
            raise Invalid(f"means_at: periods are whole numbers from 1 on, got {shown(times)}")
        return self._shares(periods) @ np.array([one.means for one in self.moves_between], float)

    def instance_means(self, seed: int, replications: range, arms: int) -> Floats:
        """Raise `Invalid`: an arm has no mean that holds in all periods."""
        raise Invalid(
            f"{type(self).__name__}: the means move with the period; see means_at(period)"
        )

    def _shares(self, times: Ints) -> Floats:
        """The share of each environment in the rewards of some periods (period, environment)."""
        raise NotImplementedError

    def _checked_arms(self) -> int:
        name, listed = f"{type(self).__name__}.environments", self.environments
        nested = text_forms.is_parameters(listed)
        if not is_listed(listed) or nested or not 2 <= len(listed) <= _MOST:
            raise Invalid(
                f"{name} must be a list of 2 to {_MOST} environments, got {shown(listed)}"
            )
        for place, one in enumerate(listed):
            if not _stands_still(one):
                raise Invalid(
                    f"{name}[{place}] must be an environment with a given number of arms, neither a prior nor one "
                    f"that drifts or switches itself, got {shown(one)}"
                )
            text_forms.normal_form(one).check(one.arms or 0)
        first, *others = (one.arms or 0 for one in self.moves_between)
        for place, arms in enumerate(others, start=1):
            if arms != first:
                raise Invalid(
                    f"{name}[{place}] has {arms} arms, and the first has {first}; give all the same"
                )
        return first

    def _check_arms(self, arms: int) -> None:
        if self._checked_arms() != arms:
            raise Invalid(
                f"{type(self).__name__}.environments have {self.arms} arms, but there are {arms}"
            )


def _stands_still(one: Any) -> TypeGuard[Environment]:
    known = type(one) in ENVIRONMENTS.values()
    return known and one.arms is not None and not one.is_prior and not one.is_moving


class _DriftingParameters(NamedTuple):
    environments: Sequence[text_forms.Parameters]
    over: int


class Drifting(_DriftingParameters, Moving):
    """Arms that drift from the first environment to the next and so to the last, evenly over `over` periods.

    Between two environments a reward is one of the later with a probability that grows linearly: of Bernoulli rewards
    the success probability moves. Between environments that are all `Gaussian` the mean and the standard deviation of
    normal rewards move linearly. After `over` periods it stays with the last. In a rehearsal every user counts as a
    period. The rewards of an arm are not i.i.d.; the designs are `naive` and `time_coupled`.
    """

    __slots__ = ()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "drifting(bernoulli(0.7, 0.3), bernoulli(0.3, 0.7), over=1000)"

    def check(self, arms: int) -> None:
        """Raise `Invalid` unless all environments have so many arms, and the time is positive."""
        self._check_arms(arms)
        require_whole("Drifting.over", self.over, 1, _LONGEST)

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> text_forms.Parameters:
        """The laws of all environments, in the first period."""
        over, legs = float(self.over), len(self.moves_between) - 1
        if all(isinstance(one, Gaussian) for one in self.moves_between):
            means = np.array([one.means for one in self.moves_between], float)
            sds = np.array([per_arm(one.sd, arms) for one in self.moves_between])  # type: ignore[attr-defined]
            return CompiledDriftingGaussian(means, sds, over, 1)
        return CompiledDrifting(
            _one_of(self.moves_between, seed, replications, arms), legs, over, 1
        )

    def _shares(self, times: Ints) -> Floats:
        places = np.minimum((times - 1) / self.over, 1.0) * (len(self.moves_between) - 1)
        distances = np.abs(np.asarray(places)[..., None] - np.arange(len(self.moves_between)))
        return np.asarray(np.maximum(1 - distances, 0.0))


class _SwitchingParameters(NamedTuple):
    environments: Sequence[text_forms.Parameters]
    every: int
    repeat: bool = True


class Switching(_SwitchingParameters, Moving):
    """Arms that switch to the next environment after every `every` periods.

    After the last environment comes the first again, or with `repeat=False` it stays. A reward is the one that the
    environment of its period pays, bit for bit. In a rehearsal every user counts as a period. The rewards of an arm
    are not i.i.d.; the designs are `naive` and `time_coupled`.
    """

    __slots__ = ()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "switching(bernoulli(0.7, 0.3), bernoulli(0.3, 0.7), every=500)"

    def check(self, arms: int) -> None:
        """Raise `Invalid` unless all environments have so many arms, and the time is positive."""
        self._check_arms(arms)
        require_whole("Switching.every", self.every, 1, _LONGEST)
        require_flag("Switching.repeat", self.repeat)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledSwitching:
        """The laws of all environments, in the first period."""
        which = _one_of(self.moves_between, seed, replications, arms)
        return CompiledSwitching(
            which, len(self.moves_between), int(self.every), bool(self.repeat), 1
        )

    def _shares(self, times: Ints) -> Floats:
        turns, many = (times - 1) // self.every, len(self.moves_between)
        which = turns % many if self.repeat else np.minimum(turns, many - 1)
        return np.asarray(np.eye(many)[which])


class SelectedParameters(NamedTuple):
    """Several laws: the first is at place 0, the others are at those after it."""

    first: text_forms.Parameters
    others: text_forms.Parameters
    place: int  # of the one that pays


class CompiledDrifting(NamedTuple):
    """The laws that rewards drift through, and the time."""

    selection: text_forms.Parameters
    legs: int  # from one law to the next
    over: float
    time: int


class CompiledDriftingGaussian(NamedTuple):
    """Means and standard deviations of normal rewards that drift (environment, arm), and the time."""

    mean: Floats
    sd: Floats
    over: float
    time: int


class CompiledSwitching(NamedTuple):
    """The laws that rewards switch between, and the time."""

    selection: text_forms.Parameters
    many: int
    every: int
    repeat: bool
    time: int


def _one_of(
    parts: Sequence[Environment], seed: int, replications: range, arms: int
) -> text_forms.Parameters:
    *others, last = (prepared_parameters(one, seed, replications, arms) for one in parts)
    parameters = last
    for one in reversed(others):
        parameters = SelectedParameters(one, parameters, 0)
    return parameters


@moves(SelectedParameters)
def _at_place(parameters: SelectedParameters, period: int, context: Context) -> SelectedParameters:
    return SelectedParameters(parameters.first, parameters.others, period)


@moves(CompiledDrifting)
def _drifting_at(parameters: CompiledDrifting, period: int, context: Context) -> CompiledDrifting:
    return CompiledDrifting(parameters.selection, parameters.legs, parameters.over, period)


@moves(CompiledDriftingGaussian)
def _drifting_gaussian_at(
    parameters: CompiledDriftingGaussian, period: int, context: Context
) -> CompiledDriftingGaussian:
    return CompiledDriftingGaussian(parameters.mean, parameters.sd, parameters.over, period)


@moves(CompiledSwitching)
def _switching_at(
    parameters: CompiledSwitching, period: int, context: Context
) -> CompiledSwitching:
    return CompiledSwitching(
        parameters.selection, parameters.many, parameters.every, parameters.repeat, period
    )


@draws(SelectedParameters)
def _draw_one_of(parameters: SelectedParameters, row: int, arm: int, bits: Bits) -> float:
    if parameters.place == 0:
        return draw(parameters.first, row, arm, bits)
    return draw(law_at(parameters.others, parameters.place - 1, NO_CONTEXT), row, arm, bits)


@draws(CompiledDrifting)
def _draw_drifting(parameters: CompiledDrifting, row: int, arm: int, bits: Bits) -> float:
    place = min((parameters.time - 1) / parameters.over, 1.0) * parameters.legs
    which = int(place)
    if uniform(bits) < place - which:
        which += 1
    return draw(law_at(parameters.selection, which, NO_CONTEXT), row, arm, again(bits, 1))


@draws(CompiledDriftingGaussian)
def _draw_drifting_gaussian(
    parameters: CompiledDriftingGaussian, row: int, arm: int, bits: Bits
) -> float:
    last = parameters.mean.shape[0] - 1
    place = min((parameters.time - 1) / parameters.over, 1.0) * last
    which = min(int(place), last - 1)
    share = place - which
    mean = parameters.mean[which, arm] + share * (
        parameters.mean[which + 1, arm] - parameters.mean[which, arm]
    )
    sd = parameters.sd[which, arm] + share * (
        parameters.sd[which + 1, arm] - parameters.sd[which, arm]
    )
    return mean + sd * normal(bits)


@draws(CompiledSwitching)
def _draw_switching(parameters: CompiledSwitching, row: int, arm: int, bits: Bits) -> float:
    turn = (parameters.time - 1) // parameters.every
    which = turn % parameters.many if parameters.repeat else min(turn, parameters.many - 1)
    return draw(law_at(parameters.selection, which, NO_CONTEXT), row, arm, bits)
