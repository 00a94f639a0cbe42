"""Answers of the service, decoded into records of live experiments or into errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypedDict, TypeVar

import numpy as np

from sameluck import errors
from sameluck.errors import Conflict, Invalid, Misconfigured, SameluckError, Unavailable, Unknown
from sameluck.experiment import Experiment, ExperimentRecord
from sameluck.live.control.policy_migration import LedgerChanges, LedgerDifference
from sameluck.live.records import Status
from sameluck.trajectories import PeriodRecord, Trace, Trajectory

T = TypeVar("T")

RETRY_STATUSES = (429, 502, 503, 504)  # the service may answer a moment later
_BY_CODE = {
    error_class.code: error_class
    for error_class in vars(errors).values()
    if isinstance(error_class, type)
    and issubclass(error_class, SameluckError)
    and error_class is not Conflict
}
_BY_STATUS = {
    400: Invalid,
    401: Misconfigured,
    403: Misconfigured,
    404: Unknown,
    413: Invalid,
    422: Invalid,
}


class ExperimentDocument(TypedDict):
    """Parts of the service's description of an experiment that a client reads."""

    experiment: ExperimentRecord
    fallback: str  # now


class TraceDocument(TypedDict):
    """Service's description of one replication, period by period."""

    replication: int
    periods: list[PeriodRecord]


class Answer(NamedTuple):
    """An HTTP answer of the service."""

    status: int
    content: bytes
    media_type: str  # such as application/json

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def error(self) -> SameluckError | None:
        """Error that the answer reports; None without an error."""
        if self.status < 300:
            return None
        if self.status < 400:
            return Misconfigured(
                f"the service redirects to another address (status {self.status}); use that address"
            )
        try:
            document = self.json
            return error_of(self.status, str(document["code"]), str(document["detail"]))
        except (
            ValueError,
            TypeError,
            KeyError,
            RecursionError,
        ):  # an error of a proxy, for instance
            return error_of(self.status, "", f"the service answered with status {self.status}")


def error_of(status: int, code: str, detail: str) -> SameluckError:
    """Return the error of a problem document, which the embedded call would have raised."""
    if status == 409:
        return Conflict(detail, code)
    error_class = _BY_CODE.get(code) or _BY_STATUS.get(status, Unavailable)
    return error_class(detail)


def document_of(answer: Answer) -> ExperimentDocument:
    record = answer.json
    return {"experiment": record["experiment"], "fallback": record["fallback"]}


def answers_of(
    answer: Answer, record_class: Callable[..., T], count: int
) -> list[T | SameluckError]:
    """Return the answers to a list of units or rewards; an error takes the place of its record."""
    answers = [
        error_of(item["status"], item["code"], item["detail"])
        if "code" in item
        else record_class(**item)
        for item in answer.json["answers"]
    ]
    if len(answers) != count:
        raise ValueError(len(answers))
    return answers


def status_of(record: Mapping[str, Any]) -> Status:
    return Status(**{**record, "disabled": tuple(record["disabled"])})


def ledger_changes_of(answer: Answer) -> LedgerChanges:
    record = answer.json
    differences = tuple(LedgerDifference(**difference) for difference in record["differences"])
    return LedgerChanges(record["replications"], differences, record["applied"])


def trace_of(experiment: Experiment, record: TraceDocument) -> Trace:
    trajectories = {}
    for name in experiment.policies:
        periods = [period for period in record["periods"] if period["policy"] == name]
        trajectories[name] = Trajectory(
            arms=np.array([period["arm"] for period in periods], np.int64),
            positions=np.array([period["position"] for period in periods], np.int64),
            rewards=np.array([period["reward"] for period in periods], np.float64),
            replayed=np.array([period["replayed"] for period in periods], np.bool_),
        )
    return Trace(experiment, None, record["replication"], trajectories)
