"""`python_environment`: rewards that a Python function computes."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from sameluck.compilation.functions import is_builtin
from sameluck.environments.base import ENVIRONMENTS, Environment, complete, draws
from sameluck.environments.checks import REWARD_LIMITS, check_length
from sameluck.errors import Invalid, shown
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import Bits
from sameluck.text_forms import name_of
from sameluck.validation import require_number

Reward: TypeAlias = Callable[[int, float], float]

_TRIED_UNIFORMS = (0.0, 0.25, 0.5, 1 - 2**-53)


def python_environment(
    reward: Reward, means: Sequence[float], *, name: str | None = None, binary: bool = False
) -> Environment:
    """Return an environment whose rewards are `reward(arm, uniform)`, with `uniform` uniform on [0, 1).

    The function is called for every reward, up to some hundred thousand times per second, and may use any library;
    `draws` compiles a function instead. It must depend on its arguments alone. It runs in threads of this process and
    cannot be sent to other processes by `map=`.

    Args:
        reward: The function.
        means: The mean reward of each arm, for regret.
        name: Name of the environment in its text form; by default the function's name.
        binary: Whether the rewards are 0 and 1 only.
    """
    words = re.findall(r"[A-Za-z0-9]+", str(name or getattr(reward, "__name__", "")))
    if not callable(reward) or not words or words == ["lambda"] or words[0][0].isdigit():
        raise Invalid(
            f"python_environment needs a function and a name that begins with a letter, got {shown(reward)} and "
            f"{shown(name)}"
        )
    environment_class = _new_class("".join(word.title() for word in words), reward)
    parameters = PythonReward(_callback(reward))
    environment_class.compiled_parameters = lambda *_: parameters
    environment_class.binary = binary
    complete(environment_class)
    environment: Environment = environment_class(tuple(means))
    _check_rewards(reward, environment)
    ENVIRONMENTS[name_of(environment_class)] = environment_class
    return environment


def _new_class(name: str, reward: Reward) -> Any:
    for other in ENVIRONMENTS.values():
        if is_builtin(other) and other.__name__.lower() == name.lower():
            raise Invalid(
                f"sameluck has an environment called {other.__name__}; give yours another name"
            )
    named_tuple: Any = NamedTuple  # called, because the class gets its name at run time
    environment_class = named_tuple(name, [("means", Sequence[float])])
    environment_class.__module__ = getattr(reward, "__module__", None) or "__main__"
    environment_class.__doc__ = "Rewards that a Python function computes."
    return environment_class


def _check_rewards(reward: Reward, environment: Environment) -> None:
    name, means = type(environment).__name__, environment.means
    check_length(f"{name}.means", means, len(means))
    environment.check(len(means))
    for arm in range(len(means)):
        for number in _TRIED_UNIFORMS:
            call = f"{name}: reward({arm}, {number:g})"
            try:
                values = [reward(arm, number) for _ in range(2)]
            except Exception as error:
                raise Invalid(f"{call} raised {type(error).__name__}: {error}") from error
            require_number(call, values[0], **REWARD_LIMITS)
            if values[0] != values[1]:
                raise Invalid(
                    f"{call} returned {values[0]!r}, then {values[1]!r}; it must depend on its arguments alone"
                )


class PythonReward(NamedTuple):
    """A Python function that machine code can call."""

    reward: Reward


PythonReward.is_user_code = True  # type: ignore[attr-defined]


@draws(PythonReward)
def _python(parameters: PythonReward, row: int, arm: int, bits: Bits) -> float:
    return parameters.reward(arm, uniform(bits))


def _callback(reward: Reward) -> Reward:
    def safe(arm: int, number: float) -> float:
        # An exception cannot pass through machine code. The reward becomes nan, which the loop refuses.
        try:
            return float(reward(arm, number))
        except BaseException:
            return float("nan")

    return _callback_class()(safe)


@lru_cache
def _callback_class() -> Any:
    from numba import types
    from numba.experimental import function_type  # noqa: F401 it registers the type

    signature = types.float64(types.int64, types.float64)
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_double)

    class Callback(types.WrapperAddressProtocol):  # type: ignore[misc]  # Numba has no types
        def __init__(self, reward: Reward) -> None:
            self.reward, self.pointer = reward, function(reward)

        def __wrapper_address__(self) -> int | None:
            return ctypes.cast(self.pointer, ctypes.c_void_p).value

        def signature(self) -> object:
            return signature

        def __call__(self, arm: int, number: float) -> float:
            return self.reward(int(arm), float(number))

    return Callback
