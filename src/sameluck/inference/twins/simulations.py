"""Simulations of a twin: the policies on copies of the arms, with random numbers that the experiment never reads."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Floats, Ints
from sameluck.environments.base import Environment
from sameluck.experiment import Experiment
from sameluck.inference.requests import Pair, all_pairs
from sameluck.inference.twins.copies import ArmCopy, copy_arms
from sameluck.inference.twins.observed_rewards import ObservedStacks, observed_stacks
from sameluck.intervals import check_level
from sameluck.policies.external import External, Makers
from sameluck.randomness.streams import ALL_POLICIES, TWIN, stream, word
from sameluck.runs import Runs
from sameluck.simulation.simulate import ProgressLike, as_progress, available_workers, simulate
from sameluck.simulation.workers import Instances, runs_in_each
from sameluck.validation import require_whole

Number = TypeVar("Number", np.float64, np.int64)

MIN_DRAW_REPLICATIONS = 20
LONG_SECONDS = 5  # of a twin, which says so beforehand
_TRIAL = 512  # replications: fewer would be dominated by the overhead of threads

log = logging.getLogger("sameluck")


def has_objects(experiment: Experiment) -> bool:
    return any(isinstance(policy, External) for policy in experiment.policies.values())


def twin_seed(experiment: Experiment) -> int:
    """Return a seed whose random numbers the experiment never reads."""
    return int(word(stream(experiment.seed, TWIN, 0, ALL_POLICIES), 0))


class Effort(NamedTuple):
    replications: int = 20_000  # of the long run, R0
    draws: int = 200  # of the arms, B
    draw_replications: int = 64  # on each draw, R1
    raises: int = 3  # how often R1 may be doubled where the simulation's error is not small
    weighted_replications: int | None = None  # R1 with importance weights; None for the same

    @property
    def weighted(self) -> int:
        """R1 where importance weights let a replication count for all draws."""
        return self.weighted_replications or self.draw_replications

    @property
    def point_replications(self) -> int:
        """Replications at each point of the guaranteed interval's search."""
        return min(self.replications, 3 * self.draw_replications)


def checked_effort(
    level: float, replications: int, draws: int | None, draw_replications: int | None
) -> Effort:
    """Return the effort for intervals of a level; raise `Invalid` for numbers below their minimum."""
    check_level(level)
    default = Effort()
    if draws is None:
        # At least one independent draw beyond each end of the interval.
        draws = max(default.draws, math.ceil(4 / (1 - level)))
    draws = require_whole("draws", draws, 20, 100_000)
    replications = require_whole("replications", replications, 200)
    if draw_replications is None:
        per_draw = min(default.draw_replications, replications)
        # As many on all draws together as by default: each replication is weighted on every draw, so that the time
        # would grow with the square of the number of draws.
        weighted = min(per_draw, max(MIN_DRAW_REPLICATIONS, default.draws * per_draw // draws))
        return Effort(replications, draws, per_draw, weighted_replications=weighted)
    per_draw = require_whole(
        "draw_replications", draw_replications, MIN_DRAW_REPLICATIONS, replications
    )
    return Effort(replications, draws, per_draw)


class CopySimulator:
    """Simulator of the policies on copies of the arms; a replication reads the same random numbers on each."""

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
        self.pairs = list(pairs or all_pairs(runs.policies, runs.experiment.control))
        self.workers = (
            available_workers() if workers is None else require_whole("workers", workers, 1)
        )
        self._policies, self._controls = (
            [runs.policies.index(pair[side]) for pair in self.pairs] for side in (0, 1)
        )
        self._simulate = partial(
            simulate, checkpoints=runs.checkpoints.tolist(), workers=self.workers, makers=makers
        )
        self._progress, self._done, self.expected = as_progress(progress), 0, 0

    def generator(self, purpose: int) -> np.random.Generator:
        """Return the random numbers of a purpose, such as draws of the arms: the same in every call."""
        return np.random.Generator(np.random.PCG64([self.seed, purpose]))

    def expect(self, replications: int) -> None:
        """Add replications to the total that progress reports."""
        self.expected += replications

    def finish(self) -> None:
        """Report completion, also where fewer replications were simulated than expected."""
        self.expected = self._done
        self._report(self._done)

    def run(self, environment: Environment, replications: range) -> Runs:
        whole = self.experiment.replace(replications=replications.stop)
        done_before = self._done

        def progress(done: int, total: int) -> None:
            self._report(done_before + len(replications) * done // total)

        return self._simulate(whole, environment, replications=replications, progress=progress)

    def run_each(self, tasks: Instances) -> Iterator[Runs]:
        """Simulate each task, which is a copy and its replications; yield the runs in the order of the tasks."""
        last = max(replications.stop for _, replications in tasks)
        whole = self.experiment.replace(replications=last)
        each_run: Iterator[Runs]
        if has_objects(whole):
            # `simulate` runs Python objects in forked processes; threads would share one interpreter lock.
            each_run = (
                self._simulate(whole, environment, replications=replications, check=False)
                for environment, replications in tasks
            )
        else:
            each_run = runs_in_each(whole, tasks, self.checkpoints, self.workers)
        for runs in each_run:
            self._report(self._done + runs.replications)
            yield runs

    def warn_of_time(self, environment: Environment) -> None:
        """Warn how long the expected replications will take, from a trial, if that is long."""
        if not self.expected:
            return
        count = min(4 * self.workers if has_objects(self.experiment) else _TRIAL, self.expected)
        self.expect(count)
        seconds = (self.run(environment, range(count)).seconds or 0.0) * self.expected / count
        if seconds > LONG_SECONDS:
            log.warning(
                "sameluck: the twin takes about %s seconds; fewer replications, draws and draw_replications make it "
                "shorter",
                f"{float(f'{seconds:.1g}'):,.0f}",
            )

    def differences(self, rewards: Floats) -> Floats:
        """Return each pair's difference, policy minus control, of rewards (any, policy, checkpoint)."""
        return rewards[:, self._policies] - rewards[:, self._controls]

    def _report(self, done: int) -> None:
        self._done = done
        if self._progress is not None:
            self._progress(done, max(done, self.expected))


class LongRun(NamedTuple):
    """Many replications on the copy of the observed arms."""

    observed: Runs
    stacks: ObservedStacks
    simulator: CopySimulator
    copy: ArmCopy
    runs: Runs  # on the copy

    @property
    def observed_differences(self) -> Floats:
        """Observed differences of all pairs (replication, pair, checkpoint)."""
        return self.simulator.differences(self.observed.rewards)

    def pair_differences(self, pair: int) -> Floats:
        """Return a pair's differences on the copy (replication, checkpoint)."""
        # The differences of all pairs may not fit in memory.
        return self._pair_difference(self.runs.rewards, pair)

    def pair_pulls(self, pair: int) -> Ints:
        """Return the differences between a pair's pulls on the copy (replication, checkpoint, arm)."""
        return self._pair_difference(self.runs.pulls, pair)

    def _pair_difference(self, values: NDArray[Number], pair: int) -> NDArray[Number]:
        names = self.simulator.pairs[pair]
        first, second = (values[:, self.runs.policies.index(name)] for name in names)
        return first - second

    def differences_from(self, start: int, count: int) -> Floats:
        return self.simulator.differences(self.runs.part(start, count).rewards)

    def mean_differences(self) -> tuple[Floats, Floats]:
        """Return the mean differences on the copy and the variances of these means (pair, checkpoint)."""
        by_pair = map(self.pair_differences, range(len(self.simulator.pairs)))
        moments = [
            (values.mean(axis=0), values.var(axis=0, ddof=1) / len(values)) for values in by_pair
        ]
        means, variances = np.array(moments).transpose(1, 0, 2)
        return means, variances

    @property
    def half_reward(self) -> float:
        """Half of the mean size of rewards other than 0."""
        sizes = np.abs(self.stacks.values[self.stacks.values != 0])
        return float(sizes.mean()) / 2 if sizes.size else 0.5


def run_long(
    runs: Runs, family: str | None, simulator: CopySimulator, replications: int
) -> LongRun:
    """Copy the arms that runs have observed and simulate the policies on the copy."""
    stacks = observed_stacks(runs)
    copy = copy_arms(stacks, family, runs.experiment.arm_names)
    simulator.warn_of_time(copy.environment)
    simulated = simulator.run(copy.environment, range(replications))
    return LongRun(runs, stacks, simulator, copy, simulated)
