"""What to estimate: the pairs of policies, the metric, the interval and what it covers together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.inference.adjustments import adjustments
from sameluck.inference.metrics import Metric, as_metric
from sameluck.intervals import check_level, intervals
from sameluck.validation import require_one_of

Pair: TypeAlias = tuple[str, str]  # policy, control
TWIN = "twin"  # the interval that is not computed from the differences alone


def control_pairs(names: tuple[str, ...], control: str, best: str) -> Iterator[Pair]:  # noqa: ARG001
    """Every other policy against the control."""
    return ((name, control) for name in names if name != control)


def all_pairs(names: tuple[str, ...], control: str, best: str) -> Iterator[Pair]:  # noqa: ARG001
    """Every two policies once, pairs with the control first."""
    ordered = [control, *(name for name in names if name != control)]
    return ((later, earlier) for earlier, later in itertools.combinations(ordered, 2))


def best_pairs(names: tuple[str, ...], control: str, best: str) -> Iterator[Pair]:  # noqa: ARG001
    """Every other policy against the one that earned most at the last checkpoint."""
    return ((name, best) for name in names if name != best)


pairings: dict[str, Callable[[tuple[str, ...], str, str], Iterator[Pair]]] = {
    "control": control_pairs,
    "all": all_pairs,
    "best": best_pairs,
}

families = ("pairs", "checkpoints", "both", "none")


class Request(NamedTuple):
    """What to estimate: the arguments of `compare`."""

    level: float = 0.95
    control: str | None = None
    pairs: str = "control"
    interval: str = "t"
    simultaneous: str | None = None
    adjust: str | None = None
    metric: str = "reward"  # its text form

    @property
    def by(self) -> Metric:
        """The metric."""
        return as_metric(self.metric)


def check_request(experiment: Experiment, replications: int, request: Request) -> Request:
    """The request with its defaults filled in, or `Invalid` if the experiment cannot answer it."""
    check_level(request.level)
    require_one_of("pairs", request.pairs, list(pairings))
    require_one_of("interval", request.interval, [*intervals, TWIN])
    simultaneous = request.simultaneous or "pairs"
    require_one_of("simultaneous", simultaneous, families)
    if request.adjust is not None:
        require_one_of("adjust", request.adjust, adjustments)
    control = experiment.control if request.control is None else request.control
    require_one_of("control", control, list(experiment.policies))
    if len(experiment.policies) < 2:
        raise Invalid("compare needs at least two policies, got one")
    if request.interval == TWIN and request.adjust is not None:
        raise Invalid('interval="twin" takes no adjust')
    metric = as_metric(request.metric)
    _check_metric(metric, request)
    if replications < (1 if request.interval == TWIN else 2):
        twin = '; interval="twin" needs one' if metric.is_reward else ""
        raise Invalid(
            f"compare needs at least 2 replications, got {replications}: the replication is the unit of "
            f"inference, however many users it has{twin}"
        )
    return request._replace(control=control, simultaneous=simultaneous, metric=metric.name)


def _check_metric(metric: Metric, request: Request) -> None:
    if request.adjust is not None and metric.name != "reward":
        raise Invalid(
            f"adjust={request.adjust!r} is for rewards; metric={metric.name!r} takes none"
        )
    if request.interval == TWIN and metric.name != "reward":
        raise Invalid(f'interval="twin" is for rewards; metric={metric.name!r} needs another')
    if not metric.is_mean and request.interval != "t":
        raise Invalid(
            f"metric={metric.name!r} is no mean and has an interval of its own; leave out "
            f"interval={request.interval!r}"
        )


def first_pair(experiment: Experiment) -> Pair:
    """The first other policy and the control, or `Invalid` if there is no other."""
    for name in experiment.policies:
        if name != experiment.control:
            return name, experiment.control
    raise Invalid("the experiment has one policy; give it two to compare")
