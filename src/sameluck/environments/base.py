"""Registration of environments: `Environment`, `draws`.

A draw function is a pure function of (parameters, row, arm, bits) that turns 64 random bits into an arm's reward. It
runs as plain Python and as machine code:

    class Exponential(NamedTuple):
        means: Sequence[float]

    @draws(Exponential)
    def _(parameters, row, arm, bits):
        return parameters.means[arm] * exponential(bits)

That is all an environment needs: `parameters` holds its fields, sequences as arrays of floats. The methods of
`Environment` that it does not define are added. An environment that differs between replications (a prior) defines
`compiled_parameters` and reads the row of its replication.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.compilation.decorators import dispatched
from sameluck.compilation.functions import (
    Function,
    check_registration,
    compiled_class,
    is_builtin,
    require_class,
)
from sameluck.context import Context
from sameluck.environments.checks import REWARD_LIMITS, check_list
from sameluck.errors import Invalid, shown
from sameluck.randomness.streams import Bits
from sameluck.validation import is_listed

DrawFunction: TypeAlias = Callable[..., float]

_MAX_ENVIRONMENTS = 10  # in another environment: each combination of families is compiled

ENVIRONMENTS: dict[str, type[Environment]] = {}  # by the name of their text form
DRAW_FUNCTIONS: dict[type, DrawFunction] = {}
_DRAW_IN_CONTEXT_FUNCTIONS: dict[
    type, DrawFunction
] = {}  # of these, the functions that take a context
_TIME_FUNCTIONS: dict[type, Function] = {}  # for parameters that change with time
CONTEXT_FUNCTIONS: dict[type, Function] = {}
EXPECTED_FUNCTIONS: dict[type, Function] = {}
CONTEXT_CHECKS: dict[type, Callable[..., bool]] = {}  # in machine code, for users' functions


class Environment:
    """Source of simulated rewards: a NamedTuple of parameters whose class has a draw function."""

    __slots__ = ()

    if TYPE_CHECKING:  # of a NamedTuple

        def _asdict(self) -> dict[str, Any]: ...

    def __init_subclass__(cls) -> None:
        cls.__new__ = _with_remedy(cls, cls.__new__)  # type: ignore[assignment, method-assign]

    def __init__(self, *_values: object, **_named: object) -> None:
        """Raise `Invalid` for parameters that are invalid for every number of arms."""
        parameters: Any = text_forms.normal_form(self)
        parameters.check(max(next((len(value) for value in parameters if is_listed(value)), 1), 1))

    @property
    def binary(self) -> bool:
        """Whether rewards are 0 and 1 only."""
        return False

    @property
    def is_prior(self) -> bool:
        """Whether each replication draws its own parameters."""
        return False

    @property
    def is_moving(self) -> bool:
        """Whether an arm's rewards change with the period."""
        return False

    @property
    def arm_names(self) -> Sequence[str]:
        """Names of the arms; empty if the environment does not name them."""
        return ()

    @property
    def hidden(self) -> int:
        """How many numbers of a user policies do not see; they follow the context."""
        return 0

    @property
    def means(self) -> Sequence[float]:
        """Mean reward of each arm."""
        raise NotImplementedError

    @property
    def standard_deviations(self) -> Floats | None:
        """Standard deviation of each arm's rewards, of a prior's typical instance; None if unknown."""
        return None

    @property
    def arms(self) -> int | None:
        """Number of arms; None if any number fits."""
        return len(self.means)

    @property
    def context(self) -> Context | None:
        """What is known of a user before an arm is chosen; None if nothing is."""
        return None

    @property
    def moves_between(self) -> tuple[Environment, ...]:
        """Environments that it moves between; itself if it does not move."""
        return (self,)

    @property
    def best_arm(self) -> int:
        """Arm with the highest mean; the lowest index if there are several."""
        return int(np.argmax(self.means))

    @property
    def gaps(self) -> tuple[float, ...]:
        """Difference between the highest mean and each arm's mean."""
        best = max(self.means)
        return tuple(best - mean for mean in self.means)

    def check(self, arms: int) -> None:
        """Raise `Invalid` for parameters that are invalid for this number of arms."""
        if self.context is not None:
            _check_fields(self, arms)
            return
        means = self.means.tolist() if isinstance(self.means, np.ndarray) else self.means
        check_list(f"{type(self).__name__}.means", means, arms, **REWARD_LIMITS)

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> text_forms.Parameters:
        """Return the parameters as the draw function takes them; those of a prior have one row per replication."""
        parameters: Any = self  # a NamedTuple
        class_name, fields = type(self).__name__, parameters._asdict()
        arrays = {name: _as_array(f"{class_name}.{name}", value) for name, value in fields.items()}
        return parameters._replace(**arrays)

    def instance_means(self, seed: int, replications: range, arms: int) -> Floats:
        """Return the true mean of each arm in each replication (replication, arm)."""
        return np.tile(np.asarray(self.means, float), (len(replications), 1))


def _check_fields(environment: Environment, arms: int) -> None:
    """Raise `Invalid` unless an environment with contexts has these arms, and finite numbers in its lists."""
    name, fields = type(environment).__name__, environment._asdict()
    if environment.arms not in (None, arms):
        raise Invalid(
            f"{name} has {environment.arms} arms, but there are {arms}; give arms={environment.arms}"
        )
    for field, value in fields.items():
        array = _as_array(f"{name}.{field}", value)
        if isinstance(array, float | np.ndarray) and not np.isfinite(array).all():
            raise Invalid(f"{name}.{field} must be finite numbers, got {shown(value)}")


def _as_array(name: str, value: object) -> object:
    if not is_listed(value):
        return value
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError):
        raise Invalid(
            f"{name} must be numbers in lists of equal lengths, got {shown(value)}"
        ) from None


def _with_remedy(environment_class: type, make: Callable[..., object]) -> Callable[..., object]:
    @wraps(make)
    def new(cls: type, *values: object, **named: object) -> object:
        try:
            return make(cls, *values, **named)
        except TypeError as error:
            name, fields = cls.__name__, environment_class._fields  # type: ignore[attr-defined]
            reason = re.sub(r"^[\w.]*__new__\(\)", name, str(error))
            if len(values) > len(fields):
                reason = f"{name} has the parameters {', '.join(fields)}, got {len(values)} values"
            remedy = f"for example {text_forms.example(cls)}"
            if all(isinstance(value, int | float) for value in values[:2]) and len(values) > 1:
                remedy = f"write the arms' {fields[0]} as one list: {name}({shown(list(values))})"
            raise Invalid(f"{reason}; {remedy}") from None

    return new


EnvironmentLike: TypeAlias = Environment | text_forms.Parameters | str  # itself or its text form


def draws(environment_class: type) -> Callable[[DrawFunction], DrawFunction]:
    """Register the draw function of an environment class; `parameters` is what its `compiled_parameters` returns.

    A class of yours may be registered again with another function, which replaces the previous function.
    """
    require_class("draws", environment_class)

    def register(function: DrawFunction) -> DrawFunction:
        arguments = "parameters, row, arm, bits"
        if _has_context(environment_class, function):
            arguments = "parameters, row, context, arm, bits"
        check_registration(environment_class, function, ENVIRONMENTS, "an environment", arguments)
        _keep_draw_function(environment_class, function)
        if not is_builtin(function):
            complete(environment_class)
            if not environment_class.__name__.startswith("_"):
                ENVIRONMENTS[text_forms.name_of(environment_class)] = environment_class
        return function

    return register


def _has_context(environment_class: type, function: DrawFunction) -> bool:
    if is_builtin(function):  # compiled parameters do not state their context
        return _takes_context(function)
    return getattr(environment_class, "context", None) not in (None, Environment.context)


def _takes_context(function: DrawFunction) -> bool:
    return function.__code__.co_argcount == len(("parameters", "row", "context", "arm", "bits"))


def _keep_draw_function(parameters_class: type, function: DrawFunction) -> None:
    DRAW_FUNCTIONS[parameters_class] = function
    _DRAW_IN_CONTEXT_FUNCTIONS.pop(parameters_class, None)
    if _takes_context(function):
        _DRAW_IN_CONTEXT_FUNCTIONS[parameters_class] = function


def complete(environment_class: type) -> None:
    """Add the methods of `Environment` that a user's class does not define."""
    if not hasattr(environment_class, "means") and not hasattr(environment_class, "context"):
        raise Invalid(
            f"{environment_class.__name__} has no means; give it a field `means`, one mean per arm"
        )
    if hasattr(environment_class, "context") and not hasattr(environment_class, "arms"):
        raise Invalid(
            f"{environment_class.__name__} has no arms; give it a field or a property `arms`, how many arms"
        )
    if hasattr(environment_class, "laws") and not hasattr(environment_class, "compiled_parameters"):
        raise Invalid(
            f"{environment_class.__name__}.laws: rename the method to compiled_parameters"
        )
    for name, value in vars(Environment).items():
        # Names of Python's own, such as the annotations of Python 3.14, belong to one class.
        if not name.startswith("__") and not hasattr(environment_class, name):
            setattr(environment_class, name, value)


def _draw_for_all(parameters: text_forms.Parameters, row: int, arm: int, bits: Bits) -> float:
    raise NotImplementedError


_draw_for_all_users = dispatched(_draw_for_all, DRAW_FUNCTIONS)


def _draw_without_context(
    parameters: text_forms.Parameters, row: int, context: Floats | None, arm: int, bits: Bits
) -> float:
    return _draw_for_all_users(parameters, row, arm, bits)


def _draw(
    parameters: text_forms.Parameters, row: int, context: Floats | None, arm: int, bits: Bits
) -> float:
    """Turn 64 random bits into an arm's reward, with the parameters in this row.

    A draw function that takes no context pays all users alike; then `context` may be None.
    """
    raise NotImplementedError


draw = dispatched(_draw, _DRAW_IN_CONTEXT_FUNCTIONS, otherwise=_draw_without_context)


def moves(parameters_class: type) -> Callable[[Function], Function]:
    """Register a function `(parameters, period)` that returns the parameters in a period."""
    return partial(_TIME_FUNCTIONS.setdefault, parameters_class)


def _always(parameters: Any, period: int) -> Any:
    return parameters


def _law_at(parameters: Any, period: int) -> Any:
    """Return the parameters in a period, counted from 1; the same object unless the environment moves."""


law_at = dispatched(_law_at, _TIME_FUNCTIONS, otherwise=_always)


def is_all_builtin(environment: Environment) -> bool:
    """Return whether the environment, and those that it moves between, are built in."""
    return all(is_builtin(type(phase)) for phase in environment.moves_between)


def is_stationary(value: Any) -> bool:
    """Return whether a value is an environment with fixed arms, neither a prior nor moving."""
    is_environment = type(value) in ENVIRONMENTS.values()
    return is_environment and value.arms is not None and not value.is_prior and not value.is_moving


def check_environments(
    name: str,
    listed: Any,
    least: int,
    fits: Callable[[object], bool],
    rule: str,
    limit: int = _MAX_ENVIRONMENTS,
) -> None:
    """Raise `Invalid` unless a field lists at least so many environments, which all fit and are valid."""
    is_list = is_listed(listed) and not text_forms.is_parameters(listed)
    if not is_list or not least <= len(listed) <= limit:
        limits = f"{least} to {limit:,}"
        raise Invalid(f"{name} must be a list of {limits} environments, got {shown(listed)}")
    for index, environment in enumerate(listed):
        if not fits(environment):
            raise Invalid(f"{name}[{index}] must be {rule}, got {shown(environment)}")
        text_forms.normal_form(environment).check(environment.arms or 0)


def draw_function_of(parameters: text_forms.Parameters) -> DrawFunction:
    """Return the draw function for compiled parameters."""
    if type(parameters) not in DRAW_FUNCTIONS:
        raise Invalid(
            f"{type(parameters).__name__} has no draw function; register one with sameluck.draws"
        )
    return DRAW_FUNCTIONS[type(parameters)]


def user_functions_of(parameters: text_forms.Parameters) -> list[Callable[..., object]]:
    """Return the functions of a user's environment: for draws, contexts and expected rewards."""
    registries = (DRAW_FUNCTIONS, CONTEXT_FUNCTIONS, EXPECTED_FUNCTIONS)
    functions = [registry.get(type(parameters)) for registry in registries]
    return [function for function in functions if function and not is_builtin(function)]


def is_complete(environment_class: type) -> TypeGuard[type[Environment]]:
    """Return whether a class of `sameluck.environments` is an environment; False if it holds compiled parameters.

    Raise `Invalid` if it is neither.
    """
    is_environment, can_draw = False, environment_class in DRAW_FUNCTIONS
    if issubclass(environment_class, Environment):
        inherited = environment_class.compiled_parameters is Environment.compiled_parameters
        is_environment, can_draw = True, can_draw or not inherited
    if not can_draw or (hasattr(environment_class, "means") and not is_environment):
        name = f"{environment_class.__module__}.{environment_class.__name__}"
        raise Invalid(
            f"{name} is not complete: an environment has the base class Environment and a draw function registered "
            "with sameluck.draws; add what is missing, or start its name with an underscore if it is a helper"
        )
    return is_environment


def prepared_parameters(
    environment: Environment, seed: int, replications: range, arms: int
) -> text_forms.Parameters:
    """Return the environment's compiled parameters, under the class that its machine code is compiled for."""
    parameters = environment.compiled_parameters(seed, replications, arms)
    parameters_class = type(parameters)
    function = DRAW_FUNCTIONS.get(type(environment), DRAW_FUNCTIONS.get(parameters_class))
    if function is None:
        return parameters
    if is_builtin(function):  # machine code is kept on disk by the name of the class
        _keep_draw_function(parameters_class, function)
        return parameters
    if not text_forms.is_parameters(parameters):
        raise Invalid(
            f"{type(environment).__name__}.compiled_parameters must return a NamedTuple, got {parameters!r}"
        )
    registries = CONTEXT_FUNCTIONS, EXPECTED_FUNCTIONS
    others = [
        registry.get(type(environment), registry.get(parameters_class)) for registry in registries
    ]
    functions = [function, *filter(None, others)]
    compiled = compiled_class(parameters_class, functions)
    _keep_draw_function(compiled, function)
    for registry, other in zip(registries, others, strict=True):
        if other is not None:
            registry.setdefault(compiled, other)
            CONTEXT_CHECKS.setdefault(compiled, are_finite_and_within)
    return compiled(*map(_read_only, parameters))


def are_finite_and_within(parameters: text_forms.Parameters, context: Floats, levels: int) -> bool:
    """Return whether all numbers of a context are finite and the first, where there are levels, is a level."""
    total = 0.0
    for index in range(context.size):
        total += context[index] - context[index]  # NaN unless it is finite
    if total != 0.0 or levels == 0:
        return total == 0.0
    return 0.0 <= context[0] < levels and int(context[0]) == context[0]


def _read_only(value: object) -> object:
    # A function that changed its parameters would make a replication depend on earlier replications.
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view
