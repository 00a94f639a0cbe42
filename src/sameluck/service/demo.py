"""The traffic of `sameluck serve --demo`: synthetic users, two policies, and a challenger that comes late."""

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
LATE_AFTER = 12  # complete replications, when the challenger is added

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
        if not added and status.complete >= LATE_AFTER:
            added = True
            await experiments.change(
                "demo", NAME, lambda live: live.add_policy("greedy", "epsilon_greedy(epsilon=0.1)")
            )
        if status.status in ("complete", "stopped") and (added or status.status == "stopped"):
            return
        step += 1
        arrived = await experiments.assign_many(NAME, traffic.arrivals())
        traffic.expect([one for one in arrived if isinstance(one, Assignment)], step)
        await experiments.reward_many(traffic.rewards(step))
        await asyncio.sleep(STEP_SECONDS)


class _Traffic:
    """Users who arrive at random, and whose rewards come a little later."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)
        self._users = 0
        self._coming: list[tuple[float, str, float]] = []  # when, assignment, reward

    def arrivals(self) -> list[str]:
        """The users of one step."""
        first, self._users = self._users, self._users + int(self._random.poisson(ARRIVALS_PER_STEP))
        return [f"user-{number}" for number in range(first, self._users)]

    def expect(self, assignments: list[Assignment], step: int) -> None:
        """Draw the rewards of those who were enrolled."""
        for one in assignments:
            if one.id is not None:
                when = step + self._random.exponential(DELAY_SECONDS) / STEP_SECONDS
                value = float(self._random.random() < MEANS[one.arm])
                heapq.heappush(self._coming, (when, one.id, value))

    def rewards(self, step: int) -> list[tuple[str, float]]:
        """The rewards that have come by this step."""
        come = []
        while self._coming and self._coming[0][0] <= step:
            _, id, value = heapq.heappop(self._coming)
            come.append((id, value))
        return come
