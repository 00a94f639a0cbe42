"""Calls of the service as values: a request, and a function that decodes its answer. Nothing here uses a network."""

from __future__ import annotations

import json
import operator
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypedDict, TypeVar
from urllib.parse import quote, urlencode

import numpy as np

from sameluck import errors, live
from sameluck.errors import Invalid, SameluckError, shown
from sameluck.experiment import Experiment, ExperimentRecord, require_experiment
from sameluck.files import file_path, write_whole
from sameluck.live.control.history import check_reason
from sameluck.live.logs.exporting import MEDIA_TYPES, format_of
from sameluck.live.users.units import Unit, json_unit
from sameluck.policies.base import Policy
from sameluck.runs import Runs
from sameluck.text_forms import write
from sameluck.trajectories import PeriodRecord, Trace, Trajectory
from sameluck.validation import is_whole, require_flag, require_list, require_whole

Plain: TypeAlias = str | int | float | bool | None
QueryValue: TypeAlias = Plain | Sequence[Plain]
PolicyLike: TypeAlias = Policy | str
MAX_ADDRESS = 60_000  # characters that httpx and servers accept

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

RETRY_STATUSES = (429, 502, 503, 504)  # the service may answer a moment later
_BY_CODE = {
    error_class.code: error_class
    for error_class in vars(errors).values()
    if isinstance(error_class, type)
    and issubclass(error_class, SameluckError)
    and error_class is not errors.Conflict
}
_BY_STATUS = {
    400: Invalid,
    401: errors.Misconfigured,
    403: errors.Misconfigured,
    404: errors.Unknown,
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
            return errors.Misconfigured(
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
        return errors.Conflict(detail, code)
    error_class = _BY_CODE.get(code) or _BY_STATUS.get(status, errors.Unavailable)
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


def status_of(record: Mapping[str, Any]) -> live.Status:
    return live.Status(**{**record, "disabled": tuple(record["disabled"])})


def ledger_changes_of(answer: Answer) -> live.LedgerChanges:
    record = answer.json
    differences = tuple(live.LedgerDifference(**difference) for difference in record["differences"])
    return live.LedgerChanges(record["replications"], differences, record["applied"])


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


@dataclass(frozen=True)
class Call(Generic[T_co]):
    """A request, and a function that reads its answer.

    Args:
        method: HTTP method.
        path: Path within the service.
        read: Function that returns the value of an answer.
        body: Content that is sent as JSON; None for no content.
        query: Query of the address.
        for_user: A user waits for the call, which therefore has less time.
        repeatable: Repeating it is safe; it is sent again if its answer was lost.
        media_type: Media type of an answer with content.
    """

    method: str
    path: str
    read: Callable[[Answer], T_co]
    body: Mapping[str, object] | None = None
    query: Mapping[str, QueryValue] | None = None
    for_user: bool = False
    repeatable: bool = True
    media_type: str = "application/json"

    @property
    def address(self) -> str:
        return address(self.path, self.query or {})

    @property
    def content(self) -> bytes | None:
        return None if self.body is None else json_text(self.body).encode()


def address(path: str, query: Mapping[str, QueryValue]) -> str:
    pairs = [
        (name, _query_text(item))
        for name, value in query.items()
        for item in (value if isinstance(value, list) else [value])
    ]
    result = f"{path}?{urlencode(pairs, errors='replace')}" if pairs else path
    if len(result) > MAX_ADDRESS:
        raise Invalid(f"the arguments are too long for an address: {shown(result)}")
    return result


def path_segment(text: object) -> str:
    """Return a name as one segment of a path.

    A value that is not text becomes a name that no experiment, arm or policy has, so that the service answers.
    """
    if not isinstance(text, str):
        text = f"\0{shown(text)[:99]}"
    if text in (".", ".."):
        return text.replace(".", "%2E")  # not the folder above
    return quote(text, safe="", errors="replace")


def policy_text(policy: object) -> str:
    if isinstance(policy, str):
        return policy
    if not hasattr(policy, "_asdict"):
        raise Invalid(f"policy must be a policy or its text form, got {shown(policy)}")
    return write(policy)


def reason_query(reason: str) -> dict[str, QueryValue]:
    check_reason(reason)
    return {"reason": reason}


def json_text(value: object) -> str:
    """Return JSON; NumPy's numbers become numbers."""
    try:
        return json.dumps(value, default=_plain)
    # A number of 5,000 digits raises `ValueError`, for instance.
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"the call cannot be sent as JSON: {error}") from None


def _query_text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json_text(value)


def _plain(value: object) -> Plain:
    if isinstance(value, np.bool_):
        return bool(value)
    if is_whole(value):
        return operator.index(value)
    if isinstance(value, Real):
        return float(value)
    raise Invalid(f"a call takes text, numbers and lists of text or numbers, got {shown(value)}")


def nothing(answer: Answer) -> None:
    """Read an answer without a value; raise `ValueError` unless its status is 204."""
    if answer.status != 204:
        raise ValueError(answer.status)


def _changed(answer: Answer) -> None:
    """Read the status of a changed experiment, only to check the answer."""
    status_of(answer.json)


def list_statuses() -> Call[list[live.Status]]:
    path = "/v1/experiments"
    return Call("GET", path, lambda a: [status_of(item) for item in a.json["experiments"]])


def create(
    name: str, experiment: Experiment, options: live.LiveOptions, *, paused: bool
) -> Call[ExperimentDocument]:
    require_experiment("start", experiment)
    start = not require_flag("paused", paused)
    values = {**experiment.to_dict(), "name": name, "live": options.to_dict(), "start": start}
    return Call("POST", "/v1/experiments", document_of, values)


def show(name: str) -> Call[ExperimentDocument]:
    return Call("GET", f"/v1/experiments/{path_segment(name)}", document_of)


def delete(name: str, reason: str) -> Call[None]:
    path = f"/v1/experiments/{path_segment(name)}"
    return Call("DELETE", path, nothing, query=reason_query(reason), repeatable=False)


class ExperimentCalls:
    """Calls of one experiment, named after the methods of `LiveExperiment`."""

    def __init__(self, name: str) -> None:
        self.path = f"/v1/experiments/{path_segment(name)}"

    # Users

    def assign(self, unit: Unit) -> Call[live.Assignment]:
        path, body = f"{self.path}/assignments", {"unit": json_unit(unit)}
        return Call("POST", path, lambda a: live.Assignment(**a.json), body, for_user=True)

    def assign_many(self, units: Sequence[Unit]) -> Call[list[live.Assignment | SameluckError]]:
        path, body = (
            f"{self.path}/assignments/batch",
            {"units": [json_unit(unit) for unit in units]},
        )
        read = partial(answers_of, record_class=live.Assignment, count=len(units))
        return Call("POST", path, read, body, for_user=True)

    def void_units(self, units: Iterable[Unit]) -> Call[None]:
        """Void the assignments of units whose arm was not delivered."""
        checked = require_list("void_units: units", units)
        body = {"units": [json_unit(unit) for unit in checked]}
        return Call("POST", f"{self.path}/assignments/void", nothing, body, for_user=True)

    def expose(self, id: str) -> Call[None]:
        return Call("POST", f"{_assignment(id)}/exposure", nothing, for_user=True)

    def void(self, id: str) -> Call[None]:
        return Call("POST", f"{_assignment(id)}/void", nothing, for_user=True)

    def reward(self, id: str | None, value: float) -> Call[live.Receipt]:
        path = f"{_assignment(id)}/reward"
        return Call("POST", path, lambda a: live.Receipt(**a.json), {"value": value}, for_user=True)

    def reward_many(
        self, pairs: Sequence[tuple[str | None, float]]
    ) -> Call[list[live.Receipt | SameluckError]]:
        body = {"rewards": [{"id": id, "value": value} for id, value in pairs]}
        read = partial(answers_of, record_class=live.Receipt, count=len(pairs))
        return Call("POST", "/v1/rewards/batch", read, body, for_user=True)

    def describe(self, id: str) -> Call[live.AssignmentDetails]:
        """Return all details of an assignment, for the analyst."""
        return Call("GET", _assignment(id), lambda a: live.AssignmentDetails(**a.json))

    # Control

    def pause(self, reason: str = "") -> Call[None]:
        """Enrol no unit until `resume`; rewards are still accepted."""
        return self._change("pause", {"reason": reason})

    def resume(self, reason: str = "") -> Call[None]:
        """Continue after a pause."""
        return self._change("resume", {"reason": reason})

    def stop(
        self, *, drain: bool = True, after_replications: int | None = None, reason: str = ""
    ) -> Call[None]:
        """End the experiment before the planned number of replications, as `LiveExperiment.stop` does."""
        drain = require_flag("drain", drain)
        body = {"drain": drain, "after_replications": after_replications, "reason": reason}
        return self._change("stop", body)

    def disable_arm(self, arm: str, *, reason: str = "", fallback: str | None = None) -> Call[None]:
        body = {"reason": reason, "fallback": fallback}
        return self._change(f"arms/{path_segment(arm)}/disable", body)

    def enable_arm(self, arm: str, *, reason: str = "") -> Call[None]:
        """Show a disabled arm again."""
        return self._change(f"arms/{path_segment(arm)}/enable", {"reason": reason})

    def extend_windows(self, seconds: float, *, reason: str = "") -> Call[live.WindowExtension]:
        """Extend the window of all awaited rewards by some seconds."""
        path, body = f"{self.path}/windows", {"seconds": seconds, "reason": reason}
        return Call("POST", path, lambda a: live.WindowExtension(**a.json), body, repeatable=False)

    def erase(self, unit: Unit, *, reason: str = "") -> Call[int]:
        """Erase a unit, as `LiveExperiment.erase` does; return the number of its assignments."""
        body = {"unit": json_unit(unit), "reason": reason}
        return Call("POST", f"{self.path}/erase", lambda a: int(a.json["assignments"]), body)

    def forget_units(self, *, reason: str = "") -> Call[None]:
        """Destroy the key of the unit hashes, as `LiveExperiment.forget_units` does."""
        return self._change("forget-units", {"reason": reason})

    def add_policy(self, name: str, policy: PolicyLike) -> Call[live.AddedPolicy]:
        """Add a challenger, even to a finished experiment."""
        path, body = f"{self.path}/policies", _policy(name, policy)
        return Call("POST", path, _added_policy, body, repeatable=False)

    def preview_policy(self, name: str, policy: PolicyLike) -> Call[live.AddedPolicy]:
        """Return what `add_policy` would return; nothing is changed."""
        return Call("POST", f"{self.path}/policies/preview", _added_policy, _policy(name, policy))

    def remove_policy(self, name: str, *, reason: str = "") -> Call[live.LedgerChanges]:
        """Remove a policy from the experiment, as `LiveExperiment.remove_policy` does."""
        path, query = f"{self.path}/policies/{path_segment(name)}", reason_query(reason)
        return Call("DELETE", path, ledger_changes_of, query=query, repeatable=False)

    def replace_policy_code(
        self, name: str | Sequence[str], *, confirm: bool = False, reason: str = ""
    ) -> Call[live.LedgerChanges]:
        """Continue one or several policies with the server's code instead of the code they were started with.

        The result shows the changes of the ledger; nothing is changed unless `confirm`. No code is sent.
        """
        names = [name] if isinstance(name, str) else require_list("replace_policy_code: name", name)
        return self._ledger_changes("policies/code", {"policies": names}, reason, confirm=confirm)

    def repair(self, *, confirm: bool = False, reason: str = "") -> Call[live.LedgerChanges]:
        """Bring the ledger in line with the policies, as `LiveExperiment.repair` does.

        The result shows the changes of the ledger; nothing is changed unless `confirm`.
        """
        return self._ledger_changes("repair", {}, reason, confirm=confirm)

    def _ledger_changes(
        self, action: str, body: Mapping[str, object], reason: str, *, confirm: bool
    ) -> Call[live.LedgerChanges]:
        path, reasons = f"{self.path}/{action}", reason_query(reason)
        if not require_flag("confirm", confirm):
            return Call("POST", f"{path}/preview", ledger_changes_of, body or None)
        return Call("POST", path, ledger_changes_of, {**body, **reasons}, repeatable=False)

    def _change(self, action: str, body: Mapping[str, object]) -> Call[None]:
        return Call("POST", f"{self.path}/{action}", _changed, body)

    # Results

    def status(self) -> Call[live.Status]:
        """Return the status of the experiment, with counts."""
        return Call("GET", self.path, lambda answer: status_of(answer.json["status"]))

    def history(self) -> Call[list[live.Change]]:
        """Return every change of status, policies and arms, the oldest first."""
        path = f"{self.path}/history"
        return Call("GET", path, lambda a: [live.Change(**change) for change in a.json["changes"]])

    def diagnostics(self, *, silence_is_zero: bool = False) -> Call[tuple[live.Check, ...]]:
        """Check the assumptions of the experiment against its data."""
        query = {"silence_is_zero": require_flag("silence_is_zero", silence_is_zero)}
        path = f"{self.path}/diagnostics"
        return Call(
            "GET",
            path,
            lambda a: tuple(live.Check(**check) for check in a.json["checks"]),
            query=query,
        )

    def replications(self) -> Call[list[live.ReplicationStatus]]:
        """Return the progress of every replication that has begun, in order."""

        def read(answer: Answer) -> list[live.ReplicationStatus]:
            replication_of = operator.itemgetter(*live.ReplicationStatus._fields)
            return [
                live.ReplicationStatus(*replication_of(item))
                for item in answer.json["replications"]
            ]

        return Call("GET", f"{self.path}/replications", read)

    def results(self, /, **options: QueryValue) -> Call[Mapping[str, Any]]:
        """Return the service's comparison as a record; the options are the query parameters of its route."""
        return Call("GET", f"{self.path}/results", lambda answer: answer.json, query=options)

    def runs(
        self, checkpoints: Sequence[int] | None = None, *, policies: Sequence[str] | None = None
    ) -> Call[Runs]:
        """Return the runs of the complete replications so far, for `compare`."""
        query: dict[str, Sequence[int | str] | None]
        query = {"checkpoints": checkpoints, "policies": policies}
        lists = {n: require_list(n, value) for n, value in query.items() if value is not None}
        media_type = "application/octet-stream"
        return Call("GET", f"{self.path}/runs", _runs, query=lists, media_type=media_type)

    def trace(self, replication: int = 0) -> Call[TraceDocument]:
        query = {"replication": require_whole("replication", replication, 0)}
        return Call("GET", f"{self.path}/trace", lambda answer: answer.json, query=query)

    def export(
        self, path: str | os.PathLike[str], *, what: str = "ledger", format: str | None = None
    ) -> Call[None]:
        """Write the ledger to a file, whole or not at all; without `format`, the file's ending decides."""
        target = file_path("export", path)
        query = {"what": what, "format": format_of(target, format)}
        return Call(
            "GET",
            f"{self.path}/export",
            lambda answer: write_whole(target, _file(answer)),
            query=query,
            media_type=MEDIA_TYPES[query["format"]],
        )


def _assignment(id: str | None) -> str:
    return f"/v1/assignments/{path_segment(id)}"


def _policy(name: str, policy: PolicyLike) -> dict[str, str]:
    return {"name": name, "policy": policy_text(policy)}


def _added_policy(answer: Answer) -> live.AddedPolicy:
    return live.AddedPolicy(*(answer.json[field] for field in live.AddedPolicy._fields))


def _file(answer: Answer) -> bytes:
    """Return the content of a file; raise `ValueError` if it is empty."""
    if not answer.content:
        raise ValueError(answer.status)
    return answer.content


def _runs(answer: Answer) -> Runs:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.npz"
        path.write_bytes(_file(answer))
        return Runs.load(path)
