"""Answers of the service: records of live experiments, or the errors in problem documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

import numpy as np

from sameluck import errors
from sameluck.errors import (
    Conflict,
    Invalid,
    Misconfigured,
    SameluckError,
    Unavailable,
    Unknown,
)
from sameluck.experiment import Experiment, ExperimentRecord
from sameluck.live.control.history import Change
from sameluck.live.control.policy_migration import LedgerChanges, LedgerDifference
from sameluck.live.diagnostics.check import Check
from sameluck.live.records import Assignment, Receipt, Status
from sameluck.trajectories import PeriodRecord, Trace, Trajectory

RETRY_STATUSES = (429, 502, 503, 504)  # statuses of a service that may answer a moment later
_KINDS = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SameluckError) and kind is not Conflict
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
    """An experiment as the service describes it: what a client reads of it."""

    experiment: ExperimentRecord
    live: dict[str, object]
    fallback: str  # at this moment


class TraceDocument(TypedDict):
    """One replication, period by period, as the service describes it."""

    replication: int
    periods: list[PeriodRecord]


class Answer(NamedTuple):
    """What the service has answered."""

    status: int
    content: bytes
    media_type: str  # such as application/json

    @property
    def json(self) -> Any:
        """The content, which is JSON."""
        return json.loads(self.content)

    @property
    def error(self) -> SameluckError | None:
        """The error that it reports; None if there is none."""
        if self.status < 300:
            return None
        if self.status < 400:
            return Misconfigured(
                f"the service answered with status {self.status}, which sends to another address; use that one"
            )
        try:
            document = self.json
            return error_of(self.status, str(document["code"]), str(document["detail"]))
        except (ValueError, TypeError, KeyError):  # of a proxy, say
            return error_of(self.status, "", f"the service answered with status {self.status}")


def error_of(status: int, code: str, detail: str) -> SameluckError:
    """The error of a problem document: the one that the embedded call would have raised."""
    if status == 409:
        return Conflict(detail, code)
    kind = _KINDS.get(code) or _BY_STATUS.get(status, Unavailable)
    return kind(detail)


def document_of(answer: Answer) -> ExperimentDocument:
    """An experiment."""
    record = answer.json
    return {
        "experiment": record["experiment"],
        "live": record["live"],
        "fallback": record["fallback"],
    }


def assignments_of(answer: Answer) -> list[Assignment | SameluckError]:
    """The answers to a list of units."""
    return [_item(one) or Assignment(**one) for one in answer.json["answers"]]


def receipts_of(answer: Answer) -> list[Receipt | SameluckError]:
    """The answers to a list of rewards."""
    return [_item(one) or Receipt(**one) for one in answer.json["answers"]]


def _item(one: Mapping[str, Any]) -> SameluckError | None:
    return error_of(one["status"], one["code"], one["detail"]) if "code" in one else None


def status_of(record: Mapping[str, Any]) -> Status:
    """A status."""
    return Status(**{**record, "disabled": tuple(record["disabled"])})


def changes_of(answer: Answer) -> list[Change]:
    """A history."""
    return [Change(**one) for one in answer.json["changes"]]


def checks_of(answer: Answer) -> tuple[Check, ...]:
    """The results of checks."""
    return tuple(Check(**one) for one in answer.json["checks"])


def rederivation_of(answer: Answer) -> LedgerChanges:
    """What deriving the ledger again changes, or has changed."""
    record = answer.json
    differences = tuple(LedgerDifference(**one) for one in record["differences"])
    return LedgerChanges(record["replications"], differences, record["applied"])


def trace_of(experiment: Experiment, record: TraceDocument) -> Trace:
    """One replication, period by period."""
    trajectories = {}
    for name in experiment.policies:
        periods = [one for one in record["periods"] if one["policy"] == name]
        trajectories[name] = Trajectory(
            arms=np.array([one["arm"] for one in periods], np.int64),
            positions=np.array([one["position"] for one in periods], np.int64),
            rewards=np.array([one["reward"] for one in periods], np.float64),
            replayed=np.array([one["replayed"] for one in periods], np.bool_),
        )
    return Trace(experiment, None, record["replication"], trajectories)
