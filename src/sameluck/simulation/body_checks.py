"""The check of a user's bodies before machine code runs: a few periods in plain Python, with bounds.

A body must be a pure function of its arguments. `probe_bodies` refuses names that are not defined, global randomness
and the clock; then it runs the bodies in plain Python (`guarded`), twice, because the results must be equal.
`Probe.compare` runs the same periods compiled. A body is checked when it is first used in a process, for at most
`SECONDS`, and for `SECONDS_AGAIN` with each other set of parameters.
"""

from __future__ import annotations

import builtins
import dis
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.bodies import Body, Misuse, is_ours
from sameluck.environments.base import Environment, compiled_law, draw_body_of
from sameluck.errors import Invalid, did_you_mean
from sameluck.experiment import Experiment
from sameluck.policies.base import Policy, body_of, prepare
from sameluck.policies.batched import Batched
from sameluck.simulation.guarded import Deadline
from sameluck.simulation.loop import PolicyRunner, Results
from sameluck.trajectories import empty_trajectory

SECONDS, SECONDS_AGAIN = 0.24, 0.03
PERIODS = 250
COMPILED = "compiled and in plain Python"
_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
_IMPURE = ("random", "numpy.random", "secrets", "uuid", "time", "datetime")


class _Use(NamedTuple):
    """A body with its parameters."""

    body: Body
    parameters: str
    arms: int
    horizon: int


_checked: set[_Use] = set()


class Probe(NamedTuple):
    """A few periods of a policy in plain Python, which the compiled loop must repeat."""

    runner: PolicyRunner
    results: tuple[Results, ...]  # of the first replications
    uses: frozenset[_Use]

    def compare(self, *, recorded: bool) -> None:
        """Raise `Invalid` if compiled code differs; otherwise the bodies count as checked."""
        for replication, plain in enumerate(self.results):
            periods = plain.checkpoints
            if periods.size:
                trajectory = empty_trajectory(periods.size) if recorded else None
                only = range(replication, replication + 1)
                machine = self.runner.run(only, periods, trajectory)
                _check_equal(self.runner, plain, machine, COMPILED)
        _checked.update(self.uses)


def probe_bodies(experiment: Experiment, environment: Environment) -> list[Probe]:
    """Run the user's bodies that are not checked yet in plain Python; raise `Invalid` if one must not be run."""
    probes: list[Probe] = []
    for name, policy in experiment.policies.items():
        done = _checked.union(*(probe.uses for probe in probes))
        if uses := frozenset(_own_bodies(experiment, environment, policy)) - done:
            probes.append(_probe(PolicyRunner(experiment, environment, name), uses))
    return probes


def _own_bodies(experiment: Experiment, environment: Environment, policy: Policy) -> Iterator[_Use]:
    arms, horizon = experiment.n_arms, experiment.horizon
    if not is_ours(type(policy)) or isinstance(policy, Batched):
        body: Body = body_of(prepare(policy, arms, horizon))
        if not is_ours(body):
            yield _Use(body, repr(policy), arms, horizon)
    if not is_ours(type(environment)):
        body = draw_body_of(compiled_law(environment, experiment.seed, range(1), arms))
        if not is_ours(body):
            yield _Use(body, repr(environment), arms, 0)


def _probe(runner: PolicyRunner, uses: frozenset[_Use]) -> Probe:
    for use in uses:
        _check_names(runner, use.body)
    known = {use.body for use in _checked}
    seconds = SECONDS_AGAIN if all(use.body in known for use in uses) else SECONDS
    periods = np.arange(1, min(PERIODS, runner.experiment.horizon) + 1)
    runner.check_rows(Deadline(seconds / 4))
    first, again, other = (
        runner.run_in_python(replication, periods, None, Deadline(seconds / 4))
        for replication in (0, 0, 1)
    )
    _check_equal(runner, first, again, "when it is run again")
    return Probe(runner, (first, other), uses)


def _check_names(runner: PolicyRunner, body: Body) -> None:
    """Raise `Invalid` for a name that is not defined, and for global randomness and the clock."""
    known = {**vars(builtins), **body.__globals__, **inspect.getclosurevars(body).nonlocals}
    thing: object = None
    for step in dis.get_instructions(body):
        reason, name = "", str(step.argval)
        if step.opname in ("LOAD_GLOBAL", "LOAD_DEREF"):
            thing = known.get(name)
            if name not in known:
                near = did_you_mean(name, body.__code__.co_varnames)
                reason = f"name {name!r} is not defined ({near})"
        else:
            thing = getattr(thing, name, None) if step.opname in _ATTRIBUTE else None
        module = _module(thing)
        if any(f"{module}.".startswith(f"{one}.") for one in _IMPURE):
            reason = f"it uses {module}, which differs from run to run: {_source(body)}"
        if reason:
            line = step.positions.lineno if step.positions else None
            raise Invalid(runner.refusal(body, Misuse(reason, body, line)))


def _source(body: Body) -> str:
    if "luck" in body.__code__.co_varnames:
        return "take random numbers from luck, as in uniform(at(luck, period, 0))"
    return "take random numbers from bits, as in uniform(bits)"


def _module(thing: object) -> str:
    if isinstance(thing, ModuleType):
        return thing.__name__
    owner = getattr(thing, "__self__", None)
    return str(getattr(thing, "__module__", None) or type(owner).__module__)


def _check_equal(runner: PolicyRunner, first: Results, second: Results, when: str) -> None:
    both = min(first.checkpoints.size, second.checkpoints.size)
    arms = [
        np.diff(one.pulls[0, :both], axis=0, prepend=0).argmax(axis=1) for one in (first, second)
    ]
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
            f"{runner.blamed_for(what)} gives different {what} {when}, first in period {periods[what]}: a body must "
            "use nothing but its arguments and constants, and write to nothing but tally.memory"
        )
