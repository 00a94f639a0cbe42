"""`LiveOptions` and `Reward`: options of an experiment on real users, checked before the first user."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from numbers import Real
from typing import Any, TypeAlias, TypeVar, cast

from sameluck import text_forms
from sameluck.design import Design
from sameluck.environments.checks import MAX_REWARD
from sameluck.environments.discrete import Bernoulli
from sameluck.errors import Invalid, did_you_mean, shown
from sameluck.experiment import Experiment, capabilities_of
from sameluck.policies import external
from sameluck.policies.base import Policy, check_context, needs_binary
from sameluck.policies.batched import Batched, batch_of
from sameluck.simulation.function_checks import probe_functions
from sameluck.validation import (
    is_whole,
    require_fields,
    require_number,
    require_one_of,
    require_whole,
)

ORDERS = ("lockstep", "phase")
EXPOSURES = ("implicit", "explicit")
# Options since 0.2.0, with their values in experiments that were started before.
LATER: dict[str, object] = {"sticky_exclusion": 0.0}
STOP_AFTER = "stop_after"  # stored with the options, but no option: it may change

# What one machine can serve; a million periods are a million users per replication.
MAX_ARMS, MAX_POLICIES, MAX_PERIODS, MAX_REPLICATIONS = 10_000, 100, 10_000_000, 1_000_000
MAX_FLOATS = 100_000_000  # in memory, for open replications
MAX_WHOLE = 1 << 40  # any other whole number

HOUR, DAY = 3_600.0, 86_400.0
MAX_SECONDS = 10 * 365 * DAY  # of a window, a lease or a delay
LONG_DAYS, MAX_DAYS = 730.0, 36_500.0  # a plan that takes longer gets a warning, or an error

Options = TypeVar("Options")
Maker: TypeAlias = external.Maker
Makers: TypeAlias = external.Makers
checked_makers = external.checked_makers
Clock: TypeAlias = Callable[[], float]  # seconds since 1970


@dataclass(frozen=True, kw_only=True)
class Reward:
    """Range of rewards, and the time to wait for a reward.

    Args:
        min: The smallest reward; None for no bound (but -1e50).
        max: The largest reward; None for no bound (but 1e50).
        default: The reward if none comes within the window. It is part of the question, so it is declared at the
            start. A user who saw the arm is never replaced by another user, because that would estimate the reward of
            responding users only.
        window_seconds: The time from exposure to the last moment at which a reward is accepted.
    """

    min: float | None = None
    max: float | None = None
    default: float = 0.0
    window_seconds: float = HOUR

    def __post_init__(self) -> None:
        low, high = self.bounds
        require_number("Reward.min", low, at_least=-MAX_REWARD, at_most=MAX_REWARD)
        require_number("Reward.max", high, at_least=-MAX_REWARD, at_most=MAX_REWARD)
        if not low < high:
            raise Invalid(f"Reward.min must be below Reward.max, got {self.min!r} and {self.max!r}")
        require_number("Reward.default", self.default)
        if not low <= self.default <= high:
            raise Invalid(f"Reward.default must lie between min and max, got {self.default!r}")
        require_number("Reward.window_seconds", self.window_seconds, above=0, at_most=MAX_SECONDS)
        _make_plain(self)

    @property
    def bounds(self) -> tuple[float, float]:
        """Range; without a bound, the largest rewards whose sums are exact enough."""
        low = -MAX_REWARD if self.min is None else self.min
        return low, MAX_REWARD if self.max is None else self.max


@dataclass(frozen=True, kw_only=True)
class LiveOptions:
    """Options of an experiment on real users; fixed once it has started.

    Args:
        fallback: The arm (its name, or its index) for units that are not enrolled; the first if not given.
        reward: Range, default and window of rewards: a `Reward`, or a mapping of its fields.
        exposure: "implicit": a unit that is assigned an arm has seen it. "explicit": the application calls `expose`.
        lease_seconds: Under explicit exposure, the time from assignment to exposure before the entry is assigned to
            another unit.
        order: "lockstep": the policies advance together. "phase": one after another, as in the paper. Each policy's
            distribution is the same; lock-step is far less sensitive to drift, and gives estimates at earlier
            horizons while the experiment runs.
        open_replications: The number of replications that are open at once; 10, or all if there are fewer, if not
            given. With more, more users can be enrolled at the same time.
        traffic_share: The share of units that may be enrolled: a fixed function of the unit.
        sticky_exclusion: The seconds for which a unit stays turned away if no entry was wanted when it called; None
            for the duration of the experiment. Then a unit has one chance, however often it calls, and no unit that
            has seen the fallback arm sees another arm. With 0 every visit is a chance, and units that call often are
            enrolled more often.
        batch: Periods that a policy acts before it observes their rewards: a number, or a number by policy name.
        audit_share: The share of replayed entries for which a further user is requested, for comparison only.
        aa: Every policy plays the control's rule: a rehearsal in which every effect is zero.
        arrivals_per_day: Expected users: a plan that cannot finish raises `Invalid`, a plan that takes long warns.
        days: The time that the experiment may take.
    """

    fallback: str | int | None = None
    reward: Reward = field(default_factory=Reward)
    exposure: str = "implicit"
    lease_seconds: float = 60.0
    order: str = "lockstep"
    open_replications: int | None = None
    traffic_share: float = 1.0
    sticky_exclusion: float | None = None
    batch: int | Mapping[str, int] = 1
    audit_share: float = 0.0
    aa: bool = False
    arrivals_per_day: float | None = None
    days: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.reward, Mapping):
            object.__setattr__(self, "reward", _from_mapping(Reward, self.reward, "reward"))
        if not isinstance(self.reward, Reward):
            raise Invalid(f"LiveOptions.reward must be a Reward, got {shown(self.reward)}")
        require_one_of("LiveOptions.order", self.order, ORDERS)
        require_one_of("LiveOptions.exposure", self.exposure, EXPOSURES)
        require_number(
            "LiveOptions.lease_seconds", self.lease_seconds, above=0, at_most=MAX_SECONDS
        )
        require_number("LiveOptions.traffic_share", self.traffic_share, above=0, at_most=1)
        if self.sticky_exclusion is not None:
            name, seconds = "LiveOptions.sticky_exclusion", self.sticky_exclusion
            require_number(name, seconds, at_least=0, at_most=MAX_SECONDS)
        require_number("LiveOptions.audit_share", self.audit_share, at_least=0, at_most=1)
        if not isinstance(self.aa, bool):
            raise Invalid(f"LiveOptions.aa must be true or false, got {shown(self.aa)}")
        if self.open_replications is not None:
            name, number = "open_replications", self.open_replications
            number = require_whole(f"LiveOptions.{name}", number, 1, MAX_WHOLE)
            object.__setattr__(self, name, number)
        object.__setattr__(self, "batch", _checked_batch(self.batch))
        for name in ("arrivals_per_day", "days"):
            if getattr(self, name) is not None:
                require_number(f"LiveOptions.{name}", getattr(self, name), above=0)
        _make_plain(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as in JSON and TOML."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> LiveOptions:
        """Return the options that `to_dict` described."""
        return _from_mapping(cls, values, "live")


def _checked_batch(batch: object) -> int | dict[str, int]:
    if isinstance(batch, Mapping):
        return {name: cast(int, _checked_batch(size)) for name, size in batch.items()}
    return require_whole("LiveOptions.batch", batch, 1, MAX_WHOLE)


def _make_plain(options: Reward | LiveOptions) -> None:
    """Replace numbers of other classes, NumPy's for instance, by floats, as in JSON."""
    for item in fields(options):
        value = getattr(options, item.name)
        if isinstance(value, Real) and not isinstance(value, int | float):
            object.__setattr__(options, item.name, float(value))


def _from_mapping(options_class: type[Options], values: object, name: str) -> Options:
    names = [item.name for item in fields(options_class)]  # type: ignore[arg-type]
    return options_class(**require_fields(name, values, names))


def as_options(options: LiveOptions | Mapping[str, object] | None, **defaults: Any) -> LiveOptions:
    """Return options, or the options in a mapping; the defaults if None."""
    if isinstance(options, LiveOptions):
        return options
    if options is None:
        return LiveOptions(**defaults)
    return _from_mapping(LiveOptions, options, "options")


def options_text(options: LiveOptions, stop_after: int | None = None) -> str:
    """Return the options as JSON, with the number of replications after which the experiment is stopped."""
    return json.dumps(options.to_dict() | ({} if stop_after is None else {STOP_AFTER: stop_after}))


def options_from(text: str) -> LiveOptions:
    """Return the options in stored JSON; later options get the value that was the rule before."""
    return LiveOptions.from_dict(LATER | _stored(text))


def later_options(text: str) -> list[str]:
    """Return the names of the options that stored JSON lacks."""
    return [name for name in LATER if name not in _stored(text)]


def _stored(text: str) -> dict[str, object]:
    return {name: value for name, value in json.loads(text).items() if name != STOP_AFTER}


def stop_after_of(text: str) -> int | None:
    """Return the number of replications after which the experiment is stopped, or None, from stored JSON."""
    number: int | None = json.loads(text).get(STOP_AFTER)
    return number


def fallback_arm(experiment: Experiment, options: LiveOptions, changed: int | None = None) -> int:
    """Return the index of the arm for units that are not enrolled: the declared arm, unless it was `changed`."""
    if changed is not None:
        return changed
    if options.fallback is None:
        return 0
    return arm_index("LiveOptions.fallback", options.fallback, experiment.arm_names)


def arm_index(argument: str, arm: object, names: Sequence[str]) -> int:
    if isinstance(arm, str) and arm in names:
        return names.index(arm)
    if is_whole(arm) and 0 <= arm.__index__() < len(names):
        return arm.__index__()
    raise Invalid(f"{argument} {shown(arm)} is not an arm; {did_you_mean(arm, names[:50])}")


def open_at_once(experiment: Experiment, options: LiveOptions) -> int:
    return options.open_replications or min(10, experiment.replications)


def experiment_as_run(experiment: Experiment, options: LiveOptions) -> Experiment:
    """Return the experiment as it is run: with batched policies, all equal to the control in an A/A rehearsal."""
    names = tuple(experiment.policies)
    batch = options.batch
    sizes = batch if isinstance(batch, Mapping) else dict.fromkeys(names, batch)
    for name in sizes:
        if name not in names:
            raise Invalid(f"LiveOptions.batch names {name!r}; {did_you_mean(str(name), names)}")
    in_order = experiment.policies.items()
    policies = {name: _batched(policy, sizes.get(name, 1)) for name, policy in in_order}
    if options.aa:
        policies = dict.fromkeys(names, policies[experiment.control])
    return experiment.replace(policies=policies)


def _batched(policy: Policy, size: int) -> Policy:
    if size == 1:
        return policy
    if isinstance(policy, external.External):
        return policy._replace(batch=size)
    if isinstance(policy, Batched):
        raise Invalid(
            f"LiveOptions.batch: {text_forms.write(policy)} is batched already; leave it out of batch"
        )
    return Batched(policy, size)


def _batch_size(policy: Policy) -> int:
    return policy.batch if isinstance(policy, external.External) else batch_of(policy)


def check_design(design: Design) -> None:
    """Raise `Invalid` if live experiments have no engine for a design."""
    if not capabilities_of(None, design).has_stacks:
        raise Invalid(f"{design.label} is for simulation; live use Replay() or Naive()")


def check_fit(experiment: Experiment, options: LiveOptions) -> None:
    """Raise `Invalid` if the options do not fit the experiment, or if it is too large to serve."""
    check_design(experiment.design)
    if experiment.context is not None:
        raise Invalid(
            f"a live experiment takes no contexts, got context={experiment.context.text}; simulate it, or leave "
            "context out"
        )
    for name, policy in experiment.policies.items():
        try:
            check_context(policy, None, experiment.n_arms)
        except Invalid:
            raise Invalid(
                f"policy {name!r} uses contexts, which live experiments do not take; simulate it"
            ) from None
    fallback_arm(experiment, options)
    sizes = (
        ("arms", experiment.n_arms, MAX_ARMS),
        ("policies", len(experiment.policies), MAX_POLICIES),
        ("periods", experiment.horizon, MAX_PERIODS),
        ("replications", experiment.replications, MAX_REPLICATIONS),
    )
    for name, value, limit in sizes:
        if value > limit:
            raise Invalid(f"a live experiment takes at most {limit:,} {name}, got {value:,}")
    at_once = open_at_once(experiment, options)
    if at_once > experiment.replications:
        raise Invalid(
            f"LiveOptions.open_replications is {at_once:,}, but the experiment has "
            f"{experiment.replications:,} replications"
        )
    deepest = max(8, *(_batch_size(policy) for policy in experiment.policies.values()))
    policies, arms = len(experiment.policies), experiment.n_arms
    if at_once * policies * arms * min(deepest, experiment.horizon) > MAX_FLOATS:
        raise Invalid(
            f"{at_once:,} open replications x {policies} policies x {arms:,} arms x "
            f"batches of {deepest:,} need too much memory; open fewer replications at once or make smaller batches"
        )
    _check_binary(experiment, options.reward)
    probe_functions(experiment, Bernoulli((0.5,) * experiment.n_arms))


def _check_binary(experiment: Experiment, reward: Reward) -> None:
    if reward.default in (0, 1) and reward.min in (None, 0) and reward.max in (None, 1):
        return
    for name, policy in experiment.policies.items():
        if needs_binary(policy):
            raise Invalid(
                f"policy {name!r} ({text_forms.write(policy)}) needs rewards 0 and 1; "
                "set Reward(min=0, max=1, default=0)"
            )


def feasibility(experiment: Experiment, options: LiveOptions) -> list[str]:
    """Return cautions about a plan that takes long, or raise `Invalid` if it cannot finish."""
    cautions = []
    for days, message, remedy in (_delays(experiment, options), *_traffic(experiment, options)):
        if options.days is not None and days > options.days:
            raise Invalid(f"{message}, but LiveOptions.days is {options.days:g}; {remedy}")
        if days > MAX_DAYS:
            raise Invalid(f"{message}; {remedy}")
        if days > LONG_DAYS:
            cautions.append(f"{message}; {remedy}")
    return cautions


def _delays(experiment: Experiment, options: LiveOptions) -> tuple[float, str, str]:
    """Return the days that a replication takes: a policy waits for a batch of rewards before it chooses the next."""
    smallest = min(_batch_size(policy) for policy in experiment.policies.values())
    window = options.reward.window_seconds / DAY
    days = math.ceil(experiment.horizon / smallest) * window
    message = (
        f"if rewards take the whole window ({options.reward.window_seconds:,.10g} seconds), one replication of "
        f"{experiment.horizon:,} periods in batches of {smallest:,} takes {days:,.0f} days"
    )
    return days, message, "shorten the window, enlarge the batches, or lower the horizon"


def _traffic(experiment: Experiment, options: LiveOptions) -> list[tuple[float, str, str]]:
    if options.arrivals_per_day is None:
        return []
    copies = 1 if experiment.design.shares_rewards else len(experiment.policies)
    users = copies * experiment.horizon * experiment.replications
    per_day = options.arrivals_per_day * options.traffic_share
    message = f"it needs at least {users:,} users, which at {per_day:,.4g} per day is {users / per_day:,.0f} days"
    return [(users / per_day, message, "choose fewer replications or a lower horizon")]
