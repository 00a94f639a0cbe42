"""Scenario of the contract's tests: a store, a clock that the test advances, and users with known rewards.

A simulation of the same experiment reads the same reward at the same address (`reward_at`). So the runs of a live
experiment must equal the simulation's, bit for bit, whatever the order of events.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias, TypeVar

import pytest

from sameluck.environments.base import Environment
from sameluck.environments.normal import Gaussian
from sameluck.errors import Conflict
from sameluck.experiment import Experiment
from sameluck.live import (
    Assignment,
    AssignmentDetails,
    LiveExperiment,
    LiveOptions,
    Receipt,
    Reward,
    Store,
)
from sameluck.live.databases.rows import EventRow
from sameluck.live.options import Makers
from sameluck.live.rehearsal import VirtualClock
from sameluck.runs import Runs
from sameluck.simulation.rewards import observed_rewards, reward_at
from sameluck.simulation.simulate import simulate

Row = TypeVar("Row", bound=tuple[object, ...])
OpenStore: TypeAlias = Callable[[Callable[[], float]], Store]

TWO = {"ucb": "ucb1(alpha=2)", "thompson": "thompson_gaussian"}
FIVE = {**TWO, "greedy": "epsilon_greedy", "uniform": "uniform", "fixed": "always(1)"}
ENVIRONMENT = Gaussian((0.0, 0.3, 0.6))
START = 1_700_000_000.0
WINDOW = 600.0
LEASE = 60.0
MICROSECOND = 1e-6
AUDIT_REWARD = 1_000_000.0  # far from every reward of the environment


class Scenario:
    """Store with its clock and its users."""

    def __init__(self, open_store: OpenStore) -> None:
        self._open_store = open_store
        self._units = count()
        self.clock = VirtualClock(START)
        self.store = open_store(self.clock)

    def start(
        self,
        policies: Mapping[str, Any] = TWO,
        *,
        name: str = "trial",
        options: LiveOptions | None = None,
        makers: Makers | None = None,
        **changes: Any,
    ) -> LiveExperiment:
        """Start an experiment, small by default; `changes` are further arguments of `Experiment`."""
        usual: dict[str, object] = {"arms": 3, "horizon": 8, "replications": 3, "seed": 11}
        experiment = Experiment(policies=policies, **{**usual, **changes})
        options = options or LiveOptions(reward=Reward(window_seconds=WINDOW))
        return self.store.start(name, experiment, options=options, makers=makers)

    def reopen(self, live: LiveExperiment, makers: Makers | None = None) -> LiveExperiment:
        """Close the store, open the same database again and load the experiment."""
        self.store.close()
        self.store = self._open_store(self.clock)
        return self.store.load(live.name, makers=makers)

    def unit(self) -> str:
        return f"unit {next(self._units)}"

    def enrol(self, live: LiveExperiment) -> str:
        """Enrol a new unit and return the id of its assignment."""
        assignment = live.assign(self.unit())
        assert assignment.id is not None, assignment
        return assignment.id

    def start_and_enrol(self, **arguments: Any) -> tuple[LiveExperiment, str]:
        """Start an experiment as `start` does, enrol a new unit and return the id of its assignment."""
        live = self.start(**arguments)
        return live, self.enrol(live)

    def enrol_all(self, live: LiveExperiment) -> dict[str, AssignmentDetails]:
        """Enrol new units until no entry is wanted; return their assignments by id."""
        assignments: dict[str, AssignmentDetails] = {}
        while (assignment := live.assign(self.unit())).id is not None:
            assignments[assignment.id] = live.describe(assignment.id)
        return assignments

    def reward_of(
        self, live: LiveExperiment, id: str, environment: Environment = ENVIRONMENT
    ) -> float:
        """Return the reward of an assignment's user; `AUDIT_REWARD` if the assignment is an audit."""
        details = live.describe(id)
        address = details.replication, details.policy, details.arm_index, details.position
        return AUDIT_REWARD if details.audit else reward_at(live.experiment, environment, *address)

    def pay(self, live: LiveExperiment, id: str, environment: Environment = ENVIRONMENT) -> Receipt:
        """Report the reward of an assignment's user."""
        return live.reward(id, self.reward_of(live, id, environment))

    def serve(self, live: LiveExperiment, environment: Environment = ENVIRONMENT) -> Assignment:
        """Assign a new unit and, if it is enrolled, report its reward at once."""
        assignment = live.assign(self.unit())
        if assignment.id is not None:
            self.pay(live, assignment.id, environment)
        return assignment

    def finish(
        self,
        live: LiveExperiment,
        environment: Environment = ENVIRONMENT,
        waiting: Sequence[str] = (),
    ) -> None:
        """Serve units until no entry is wanted; up to six rewards are outstanding, in random order."""
        generator, pending = random.Random(7), list(waiting)
        while True:
            assignment = live.assign(self.unit())
            if assignment.id is not None:
                pending.append(assignment.id)
            if not pending:
                return
            if assignment.id is None or len(pending) > 5:
                self.pay(live, pending.pop(generator.randrange(len(pending))), environment)

    def events(self, live: LiveExperiment, id: str) -> list[tuple[float, str]]:
        """Return the reported rewards of an assignment with their outcomes, in order of arrival."""
        rows = self.rows(live, EventRow, "events")
        return [(row.value, row.outcome) for row in rows if row.assignment == id]

    def rows(
        self, live: LiveExperiment, row: type[Row], statement: str, **values: str
    ) -> list[Row]:
        """Return the rows that a statement selects for an experiment."""
        return self.store.database.read(
            lambda t: t.fetch_all(row, statement, experiment=live.id, **values)
        )

    def close(self) -> None:
        self.store.close()


def options(**changes: Any) -> LiveOptions:
    """Return options with a short window."""
    return LiveOptions(**{"reward": Reward(window_seconds=WINDOW), **changes})


def explicit(**changes: Any) -> LiveOptions:
    """Return options with explicit exposure and a short lease."""
    usual = {"exposure": "explicit", "lease_seconds": LEASE, "open_replications": 1}
    return options(**{**usual, **changes})


def conflict_code(call: Callable[[], object]) -> str:
    """Return the code of the `Conflict` that a call must raise."""
    with pytest.raises(Conflict) as caught:
        call()
    return caught.value.code


def simulated(
    experiment: Experiment,
    environment: Environment = ENVIRONMENT,
    checkpoints: Sequence[int] | None = None,
) -> Runs:
    """Return the runs that a live experiment must have."""
    return simulate(experiment, environment, checkpoints=checkpoints, workers=1)


def assert_same(runs: Runs, expected: Runs, replications: int | None = None) -> None:
    """Assert that two runs are equal bit for bit; `replications` compares only the first replications."""
    assert runs.experiment == expected.experiment
    assert runs.replications == (expected.replications if replications is None else replications)
    assert runs.checkpoints.tolist() == expected.checkpoints.tolist()
    assert runs.rewards.tolist() == expected.rewards[:replications].tolist()
    assert runs.pulls.tolist() == expected.pulls[:replications].tolist()
    assert runs.interactions.tolist() == expected.interactions[:replications].tolist()
    if runs.observed is not None and expected.environment is not None:
        read = observed_rewards(expected.part(0, runs.replications))
        assert runs.observed.tolist() == read.tolist()


def assert_finishes(
    scenario: Scenario, live: LiveExperiment, environment: Environment = ENVIRONMENT
) -> None:
    """Serve units until no entry is wanted, then assert that the experiment is finished."""
    scenario.finish(live, environment)
    assert_finished(live, environment)


def assert_finished(
    live: LiveExperiment,
    environment: Environment = ENVIRONMENT,
    *,
    audits: int = 0,
    voided: int = 0,
) -> None:
    """Assert that an experiment is complete, with the simulation's runs and no more users than its design needs."""
    # Read the runs first: then `live.experiment` has the policies that another process added.
    runs, status = live.runs(), live.status()
    expected = simulated(live.experiment, environment)
    assert_same(runs, expected)
    assert status.status == "complete"
    assert status.users == expected.interactions[:, -1].sum() + audits
    assert status.voided == voided
    assert live.verify() == live.experiment.replications
