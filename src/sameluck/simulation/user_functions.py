"""A user's select, draw and probabilities functions in an experiment, and the check of the names that they use."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

from sameluck.compilation.function_errors import Misuse
from sameluck.compilation.functions import (
    Function,
    changed_constants,
    constants_of,
    is_builtin,
)
from sameluck.environments.base import Environment, draw_function_of, prepared_parameters
from sameluck.experiment import Experiment
from sameluck.policies.base import (
    Policy,
    as_compiled,
    prepare,
    probabilities_function_of,
    select_function_of,
    states_probabilities,
)
from sameluck.policies.batched import Batched

_IMPURE = ("random", "numpy.random", "secrets", "uuid", "time", "datetime")
_RANDOMNESS = {  # by the fourth argument of a function
    "noise": "take random numbers from noise, as in uniform(at(noise, period, 0))",
    "bits": "take random numbers from bits, as in uniform(bits)",
    "probabilities": "probabilities are a function of the tally",
}


class UserFunction(NamedTuple):
    """A function with the parameters that it is run with."""

    function: Function
    parameters: str
    arms: int
    horizon: int
    states_probabilities: bool = False


def user_functions(
    experiment: Experiment, environment: Environment, policy: Policy, *, detail: bool
) -> Iterator[UserFunction]:
    """Yield the select and draw functions of a user, with `detail` also those that state probabilities."""
    arms, horizon = experiment.n_arms, experiment.horizon
    if not is_builtin(type(policy)) or isinstance(policy, Batched):
        prepared = as_compiled(prepare(policy, arms, horizon))
        if not is_builtin(select_function_of(prepared)):
            yield UserFunction(select_function_of(prepared), repr(policy), arms, horizon)
            if detail and states_probabilities(prepared):
                stated = probabilities_function_of(prepared)
                yield UserFunction(stated, repr(policy), arms, horizon, states_probabilities=True)
    if not is_builtin(type(environment)):
        parameters = prepared_parameters(environment, experiment.seed, range(1), arms)
        function = draw_function_of(parameters)
        if not is_builtin(function):
            yield UserFunction(function, repr(environment), arms, 0)


def check_names(function: Function) -> None:
    """Raise `Misuse` if a function, or a compiled function that it calls, uses global randomness or the clock.

    A function that Numba has compiled before keeps its constants: a changed constant of such a helper is refused too.
    """
    source = function.__code__.co_varnames[3]
    for used in _called_by(function):
        prefix = "it" if used is function else f"it calls {used.__name__}, which"
        for constant in constants_of(used):
            module = _module_of(constant.value)
            if any(f"{module}.".startswith(f"{impure}.") for impure in _IMPURE):
                reason = (
                    f"{prefix} uses {module}, which differs from run to run: {_RANDOMNESS[source]}"
                )
                raise Misuse(reason, function, constant.line)
        if used is not function and (changed := changed_constants(used)):
            raise Misuse(
                f"{prefix} was compiled before the global {changed[0]!r} changed: define {used.__name__} again",
                function,
            )


def _called_by(function: Function) -> Iterator[Function]:
    """Yield a function and the functions compiled by Numba that it calls, directly or not."""
    waiting, seen = [function], {function}
    while waiting:
        caller = waiting.pop()
        yield caller
        for constant in constants_of(caller):
            helper = getattr(constant.value, "py_func", None)
            if inspect.isfunction(helper) and helper not in seen:
                seen.add(helper)
                waiting.append(helper)


def _module_of(value: object) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    instance = getattr(value, "__self__", None)  # random.random is a method of a hidden object
    return str(getattr(value, "__module__", None) or type(instance).__module__)
