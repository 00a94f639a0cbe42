"""The check of a user's bodies before machine code runs: a few periods in plain Python, with bounds.

A body must be a pure function of its arguments. `probe_bodies` refuses names that it must not use (`user_functions`);
then it runs the bodies in plain Python (`guarded`), twice, because the results must be equal.
`Probe.compare` runs the same periods compiled, and one more if the time was over: a loop may not end. A body is
checked when it is first used in a process, for at most `SECONDS`, and for `SECONDS_AGAIN` with each other set of
parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from functools import partial
from itertools import product
from threading import Thread
from typing import NamedTuple, TypeVar

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.compilation.functions import Function, Misuse
from sameluck.environments.base import Environment
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.simulation.guarded import Deadline
from sameluck.simulation.loop import Results
from sameluck.simulation.policy_runner import PolicyRunner
from sameluck.simulation.user_functions import UserFunction, called_by, check_names, user_functions
from sameluck.trajectories import Trajectory, empty_trajectory

Answer = TypeVar("Answer")

SECONDS, SECONDS_AGAIN = 0.24, 0.03
PERIODS = 250
LONGEST = 10.0  # seconds for them compiled, after which a loop is taken to be without end
COMPILED = "compiled and in plain Python"
RULE = (
    "a body must use nothing but its arguments and constants, and write to nothing but tally.memory"
)


_checked: set[UserFunction] = set()


class Probe(NamedTuple):
    """A few periods of a policy in plain Python, which the compiled loop must repeat."""

    runner: PolicyRunner
    results: tuple[Results, ...]  # of the first replications
    deadlines: tuple[Deadline, ...]  # of these
    luck: Floats  # of exploration in the first, up to each period until the time was over
    uses: frozenset[UserFunction]

    def compare(self, *, recorded: bool) -> None:
        """Raise `Invalid` if compiled code differs; otherwise the bodies count as checked."""
        most = min(PERIODS, self.runner.experiment.horizon)
        for replication, plain in enumerate(self.results):
            periods = np.arange(1, min(most, plain.checkpoints.size + 1) + 1)
            trajectory = empty_trajectory(periods.size) if recorded else None
            self.runner.run(range(0), periods, trajectory)  # compiles
            only = range(replication, replication + 1)
            run = partial(self.runner.run, only, periods, trajectory)
            machine = self._in_time(run, replication, periods.size)
            _check_equal(self.runner, plain, machine, COMPILED)
        if any(use.probabilities for use in self.uses):
            self._compare_probabilities()
        _checked.update(self.uses)

    def _compare_probabilities(self) -> None:
        played = _trajectory_of(self.results[0])
        self.runner.exploration_excess(np.empty(0, np.int64), played)  # compiles
        both = self.luck.size
        periods = np.arange(1, min(both + 1, played.arms.size) + 1)
        sum_exploration_excess = partial(self.runner.exploration_excess, periods, played)
        luck = self._in_time(sum_exploration_excess, 0, periods.size)[:both]
        if not np.allclose(luck, self.luck, rtol=1e-9, atol=1e-9 * np.abs(played.rewards).sum()):
            raise Invalid(
                f"policy {self.runner.name!r} states different probabilities {COMPILED}: {RULE}"
            )

    def _in_time(self, compute: Callable[[], Answer], replication: int, period: int) -> Answer:
        # Machine code cannot be interrupted: its thread is left behind, and does not keep the process from ending.
        outcome: Future[Answer] = Future()

        def run() -> None:
            try:
                outcome.set_result(compute())
            except BaseException as error:
                outcome.set_exception(error)

        Thread(target=run, daemon=True, name="sameluck-check").start()
        try:
            return outcome.result(LONGEST)
        except NotInTime:
            raise Invalid(self._without_end(replication, period)) from None

    def _without_end(self, replication: int, period: int) -> str:
        deadline, bodies = self.deadlines[replication], [use.body for use in self.uses]
        own = [body for body in bodies if body.__code__.co_filename == deadline.file] or bodies
        inside = [body for body in own if _has_line(body, deadline.line)]
        reason = f"it does not return by period {period} within {LONGEST:g} s: does its loop end?"
        line = deadline.line if inside else None
        return self.runner.refusal((inside or own)[0], Misuse(reason, (inside or own)[0], line))


def probe_bodies(
    experiment: Experiment, environment: Environment, *, detail: bool = False
) -> list[Probe]:
    """Run the user's bodies that are not checked yet in plain Python; raise `Invalid` if one must not be run.

    Bodies that state probabilities are checked if their `detail` is wanted.
    """
    probes: list[Probe] = []
    for one, name in product(environment.moves_between, experiment.policies):
        policy = experiment.policies[name]
        uses = frozenset(user_functions(experiment, one, policy, detail=detail))
        _check_names(experiment, one, name, uses)
        if uses := uses.difference(_checked, *(probe.uses for probe in probes)):
            probes.append(_probe(PolicyRunner(experiment, one, name), uses))
    return probes


def _check_names(
    experiment: Experiment, environment: Environment, name: str, uses: Iterable[UserFunction]
) -> None:
    for use in uses:
        try:
            check_names(use.body)
        except Misuse as error:
            runner = PolicyRunner(experiment, environment, name)
            raise Invalid(runner.refusal(use.body, error)) from None


def _probe(runner: PolicyRunner, uses: frozenset[UserFunction]) -> Probe:
    known = {use.body for use in _checked}
    seconds = (SECONDS_AGAIN if all(use.body in known for use in uses) else SECONDS) / 5
    watched = {one.__code__ for use in uses for one in called_by(use.body)}
    periods = np.arange(1, min(PERIODS, runner.experiment.horizon) + 1)
    runner.check_rows(Deadline(seconds, watched))
    results, deadlines = [], []
    for replication in (0, 0, 1):
        deadlines.append(Deadline(seconds, watched))
        results.append(runner.run_in_python(replication, periods, None, deadlines[-1]))
    _check_equal(runner, results[0], results[1], "when it is run again")
    luck = np.empty(0)
    if any(use.probabilities for use in uses):
        played = _trajectory_of(results[1])
        luck = runner.exploration_excess(
            periods[: played.arms.size], played, Deadline(seconds, watched)
        )
    return Probe(runner, tuple(results[1:]), tuple(deadlines[1:]), luck, uses)


def _trajectory_of(results: Results) -> Trajectory:
    """The arms and rewards of a replication whose checkpoints are all its first periods."""
    periods = results.checkpoints.size
    arms, rewards = _arms(results, periods), np.diff(results.rewards[0], prepend=0.0)
    return empty_trajectory(periods)._replace(arms=arms, rewards=rewards)


def _arms(results: Results, periods: int) -> Ints:
    played: Ints = np.diff(results.pulls[0, :periods], axis=0, prepend=0).argmax(axis=1)
    return played


def _has_line(body: Function, line: int | None) -> bool:
    return line is not None and any(line == number for *_, number in body.__code__.co_lines())


def _check_equal(runner: PolicyRunner, first: Results, second: Results, when: str) -> None:
    both = min(first.checkpoints.size, second.checkpoints.size)
    arms = [_arms(one, both) for one in (first, second)]
    check_equal(runner, arms, [one.rewards[0, :both] for one in (first, second)], when)


def check_equal(runner: PolicyRunner, arms: list[Ints], earned: list[Floats], when: str) -> None:
    """Raise `Invalid` if two runs of a replication differ in arms or, but for rounding, in cumulative rewards."""
    # NumPy's and the compiler's logarithms may differ in the last bit.
    largest = max(float(np.abs(one).max(initial=0.0)) for one in earned)
    unequal = {
        "arms": arms[0] != arms[1],
        "rewards": np.abs(earned[0] - earned[1]) > 1e-9 * largest,
    }
    periods = {what: int(np.argmax(where)) + 1 for what, where in unequal.items() if where.any()}
    if periods:
        what = min(periods, key=lambda what: periods[what])
        raise Invalid(
            f"{runner.blamed_for(what)} gives different {what} {when}, first in period {periods[what]}: {RULE}"
        )
