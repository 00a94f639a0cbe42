"""Requests: the pairs of policies, the metric, the interval and which intervals hold together."""

from __future__ import annotations

import itertools
from typing import NamedTuple, TypeAlias

from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.inference.adjustments import adjustments
from sameluck.inference.interval_methods import INTERVALS, STUDENT, TWIN, IntervalMethod
from sameluck.inference.metrics import Metric, as_metric
from sameluck.intervals import check_level
from sameluck.validation import require_one_of
from sameluck.wording import counted

Pair: TypeAlias = tuple[str, str]  # policy, control

PAIRINGS = ("control", "all", "best")


def all_pairs(names: tuple[str, ...], control: str) -> list[Pair]:
    """Return every two policies once, pairs with the control first."""
    ordered = [control, *(name for name in names if name != control)]
    return [(later, earlier) for earlier, later in itertools.combinations(ordered, 2)]


def policy_pairs(pairing: str, names: tuple[str, ...], control: str, best: str) -> list[Pair]:
    """Return every two policies, or every other policy with the control or with the best policy."""
    if pairing == "all":
        return all_pairs(names, control)
    reference = best if pairing == "best" else control
    return [(name, reference) for name in names if name != reference]


FAMILIES = ("pairs", "checkpoints", "both", "none")


class Request(NamedTuple):
    """Arguments of `compare`."""

    level: float = 0.95
    control: str | None = None
    pairs: str = "control"
    interval: str = STUDENT.name
    simultaneous: str | None = None
    adjust: str | None = None
    metric: str = "reward"  # in its text form

    @property
    def metric_definition(self) -> Metric:
        return as_metric(self.metric)

    @property
    def interval_method(self) -> IntervalMethod:
        return INTERVALS[self.interval]


def check_request(experiment: Experiment, replications: int, request: Request) -> Request:
    """Return the request with its defaults; raise `Invalid` if the experiment cannot answer it."""
    check_level(request.level)
    require_one_of("pairs", request.pairs, PAIRINGS)
    require_one_of("interval", request.interval, list(INTERVALS))
    simultaneous = request.simultaneous or "pairs"
    require_one_of("simultaneous", simultaneous, FAMILIES)
    if request.adjust is not None:
        require_one_of("adjust", request.adjust, adjustments)
        if experiment.context is not None:
            raise Invalid(
                f"adjust={request.adjust!r} needs one mean per arm, and with contexts the mean depends on the user; "
                "leave it out"
            )
    control = experiment.control if request.control is None else request.control
    require_one_of("control", control, list(experiment.policies))
    if len(experiment.policies) < 2:
        raise Invalid("compare needs at least two policies, got one")
    metric, method = request.metric_definition, request.interval_method
    _check_metric(metric, method, request.adjust)
    if replications < method.needs:
        has_remedy = metric.is_reward and method.needs > TWIN.needs
        remedy = f'; interval="{TWIN.name}" needs one' if has_remedy else ""
        raise Invalid(
            f"compare needs at least {counted(method.needs, 'replication')}, got {replications}: the replication is "
            f"the unit of inference, however many users it has{remedy}"
        )
    return request._replace(control=control, simultaneous=simultaneous, metric=metric.name)


def _check_metric(metric: Metric, method: IntervalMethod, adjust: str | None) -> None:
    if method.copies_arms and adjust is not None:
        raise Invalid(f'interval="{method.name}" takes no adjust')
    if adjust is not None and not metric.is_reward:
        raise Invalid(f"adjust={adjust!r} is for rewards; metric={metric.name!r} takes none")
    if method.copies_arms and not metric.is_reward:
        raise Invalid(
            f'interval="{method.name}" is for rewards; metric={metric.name!r} needs another'
        )
    if not metric.is_mean and not method.is_default:
        raise Invalid(
            f"metric={metric.name!r} is no mean and has an interval of its own; leave out "
            f"interval={method.name!r}"
        )


def first_pair(experiment: Experiment) -> Pair:
    """Return the first other policy and the control; raise `Invalid` if there is no other."""
    for name in experiment.policies:
        if name != experiment.control:
            return name, experiment.control
    raise Invalid("the experiment has one policy; give it two to compare")
