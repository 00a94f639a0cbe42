"""Answers of the service, decoded into records of live experiments or into errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

import numpy as np

from sameluck import errors
from sameluck.errors import Conflict, Invalid, Misconfigured, SameluckError, Unavailable, Unknown
from sameluck.experiment import Experiment, ExperimentRecord
from sameluck.live.control.history import Change
from sameluck.live.control.policy_migration import LedgerChanges, LedgerDifference
from sameluck.live.diagnostics.check import Check
from sameluck.live.records import Assignment, Receipt, Status
from sameluck.trajectories import PeriodRecord, Trace, Trajectory

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
    live: dict[str, object]
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
        """Decoded content."""
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
        except (ValueError, TypeError, KeyError):  # an error of a proxy, for instance
            return error_of(self.status, "", f"the service answered with status {self.status}")


def error_of(status: int, code: str, detail: str) -> SameluckError:
    """Return the error of a problem document, which the embedded call would have raised."""
    if status == 409:
        return Conflict(detail, code)
    error_class = _BY_CODE.get(code) or _BY_STATUS.get(status, Unavailable)
    return error_class(detail)


def document_of(answer: Answer) -> ExperimentDocument:
    """Return the description of an experiment."""
    record = answer.json
    return {
        "experiment": record["experiment"],
        "live": record["live"],
        "fallback": record["fallback"],
    }


def assignments_of(answer: Answer) -> list[Assignment | SameluckError]:
    """Return the answers to a list of units."""
    return [_error_in(item) or Assignment(**item) for item in answer.json["answers"]]


def receipts_of(answer: Answer) -> list[Receipt | SameluckError]:
    """Return the answers to a list of rewards."""
    return [_error_in(item) or Receipt(**item) for item in answer.json["answers"]]


def _error_in(item: Mapping[str, Any]) -> SameluckError | None:
    return error_of(item["status"], item["code"], item["detail"]) if "code" in item else None


def status_of(record: Mapping[str, Any]) -> Status:
    """Return the status of an experiment."""
    return Status(**{**record, "disabled": tuple(record["disabled"])})


def changes_of(answer: Answer) -> list[Change]:
    """Return the history of an experiment."""
    return [Change(**change) for change in answer.json["changes"]]


def checks_of(answer: Answer) -> tuple[Check, ...]:
    """Return the results of health checks."""
    return tuple(Check(**check) for check in answer.json["checks"])


def ledger_changes_of(answer: Answer) -> LedgerChanges:
    """Return the changes of a ledger, made or previewed."""
    record = answer.json
    differences = tuple(LedgerDifference(**difference) for difference in record["differences"])
    return LedgerChanges(record["replications"], differences, record["applied"])


def trace_of(experiment: Experiment, record: TraceDocument) -> Trace:
    """Return one replication, period by period."""
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
