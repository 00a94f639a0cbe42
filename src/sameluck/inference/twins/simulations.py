"""The simulations of a twin: the policies on copies of the arms, on luck that no part of the experiment has."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.environments.base import Environment
from sameluck.experiment import Experiment
from sameluck.inference.requests import Pair, all_pairs
from sameluck.intervals import check_level
from sameluck.policies.external import External, Makers
from sameluck.randomness.streams import ALL_POLICIES, TWIN, stream, word
from sameluck.runs import Runs
from sameluck.simulation.each_environment import Places, runs_in_each
from sameluck.simulation.simulate import ProgressLike, as_progress, available_workers, simulate
from sameluck.validation import require_whole

log = logging.getLogger("sameluck")


def has_objects(experiment: Experiment) -> bool:
    """Whether a policy is a Python object."""
    return any(isinstance(policy, External) for policy in experiment.policies.values())


def twin_seed(experiment: Experiment) -> int:
    """The seed of luck that no part of the experiment has."""
    return int(word(stream(experiment.seed, TWIN, 0, ALL_POLICIES), 0))


FEWEST = 20  # replications on a draw


class Effort(NamedTuple):
    """How much a twin simulates."""

    replications: int = 20_000  # of the long run, R0
    draws: int = 200  # of the arms, B
    draw_replications: int = 192  # on each, R1
    raises: int = 2  # how often they may be doubled where the simulation's error is not small
    weighted_replications: int | None = None  # R1 where each tells of all draws; None for the same

    @property
    def weighted(self) -> int:
        """R1 where each replication tells of all draws."""
        return self.weighted_replications or self.draw_replications


def checked_effort(
    level: float, replications: int, draws: int | None, draw_replications: int | None
) -> Effort:
    """How much to simulate for intervals of a level; raises `Invalid` for numbers that are too small."""
    check_level(level)
    usual = Effort()
    if draws is None:
        draws = max(usual.draws, math.ceil(4 / (1 - level)))
    draws = require_whole("draws", draws, 20, 100_000)
    replications = require_whole("replications", replications, 200)
    if draw_replications is None:
        each = min(usual.draw_replications, replications)
        # As many on all draws together as usual: each is weighted on every draw, and time would grow as their square.
        weighted = min(each, max(FEWEST, usual.draws * each // draws))
        return Effort(replications, draws, each, weighted_replications=weighted)
    each = require_whole("draw_replications", draw_replications, FEWEST, replications)
    return Effort(replications, draws, each)


class Copies:
    """Simulates the policies of an experiment on copies of its arms: a replication has the same luck on each."""

    def __init__(
        self,
        runs: Runs,
        workers: int | None = None,
        progress: ProgressLike | None = None,
        pairs: Sequence[Pair] | None = None,
        makers: Makers | None = None,
    ) -> None:
        self.seed = twin_seed(runs.experiment)
        self.experiment: Experiment = runs.experiment.replace(seed=self.seed)
        self.checkpoints: Ints = runs.checkpoints
        self.pairs = list(pairs or all_pairs(runs.policies, runs.experiment.control, ""))
        self.workers = (
            available_workers() if workers is None else require_whole("workers", workers, 1)
        )
        names = list(runs.policies)
        self._first, self._second = (
            [names.index(pair[side]) for pair in self.pairs] for side in (0, 1)
        )
        self._makers = makers
        self._progress, self._done, self._total = as_progress(progress), 0, 0

    def generator(self, purpose: int) -> np.random.Generator:
        """Random numbers for draws of the arms and the like; the same in every call."""
        return np.random.Generator(np.random.PCG64([self.seed, purpose]))

    def expect(self, replications: int) -> None:
        """Add work to what progress reports."""
        self._total += replications

    def finish(self) -> None:
        """Report that no more will be simulated, though it was expected."""
        self._total = self._done
        self._report(self._done)

    def run(self, environment: Environment, replications: range) -> Runs:
        """Some replications on one copy, on all cores."""
        whole = self.experiment.replace(replications=replications.stop)
        checkpoints, before = self.checkpoints.tolist(), self._done

        def progress(done: int, total: int) -> None:
            self._report(before + len(replications) * done // total)

        return simulate(
            whole,
            environment,
            checkpoints=checkpoints,
            replications=replications,
            workers=self.workers,
            progress=progress,
            makers=self._makers,
        )

    def run_each(self, places: Places) -> Iterator[Runs]:
        """Some replications on each of some copies, in their order."""
        work = sum(len(replications) for _, replications in places)  # which decides on lanes
        most = max(work, *(replications.stop for _, replications in places))
        whole = self.experiment.replace(replications=most)
        if has_objects(whole):
            each = self._objects_in_each(whole, places)
        else:
            each = runs_in_each(whole, places, self.checkpoints, self.workers)
        for runs in each:
            self._report(self._done + runs.replications)
            yield runs

    def _objects_in_each(self, whole: Experiment, places: Places) -> Iterator[Runs]:
        # In processes of simulate's own.
        for environment, replications in places:
            yield simulate(
                whole,
                environment,
                checkpoints=self.checkpoints.tolist(),
                replications=replications,
                workers=self.workers,
                check=False,
                makers=self._makers,
            )

    def warn_of_time(self, environment: Environment) -> None:
        """Announce how long Python objects will take, from a few replications."""
        if has_objects(self.experiment):
            tried = self.run(environment, range(4 * self.workers))
            seconds = (tried.seconds or 0.0) * self._total / tried.replications
            if seconds > 10:
                log.warning(
                    "sameluck: the twin runs Python objects for about %s seconds; fewer replications, draws and "
                    "draw_replications make it shorter",
                    f"{float(f'{seconds:.1g}'):,.0f}",
                )

    def differences(self, runs: Runs) -> Floats:
        """The first policy's reward minus the second's, of each pair (replication, pair, checkpoint)."""
        return self.between(runs.rewards)

    def differences_of(self, pair: int, runs: Runs) -> Floats:
        """The same of one pair (replication, checkpoint)."""
        return runs.rewards[:, self._first[pair]] - runs.rewards[:, self._second[pair]]

    def between(self, rewards: Floats) -> Floats:
        """Those of rewards, or of their means (anything, policy, checkpoint)."""
        return rewards[:, self._first] - rewards[:, self._second]

    def _report(self, done: int) -> None:
        self._done = done
        if self._progress is not None:
            self._progress(done, max(done, self._total))
