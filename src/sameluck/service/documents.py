"""Models of requests and responses, named after the records of live experiments.

The models of responses are derived from the records, so that a new field of a record is in the OpenAPI document too.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeAlias, get_type_hints

from fastapi import Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, create_model

from sameluck.errors import SameluckError
from sameluck.files import to_json
from sameluck.inference import Effect, Standing
from sameluck.live import records
from sameluck.live.control.history import Change
from sameluck.live.control.policy_changes import LedgerChanges, LedgerDifference
from sameluck.live.diagnostics.check import Check
from sameluck.live.records import Assignment, Receipt
from sameluck.service.api_tokens import Token
from sameluck.service.problems import document_of

Name: TypeAlias = Annotated[str, Path(min_length=1, max_length=200)]
Id: TypeAlias = Annotated[str, Path(min_length=1, max_length=100)]
PRINTABLE = r"^[^\x00-\x1f\x7f]*$"  # what `require_name` accepts
Text: TypeAlias = Annotated[StrictStr, Field(max_length=200, pattern=PRINTABLE)]
QueriedReason: TypeAlias = Annotated[str, Query(max_length=200, pattern=PRINTABLE)]
UnitField: TypeAlias = Annotated[StrictStr, Field(min_length=1, max_length=1_000)] | StrictInt
Number: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Body(BaseModel):
    """Body of a request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Reason(Body):
    """Reason of a change, for the history."""

    reason: Text = ""


def model_of(record_class: type, **replaced: Any) -> type[BaseModel]:
    """Return the model of a NamedTuple, with added or replaced fields; a number that is not finite is null."""
    hints = get_type_hints(record_class)
    fields: Any = {
        name: (float | None if hint is float else hint, ...) for name, hint in hints.items()
    }
    return create_model(
        record_class.__name__,
        __doc__=record_class.__doc__,
        __module__=record_class.__module__,
        **fields | replaced,
    )


AssignmentModel = model_of(Assignment)
ReceiptModel = model_of(Receipt)
AssignmentDetailsModel = model_of(records.AssignmentDetails)
StatusModel = model_of(records.Status)
AddedPolicyModel = model_of(records.AddedPolicy, sentence=(str, ...))
DifferenceModel = model_of(LedgerDifference)
LedgerChangesModel = model_of(
    LedgerChanges,
    differences=(list[DifferenceModel], ...),  # type: ignore[valid-type]
    sentence=(str, ...),
)
WindowExtensionModel = model_of(records.WindowExtension)
ChangeModel = model_of(Change)
CheckModel = model_of(Check)
EffectModel = model_of(Effect)
StandingModel = model_of(Standing)
TokenModel = model_of(Token)
ReplicationModel = model_of(records.ReplicationStatus, rewards=(dict[str, float] | None, ...))


class ExperimentModel(BaseModel):
    """An experiment, its options and its status."""

    name: str
    started_at: str
    digest: str
    experiment: dict[str, object]
    live: dict[str, object]
    fallback: str  # now; not the arm in `live` if that arm was disabled
    status: StatusModel  # type: ignore[valid-type]


def respond(value: object, status: int = 200) -> Response:
    """Return a response in JSON; a number that is not finite is null."""
    return respond_text(to_json(value, None), status)


def respond_text(text: str, status: int = 200) -> Response:
    """Return a response with text that is JSON already, such as a long list that a thread has encoded."""
    return Response(text, status_code=status, media_type="application/json")


# Built once: `json.dumps` with options builds an encoder for each call.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def respond_record(record: Assignment | Receipt, status: int = 200) -> Response:
    """Return a response in JSON for a record whose numbers are finite; faster than `respond`."""
    return Response(_encode(record._asdict()), status, media_type="application/json")


def item_of(answer: Assignment | Receipt | SameluckError) -> dict[str, object]:
    return document_of(answer) if isinstance(answer, SameluckError) else answer._asdict()
