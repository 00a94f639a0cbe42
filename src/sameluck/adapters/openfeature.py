"""`OpenFeatureProvider`: live experiments as flags of OpenFeature. No other module imports its SDK.

A flag is an experiment, `targeting_key` is the unit, and the variant is the arm. The provider works with a store and
with a client of the service.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from sameluck.errors import Missing, SameluckError, Unknown

try:
    from openfeature.evaluation_context import EvaluationContext
    from openfeature.exception import (
        FlagNotFoundError,
        GeneralError,
        TargetingKeyMissingError,
        TypeMismatchError,
    )
    from openfeature.flag_evaluation import FlagResolutionDetails, FlagValueType, Reason
    from openfeature.provider import AbstractProvider, Metadata
    from openfeature.track import TrackingEventDetails
except ModuleNotFoundError as error:
    message = "openfeature is not installed; run: pip install 'sameluck[openfeature]'"
    raise Missing(message) from error

MAX_REMEMBERED = 100_000  # assignments whose reward can be tracked by the unit
_BOOLEANS = {"true": True, "on": True, "yes": True, "1": True}
_BOOLEANS |= {"false": False, "off": False, "no": False, "0": False}

T = TypeVar("T")
_log = logging.getLogger("sameluck")


class Assigned(Protocol):
    """Arm of a unit."""

    @property
    def id(self) -> str | None: ...  # None if the unit is not enrolled

    @property
    def arm(self) -> str: ...

    @property
    def reason(self) -> str: ...


class Served(Protocol):
    """An experiment: a `LiveExperiment` or a `RemoteExperiment`."""

    def assign(self, unit: str) -> Assigned: ...

    def reward(self, id: str | None, value: float) -> object: ...


class ServedExperiments(Protocol):
    """Experiments by name: a `Store` or a `Client`."""

    def load(self, name: str) -> Served: ...


class OpenFeatureProvider(AbstractProvider):
    """A provider of OpenFeature whose flags are experiments.

    The value of a string flag is the name of the arm. A boolean flag needs arms named on and off, true and false, or
    yes and no. An integer or float flag needs arms whose names are numbers.

    `track` reports a reward. The event is named after the experiment; the assignment is found by the unit, or by the
    attribute `assignment_id`, which the flag's metadata contains. OpenFeature never raises: a flag that cannot be
    evaluated has the default value of the call, and a refused reward is logged.

    Args:
        experiments: A store (`sl.open(...)`) or a client (`sl.Client(...)`).
    """

    def __init__(self, experiments: ServedExperiments) -> None:
        super().__init__()
        self._experiments = experiments
        self._loaded: dict[str, Served] = {}
        self._ids: dict[tuple[str, str], str] = {}

    def get_metadata(self) -> Metadata:
        return Metadata(name="sameluck")

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        assigned = self._assign(flag_key, evaluation_context)
        return _details(assigned.arm, assigned)

    def resolve_boolean_details(
        self,
        flag_key: str,
        default_value: bool,  # noqa: FBT001
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[bool]:
        assigned = self._assign(flag_key, evaluation_context)
        value = _BOOLEANS.get(assigned.arm.lower())
        if value is None:
            raise TypeMismatchError(f"arm {assigned.arm!r} is neither true nor false")
        return _details(value, assigned)

    def resolve_integer_details(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        assigned = self._assign(flag_key, evaluation_context)
        return _details(int(_number(assigned.arm)), assigned)

    def resolve_float_details(
        self,
        flag_key: str,
        default_value: float,
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[float]:
        assigned = self._assign(flag_key, evaluation_context)
        return _details(_number(assigned.arm), assigned)

    def resolve_object_details(
        self,
        flag_key: str,
        default_value: Sequence[FlagValueType] | Mapping[str, FlagValueType],
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[Sequence[FlagValueType] | Mapping[str, FlagValueType]]:
        raise TypeMismatchError(f"flag {flag_key!r} is an experiment, whose arms are not objects")

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        """Report the reward of a unit; the event is named after the experiment."""
        details = tracking_event_details or TrackingEventDetails()
        unit = (evaluation_context and evaluation_context.targeting_key) or ""
        id = details.attributes.get("assignment_id", self._ids.get((tracking_event_name, unit)))
        if not isinstance(id, str) or details.value is None:
            _log.warning(
                "sameluck: %r of %r has no assignment or no value", tracking_event_name, unit
            )
            return
        try:
            self._experiment(tracking_event_name).reward(id, details.value)
        except SameluckError as error:
            _log.warning("sameluck: the reward of %s was not reported: %s", id, error)

    def _experiment(self, name: str) -> Served:
        # Without a lock: flags of other experiments do not wait while a service that is unavailable is asked.
        if name not in self._loaded:
            self._loaded.setdefault(name, self._experiments.load(name))
        return self._loaded[name]

    def _assign(self, name: str, context: EvaluationContext | None) -> Assigned:
        unit = context.targeting_key if context else None
        if not unit:
            raise TargetingKeyMissingError("set the targeting key: it is the unit")
        try:
            assigned = self._experiment(name).assign(unit)
        except Unknown as error:
            raise FlagNotFoundError(str(error)) from error
        except SameluckError as error:
            raise GeneralError(str(error)) from error
        if assigned.id is not None:
            self._ids[name, unit] = assigned.id
            if len(self._ids) > MAX_REMEMBERED:
                self._ids.pop(next(iter(self._ids)), None)  # another thread may have removed it
        return assigned


def _number(arm: str) -> float:
    try:
        return float(arm)
    except ValueError:
        raise TypeMismatchError(f"arm {arm!r} is not a number") from None


def _details(value: T, assigned: Assigned) -> FlagResolutionDetails[T]:
    id, enrolled = assigned.id or "", assigned.id is not None
    metadata: dict[str, str | bool | int | float] = {"assignment_id": id, "enrolled": enrolled}
    return FlagResolutionDetails(
        value=value,
        variant=assigned.arm,
        reason=Reason.SPLIT if enrolled else Reason.DEFAULT,
        flag_metadata={**metadata, "reason": assigned.reason},
    )
