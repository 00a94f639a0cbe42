"""`Simulations`: what the playground computes, in the background and one at a time.

A page asks again while it waits. A simulation that nobody has asked for lately is given up, so that one who moves a
slider waits for the last of their questions only.
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

KEPT = 8  # simulations: those that wait, and answers that the next request finds
SECONDS, STEP_SECONDS = 0.7, 0.02  # that a request waits for an answer
PATIENCE_SECONDS = 2.5  # after the last request, until a simulation is given up

_log = logging.getLogger("sameluck")


class Question(NamedTuple):
    """What to simulate."""

    experiment: Experiment
    environment: str  # in text form
    checkpoints: tuple[int, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Equal for questions that have the same answer."""
        return self.experiment.digest, self.environment


class Answer(NamedTuple):
    """The same policies under both designs; of more than two, under replay alone."""

    replay: Runs
    naive: Runs | None


class GivenUp(Exception):
    """Nobody waits for a simulation any more."""


class Simulation:
    """A question, how much of it is computed, and its answer or why there is none."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.asked_at = time.monotonic()
        self.share = 0.0
        self.answer: Answer | None = None
        self.problem = ""
        self.is_given_up = False

    @property
    def has_ended(self) -> bool:
        """Whether there is an answer, or a reason why there is none."""
        return self.answer is not None or bool(self.problem)

    def run(self) -> None:
        """Simulate the designs."""
        two = len(self.question.experiment.policies) == 2
        try:
            replay = self._runs(Replay(), 0.0, 0.5 if two else 1.0)
            self.answer = Answer(replay, self._runs(Naive(), 0.5, 0.5) if two else None)
        except GivenUp:
            self.is_given_up = True
        except SameluckError as error:
            self.problem = str(error)
        except Exception:
            _log.exception("sameluck: a simulation of the playground failed")
            self.problem = "the simulation failed; the log of the service has the reason"

    def _runs(self, design: Replay | Naive, before: float, part: float) -> Runs:
        def advance(done: int, total: int) -> None:
            self.share = before + part * done / total
            if self.is_given_up or time.monotonic() > self.asked_at + PATIENCE_SECONDS:
                raise GivenUp

        advance(0, 1)
        experiment, environment, checkpoints = self.question
        return simulate(
            experiment.replace(design=design),
            environment,
            checkpoints=checkpoints,
            workers=1,
            progress=advance,
        )


class Simulations:
    """The simulations of a service; one thread runs them, and does not keep the process from ending."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Simulation] = OrderedDict()
        self._lock = threading.Lock()
        self._is_working = False

    async def ask(self, question: Question) -> Simulation:
        """The simulation of a question; with its answer if that comes within a moment."""
        found = self._find(question)
        until = time.monotonic() + SECONDS
        while not found.has_ended and time.monotonic() < until:
            await asyncio.sleep(STEP_SECONDS)
        return found

    def _find(self, question: Question) -> Simulation:
        with self._lock:
            found = self._known.pop(question.key, None)
            if found is None or found.is_given_up:
                found = Simulation(question)
            found.asked_at = time.monotonic()
            self._known[question.key] = found
            while len(self._known) > KEPT:
                self._known.popitem(last=False)[1].is_given_up = True
            if not found.has_ended and not self._is_working:
                self._is_working = True
                threading.Thread(target=self._work, name="playground", daemon=True).start()
        return found

    def _work(self) -> None:
        while (simulation := self._next()) is not None:
            simulation.run()

    def _next(self) -> Simulation | None:
        """The simulation to run next; None, and the thread ends, if there is none."""
        with self._lock:
            waiting = [
                one for one in self._known.values() if not (one.has_ended or one.is_given_up)
            ]
            self._is_working = bool(waiting)
            return waiting[0] if waiting else None
