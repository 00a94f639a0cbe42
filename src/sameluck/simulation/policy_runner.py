"""`PolicyRunner`: runs one policy through replications, compiled or in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Floats, Ints
from sameluck.compilation.functions import Function, Misuse, blames, is_builtin, locate_error
from sameluck.environments.base import (
    Environment,
    draw,
    draw_function_of,
    is_all_builtin,
    prepared_parameters,
)
from sameluck.errors import AddressReused, Invalid
from sameluck.experiment import Experiment
from sameluck.policies.base import (
    as_compiled,
    memory_of,
    prepare,
    probabilities_function_of,
    select_function_of,
    states_probabilities,
)
from sameluck.randomness.streams import DECISION, REWARD, OnceKey, stream, subkey, word
from sameluck.simulation.guarded import Deadline, OutOfTime, guarded_parameters, guarded_policy
from sameluck.simulation.loop import (
    Owners,
    Results,
    WorkingArrays,
    run_all,
    run_one,
    sum_exploration_excess,
)
from sameluck.text_forms import Parameters
from sameluck.trajectories import Trajectory, empty_trajectory

Number = TypeVar("Number", np.float64, np.int64, np.uint64)

_SELECT_RULE = "a select function returns an arm's index, keeps numbers in tally.memory"
_SAYS_ALL = (Misuse, NameError, AttributeError, ZeroDivisionError, FloatingPointError)
_MOST_ROWS, _MOST_CELLS = 10_000, 1_000_000  # of a law that is checked


class PolicyRunner:
    """One policy of an experiment, prepared to run any of its replications."""

    def __init__(self, experiment: Experiment, environment: Environment, name: str) -> None:
        self.experiment = experiment
        self.environment = environment
        self.name = name
        design = experiment.design
        self.prepared = prepare(experiment.policies[name], experiment.n_arms, experiment.horizon)
        self.memory = memory_of(self.prepared, experiment.n_arms)
        self.policy = as_compiled(self.prepared)
        self.owners: Owners = (
            np.uint64(experiment.seed),
            np.uint64(design.reward_owner(name)),
            np.uint64(design.noise_owner(name)),
        )
        self.arrays = self._empty_arrays()

    def _ours(self) -> bool:
        return is_builtin(select_function_of(self.policy))

    def run(
        self, replications: range, checkpoints: Ints, trajectory: Trajectory | None = None
    ) -> Results:
        """The results of some replications; a trajectory is filled if there is only one."""
        results = self._one_by_one(replications, checkpoints, trajectory)
        if not self._ours() and not bool((results.pulls.sum(axis=-1) == checkpoints).all()):
            raise Invalid(
                f"policy {self.name!r} changed its tally; a select function may write to tally.memory only"
            )
        if not is_all_builtin(self.environment) and not np.isfinite(results.rewards).all():
            raise Invalid(
                f"{self._environment_named()} gave a reward that is not a finite number, or whose "
                "sum is not; a draw function returns a finite number"
            )
        return results

    def _one_by_one(
        self, replications: range, checkpoints: Ints, trajectory: Trajectory | None
    ) -> Results:
        trajectory = self._recorded(trajectory, checkpoints)
        results = self._empty_results(len(replications), checkpoints)
        # To compile, no replication is run; the law of one has the same type.
        parameters, first = self._parameters(replications or range(1)), replications.start
        arguments = (self.policy, parameters, self.owners, first, self.arrays, results, trajectory)
        with self._explained(parameters):
            where = run_all(*arguments)
        self._check_arm(*where)
        return results

    def compile(self, *, recorded: bool) -> None:
        """Compile the loop; no result is kept."""
        end = np.array([self.experiment.horizon])
        self._one_by_one(range(0), end, empty_trajectory(0) if recorded else None)

    def run_in_python(
        self,
        replication: int,
        checkpoints: Ints,
        trajectory: Trajectory | None = None,
        deadline: Deadline | None = None,
    ) -> Results:
        """The same in plain Python, up to a deadline; the bodies of a user are checked (`guarded`).

        A second read of a decision address raises `AddressReused`.
        """
        deadline = deadline or Deadline()
        trajectory = self._recorded(trajectory, checkpoints)
        results = self._empty_results(1, checkpoints)
        seed, reward_owner, noise_owner = self.owners
        self.arrays = self._empty_arrays()
        arms: Any = np.arange(self.experiment.n_arms)  # all at once
        keys = subkey(stream(seed, REWARD, replication, reward_owner), arms)
        self.arrays.first[:], self.arrays.second[:] = keys
        key = stream(seed, DECISION, replication, noise_owner)
        noise = OnceKey(key, f"policy {self.name!r}", bits_once=not self._ours())
        policy = guarded_policy(self.policy, deadline)
        parameters = self._parameters(range(replication, replication + 1))
        checked_parameters = guarded_parameters(
            parameters, deadline, binary=self.environment.binary
        )
        try:
            with self._explained(parameters), deadline.watching():
                failed = run_one(
                    policy, checked_parameters, noise, self.arrays, 0, results, trajectory
                )
        except OutOfTime:
            done = int(np.searchsorted(checkpoints, self.arrays.pulls.sum(), side="right"))
            pulls = results.pulls[:, :done]
            return Results(
                results.indexed_by_period, checkpoints[:done], results.rewards[:, :done], pulls
            )
        self._check_arm(replication, failed)
        return results

    def check_rows(self, deadline: Deadline) -> None:
        """Draw rewards of the first and last of many replications in plain Python, as `run_in_python` does of one."""
        experiment = self.experiment
        if is_builtin(type(self.environment)):
            return
        many = min(experiment.replications, _MOST_ROWS, max(1, _MOST_CELLS // experiment.n_arms))
        parameters = self._parameters(range(many))
        checked_parameters = guarded_parameters(
            parameters, deadline, binary=self.environment.binary
        )
        key = stream(experiment.seed, REWARD, 0, 0)
        with self._explained(parameters), suppress(OutOfTime), deadline.watching():
            for row in (0, many - 1):
                for arm in range(experiment.n_arms):
                    draw(checked_parameters, row, arm, word(key, arm))

    def exploration_excess(
        self, checkpoints: Ints, trajectory: Trajectory, deadline: Deadline | None = None
    ) -> Floats:
        """Up to each checkpoint: by how much the policy's random choices exceeded their expectation.

        The sum over periods of the chosen arm's mean so far minus the expected one. Its mean is zero. Zero throughout
        for a policy that is not randomised, or states no probabilities. With a deadline in plain Python, up to the
        last checkpoint that is reached.
        """
        luck = np.full(checkpoints.size, np.nan)
        if not states_probabilities(self.policy):
            return np.zeros(checkpoints.size)
        probabilities = np.zeros(self.experiment.n_arms)
        policy, loop = self.policy, sum_exploration_excess.__call__
        if deadline is not None:
            policy, loop = guarded_policy(self.policy, deadline), sum_exploration_excess.body
        try:
            with deadline.watching() if deadline else nullcontext():
                failed = loop(
                    policy, self._empty_arrays(), checkpoints, trajectory, probabilities, luck
                )
        except OutOfTime:
            return luck[np.isfinite(luck)]
        except Exception as error:
            if self._ours():
                raise
            raise Invalid(self.refusal(probabilities_function_of(self.policy), error)) from error
        if failed:
            raise Invalid(
                f"{self._named()}: its probabilities in period {failed} are {probabilities.tolist()}, and it played "
                f"arm {trajectory.arms[failed - 1]}; a probabilities function fills every entry with the probability "
                "that the select function plays this arm, so that their sum is 1"
            )
        return luck

    @contextmanager
    def _explained(self, parameters: Parameters) -> Iterator[None]:
        """Turn what goes wrong in a user's body into a message with its line; the original error is the cause."""
        try:
            yield
        except OutOfTime:
            raise
        except AddressReused as error:
            where, _ = locate_error(select_function_of(self.policy), error)
            raise AddressReused(f"{error} ({where})") from None
        except Exception as error:
            draw_body, ours = draw_function_of(parameters), self._ours()
            blamed = not is_builtin(draw_body) and (ours or blames(draw_body, error))
            if ours and not blamed:
                raise
            body = draw_body if blamed else select_function_of(self.policy)
            raise Invalid(self.refusal(body, error)) from error

    def refusal(self, body: Function, error: Exception) -> str:
        """The message for a body of a user that must not be run."""
        if body is select_function_of(self.policy):
            what, rule = self._named(), _SELECT_RULE
        elif states_probabilities(self.policy) and body is probabilities_function_of(self.policy):
            what, rule = self._named(), "a probabilities function fills `probabilities`"
        else:
            what, rule = self._environment_named(), "a draw function returns a number"
        where, why = locate_error(body, error)
        message = f"{what} cannot be run: {why} ({where})"
        if isinstance(error, _SAYS_ALL):
            return message
        rules = f"{rule} and uses numbers, loops and the arrays it is given, no new arrays or Python objects"
        return f"{message}; {rules}"

    def blamed_for(self, what: str) -> str:
        """The policy, or for rewards of an environment of a user the environment."""
        own = not is_builtin(draw_function_of(self._parameters(range(1))))
        return self._environment_named() if what == "rewards" and own else f"policy {self.name!r}"

    def _named(self) -> str:
        kind = type(self.experiment.policies[self.name])
        return f"policy {self.name!r} ({kind.__name__})"

    def _environment_named(self) -> str:
        return f"environment {type(self.environment).__name__}"

    def _empty_arrays(self) -> WorkingArrays:
        arms = self.experiment.n_arms
        keys = (_apart(arms, np.uint64), _apart(arms, np.uint64))
        return WorkingArrays(
            *keys,
            _apart(arms, np.int64),
            _apart(arms, np.float64),
            _apart(arms, np.float64),
            _apart(self.memory, np.float64),
        )

    def _empty_results(self, count: int, checkpoints: Ints) -> Results:
        shape = (count, checkpoints.size)
        pulls = np.empty((*shape, self.experiment.n_arms), np.int64)
        return Results(
            self.experiment.design.indexed_by_period, checkpoints, np.empty(shape), pulls
        )

    def _recorded(self, trajectory: Trajectory | None, checkpoints: Ints) -> Trajectory | None:
        # The loop without a trajectory reads the next reward of an arm's stack.
        if trajectory is None and self.experiment.design.indexed_by_period:
            return empty_trajectory(int(checkpoints[-1]))
        return trajectory

    def _parameters(self, replications: range) -> Parameters:
        experiment = self.experiment
        return prepared_parameters(
            self.environment, experiment.seed, replications, experiment.n_arms
        )

    def _check_arm(self, replication: int, period: int) -> None:
        arms = self.experiment.n_arms
        if period != 0:
            raise Invalid(
                f"policy {self.name!r} chose an arm outside 0..{arms - 1} in period {period} of replication "
                f"{replication}; its select function must return an arm's index"
            )


def _apart(size: int, kind: type[Number]) -> NDArray[Number]:
    # Small arrays of two threads may lie in one cache line, and each write of one would then stop the other.
    return np.zeros(size + 32, kind)[16 : 16 + size]
