"""What the contract's tests are played with: a clock set by hand, users who answer, and the runs they must lead to.

The users' rewards stand at the addresses that a simulation of the same experiment would read. So a live experiment
must give the simulation's runs, to the bit, whatever happened on the way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import pytest

from sameluck.environments.base import draw
from sameluck.environments.gaussian import Gaussian
from sameluck.errors import Conflict
from sameluck.experiment import Experiment, checked_checkpoints
from sameluck.live.engine.walker import Maker
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import Live, Reward
from sameluck.live.records import Assignment, Description, Receipt
from sameluck.live.store import Store
from sameluck.randomness.streams import REWARD, stream, within, word
from sameluck.runs import Runs
from sameluck.simulation.loop import PolicyRunner

OpenStore: TypeAlias = Callable[[Callable[[], float]], Store]

TWO = {"ucb": "ucb1(alpha=2)", "thompson": "thompson_gaussian"}
FIVE = {**TWO, "greedy": "epsilon_greedy", "uniform": "uniform", "fixed": "always(1)"}
WORLD = Gaussian((0.0, 0.3, 0.6))
WINDOW = 600.0
LEASE = 60.0
AWAY = 1_000_000.0  # no reward of the world's


class HandClock:
    """A clock that stands still until it is moved; counts whole microseconds."""

    def __init__(self) -> None:
        self.microseconds = 1_700_000_000_000_000

    def __call__(self) -> float:
        """Seconds since 1970."""
        return self.microseconds / 1_000_000

    def forward(self, seconds: float = 0.0, microseconds: int = 0) -> None:
        """Let time pass."""
        self.microseconds += round(seconds * 1_000_000) + microseconds


class Scenario:
    """A store, its clock and its users."""

    def __init__(self, open_store: OpenStore) -> None:
        self._open_store = open_store
        self._units = count()
        self.clock = HandClock()
        self.store = open_store(self.clock)

    def start(
        self,
        policies: Mapping[str, Any] = TWO,
        *,
        name: str = "trial",
        live: Live | None = None,
        makers: Mapping[str, Maker] | None = None,
        **changes: Any,
    ) -> LiveExperiment:
        """Begin an experiment; small, unless told otherwise."""
        usual: dict[str, Any] = {"arms": 3, "horizon": 8, "replications": 3, "seed": 11}
        experiment = Experiment(policies=policies, **{**usual, **changes})
        return self.store.start(name, experiment, live=live or options(), makers=makers)

    def reopen(
        self, live: LiveExperiment, makers: Mapping[str, Maker] | None = None
    ) -> LiveExperiment:
        """Close the store, open the same database again and go on with an experiment."""
        self.store.close()
        self.store = self._open_store(self.clock)
        return self.store.load(live.name, makers=makers)

    def unit(self) -> str:
        """Somebody who was never here."""
        return f"unit {next(self._units)}"

    def enrol(self, live: LiveExperiment) -> str:
        """Let somebody new take part; the assignment's id."""
        answer = live.assign(self.unit())
        assert answer.id is not None, answer
        return answer.id

    def enrol_all(self, live: LiveExperiment) -> dict[str, Description]:
        """Let as many take part as are wanted now; what each was assigned."""
        found: dict[str, Description] = {}
        while (answer := live.assign(self.unit())).id is not None:
            found[answer.id] = live.describe(answer.id)
        return found

    def worth(self, live: LiveExperiment, id: str, environment: Any = WORLD) -> float:
        """What the user of an assignment brings; whoever serves an audit brings something else altogether."""
        told = live.describe(id)
        return AWAY if told.audit else worth(live.experiment, told, environment)

    def pay(self, live: LiveExperiment, id: str, environment: Any = WORLD) -> Receipt:
        """Report what the user of an assignment brings."""
        return live.reward(id, self.worth(live, id, environment))

    def serve(self, live: LiveExperiment, environment: Any = WORLD) -> Assignment:
        """Somebody new comes and, if enrolled, brings a reward at once."""
        answer = live.assign(self.unit())
        if answer.id is not None:
            self.pay(live, answer.id, environment)
        return answer

    def finish(
        self, live: LiveExperiment, environment: Any = WORLD, waiting: Sequence[str] = ()
    ) -> None:
        """Serve until the experiment needs nobody; rewards come late and in another order than their users."""
        coins, pending = random.Random(7), list(waiting)
        while True:
            answer = live.assign(self.unit())
            if answer.id is not None:
                pending.append(answer.id)
            if not pending:
                return
            if answer.id is None or len(pending) > 5:
                self.pay(live, pending.pop(coins.randrange(len(pending))), environment)

    def events(self, live: LiveExperiment, id: str) -> list[tuple[float, str]]:
        """The audit log of an assignment: values reported and what became of each, the first one first."""
        rows = self.store._database.read(
            lambda transaction: transaction.all("events", experiment=live._id)
        )
        return [
            (value, outcome) for assignment, _, _, _, value, outcome, _ in rows if assignment == id
        ]

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def options(**changes: Any) -> Live:
    """Options with a short window."""
    return Live(**{"reward": Reward(window_seconds=WINDOW), **changes})


def explicit(**changes: Any) -> Live:
    """Options under which the application says who has seen an arm."""
    usual = {"exposure": "explicit", "lease_seconds": LEASE, "open_replications": 1}
    return options(**{**usual, **changes})


def refused(call: Callable[[], object]) -> str:
    """The code of the conflict that a call must raise."""
    with pytest.raises(Conflict) as caught:
        call()
    return caught.value.code


def worth(experiment: Experiment, told: Description, environment: Any = WORLD) -> float:
    """The reward that stands at an assignment's address."""
    only = range(told.replication, told.replication + 1)
    law = environment.laws(experiment.seed, only, experiment.n_arms)
    owner = experiment.design.reward_owner(told.policy or "")
    key = stream(np.uint64(experiment.seed), REWARD, told.replication, np.uint64(owner))
    return float(draw(law, 0, told.arm_index, word(within(key, told.arm_index), told.position)))


def simulated(
    experiment: Experiment, environment: Any = WORLD, checkpoints: Sequence[int] | None = None
) -> Runs:
    """The runs of a simulation in the same world."""
    horizons = checked_checkpoints(experiment, checkpoints)
    all_of_them = range(experiment.replications)
    sheets = [
        PolicyRunner(experiment, environment, name).run(all_of_them, horizons)
        for name in experiment.policies
    ]
    rewards = np.stack([sheet.rewards for sheet in sheets], axis=1)
    pulls = np.stack([sheet.pulls for sheet in sheets], axis=1)
    return Runs(experiment, horizons, rewards, pulls, experiment.design.interactions(pulls))


def assert_same(found: Runs, expected: Runs, replications: int | None = None) -> None:
    """Two runs are the same to the bit; of the expected ones, so many replications."""
    assert found.experiment == expected.experiment
    assert found.replications == (expected.replications if replications is None else replications)
    assert found.checkpoints.tolist() == expected.checkpoints.tolist()
    assert found.rewards.tolist() == expected.rewards[:replications].tolist()
    assert found.pulls.tolist() == expected.pulls[:replications].tolist()
    assert found.interactions.tolist() == expected.interactions[:replications].tolist()


def assert_finished(
    live: LiveExperiment, environment: Any = WORLD, *, audits: int = 0, voided: int = 0
) -> None:
    """An experiment is over, gave the simulation's runs, and asked no user more than the design needs."""
    found, told = live.runs(), live.status()
    expected = simulated(live.experiment, environment)
    assert_same(found, expected)
    assert told.status == "complete"
    assert told.users == expected.interactions[:, -1].sum() + audits
    assert told.voided == voided
    assert live.verify() == live.experiment.replications
