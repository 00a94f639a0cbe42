"""What requests and responses contain: models of the records of live experiments, under the same names.

The models of responses are made from the records themselves, so that a field that is added to one is in the OpenAPI
document too.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeAlias, get_type_hints

from fastapi import Path, Response
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, create_model

from sameluck.errors import SameluckError
from sameluck.files import to_json
from sameluck.inference import Effect, Standing
from sameluck.live.control.history import Change
from sameluck.live.control.policy_migration import LedgerChanges, LedgerDifference
from sameluck.live.diagnostics.check import Check
from sameluck.live.records import (
    AddedPolicy,
    Assignment,
    AssignmentDetails,
    Receipt,
    ReplicationStatus,
    Status,
    WindowExtension,
)
from sameluck.service.problems import document_of
from sameluck.service.tokens import Token

Name: TypeAlias = Annotated[str, Path(min_length=1, max_length=200)]
Id: TypeAlias = Annotated[str, Path(min_length=1, max_length=100)]
Text: TypeAlias = Annotated[StrictStr, Field(max_length=200)]
UnitField: TypeAlias = (
    Annotated[StrictStr, Field(min_length=1, max_length=1_000)]
    | StrictInt  # as `sl.LiveOptions.assign`
)
Number: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Body(BaseModel):
    """The body of a request: no other fields than those it names."""

    model_config = ConfigDict(extra="forbid")


class Reason(Body):
    """Why something is changed, for the history."""

    reason: Text = ""


def model_of(record: type, **more: Any) -> type[BaseModel]:
    """The model of a record, a NamedTuple, with further or other fields; a number that is not finite is null."""
    hints = get_type_hints(record)
    fields: Any = {name: (_nullable(hints[name]), ...) for name in hints} | more
    return create_model(
        record.__name__, __doc__=record.__doc__, __module__=record.__module__, **fields
    )


def _nullable(kind: object) -> object:
    return float | None if kind is float else kind


AssignmentModel = model_of(Assignment)
ReceiptModel = model_of(Receipt)
AssignmentDetailsModel = model_of(AssignmentDetails)
StatusModel = model_of(Status)
AddedPolicyModel = model_of(AddedPolicy, sentence=(str, ...))
DifferenceModel = model_of(LedgerDifference)
LedgerChangesModel = model_of(
    LedgerChanges,
    differences=(list[DifferenceModel], ...),  # type: ignore[valid-type]
    sentence=(str, ...),
)
WindowExtensionModel = model_of(WindowExtension)
ChangeModel = model_of(Change)
CheckModel = model_of(Check)
EffectModel = model_of(Effect)
StandingModel = model_of(Standing)
TokenModel = model_of(Token)
ReplicationModel = model_of(ReplicationStatus, rewards=(dict[str, float] | None, ...))


class ItemError(BaseModel):
    """The error in the place of an item of a list: a problem document."""

    type: str
    title: str
    status: int
    code: str
    detail: str


class ExperimentModel(BaseModel):
    """An experiment, how it is run, and its status."""

    name: str
    started_at: str
    digest: str
    experiment: dict[str, object]
    live: dict[str, object]
    fallback: str  # at this moment; another than in `live` if that arm was disabled
    status: StatusModel  # type: ignore[valid-type]


def respond(value: object, status: int = 200) -> Response:
    """A response in JSON; a number that is not finite is null."""
    return Response(to_json(value, None), status_code=status, media_type="application/json")


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def respond_record(record: Assignment | Receipt, status: int = 200) -> Response:
    """As `respond`, for a record whose numbers are finite; faster."""
    content = _encode(record._asdict())
    return Response(content, status_code=status, media_type="application/json")


def item_of(answer: Assignment | Receipt | SameluckError) -> dict[str, object]:
    """The answer to one item of a list."""
    return document_of(answer) if isinstance(answer, SameluckError) else answer._asdict()
