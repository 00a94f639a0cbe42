"""What the clients for threads and for coroutines share: the state of a client and of an experiment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import httpx

from sameluck.client.answers import Answer, ExperimentDocument
from sameluck.client.calls import Call, ExperimentCalls
from sameluck.errors import Invalid, SameluckError, Unavailable, Unknown, shown
from sameluck.experiment import Experiment
from sameluck.live import Assignment, Receipt, Reward
from sameluck.live.calls.breaker import FAILURES, CircuitBreaker
from sameluck.live.records import UNAVAILABLE
from sameluck.live.users.enrolment import Unit
from sameluck.live.users.reward_outcomes import checked_reward, is_id
from sameluck.validation import require_flag, require_list, require_name, require_number

TOKEN_VARIABLE = "SAMELUCK_TOKEN"
MOST_ITEMS = 1_000  # in one request
MOST_UNANSWERED = 10_000

T = TypeVar("T")


class Report(NamedTuple):
    """A reward to report; no id is a unit that is not enrolled."""

    id: str | None
    value: float


class NotReceived(Unavailable):
    """The service has not received the call: it cannot be reached, or was not tried."""


class Connection:
    """How a service is called: its address, the token, the deadline, and whether it was there lately."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        if not _is_address(url):
            raise Invalid(
                f"a service's address is text such as 'http://host:8321', got {shown(url)}"
            )
        require_number("timeout", timeout, above=0)
        if not isinstance(token, str | None):
            raise Invalid(f"a token is text, got a {type(token).__name__}")
        secret = token or os.environ.get(TOKEN_VARIABLE, "")
        if not secret.isascii() or not secret.isprintable():
            raise Invalid("a token is printable ASCII; it starts with sl_")
        self.url, self.timeout = url.rstrip("/"), float(timeout)
        self.headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if secret:
            self.headers["Authorization"] = f"Bearer {secret}"
        self.breaker = CircuitBreaker()

    def check_tried(self) -> None:
        """Raise `NotReceived` if the service was away lately and is not to be tried now."""
        try:
            if self.breaker.failures >= FAILURES:
                self.breaker.wait_for_turn()
        except Unavailable as error:
            raise NotReceived(str(error)) from None

    def away(self, reason: object, *, sent: bool) -> Unavailable:
        """The error if the service does not answer; `sent` if it may have received the call."""
        kind = Unavailable if sent else NotReceived
        return kind(f"the service at {self.url} does not answer: {reason or type(reason).__name__}")

    def value(self, call: Call[T], answer: Answer) -> T:
        """The value of an answer; raises the error that it reports, `Unavailable` if it is not of sameluck."""
        if error := answer.error:
            raise error
        if answer.content and answer.media_type != call.media_type:
            raise self._not_sameluck(
                answer, f"{answer.media_type or 'no media type'} in place of {call.media_type}"
            )
        try:
            return call.read(answer)
        except SameluckError:
            raise
        except (ValueError, TypeError, LookupError):
            raise self._not_sameluck(answer, "what is no answer to this call") from None

    def _not_sameluck(self, answer: Answer, what: str) -> Unavailable:
        return Unavailable(
            f"the service at {self.url} answered (status {answer.status}) with {what}; is it sameluck, of this "
            "version, and is no proxy or login page before it?"
        )


def _is_address(url: object) -> bool:
    try:
        return isinstance(url, str) and httpx.URL(url).scheme in ("http", "https")
    except (httpx.InvalidURL, UnicodeError):
        return False


def checked_transport(transport: T, kind: type[T]) -> T:
    """The transport, or `Invalid` unless it is one of httpx or None."""
    if not isinstance(transport, kind | None):
        raise Invalid(f"transport must be an httpx.{kind.__name__}, got {shown(transport)}")
    return transport


def media_type_of(response: httpx.Response) -> str:
    """The media type of an answer, without its parameters."""
    header: str = response.headers.get("content-type", "")
    return header.partition(";")[0].strip().lower()


def is_compressed(response: httpx.Response) -> bool:
    """Whether an answer is compressed, although that was not asked for: a short one may take long to read."""
    encoding: str = response.headers.get("content-encoding", "identity")
    return encoding.strip().lower() != "identity"


class RemoteState:
    """One experiment of a service, as far as a client knows it."""

    def __init__(
        self, name: str, fallback: str | None, document: ExperimentDocument | None = None
    ) -> None:
        self.name = name
        self._calls = ExperimentCalls(name)
        self._experiment: Experiment | None = None
        self._fallback = fallback
        self._unanswered: dict[Unit, None] = {}  # units that may be enrolled and were not told
        self._guard = threading.Lock()
        if document is not None:
            self._take(document)
        if fallback is not None:
            require_name("fallback", fallback)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _take(self, document: ExperimentDocument) -> Experiment:
        self._experiment = Experiment.from_dict(document["experiment"])
        self._fallback = document["fallback"]
        return self._experiment

    def _told(self, answers: Iterable[Assignment | SameluckError]) -> None:
        """Remember the fallback arm, which may be another than at the start."""
        for answer in answers:
            if isinstance(answer, Assignment) and not answer.enrolled:
                self._fallback = answer.arm

    def _not_told(self, units: Iterable[Unit], error: Unavailable) -> Assignment:
        """The answer to units if there is none: their assignments, if any were made, are voided later."""
        if self._fallback is None:
            raise error
        with self._guard:
            if not isinstance(error, NotReceived) and len(self._unanswered) < MOST_UNANSWERED:
                self._unanswered.update(dict.fromkeys(units))
        return Assignment(None, self._fallback, enrolled=False, reason=UNAVAILABLE)

    def _put_back(self, units: Iterable[Unit]) -> None:
        with self._guard:
            self._unanswered.update(dict.fromkeys(units))

    def _take_unanswered(self) -> list[Unit]:
        with self._guard:
            some = list(self._unanswered)[:MOST_ITEMS]
            for unit in some:
                del self._unanswered[unit]
        return some


def not_enrolled(value: float) -> Receipt:
    """The receipt of a reward for a unit that is not enrolled."""
    return Receipt(applied=False, duplicate=False, value=float(value))


def check_strict(strict: bool) -> None:  # noqa: FBT001 the flag itself
    """Raise `Invalid` unless `strict` is True or False."""
    require_flag("strict", strict)


def parts(name: str, items: Iterable[T]) -> list[Sequence[T]]:
    """Some items at a time."""
    every = require_list(name, items)
    return [every[first : first + MOST_ITEMS] for first in range(0, len(every), MOST_ITEMS)]


def checked_report(pair: Any) -> Report | SameluckError:
    """A reward to report, or the error that the embedded call has for it; the service knows the range."""
    try:
        id, value = pair
    except (TypeError, ValueError):
        return Invalid(f"a pair is the id of an assignment and its reward, got {shown(pair)}")
    try:
        number = checked_reward(value, Reward().bounds, binary=False)
    except Invalid as error:
        return error.with_traceback(None)
    if id is not None and not is_id(id):
        return Unknown(f"no assignment {shown(id)}; use the id that assign returned")
    return Report(id, number)


def checked_reports(pairs: Iterable[Any]) -> list[Report | SameluckError]:
    """The rewards of a list, each as `checked_report` returns it."""
    return [checked_report(pair) for pair in require_list("reward_many: pairs", pairs)]


def joined(
    reports: Sequence[Report | SameluckError], answers: Iterable[Receipt | SameluckError]
) -> list[Receipt | SameluckError]:
    """The answers to rewards, with those that were not sent."""
    rest = iter(answers)
    return [_unsent(report) or next(rest) for report in reports]


def _unsent(report: Report | SameluckError) -> Receipt | SameluckError | None:
    if isinstance(report, SameluckError):
        return report
    return not_enrolled(report.value) if report.id is None else None
