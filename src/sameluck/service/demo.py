"""Traffic of `sameluck serve --demo`: synthetic users, two policies, and a challenger that is added later."""

from __future__ import annotations

import asyncio
import heapq

import numpy as np

from sameluck.experiment import Experiment
from sameluck.live.options import LiveOptions, Reward
from sameluck.live.records import Assignment
from sameluck.policies.thompson import ThompsonBernoulli
from sameluck.policies.ucb import UCB1
from sameluck.service.loaded_experiments import LoadedExperiments

NAME = "onboarding-hints"
MEANS = {"checklist": 0.62, "video": 0.40, "tour": 0.35, "no hint": 0.30}
STEP_SECONDS = 0.05
ARRIVALS_PER_STEP = 6.0
DELAY_SECONDS = 0.03  # until a reward comes, on average
CHALLENGER_AFTER = 12  # complete replications

EXPERIMENT = Experiment(
    policies={"ucb": UCB1(), "thompson": ThompsonBernoulli()},
    arms=tuple(MEANS),
    horizon=120,
    replications=30,
    seed=7,
)
LIVE = LiveOptions(
    fallback="no hint", reward=Reward(min=0, max=1, window_seconds=60), open_replications=6
)


async def run_demo(experiments: LoadedExperiments) -> None:
    """Start an experiment and send it users until it is complete."""
    await experiments.change_store(
        "demo", lambda store: store.start(NAME, EXPERIMENT, options=LIVE)
    )
    traffic, step, added = _Traffic(), 0, False
    while True:
        status = await experiments.read(NAME, lambda live: live.status())
        if not added and status.complete >= CHALLENGER_AFTER:
            added = True
            await experiments.change(
                "demo", NAME, lambda live: live.add_policy("greedy", "epsilon_greedy(epsilon=0.1)")
            )
        if status.status in ("complete", "stopped") and (added or status.status == "stopped"):
            return
        step += 1
        answers = await experiments.assign_many(NAME, traffic.arrivals())
        traffic.expect([answer for answer in answers if isinstance(answer, Assignment)], step)
        await experiments.reward_many(traffic.rewards(step))
        await asyncio.sleep(STEP_SECONDS)


class _Traffic:
    """Users who arrive at random, and whose rewards arrive a little later."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)
        self._users = 0
        self._rewards: list[tuple[float, str, float]] = []  # a heap of step, assignment, reward

    def arrivals(self) -> list[str]:
        first, self._users = self._users, self._users + int(self._random.poisson(ARRIVALS_PER_STEP))
        return [f"user-{number}" for number in range(first, self._users)]

    def expect(self, assignments: list[Assignment], step: int) -> None:
        """Draw the rewards of the enrolled users."""
        for assignment in assignments:
            if assignment.id is not None:
                due = step + self._random.exponential(DELAY_SECONDS) / STEP_SECONDS
                value = float(self._random.random() < MEANS[assignment.arm])
                heapq.heappush(self._rewards, (due, assignment.id, value))

    def rewards(self, step: int) -> list[tuple[str, float]]:
        arrived = []
        while self._rewards and self._rewards[0][0] <= step:
            _, id, value = heapq.heappop(self._rewards)
            arrived.append((id, value))
        return arrived
