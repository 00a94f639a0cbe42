"""`plan`: how many replications and users a comparison needs, under each design.

Two of effect, power and replications give the third. The standard deviation of a replication's difference comes from
a pilot: a simulation of a guessed environment or of a prior, or existing `Runs`. Of several pairs with the control,
the pair with the largest standard deviation is planned, with intervals that hold for all of them (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.environments.base import EnvironmentLike
from sameluck.errors import Invalid
from sameluck.experiment import Experiment, require_experiment
from sameluck.frames import Frames
from sameluck.inference.assumptions import (
    ScaleMismatch,
    moving_environment,
    replications_for_skewness,
    scale_mismatch,
)
from sameluck.inference.display import Displayed
from sameluck.inference.effects import differences, has_prior, is_paired
from sameluck.inference.planning.coverage import Coverage, verify_plan
from sameluck.inference.planning.pilots import (
    DrawnPilots,
    check_pilot,
    copied_arms,
    drawn_pilots,
    pilots,
    sd_range,
    spread,
    with_two_policies,
)
from sameluck.inference.planning.power import (
    PowerAnalysis,
    power_of,
    replications_for,
)
from sameluck.inference.requests import Pair, policy_pairs
from sameluck.intervals import check_level
from sameluck.runs import Runs
from sameluck.validation import require_number, require_whole

PILOT_REPLICATIONS = 400
POWER_QUANTILES = (0.01, 0.99)  # over draws of the arms, for the range of the power


class DesignPlan(NamedTuple):
    """Replications and users that a design needs at a horizon."""

    design: str
    horizon: int
    sd: float  # of one replication's difference, from the pilot
    sd_error: float  # its Monte Carlo standard error
    effect: float  # to detect
    power: float
    replications: int
    interactions: float  # mean real users per replication
    users: float  # real users in total
    days: float | None  # None without arrivals_per_day


class HorizonPlan(NamedTuple):
    """Replications and users that show the pilot's own effect at a horizon, under the experiment's design."""

    design: str
    horizon: int
    sd: float
    sd_error: float
    effect: float  # the pilot's own
    effect_error: float  # its standard error
    power: float
    replications: int | None  # None if the pilot's effect may be 0
    interactions: float
    users: float | None
    days: float | None


class PairPlan(NamedTuple):
    """Pair of several that are planned together."""

    policy: str
    control: str
    sd: float
    effect: float  # the pilot's own
    effect_error: float
    power: float  # to find the planned effect


class PowerCurve(NamedTuple):
    label: str
    users: tuple[float, ...]
    power: tuple[float, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Displayed, Frames):
    """Result of `plan`: `print` it, or read the designs' rows."""

    experiment: Experiment
    level: float  # of the intervals of all pairs together
    pair: Pair  # the planned policy and the control
    pairs: tuple[PairPlan, ...]  # all pairs with the control
    control_reward: float  # mean over the horizon, in the pilot
    control_reward_error: float  # its standard error
    pilot_effect: float  # the pair's effect in the pilot, for orientation; on a copy without its estimated bias
    pilot_effect_error: float  # its standard error; on a copy with the arms' error
    pilot_replications: int
    rows: tuple[DesignPlan, ...]  # at the horizon, the experiment's design first
    by_horizon: tuple[HorizonPlan, ...]  # the pilot's own effect, up to the horizon
    # Over the 99% interval of the pilot's sd; on a copy, over draws of the arms.
    power_range: tuple[float, float]
    check: Coverage | None  # simulated power and coverage, with verify=True
    requested_power: float | None  # the argument; None if the plan computes the power
    replications_for_skewness: int = 0  # needed by a t interval of the pilot's differences
    has_prior: bool = False  # then replications share an instance, also under the naive design
    max_effect: float | None = None  # largest possible difference of two policies, if known
    scale: ScaleMismatch | None = None  # policies that assume another scale of rewards
    pilot_notes: tuple[str, ...] = ()  # of a live pilot
    moving_environment: str | None = None  # name of a simulated environment whose arms move
    is_copy: bool = False  # whether the pilot was simulated on a copy of measured arms

    _index = ("design",)
    _presentation = "plans"

    @property
    def experiment_row(self) -> DesignPlan:
        """Row of the experiment's design."""
        return self.rows[0]

    @property
    def replications(self) -> int:
        """Replications under the experiment's design."""
        return self.experiment_row.replications

    @property
    def power(self) -> float:
        """Probability to detect the effect."""
        return self.experiment_row.power

    @property
    def effect(self) -> float:
        """Effect that is detected with this power."""
        return self.experiment_row.effect

    def relative(self, effect: float) -> float | None:
        """Return an effect over the horizon as a share of the control's reward; None if this reward may be 0."""
        if abs(self.control_reward) <= 2 * self.control_reward_error:
            return None
        return effect / abs(self.control_reward)

    @property
    def pair_level(self) -> float:
        """Level of each pair's interval, so that the intervals of all pairs hold together."""
        return _pair_level(self.level, len(self.pairs))

    @property
    def interactions(self) -> float:
        """Real users in total, under the experiment's design."""
        return self.experiment_row.users

    @property
    def naive_interactions(self) -> float | None:
        """Real users in total, under the naive design; None if the pilot cannot tell."""
        return next((row.users for row in self.rows if row.design == "naive"), None)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the designs' rows as plain records."""
        return [row._asdict() for row in self.rows]

    def power_curves(self, points: int = 60) -> list[PowerCurve]:
        """Return the power over the number of users, for each design at the planned effect."""
        largest = max(row.users for row in self.rows)
        smallest = min(2 * row.interactions for row in self.rows)
        users = np.geomspace(smallest, max(2 * largest, 10 * smallest), points)
        return [self._power_curve(row, users) for row in self.rows]

    def _power_curve(self, row: DesignPlan, users: Floats) -> PowerCurve:
        counts = np.maximum(2, users // row.interactions).astype(int).tolist()
        paired = row.design != "naive" or self.has_prior
        power = partial(power_of, self.effect, row.sd, level=self.pair_level, paired=paired)
        return PowerCurve(row.design, tuple(users.tolist()), tuple(map(power, counts)))


def plan(  # noqa: PLR0913
    experiment: Experiment,
    environment: EnvironmentLike | Runs,
    *,
    effect: float | str | None = None,
    power: float | None = None,
    replications: int | None = None,
    level: float = 0.95,
    pilot: int = PILOT_REPLICATIONS,
    arrivals_per_day: float | None = None,
    reward_delay_seconds: float = 0.0,
    verify: bool = False,
    horizon: int | None = None,
    makers: Mapping[str, Callable[[int], object]] | None = None,
) -> Plan:
    """Plan a comparison of the control with the other policies, over the experiment's horizon.

    Args:
        experiment: Policies, arms, horizon and design; its number of replications is not used.
        environment: A guess, a prior, or `Runs` of a pilot.
        effect: The difference in cumulative reward to detect, or a share of the control's reward over the horizon,
            such as `"2%"`.
        power: The probability to detect it; 0.8 if only an effect, or only a number of replications, is given.
        replications: The affordable number. Of effect, power and replications the missing quantity is computed.
        level: Confidence of the interval, which detects the effect if it does not contain 0; of all pairs' intervals
            together if there are several.
        pilot: Replications to simulate for the standard deviation.
        arrivals_per_day: Users per day, for the duration.
        reward_delay_seconds: Time from showing an arm to its reward. A policy's next decision waits for it, so a
            replication takes at least horizon x delay; replications run in parallel.
        verify: Simulate the planned experiment 500 times and report its power and coverage.
        horizon: Plan for this horizon instead of the experiment's. With `Runs`, the pilot is then simulated on a copy
            of the measured arms (see `twin`): one replication is enough, for any horizon. The range of the power
            then contains what the arms' error may do.
        makers: As for `simulate`.
    """
    require_experiment("plan", experiment)
    pairs = policy_pairs("control", tuple(experiment.policies), experiment.control, "")
    if not pairs:
        raise Invalid("the experiment has one policy; give it two to compare")
    check_level(level)
    pair_level = _pair_level(level, len(pairs))
    request = PowerAnalysis.requested(effect, power, replications, pair_level)
    require_whole("pilot", pilot, 10)
    timing = _Timing(arrivals_per_day, reward_delay_seconds)
    timing.check()
    copy = None
    if horizon is not None:
        experiment = experiment.replace(horizon=horizon)
        if isinstance(environment, Runs):
            copy = copied_arms(environment)
    by_design = pilots(experiment, environment if copy is None else copy.environment, pilot, makers)
    design, runs = next(iter(by_design.items()))
    drawn = None if copy is None else drawn_pilots(experiment, copy, runs.checkpoints)
    shown = _PilotResult(design, runs, pairs, drawn)
    pair, values = shown.pair, shown.differences
    analysis = request.with_control_reward(pair[1], *shown.control_reward)
    # The arms' true means may differ by more than the copy's.
    max_effect = check_pilot(runs, analysis.effect) if copy is None else None
    planner = _Planner(shown, analysis, timing)
    rows = tuple(planner.design_plan(design, of_design) for design, of_design in by_design.items())
    planned = rows[0]
    check = None
    if verify:
        planned_pair = with_two_policies(experiment, pair, planned.replications)
        check = verify_plan(planned_pair, environment, planned.effect, pair_level, makers)
    return Plan(
        experiment,
        level,
        pair,
        planner.pair_plans(planned),
        *shown.control_reward,
        *shown.effect(pair, -1),
        values.size,
        rows,
        planner.horizon_plans(),
        planner.power_range(planned),
        check,
        analysis.power,
        replications_for_skewness(values),
        has_prior(runs),
        max_effect,
        scale_mismatch(runs),
        runs.notes,
        moving_environment(runs.environment),
        copy is not None,
    )


def _pair_level(level: float, pairs: int) -> float:
    return 1 - (1 - level) / pairs if pairs > 1 else level


def _control_rewards(runs: Runs, pair: Pair) -> Floats:
    return runs.rewards[:, runs.policies.index(pair[1]), -1]


def _mean_and_error(values: Floats) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1)) / math.sqrt(values.size)


class _Timing(NamedTuple):
    arrivals_per_day: float | None
    delay_seconds: float

    def check(self) -> None:
        if self.arrivals_per_day is not None:
            require_number("arrivals_per_day", self.arrivals_per_day, above=0)
        require_number("reward_delay_seconds", self.delay_seconds, at_least=0)

    def days(self, users: float, horizon: int) -> float | None:
        """Return the days until all users have arrived, at least a replication's decisions in sequence."""
        if self.arrivals_per_day is None:
            return None
        return max(users / self.arrivals_per_day, horizon * self.delay_seconds / 86_400)


class _PilotResult:
    """Pilot under the experiment's design, and its pair with the largest standard deviation, which is planned."""

    def __init__(
        self, design: str, runs: Runs, pairs: Sequence[Pair], drawn: DrawnPilots | None
    ) -> None:
        self.design, self.runs, self.pairs = design, runs, pairs
        self.drawn = drawn  # None if the arms are not a copy
        self.paired = is_paired(runs)
        self.pair = self._widest_pair()
        self.differences = differences(runs, self.pair, -1)
        self.control_reward = _mean_and_error(_control_rewards(runs, self.pair))

    def _widest_pair(self) -> Pair:
        """Return the pair that needs most replications; raise `Invalid` if two policies never differ."""
        for pair in self.pairs:
            if differences(self.runs, pair, -1).std() == 0:
                raise Invalid(
                    f"{pair[0]} and {pair[1]} never differ in the pilot, so there is nothing to plan; try another "
                    "environment, or leave one of them out"
                )
        return max(self.pairs, key=self.sd)

    def effect(self, pair: Pair, index: int) -> tuple[float, float]:
        """Return a pair's effect and its standard error; on a copy without its bias, and with the arms' error."""
        effect, error = _mean_and_error(differences(self.runs, pair, index))
        if self.drawn is None:
            return effect, error
        bias, arms_error = self.drawn.bias_and_error(pair, index)
        return effect - bias, math.hypot(error, arms_error)

    def sd(self, pair: Pair) -> float:
        return spread(self.runs, pair, -1, paired=self.paired)[0]


class _Planner(NamedTuple):
    """Plans by design, horizon and pair, from what the pilot has shown and what the user has requested."""

    pilot: _PilotResult
    analysis: PowerAnalysis
    timing: _Timing

    def design_plan(self, design: str, runs: Runs) -> DesignPlan:
        is_naive = design == "naive"
        paired = not is_naive or has_prior(runs)
        sd, error = spread(runs, self.pilot.pair, -1, paired=paired)
        effect, power, replications = self.analysis.solve(sd, paired=paired)
        horizon = int(runs.checkpoints[-1])
        # Without shared rewards each policy has users of its own.
        unshared = float((len(self.pilot.pairs) + 1) * horizon)
        interactions = unshared if is_naive else float(runs.interactions[:, -1].mean())
        users = replications * interactions
        numbers = (sd, error, effect, power, replications, interactions, users)
        return DesignPlan(design, horizon, *numbers, self.timing.days(users, horizon))

    def horizon_plans(self) -> tuple[HorizonPlan, ...]:
        return tuple(map(self._horizon_plan, range(self.pilot.runs.checkpoints.size)))

    def _horizon_plan(self, index: int) -> HorizonPlan:
        """Return the replications and users that show the pilot's own effect at a checkpoint."""
        runs, pair, paired = self.pilot.runs, self.pilot.pair, self.pilot.paired
        effect, effect_error = self.pilot.effect(pair, index)
        sd, sd_error = spread(runs, pair, index, paired=paired)
        _, power, replications, level, _ = self.analysis
        if power is None and replications is not None:
            power = power_of(effect, sd, replications, level, paired=paired)
        else:
            # An effect that may be 0 may need any number of replications.
            drawn, power = self.pilot.drawn, power or 0.0
            may_be_zero = abs(effect) <= 2 * effect_error or (drawn and drawn.admits_equal_arms)
            arguments = (effect, power, sd, level)
            replications = None if may_be_zero else replications_for(*arguments, paired=paired)
        horizon = int(runs.checkpoints[index])
        interactions = float(runs.interactions[:, index].mean())
        users = None if replications is None else replications * interactions
        days = None if users is None else self.timing.days(users, horizon)
        numbers = (sd, sd_error, effect, effect_error, power, replications)
        return HorizonPlan(self.pilot.design, horizon, *numbers, interactions, users, days)

    def pair_plans(self, planned: DesignPlan) -> tuple[PairPlan, ...]:
        plans = []
        for pair in self.pilot.pairs:
            effect = self.pilot.effect(pair, -1)
            sd = self.pilot.sd(pair)
            power = self._power(planned, planned.effect, sd)
            plans.append(PairPlan(*pair, sd, *effect, power))
        return tuple(plans)

    def power_range(self, planned: DesignPlan) -> tuple[float, float]:
        """Return the power's range over the interval of the pilot's sd or, on a copy, over draws of the arms."""
        if self.pilot.drawn is None:
            sds = sd_range(self.pilot.runs, self.pilot.pair, paired=self.pilot.paired)
            low, high = (self._power(planned, planned.effect, sd) for sd in reversed(sds))
            return low, high
        powers, share = [planned.power], self.analysis.share
        for runs in self.pilot.drawn.on_draws:
            sd, _ = spread(runs, self.pilot.pair, -1, paired=self.pilot.paired)
            reward = float(_control_rewards(runs, self.pilot.pair).mean())
            effect = planned.effect if share is None else share * abs(reward)
            powers.append(self._power(planned, effect, sd))
        low, high = np.quantile(powers, POWER_QUANTILES).tolist()
        return low, high

    def _power(self, planned: DesignPlan, effect: float, sd: float) -> float:
        """Return the power of the planned replications if effect and standard deviation are these."""
        level, paired = self.analysis.level, self.pilot.paired
        return power_of(effect, sd, planned.replications, level, paired=paired)
