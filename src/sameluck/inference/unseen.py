"""Unseen replications: what M replications do not show, and what other seeds show of it.

A simulation is cheap, so `compare` simulates further replications with other random numbers. They tell whether the
interval of the M replications holds their mean, how often intervals of M replications miss, and which rare failures
the M replications did not meet. The number of these replications depends on the runs alone, not on the
machine, so results stay reproducible.

Without other seeds there is a bound. If a share p of all replications fails in some way, M replications meet none of
them with probability (1 - p)^M. So p_up = 1 - (1 - level)^(1 / M) is the exact upper confidence bound of a share that
was never met. Such replications reverse a finding about the mean if each loses more than (1 - p_up) / p_up times the
effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Floats
from sameluck.compilation.functions import is_builtin
from sameluck.environments.base import Environment, prepared_parameters
from sameluck.environments.python_environment import PythonReward
from sameluck.experiment import Experiment
from sameluck.inference.effects import Effect, differences
from sameluck.inference.metrics import Metric, measured, summed_over_periods
from sameluck.inference.twins.failures import Failure, failure_of
from sameluck.inference.twins.simulations import has_objects, twin_seed
from sameluck.intervals import standard_error
from sameluck.policies.base import Policy
from sameluck.policies.external import Makers
from sameluck.runs import Runs
from sameluck.simulation.simulate import simulate
from sameluck.text_forms import name_of
from sameluck.wording import counted

MIN_CHECKED, CHECKED_PER_REPLICATION = 1_000, 20  # replications on other seeds
CLOSE, LONGER = (
    2.0,
    8,
)  # standard errors from an end of the interval; times as many replications then
FEWEST_PER_REPLICATION, FEWEST_CHECKED = (
    3,
    50,
)  # with fewer, the check is less precise than the interval
ENOUGH_REPLICATIONS = 1_000  # of the runs themselves, to show what a check would
MAX_COST = 50_000_000  # of about 10 ns
COSTS = {"bayes_ucb": 30, "klucb": 4}  # of a period, compared with other policies
COST_OF_USER_CODE, COST_OF_PYTHON, COST_OF_COUPLING = 3, 100, 3
MIN_EXPERIMENTS, MAX_EXPERIMENTS = 400, 2_000  # resampled, to measure how often an interval misses
MAX_RESAMPLED = 400_000  # replications
TOLERATED_MISSES, TOLERATED_EXCESS = 1.5, 0.02  # times the promised rate; beyond it


class PairCheck(NamedTuple):
    """Mean difference of a pair on other seeds."""

    policy: str
    control: str
    effect: float
    error: float  # standard error of the simulation
    contradicts: bool  # it is outside the interval


class SeedCheck(NamedTuple):
    """Differences at the last checkpoint in replications with other random numbers."""

    replications: int = 0  # 0: not checked
    on_copy: bool = (
        False  # on a copy of live arms, whose own error the pairs' errors do not contain
    )
    obstacle: str = ""  # why it was not checked
    pairs: tuple[PairCheck, ...] = ()
    failures: tuple[Failure, ...] = ()  # of pairs whose interval is contradicted

    @property
    def pairs_on_other_seeds(self) -> tuple[PairCheck, ...]:
        return () if self.on_copy else self.pairs

    @property
    def contradicted(self) -> list[PairCheck]:
        return [pair for pair in self.pairs if pair.contradicts]

    def to_record(self) -> dict[str, object]:
        """Return plain values, for JSON."""
        pairs = [pair._asdict() for pair in self.pairs]
        failures = [failure._asdict() for failure in self.failures]
        return {**self._asdict(), "pairs": pairs, "failures": failures}


class Misses(NamedTuple):
    """Intervals of this many replications that miss the effect more often than promised."""

    policy: str
    control: str
    rate: float
    promised: float
    replications: int  # that keep the promise, about


def check_on_other_seeds(
    runs: Runs, effects: Sequence[Effect], metric: Metric, *, are_means: bool
) -> tuple[SeedCheck, Runs | None]:
    """Compare effects at the last checkpoint with replications on other seeds; return these too, if there are any.

    A mean close to an end of its interval is inside or outside by the check's own error, so the check is then
    lengthened.
    """
    experiment, environment, count = runs.experiment, runs.environment, runs.replications
    if environment is None or count >= ENOUGH_REPLICATIONS:
        return SeedCheck(), None
    if has_objects(experiment):
        return SeedCheck(obstacle="its policies are Python objects"), None
    horizon = int(runs.checkpoints[-1])
    affordable = affordable_replications(experiment, environment, horizon)
    if affordable < max(FEWEST_CHECKED, FEWEST_PER_REPLICATION * count):
        policies = counted(len(runs.policies), "policy", "policies")
        return SeedCheck(obstacle=f"{policies} over {horizon:,} periods take too long"), None
    size = min(max(MIN_CHECKED, CHECKED_PER_REPLICATION * count), affordable)
    longer = min(LONGER * size, affordable)
    again = simulated_again(experiment, environment, horizon, range(size))
    reference = measured(again, metric)
    check = check_on(reference, effects, are_means=are_means)
    if are_means and longer > size and _is_close(check, effects):
        more = simulated_again(experiment, environment, horizon, range(size, longer))
        reference = measured(Runs.concat([again, more]), metric)
        check = check_on(reference, effects)
    return check, reference


def _is_close(check: SeedCheck, effects: Sequence[Effect]) -> bool:
    return any(
        min(abs(pair.effect - effect.low), abs(pair.effect - effect.high)) < CLOSE * pair.error
        for pair, effect in zip(check.pairs, effects, strict=True)
    )


def affordable_replications(experiment: Experiment, environment: Environment, horizon: int) -> int:
    """Return how many replications take less than half a second of one core, about; the same on every machine."""
    factors = sum(_cost(policy) for policy in experiment.policies.values())
    per_period = factors * (experiment.n_arms + 3)
    if not is_builtin(type(environment)):
        parameters = prepared_parameters(environment, 0, range(1), experiment.n_arms)
        calls_python = isinstance(parameters, PythonReward)
        per_period *= COST_OF_PYTHON if calls_python else COST_OF_USER_CODE
    if experiment.indexed_by_period:
        per_period *= COST_OF_COUPLING
    return MAX_COST // (per_period * horizon)


def _cost(policy: Policy) -> int:
    inner = getattr(policy, "policy", policy)  # of a batched policy
    if not is_builtin(type(inner)):
        return COST_OF_USER_CODE
    return COSTS.get(name_of(type(inner)), 1)


def simulated_again(
    experiment: Experiment,
    environment: Environment,
    horizon: int,
    replications: range,
    makers: Makers | None = None,
) -> Runs:
    """Run the experiment with random numbers that it never reads."""
    again = experiment.replace(seed=twin_seed(experiment), replications=replications.stop)
    return simulate(
        again,
        environment,
        checkpoints=[horizon],
        replications=replications,
        check=False,
        makers=makers,
    )


def check_on(reference: Runs, effects: Sequence[Effect], *, are_means: bool = True) -> SeedCheck:
    """Compare effects at the last checkpoint with the mean differences on other seeds.

    A mean contradicts an interval that it is outside of, whatever its error: other seeds then say that the interval
    misses more likely than not. It contradicts no interval of a median.
    """
    half_reward = float(np.abs(reference.rewards).mean() / reference.checkpoints[-1]) / 2
    pairs, failures = [], []
    for effect in effects:
        names, values = effect[:2], differences(reference, effect[:2], -1)
        mean, error = float(values.mean()), float(standard_error(values))
        is_outside = not effect.low <= mean <= effect.high and are_means
        pairs.append(PairCheck(*names, mean, error, is_outside))
        if is_outside:
            failure = failure_of(names, effect.checkpoint, values, np.zeros(0), half_reward)
            failures += [] if failure is None else [failure]
    return SeedCheck(reference.replications, pairs=tuple(pairs), failures=tuple(failures))


def excess_misses(values: Floats, effect: Effect, needed: int) -> Misses | None:
    """Return how often intervals such as the effect's miss, if more often than promised.

    The differences of M replications are drawn from `values`, differences on other seeds or on a copy of the arms.
    Their intervals have the effect's half-width in standard errors. `needed` replications would keep the promise.
    """
    count = effect.replications
    if not (effect.has_interval and count > 1):
        return None
    half = (effect.high - effect.low) / 2 / (effect.sd / math.sqrt(count))
    promised = 2 * float(scipy.special.stdtr(count - 1, -half))
    # A fixed seed: the same runs give the same rate.
    rng = np.random.Generator(np.random.PCG64(20_261_118))
    rows = max(MIN_EXPERIMENTS, min(MAX_EXPERIMENTS, MAX_RESAMPLED // count))
    samples = values[rng.integers(values.size, size=(rows, count))]
    errors = samples.std(axis=1, ddof=1) / math.sqrt(count)
    missed = np.abs(samples.mean(axis=1) - values.mean()) > half * errors
    rate = float(np.mean(missed & (errors > 0)))  # equal differences have no interval
    if rate <= max(TOLERATED_MISSES * promised, promised + TOLERATED_EXCESS):
        return None
    return Misses(*effect[:2], rate, promised, needed)


def unseen_share(replications: int, level: float) -> float:
    """Return the upper confidence bound of the share of replications unlike all that were seen."""
    return -math.expm1(math.log1p(-level) / replications)


def reversing_loss(effect: float, replications: int, level: float) -> float:
    """Return the loss of each unseen replication beyond which a mean difference is reversed."""
    share = unseen_share(replications, level)
    return abs(effect) * (1 - share) / share


def replications_to_exclude(effect: float, loss: float, level: float) -> int:
    """Return the number of replications at which unseen losses of this size cannot reverse a mean difference."""
    return math.ceil(math.log1p(-level) / math.log1p(-abs(effect) / (abs(effect) + loss)))


def possible_loss(runs: Runs) -> float | None:
    """Return the largest expected loss of a policy to another in a replication: always playing the worst arm.

    None where the arms' means are unknown, as on live traffic, or unbounded, as on a Gaussian prior.
    """
    environment, horizon = runs.environment, float(runs.checkpoints[-1])
    if environment is None or runs.capabilities.has_contexts:
        return None
    if runs.capabilities.has_instances:
        return horizon if environment.binary else None
    if not runs.capabilities.is_stationary:
        ranges = partial(np.ptp, axis=1)
        return float(summed_over_periods(environment, runs.checkpoints, ranges)[-1])
    means = environment.instance_means(0, range(1), runs.experiment.n_arms)
    return float(horizon * np.ptp(means))
