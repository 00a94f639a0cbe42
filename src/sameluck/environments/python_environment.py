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

_TRIED = (0.0, 0.25, 0.5, 1 - 2**-53)  # uniform numbers


def python_environment(
    reward: Reward, means: Sequence[float], *, name: str | None = None, binary: bool = False
) -> Environment:
    """An environment whose rewards are `reward(arm, uniform)`, with `uniform` from the uniform law on [0, 1).

    The function is called for every reward, some hundred thousand times a second, and may use any library; `draws`
    compiles a function instead. It must depend on its arguments alone. It runs in threads of this process: `map=`
    cannot send it to others.

    Args:
        reward: The function.
        means: The mean reward of each arm, for regret.
        name: Of the environment in its text form; that of the function if not given.
        binary: Whether the rewards are 0 and 1 only.
    """
    words = re.findall(r"[A-Za-z0-9]+", str(name or getattr(reward, "__name__", "")))
    if not callable(reward) or not words or words == ["lambda"] or words[0][0].isdigit():
        raise Invalid(
            f"python_environment needs a function and a name that begins with a letter, got {shown(reward)} and "
            f"{shown(name)}"
        )
    kind = _kind("".join(word.title() for word in words), reward)
    parameters = PythonReward(_callback(reward))
    kind.compiled_parameters, kind.binary = lambda *_: parameters, binary
    complete(kind)
    environment: Environment = kind(tuple(means))
    _check_rewards(reward, environment)
    ENVIRONMENTS[name_of(kind)] = kind
    return environment


def _kind(name: str, reward: Reward) -> Any:
    for other in ENVIRONMENTS.values():
        if is_builtin(other) and other.__name__.lower() == name.lower():
            raise Invalid(
                f"sameluck has an environment called {other.__name__}; give yours another name"
            )
    make: Any = NamedTuple  # by a call, as its name is known only now
    kind = make(name, [("means", Sequence[float])])
    kind.__module__ = getattr(reward, "__module__", None) or "__main__"
    kind.__doc__ = "Rewards that a Python function computes."
    return kind


def _check_rewards(reward: Reward, environment: Environment) -> None:
    kind, means = type(environment).__name__, environment.means
    check_length(f"{kind}.means", means, len(means))
    environment.check(len(means))
    for arm in range(len(means)):
        for number in _TRIED:
            call = f"{kind}: reward({arm}, {number:g})"
            try:
                values = [reward(arm, number) for _ in range(2)]
            except Exception as error:
                raise Invalid(f"{call} raised {type(error).__name__}: {error}") from error
            require_number(call, values[0], **REWARD_LIMITS)
            if values[0] != values[1]:
                raise Invalid(
                    f"{call} is not the same twice; it must depend on its arguments alone"
                )


class PythonReward(NamedTuple):
    """A Python function that machine code can call."""

    reward: Reward


@draws(PythonReward)
def _python(parameters: PythonReward, row: int, arm: int, bits: Bits) -> float:
    return parameters.reward(arm, uniform(bits))


def _callback(reward: Reward) -> Reward:
    def safe(arm: int, number: float) -> float:
        # An exception cannot pass through machine code: the reward is not a number, which is refused afterwards.
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
