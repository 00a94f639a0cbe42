"""`plan`: how many replications and users a comparison needs, under each design.

Two of effect, power and replications give the third. The standard deviation of a replication's difference comes from
a pilot: a simulation of a guessed environment or of a prior, or `Runs` that exist already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sameluck.environments.base import EnvironmentLike
from sameluck.experiment import Experiment, require_experiment
from sameluck.inference.assumptions import moving_environment, replications_for_skewness
from sameluck.inference.effects import differences, has_prior
from sameluck.inference.planning.coverage import repeat_planned
from sameluck.inference.planning.pilots import check_pilot, pilots, spread, with_two_policies
from sameluck.inference.planning.plan_results import DesignPlan, Plan
from sameluck.inference.planning.power import PowerAnalysis
from sameluck.inference.requests import first_pair
from sameluck.inference.scale import scale_mismatch
from sameluck.runs import Runs
from sameluck.validation import require_number, require_whole

PILOT = 400
_USUAL_POWER = 0.8


def plan(  # noqa: PLR0913
    experiment: Experiment,
    environment: EnvironmentLike | Runs,
    *,
    effect: float | None = None,
    power: float | None = None,
    replications: int | None = None,
    level: float = 0.95,
    pilot: int = PILOT,
    arrivals_per_day: float | None = None,
    reward_delay_seconds: float = 0.0,
    verify: bool = False,
    horizon: int | None = None,
    makers: Mapping[str, Callable[[int], object]] | None = None,
) -> Plan:
    """Plan a comparison of the control with the first other policy, over the experiment's horizon.

    Args:
        experiment: Policies, arms, horizon and design; its own number of replications is not used.
        environment: A guess, a prior, or `Runs` of a pilot.
        effect: The difference in cumulative reward to detect.
        power: The probability to detect it; 0.8 if only an effect, or only a number of replications, is given.
        replications: How many are affordable. Of these three, the one that is not given is found.
        level: Confidence of the interval, which detects the effect if it does not contain 0.
        pilot: Replications to simulate for the standard deviation.
        arrivals_per_day: Users per day, for the duration.
        reward_delay_seconds: From showing an arm to knowing its reward. A policy's next decision waits for it, so a
            replication takes at least horizon x delay; replications run in parallel.
        verify: Simulate the planned experiment 500 times and report its power and coverage.
        horizon: Plan for this one instead of the experiment's. With `Runs`, the pilot is then simulated on a copy of
            the arms that they measured (see `twin`): one replication is enough, and any horizon may be planned.
        makers: As for `simulate`.
    """
    require_experiment("plan", experiment)
    if power is None and (effect is None) != (replications is None):
        power = _USUAL_POWER
    analysis = PowerAnalysis(effect, power, replications, level)
    analysis.check()
    require_whole("pilot", pilot, 10)
    if arrivals_per_day is not None:
        require_number("arrivals_per_day", arrivals_per_day, above=0)
    require_number("reward_delay_seconds", reward_delay_seconds, at_least=0)
    timing = _Timing(arrivals_per_day, reward_delay_seconds)
    if horizon is not None:
        experiment = experiment.replace(horizon=horizon)
    by_design = pilots(experiment, environment, pilot, makers, copied=horizon is not None)
    own_design, own = next(iter(by_design.items()))
    values = differences(own, first_pair(experiment), -1)
    possible = check_pilot(own, effect)
    rows = tuple(_row(runs, design, -1, analysis, timing) for design, runs in by_design.items())
    by_horizon = tuple(
        _row(own, own_design, index, analysis, timing) for index in range(own.checkpoints.size - 1)
    )
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    check = None
    if verify:
        planned = with_two_policies(experiment, rows[0].replications)
        check = repeat_planned(planned, environment, rows[0].effect, level, makers)
    return Plan(
        experiment,
        level,
        float(values.mean()),
        error,
        values.size,
        rows,
        by_horizon,
        check,
        power,
        replications_for_skewness(values),
        has_prior(own),
        possible,
        scale_mismatch(own),
        own.notes,
        moving_environment(own.environment),
    )


class _Timing(NamedTuple):
    arrivals_per_day: float | None
    delay_seconds: float

    def days(self, users: float, horizon: int) -> float | None:
        """The time that users take to arrive, and at least that of a replication's decisions in sequence."""
        if self.arrivals_per_day is None:
            return None
        return max(users / self.arrivals_per_day, horizon * self.delay_seconds / 86_400)


def _row(
    runs: Runs, design: str, index: int, analysis: PowerAnalysis, timing: _Timing
) -> DesignPlan:
    paired = design != "naive" or has_prior(runs)
    sd, error = spread(runs, index, paired=paired)
    effect, power, replications = analysis.solve(sd, paired=paired)
    horizon = int(runs.checkpoints[index])
    naive = design == "naive"
    interactions = 2.0 * horizon if naive else float(runs.interactions[:, index].mean())
    users = replications * interactions
    days = timing.days(users, horizon)
    solution = (effect, power, replications)
    return DesignPlan(design, horizon, sd, error, *solution, interactions, users, days)
