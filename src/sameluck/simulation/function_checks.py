"""Check of a user's functions before machine code runs: a few periods in plain Python.

A function must be a pure function of its arguments. `probe_functions` reads its source (`check_source`), then runs it
twice in plain Python (`plain_runner`): the results must be equal. `Probe.compare` runs the same periods compiled, and
compares an environment's stated means with its draws. A function is checked when it is first used in a process, for
about `SECONDS`, and for `SECONDS_AGAIN` with each further set of parameters.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from itertools import product
from types import ModuleType
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.compilation.function_errors import Misuse
from sameluck.compilation.functions import Function, changed_constants, constants_of, is_builtin
from sameluck.environments.base import (
    Environment,
    draw_function_of,
    prepared_parameters,
    user_functions_of,
)
from sameluck.environments.stated_means import check_means
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.policies.base import (
    Policy,
    as_compiled,
    prepare,
    select_function_of,
)
from sameluck.policies.batched import Batched
from sameluck.simulation.plain_runner import Deadline, PlainRunner
from sameluck.simulation.refusals import environment_label
from sameluck.simulation.runners.compiled_runner import CompiledRunner
from sameluck.simulation.runners.loop import Results
from sameluck.trajectories import empty_trajectory

SECONDS, SECONDS_AGAIN = 0.24, 0.03
PERIODS = 250
COMPILED = "compiled and in plain Python"
RULE = (
    "a function must use nothing but its arguments and constants, and write to nothing but "
    "tally.memory"
)
_IMPURE = ("random", "numpy.random", "secrets", "uuid", "time", "datetime")
_PRINT = (
    "it calls print in every period of every replication: remove it, and see each arm and reward with sl.trace(...); "
    "simulate(..., check=False) allows it"
)
_OUTSIDE = ("input", "open", "exec", "eval", "breakpoint", "globals", "locals", "__import__")
_RANDOMNESS = {  # by an argument of a function
    "noise": "take random numbers from noise, as in uniform(at(noise, period, 0))",
    "bits": "take random numbers from bits, as in uniform(bits)",
    "context": "an expected reward is a function of the context",
}


class UserFunction(NamedTuple):
    """A function with the parameters that it is run with."""

    function: Function
    parameters: str
    arms: int
    horizon: int  # 0 for an environment's function, which does not depend on it

    @property
    def is_of_environment(self) -> bool:
        return self.horizon == 0


def user_functions(
    experiment: Experiment, environment: Environment, policy: Policy
) -> Iterator[UserFunction]:
    """Yield the functions of a user's policy and environment."""
    arms, horizon = experiment.n_arms, experiment.horizon
    if not is_builtin(type(policy)) or isinstance(policy, Batched):
        prepared = as_compiled(prepare(policy, arms, horizon, experiment.context))
        if not is_builtin(select_function_of(prepared)):
            yield UserFunction(select_function_of(prepared), repr(policy), arms, horizon)
    if not is_builtin(type(environment)):
        parameters = prepared_parameters(environment, experiment.seed, range(1), arms)
        for function in user_functions_of(parameters):
            yield UserFunction(function, repr(environment), arms, 0)


def check_source(function: Function) -> None:
    """Raise `Misuse` if a function, or a compiled function that it calls, must not be run.

    It may use global randomness or the clock, or call `print`.

    A function that Numba has compiled before keeps its constants: a changed constant of such a helper is refused too.
    """
    arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
    source = next(name for name in _RANDOMNESS if name in arguments)
    for used in _called_by(function):
        prefix = "it" if used is function else f"it calls {used.__name__}, which"
        _check_calls(used, prefix)
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


def _check_calls(function: Function, prefix: str) -> None:
    """Raise `Misuse` if a function calls `print`, or a built-in function that reads or writes outside it."""
    for step in dis.get_instructions(function):
        name = step.argval
        if step.opname != "LOAD_GLOBAL" or name in function.__globals__:
            continue
        line = step.positions.lineno if step.positions else None
        if name == "print":
            raise Misuse(_PRINT.replace("it", prefix, 1), function, line)
        if name in _OUTSIDE:
            raise Misuse(f"{prefix} calls {name}, which cannot be compiled", function, line)


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


_checked: set[UserFunction] = set()


class Probe(NamedTuple):
    """First periods of a policy in plain Python, which the compiled loop must repeat."""

    runner: CompiledRunner
    results: tuple[Results, ...]  # of the first replications
    functions: frozenset[UserFunction]

    def compare(self, *, recorded: bool = False) -> None:
        """Raise `Invalid` if compiled code differs; otherwise the functions count as checked."""
        for replication, plain in enumerate(self.results):
            periods = plain.checkpoints
            trajectory = (
                empty_trajectory(periods.size, self.runner.setting.experiment) if recorded else None
            )
            compiled = self.runner.run(range(replication, replication + 1), periods, trajectory)
            _check_equal_results(self.runner, plain, compiled, COMPILED)
        if any(function.is_of_environment for function in self.functions):
            experiment = self.runner.setting.experiment
            check_means(self.runner.setting.environment, experiment.n_arms, experiment.horizon)
        _checked.update(self.functions)


def probe_functions(experiment: Experiment, environment: Environment) -> list[Probe]:
    """Run the user's functions that are not checked yet in plain Python; raise `Invalid` if one fails."""
    probes: list[Probe] = []
    for stage, name in product(environment.moves_between, experiment.policies):
        policy = experiment.policies[name]
        functions = frozenset(user_functions(experiment, stage, policy))
        if not functions:
            continue
        runner = CompiledRunner(experiment, stage, name)
        for use in functions:
            try:
                check_source(use.function)
            except Misuse as error:
                raise Invalid(runner.refusals.message(use.function, error)) from None
        if unchecked := functions.difference(_checked, *(probe.functions for probe in probes)):
            probes.append(_probe(runner, unchecked))
    for stage in environment.moves_between:
        _check_python_environment(experiment, stage)
    return probes


def _check_python_environment(experiment: Experiment, environment: Environment) -> None:
    """Check the stated means of an environment without a compiled function, such as a `python_environment`."""
    if is_builtin(type(environment)):
        return
    arms = experiment.n_arms
    parameters = prepared_parameters(environment, experiment.seed, range(1), arms)
    use = UserFunction(type(environment), repr(environment), arms, 0)
    if is_builtin(draw_function_of(parameters)) and use not in _checked:
        check_means(environment, arms, experiment.horizon)
        _checked.add(use)


def _probe(runner: CompiledRunner, functions: frozenset[UserFunction]) -> Probe:
    checked = {use.function for use in _checked}
    again = all(use.function in checked for use in functions)
    seconds = (SECONDS_AGAIN if again else SECONDS) / 5  # each of five runs
    periods = np.arange(1, min(PERIODS, runner.setting.experiment.horizon) + 1)
    PlainRunner(runner, Deadline(seconds)).check_rows()
    first = PlainRunner(runner, Deadline(seconds)).run(0, periods)
    second = PlainRunner(runner, Deadline(seconds)).run(0, periods)
    other = PlainRunner(runner, Deadline(seconds)).run(1, periods)
    _check_equal_results(runner, first, second, "when it is run again")
    return Probe(runner, (second, other), functions)


def _arms(results: Results, periods: int) -> Ints:
    played: Ints = np.diff(results.pulls[0, :periods], axis=0, prepend=0).argmax(axis=1)
    return played


def _check_equal_results(
    runner: CompiledRunner, first: Results, second: Results, when: str
) -> None:
    periods = min(first.checkpoints.size, second.checkpoints.size)
    arms = [_arms(results, periods) for results in (first, second)]
    check_equal(runner, arms, [results.rewards[0, :periods] for results in (first, second)], when)
    if runner.setting.experiment.context is not None:
        regret, other = (results.regret[0, :periods] for results in (first, second))
        if not np.allclose(regret, other, rtol=1e-9, atol=1e-9, equal_nan=True):
            label = environment_label(runner.setting.environment)
            raise Invalid(f"{label} states different expected rewards {when}: {RULE}")


def check_equal(runner: CompiledRunner, arms: list[Ints], rewards: list[Floats], when: str) -> None:
    """Raise `Invalid` if two runs of a replication differ in arms or, but for rounding, in cumulative rewards."""
    # NumPy's and the compiler's logarithms may differ in the last bit.
    tolerance = 1e-9 * max(float(np.abs(sums).max(initial=0.0)) for sums in rewards)
    unequal = {"arms": arms[0] != arms[1], "rewards": np.abs(rewards[0] - rewards[1]) > tolerance}
    periods = {
        result: int(np.argmax(where)) + 1 for result, where in unequal.items() if where.any()
    }
    if periods:
        result = min(periods, key=periods.__getitem__)
        source = runner.refusals.source_of(result, runner.setting.parameters(range(1)))
        raise Invalid(
            f"{source} gives different {result} {when}, first in period {periods[result]}: {RULE}"
        )
