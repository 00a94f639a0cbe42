"""`Simulations`: the simulations of the playground, which one background thread runs in turn.

A page repeats its request while it waits. A simulation that no page has requested lately is abandoned, so that a
visitor who moves a slider waits only for the last simulation.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from typing import NamedTuple

from sameluck.design import Naive, Replay
from sameluck.errors import SameluckError
from sameluck.experiment import Experiment
from sameluck.runs import Runs
from sameluck.simulation.simulate import simulate

MAX_SIMULATIONS = 8  # waiting or answered; then the oldest is dropped
WAIT_SECONDS, STEP_SECONDS = 0.7, 0.02  # of a request for an answer
PATIENCE_SECONDS = 5.0  # after the last request, before a simulation is abandoned

_log = logging.getLogger("sameluck")


class Question(NamedTuple):
    """An experiment to simulate."""

    experiment: Experiment
    environment: str  # in text form
    checkpoints: tuple[int, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Key that is equal for questions with the same answer."""
        return self.experiment.digest, self.environment


class SimulatedRuns(NamedTuple):
    """Runs of the policies under both designs; with more than two policies under replay alone."""

    replay: Runs
    naive: Runs | None


class Abandoned(Exception):
    """No page waits for the simulation any more."""


class PlaygroundSimulation:
    """A question, the share that is computed, and its answer or problem."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.asked_at = time.monotonic()
        self.share = 0.0
        self.answer: SimulatedRuns | None = None
        self.problem = ""
        self.is_abandoned = False

    @property
    def has_ended(self) -> bool:
        return self.answer is not None or bool(self.problem)

    def run(self) -> None:
        is_pair = len(self.question.experiment.policies) == 2
        try:
            replay = self._runs(Replay(), 0.0, 0.5 if is_pair else 1.0)
            self.answer = SimulatedRuns(replay, self._runs(Naive(), 0.5, 0.5) if is_pair else None)
        except Abandoned:
            self.is_abandoned = True
        except SameluckError as error:
            self.problem = str(error)
        except Exception:
            _log.exception("sameluck: a simulation of the playground failed")
            self.problem = "the simulation failed; the log of the service has the reason"

    def _runs(self, design: Replay | Naive, start: float, width: float) -> Runs:
        def advance(done: int, total: int) -> None:
            self.share = start + width * done / total
            if self.is_abandoned or time.monotonic() > self.asked_at + PATIENCE_SECONDS:
                raise Abandoned

        advance(0, 1)  # abandoned before it began
        experiment, environment, checkpoints = self.question
        experiment = experiment.replace(design=design)
        return simulate(
            experiment, environment, checkpoints=checkpoints, workers=1, progress=advance
        )


class Simulations:
    """Simulations of a service; a daemon thread runs them, so that the process can end at any time."""

    def __init__(self) -> None:
        self._simulations: OrderedDict[tuple[str, str], PlaygroundSimulation] = OrderedDict()
        self._lock = threading.Lock()
        self._is_working = False

    async def ask(self, question: Question) -> PlaygroundSimulation:
        """Return the simulation of a question, with its answer if that comes within 0.7 seconds."""
        simulation = self._find(question)
        until = time.monotonic() + WAIT_SECONDS
        # Polled, because a thread computes the answer and several requests may wait for it.
        while not simulation.has_ended and time.monotonic() < until:
            await asyncio.sleep(STEP_SECONDS)
            simulation.asked_at = time.monotonic()
        return simulation

    def _find(self, question: Question) -> PlaygroundSimulation:
        with self._lock:
            simulation = self._simulations.pop(question.key, None)
            if simulation is None or simulation.is_abandoned:
                simulation = PlaygroundSimulation(question)
            simulation.asked_at = time.monotonic()
            self._simulations[question.key] = simulation
            while len(self._simulations) > MAX_SIMULATIONS:
                self._simulations.popitem(last=False)[1].is_abandoned = True
            if not simulation.has_ended and not self._is_working:
                self._is_working = True
                threading.Thread(target=self._work, name="playground", daemon=True).start()
        return simulation

    def _work(self) -> None:
        while (simulation := self._next()) is not None:
            simulation.run()

    def _next(self) -> PlaygroundSimulation | None:
        """Return the simulation to run next; None ends the thread.

        `_is_working` changes under the lock, so that `_find` starts a thread exactly when none will look again.
        """
        with self._lock:
            waiting = [
                simulation
                for simulation in self._simulations.values()
                if not (simulation.has_ended or simulation.is_abandoned)
            ]
            self._is_working = bool(waiting)
            return waiting[0] if waiting else None
