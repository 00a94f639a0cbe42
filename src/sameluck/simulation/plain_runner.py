"""`PlainRunner`: the loop in plain Python, in which a user's functions are checked at every call.

Machine code checks no writes, and a division by zero gives a number there. Here arrays refuse wrong indices and
writes, a division by zero raises, and a random number that is read twice raises `AddressReused`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.compilation.function_errors import Misuse
from sameluck.compilation.functions import is_builtin
from sameluck.context import Context
from sameluck.environments.base import (
    CONTEXT_FUNCTIONS,
    EXPECTED_FUNCTIONS,
    are_finite_and_within,
    draw,
    draw_function_of,
    draws,
    user_functions_of,
)
from sameluck.environments.checks import MAX_REWARD
from sameluck.environments.contextual.base import (
    contexts,
    expected,
    expects,
    write_context,
)
from sameluck.policies.base import (
    Policy,
    Tally,
    replace_innermost,
    select,
    select_function_of,
    selects,
)
from sameluck.randomness.streams import (
    CONTEXT,
    DECISION,
    REWARD,
    Bits,
    Key,
    OnceBits,
    OnceKey,
    stream,
    subkey,
    word,
)
from sameluck.simulation.refusals import OutOfTime
from sameluck.simulation.runners.compiled_runner import CompiledRunner
from sameluck.simulation.runners.contexts import draw_for_user, forget
from sameluck.simulation.runners.loop import Replication, Results, run_one
from sameluck.text_forms import Parameters, is_parameters
from sameluck.trajectories import Trajectory, empty_trajectory

Value = TypeVar("Value")
Index: TypeAlias = Any  # whatever a function writes in brackets

_MAX_ROWS, _MAX_CELLS = 10_000, 1_000_000  # of parameters that are checked


class Deadline:
    """Time after which the next guarded call or read of an array ends a run in plain Python."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.end = time.perf_counter() + seconds

    def check(self) -> None:
        """Raise `OutOfTime` after the end."""
        if time.perf_counter() > self.end:
            raise OutOfTime


class PlainRunner:
    """Runs the policy of a `CompiledRunner` in plain Python."""

    def __init__(self, runner: CompiledRunner, deadline: Deadline | None = None) -> None:
        self.runner, self.setting = runner, runner.setting
        self.deadline = deadline or Deadline()

    def run(
        self, replication: int, checkpoints: Ints, trajectory: Trajectory | None = None
    ) -> Results:
        """Return the results of a replication, up to the last checkpoint before the deadline."""
        runner, setting = self.runner, self.setting
        seed, reward_owner, noise_owner = setting.stream_owners
        arrays, contexts = runner.empty_arrays(), setting.empty_contexts()
        results = setting.empty_results(1, checkpoints)
        cells = np.arange(setting.experiment.cells)  # all at once
        keys = subkey(stream(seed, REWARD, replication, reward_owner), cells)  # type: ignore[arg-type]
        arrays.first[:], arrays.second[:] = keys
        if contexts is not None:
            forget(contexts)
        key = stream(seed, CONTEXT, replication, reward_owner)
        users = OnceKey(key, f"environment {type(setting.environment).__name__}")
        key = stream(seed, DECISION, replication, noise_owner)
        noise = OnceKey(key, runner.refusals.label, bits_once=not runner.is_builtin)
        current = Replication(users, noise, arrays, 0)
        policy = guarded_policy(runner.policy, self.deadline)
        parameters = setting.parameters(range(replication, replication + 1))
        guarded = self._guarded_parameters(parameters)
        trajectory = trajectory or empty_trajectory(0)
        try:
            with runner.refusals.explaining(parameters, range(replication, replication + 1)):
                period = run_one(policy, guarded, current, contexts, results, trajectory)
        except OutOfTime:
            done = int(np.searchsorted(checkpoints, arrays.observations.pulls.sum(), side="right"))
            rewards, pulls = results.rewards[:, :done], results.pulls[:, :done]
            return results._replace(checkpoints=checkpoints[:done], rewards=rewards, pulls=pulls)
        runner.refusals.check_arm(replication, period)
        return results

    def check_rows(self) -> None:
        """Draw rewards of the first and the last of many replications, which a user's parameters must have."""
        experiment = self.setting.experiment
        if is_builtin(type(self.setting.environment)):
            return
        rows = min(experiment.replications, _MAX_ROWS, max(1, _MAX_CELLS // experiment.n_arms))
        parameters = self.setting.parameters(range(rows))
        guarded = self._guarded_parameters(parameters)
        key = stream(experiment.seed, REWARD, 0, 0)
        explaining = self.runner.refusals.explaining(parameters, range(rows))
        with suppress(OutOfTime), explaining:
            for row in (0, rows - 1):
                contexts = self.setting.empty_contexts()
                if contexts is not None:
                    write_context(guarded, row, 1, key, contexts.user)
                for arm in range(experiment.n_arms):
                    draw_for_user(contexts, guarded, row, arm, word(key, arm))
                    if contexts is not None:
                        expected(guarded, row, contexts.user, arm)

    def _guarded_parameters(self, parameters: Parameters) -> Parameters:
        environment, context = self.setting.environment, self.setting.experiment.context
        return guarded_parameters(
            parameters, self.deadline, binary=environment.binary, context=context
        )


class GuardedArray(np.ndarray[Any, Any]):
    """View that refuses an index out of range or negative, and writes if it is read-only."""

    label = "an array"
    deadline: Deadline | None = None

    def __array_finalize__(self, source: object) -> None:
        self.label = getattr(source, "label", self.label)
        self.deadline = getattr(source, "deadline", None)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:  # noqa: FBT001, FBT002
        outputs = context[1][context[0].nin :] if context else ()
        if array.ndim and not any(np.shares_memory(array, output) for output in outputs):
            raise Misuse("it makes a new array: write a loop over the arms")
        return np.asarray(array)[()]  # the number that a sum is

    def __getitem__(self, index: Index) -> Any:
        self._check("reads", index)
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[Any]:
        return iter(np.asarray(self))

    def __setitem__(self, index: Index, value: Any) -> None:
        if not self.flags.writeable:
            of_environment = self.label.startswith(("parameters", "context"))
            remedy = "" if of_environment else ": only tally.memory may be written to"
            raise Misuse(f"it writes to {self.label}, which it must not change{remedy}")
        self._check("writes", index)
        super().__setitem__(index, value)

    def _check(self, verb: str, index: Index) -> None:
        if self.deadline is not None:
            self.deadline.check()
        indices = index if isinstance(index, tuple) else (index,)
        for entry, size in zip(indices, self.shape, strict=False):
            if not isinstance(entry, int | np.integer):
                return
            if not 0 <= entry < size:
                text = ", ".join(map(str, indices))
                raise Misuse(f"it {verb} {self.label}[{text}], but {self._range(size)}")

    def _range(self, size: int) -> str:
        if self.label == "tally.memory" and size == 0:
            return "there is no memory: state its size by a method memory(self, arms)"
        return f"the indices are 0 to {size - 1}" if size else "it is empty"


def _guarded(value: Value, label: str, deadline: Deadline, *, writable: bool = False) -> Value:
    """Return the same value with its arrays, also those in NamedTuples, as `GuardedArray` views."""
    if isinstance(value, np.ndarray):
        view = value.view(GuardedArray)
        view.label, view.deadline = label, deadline
        view.flags.writeable = writable and value.flags.writeable
        return view  # type: ignore[return-value]
    if not is_parameters(value):
        return value
    fields = value._asdict().items()
    inner = {name: _guarded(field, f"{label}.{name}", deadline) for name, field in fields}
    return type(value)(**inner)  # type: ignore[return-value]


class GuardedPolicy(NamedTuple):
    """A user's prepared policy, whose function is checked in every period."""

    policy: Policy
    deadline: Deadline


def guarded_policy(policy: Policy, deadline: Deadline) -> Policy:
    """Return a user's prepared policy as a `GuardedPolicy`, sameluck's unchanged."""
    if is_builtin(select_function_of(policy)):
        return policy
    return replace_innermost(
        policy, lambda inner: GuardedPolicy(_guarded(inner, "policy", deadline), deadline)
    )


@selects(GuardedPolicy)
def _select_guarded(policy: GuardedPolicy, tally: Tally, period: int, noise: Key | OnceKey) -> int:
    inner, deadline = policy
    deadline.check()
    memory = _guarded(tally.memory, "tally.memory", deadline, writable=True)
    guarded = _guarded(tally, "tally", deadline)._replace(memory=memory)
    with np.errstate(divide="raise", invalid="raise"):
        arm = select(inner, guarded, period, noise)
    if not isinstance(arm, int | np.integer) or isinstance(arm, bool):
        reason = f"what it returns, {arm!r}, is not a whole number: return an arm's index"
        raise Misuse(reason, select_function_of(inner))
    return int(arm)


class GuardedParameters(NamedTuple):
    """Parameters of a user's environment, whose functions are checked at every call."""

    inner: Parameters
    deadline: Deadline
    binary: bool
    levels: int  # 0 without levels


def guarded_parameters(
    parameters: Parameters, deadline: Deadline, *, binary: bool, context: Context | None = None
) -> Parameters:
    """Return the parameters of a user's environment with guards, sameluck's unchanged."""
    if not user_functions_of(parameters):
        return parameters
    inner = _guarded(parameters, "parameters", deadline)
    levels = 0 if context is None or context.indexed_by_period else context.number
    return GuardedParameters(inner, deadline, binary, levels)


@contexts(GuardedParameters)
def _write_guarded(
    parameters: GuardedParameters, row: int, period: int, noise: Key | OnceKey, context: Floats
) -> None:
    parameters.deadline.check()
    context.fill(np.nan)  # so that an entry that is not written is noticed
    written = _guarded(context, "context", parameters.deadline, writable=True)
    with np.errstate(divide="raise", invalid="raise"):
        write_context(parameters.inner, row, period, noise, written)
    function = CONTEXT_FUNCTIONS[type(parameters.inner)]
    for index, number in np.ndenumerate(context):
        if not np.isfinite(number):
            entry = ", ".join(map(str, index))
            reason = f"it leaves context[{entry}] {number}: write a finite number into each entry"
            raise Misuse(reason, function)
    if not are_finite_and_within(parameters, context, parameters.levels):
        last = parameters.levels - 1
        reason = f"it writes the level {context[0]:g}, which does not exist: levels are 0 to {last}"
        raise Misuse(reason, function)


@draws(GuardedParameters)
def _draw_guarded(
    parameters: GuardedParameters, row: int, context: Floats | None, arm: int, bits: Bits
) -> float:
    parameters.deadline.check()
    read = _guarded(context, "context", parameters.deadline)
    with np.errstate(divide="raise", invalid="raise"):
        reward = draw(parameters.inner, row, read, arm, OnceBits.of(bits))
    return _checked_reward(parameters, reward)


@expects(GuardedParameters)
def _expect_guarded(parameters: GuardedParameters, row: int, context: Floats, arm: int) -> float:
    if type(parameters.inner) not in EXPECTED_FUNCTIONS:
        return np.nan
    parameters.deadline.check()
    read = _guarded(context, "context", parameters.deadline)
    with np.errstate(divide="raise", invalid="raise"):
        mean = expected(parameters.inner, row, read, arm)
    if not isinstance(mean, int | float | np.number) or not abs(mean) <= MAX_REWARD:
        reason = f"what it returns, {mean!r}, is not a finite number: return the arm's mean reward"
        raise Misuse(reason, EXPECTED_FUNCTIONS[type(parameters.inner)])
    return float(mean)


def _checked_reward(parameters: GuardedParameters, reward: float) -> float:
    function = draw_function_of(parameters.inner)
    if isinstance(reward, bool | np.bool_):
        reason = f"what it returns, {reward!r}, is not a number, but True or False: write 1.0 if ... else 0.0"
        raise Misuse(reason, function)
    if not isinstance(reward, int | float | np.number):
        raise Misuse(f"what it returns, {reward!r}, is not a number", function)
    if not abs(reward) <= MAX_REWARD:
        reason = f"it returns {reward}, which is not a finite number up to {MAX_REWARD:g}"
        raise Misuse(reason, function)
    if parameters.binary and reward not in (0, 1):
        raise Misuse(f"it returns {reward}, but `binary` is True: only 0 and 1 are", function)
    return float(reward)
