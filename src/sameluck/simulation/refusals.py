"""Messages for users' functions that cannot be run: the policy or environment, the reason, the line and the rule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.function_errors import Misuse, blames, locate_error
from sameluck.compilation.functions import Function, is_builtin
from sameluck.context import Context
from sameluck.environments.base import (
    CONTEXT_FUNCTIONS,
    EXPECTED_FUNCTIONS,
    Environment,
    draw_function_of,
    is_all_builtin,
    user_functions_of,
)
from sameluck.errors import AddressReused, Invalid
from sameluck.experiment import Experiment
from sameluck.policies.base import (
    Policy,
    select_function_of,
)
from sameluck.text_forms import Parameters

_SELECT_RULE = "a select function returns an arm's index, keeps numbers in tally.memory"
_DRAW_RULE = "a draw function returns a number"
_CONTEXTS_RULE = "a contexts function fills `context`"
_EXPECTS_RULE = "an expects function returns a number"
# Errors whose reason needs no rule beside it.
_COMPLETE = (Misuse, NameError, AttributeError, ZeroDivisionError, FloatingPointError)


class OutOfTime(Exception):
    """End of the time for running a function in plain Python."""


class Refusals:
    """Phrases the errors of one policy's functions and of the environment's draw function."""

    def __init__(
        self, experiment: Experiment, environment: Environment, name: str, policy: Policy
    ) -> None:
        self.environment = environment
        self.policy = policy  # as it is compiled
        self.arms = experiment.n_arms
        self.label = f"policy {name!r}"
        self.full_label = f"{self.label} ({type(experiment.policies[name]).__name__})"

    def message(self, function: Function, error: Exception) -> str:
        """Return the message for a user's function that must not be run."""
        if function is select_function_of(self.policy):
            return _message(self.full_label, _SELECT_RULE, function, error)
        return draw_message(self.environment, function, error)

    @contextmanager
    def explaining(self, parameters: Parameters, replications: range) -> Iterator[None]:
        """Turn an error in a user's function into a message with its line; the original error is the cause."""
        try:
            yield
        except OutOfTime:
            raise
        except AddressReused as error:
            where, _ = locate_error(select_function_of(self.policy), error)
            raise AddressReused(f"{error} ({where})") from None
        except Exception as error:
            function: Function = select_function_of(self.policy)
            others = user_functions_of(parameters)
            suspects = [*others, function]
            if is_builtin(function):
                if not others:
                    raise
                suspects, function = others, others[0]
            blamed = [suspect for suspect in suspects if blames(suspect, error)]
            if isinstance(error, IndexError) and len(suspects) > 1 and not blamed:
                raise Invalid(self._wrong_index(suspects, replications)) from error
            raise Invalid(self.message([*blamed, function][0], error)) from error

    def _wrong_index(self, suspects: list[Function], replications: range) -> str:
        # Machine code does not say which function read the index.
        policy = [self.full_label] if select_function_of(self.policy) in suspects else []
        labels = [*policy, environment_label(self.environment)]
        first, last = replications.start, replications.stop - 1
        where = (
            f"replication {first}" if first == last else f"one of replications {first} to {last}"
        )
        return (
            f"{' or '.join(labels)} cannot be run: an index is out of range in {where}; sl.trace(..., guard=True) of "
            "the replication names the line"
        )

    def check_arm(self, replication: int, period: int) -> None:
        """Raise `Invalid` if the policy chose an arm that does not exist in a period; 0 stands for none.

        A negative period stands for an invalid context.
        """
        if period < 0:
            raise invalid_context(self.environment, replication, -period)
        if period != 0:
            raise Invalid(
                f"{self.label} chose an arm outside 0..{self.arms - 1} in period {period} of replication "
                f"{replication}; its select function must return an arm's index"
            )

    def source_of(self, result: str, parameters: Parameters) -> str:
        """Return the label of the environment for rewards of a user's draw function, otherwise the policy's."""
        from_user = result == "rewards" and not is_builtin(draw_function_of(parameters))
        return environment_label(self.environment) if from_user else self.label


def _message(label: str, rule: str, function: Function, error: Exception) -> str:
    where, reason = locate_error(function, error)
    message = f"{label} cannot be run: {reason} ({where})"
    if isinstance(error, _COMPLETE):
        return message
    return f"{message}; {rule} and uses numbers, loops and the arrays it is given, no new arrays or Python objects"


def environment_label(environment: Environment) -> str:
    return f"environment {type(environment).__name__}"


def draw_message(environment: Environment, function: Function, error: Exception) -> str:
    rule = _DRAW_RULE
    if function in CONTEXT_FUNCTIONS.values():
        rule = _CONTEXTS_RULE
    elif function in EXPECTED_FUNCTIONS.values():
        rule = _EXPECTS_RULE
    return _message(environment_label(environment), rule, function, error)


def blame_environment(
    environment: Environment, parameters: Parameters, error: Exception
) -> NoReturn:
    """Raise `Invalid` with the line and the rule of a user's function; the error itself if there is none."""
    functions = user_functions_of(parameters)
    if not functions:
        raise error
    blamed = [function for function in functions if blames(function, error)]
    if isinstance(error, IndexError) and len(functions) > 1 and not blamed:
        raise Invalid(
            f"{environment_label(environment)} cannot be run: an index is out of range; sl.trace(..., guard=True) of "
            "a compiled policy, such as sl.Uniform(), names the line"
        ) from error
    blamed = blamed or functions
    raise Invalid(draw_message(environment, blamed[0], error)) from error


def invalid_context(environment: Environment, replication: int, period: int) -> Invalid:
    """Return the error of a contexts function that wrote what is no context."""
    context: Context = environment.context  # type: ignore[assignment]  # it has written one
    rule = "not finite; write a finite number into each entry"
    if not context.indexed_by_period:
        rule = f"a level that does not exist; levels are 0 to {context.number - 1}"
    return Invalid(
        f"{environment_label(environment)}: its contexts function wrote a context in period {period} of replication "
        f"{replication} that is {rule}"
    )


def check_rewards(environment: Environment, rewards: Floats) -> None:
    """Raise `Invalid` if a user's environment gave a reward, or a sum of rewards, that is not finite."""
    if not is_all_builtin(environment) and not np.isfinite(rewards).all():
        raise Invalid(
            f"{environment_label(environment)} gave a reward that is not a finite number, or whose sum is not; a "
            "draw function returns a finite number"
        )
