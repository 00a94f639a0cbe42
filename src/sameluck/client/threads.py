"""`Client`: a service, called from threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import httpx

from sameluck.client import calls
from sameluck.client.answers import Answer, ExperimentDocument, trace_of
from sameluck.client.calls import Call, ExperimentCalls
from sameluck.client.remote import (
    Connection,
    RemoteState,
    Report,
    check_strict,
    checked_report,
    checked_reports,
    checked_transport,
    is_compressed,
    joined,
    media_type_of,
    not_enrolled,
    parts,
)
from sameluck.client.retries import NOT_SENT, TIMEOUT, Attempts, limit_reads, seconds_for
from sameluck.errors import SameluckError, Unavailable
from sameluck.experiment import Experiment
from sameluck.live import Assignment, LiveOptions, Receipt, Status
from sameluck.live.options import as_options
from sameluck.live.users.enrolment import Unit
from sameluck.trajectories import Trace

P = ParamSpec("P")
T = TypeVar("T")


class Client:
    """The experiments of a service, as a `Store` has those of a database; use it as a context manager.

    Args:
        url: The address of the service, such as `http://127.0.0.1:8321`.
        token: A token; the variable SAMELUCK_TOKEN if not given.
        timeout: The seconds that `assign` may take, all attempts together, before it answers with the fallback arm.
            The other calls for users have 5 seconds, or as many if that is more.
        transport: Of httpx, in place of the network.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = TIMEOUT,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._connection = Connection(url, token, timeout)
        self._http = httpx.Client(
            base_url=self._connection.url,
            headers=self._connection.headers,
            transport=checked_transport(transport, httpx.BaseTransport),
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def names(self) -> list[str]:
        """The experiments of the service, the oldest first."""
        return [status.name for status in self.statuses()]

    def statuses(self) -> list[Status]:
        """The status of every experiment, the oldest first."""
        return self.send(calls.list_statuses())

    def start(
        self,
        name: str,
        experiment: Experiment,
        *,
        options: LiveOptions | Mapping[str, object] | None = None,
        paused: bool = False,
    ) -> RemoteExperiment:
        """Start an experiment, or load the one of this name that was started with the same settings.

        Args:
            name: 1 to 200 printable characters without a slash.
            experiment: What to compare.
            options: How to run it; `LiveOptions()` if not given.
            paused: Enrol no unit until `resume` is called.
        """
        document = self.send(calls.create(name, experiment, as_options(options), paused=paused))
        return RemoteExperiment(self, name, None, document)

    def load(self, name: str, *, fallback: str | None = None) -> RemoteExperiment:
        """An experiment of the service.

        Args:
            name: Its name.
            fallback: The arm for units if the service is away. If it is given, this call needs no service; if not,
                the service is asked for it now.
        """
        document = self.send(calls.show(name)) if fallback is None else None
        return RemoteExperiment(self, name, fallback, document)

    def delete(self, name: str, *, reason: str = "") -> None:
        """Delete an experiment that is stopped, complete or failed, with its ledger and its audit log."""
        self.send(calls.delete(name, reason))

    def send(self, call: Call[T], *, is_assign: bool = False) -> T:
        """Send a call, again if need be; raises the error that the embedded call would raise, or `Unavailable`."""
        connection = self._connection
        connection.check_tried()
        seconds = seconds_for(call, timeout=connection.timeout, is_assign=is_assign)
        try:
            value = connection.value(call, self._answer(call, Attempts(call, seconds)))
        except SameluckError as error:
            connection.breaker.end(error)
            raise
        connection.breaker.end(None)
        return value

    def _answer(self, call: Call[object], attempts: Attempts) -> Answer:
        while True:
            answer: Answer | None = None
            failure: httpx.HTTPError | None = None
            try:
                with (
                    attempts.in_time(),
                    self._http.stream(
                        call.method,
                        call.address,
                        content=call.content,
                        timeout=attempts.seconds_left,
                        extensions={"trace": limit_reads},
                    ) as response,
                ):
                    chunks = () if is_compressed(response) else response.iter_bytes()
                    content = attempts.content(chunks)
                    answer = Answer(response.status_code, content, media_type_of(response))
            except httpx.HTTPError as error:
                failure = error
            pause = attempts.pause_after(answer, sent=not isinstance(failure, NOT_SENT))
            if pause is None:
                break
            time.sleep(pause)
        if answer is None:
            raise self._connection.away(failure, sent=not isinstance(failure, NOT_SENT))
        return answer


def _sent(
    method: Callable[Concatenate[ExperimentCalls, P], Call[T]],
) -> Callable[Concatenate[RemoteExperiment, P], T]:
    """A method that sends a call."""

    @wraps(method)
    def send(self: RemoteExperiment, /, *arguments: P.args, **named: P.kwargs) -> T:
        return self._client.send(method(self._calls, *arguments, **named))

    return send


class RemoteExperiment(RemoteState):
    """An experiment of a service, with the methods of a `LiveExperiment`."""

    def __init__(
        self,
        client: Client,
        name: str,
        fallback: str | None,
        document: ExperimentDocument | None = None,
    ) -> None:
        super().__init__(name, fallback, document)
        self._client = client

    @property
    def experiment(self) -> Experiment:
        """The experiment as it was when it was last read; `refresh` reads it again."""
        return self._experiment or self.refresh()

    def refresh(self) -> Experiment:
        """Read the experiment again, with the policies that were added since."""
        return self._take(self._client.send(calls.show(self.name)))

    def assign(self, unit: Unit, *, strict: bool = False) -> Assignment:
        """Return the arm to show a unit that has just arrived, as `LiveExperiment.assign` does.

        If the service is away or does not answer in time, the unit gets the fallback arm with the reason UNAVAILABLE,
        unless `strict`, which raises `Unavailable`. If it was enrolled nevertheless, its assignment is voided once
        the service answers again, so that it does not count.
        """
        check_strict(strict)
        try:
            self._void_unanswered()
            answer = self._client.send(self._calls.assign(unit), is_assign=True)
        except Unavailable as error:
            if strict:
                raise
            return self._not_told([unit], error)
        self._told([answer])
        return answer

    def assign_many(
        self, units: Iterable[Unit], *, strict: bool = False
    ) -> list[Assignment | SameluckError]:
        """Return what `assign` returns for each of several units, in their order; an error stands in its place."""
        answers: list[Assignment | SameluckError] = []
        check_strict(strict)
        for some in parts("assign_many: units", units):
            try:
                self._void_unanswered()
                answers += self._client.send(self._calls.assign_many(some), is_assign=True)
            except Unavailable as error:
                if strict:
                    raise
                answers += [self._not_told(some, error)] * len(some)
        self._told(answers)
        return answers

    def _void_unanswered(self) -> None:
        units = self._take_unanswered()
        if units:
            try:
                self._client.send(self._calls.void_units(units), is_assign=True)
            except Unavailable:
                self._put_back(units)
                raise

    def reward(self, id: str | None, value: float) -> Receipt:
        """Report the reward of a unit, as `LiveExperiment.reward` does; it is durable once this returns."""
        report = checked_report((id, value))
        if isinstance(report, SameluckError):
            raise report
        if id is None:
            return not_enrolled(report.value)
        return self._client.send(self._calls.reward(*report))

    def reward_many(
        self, pairs: Iterable[tuple[str | None, float]]
    ) -> list[Receipt | SameluckError]:
        """Report several rewards; returns what `reward` returns for each, or its error in its place."""
        every = checked_reports(pairs)
        enrolled = [one for one in every if isinstance(one, Report) and one.id is not None]
        answers: list[Receipt | SameluckError] = []
        for some in parts("reward_many: pairs", enrolled):
            answers += self._client.send(self._calls.reward_many(some))
        return joined(every, answers)

    def expose(self, id: str | None) -> None:
        """Report that the unit has seen its arm."""
        if id is not None:
            self._client.send(self._calls.expose(id))

    def void(self, id: str | None) -> None:
        """Report that the unit never saw its arm."""
        if id is not None:
            self._client.send(self._calls.void(id))

    def disable_arm(self, arm: str, *, reason: str = "", fallback: str | None = None) -> None:
        """Show an arm to nobody, as `LiveExperiment.disable_arm` does."""
        self._client.send(self._calls.disable_arm(arm, reason=reason, fallback=fallback))
        self._fallback = fallback or self._fallback  # also while the service is away

    def trace(self, replication: int = 0) -> Trace:
        """Every period of one replication that each policy has done."""
        record = self._client.send(self._calls.trace(replication))
        return trace_of(self.refresh(), record)

    describe = _sent(ExperimentCalls.describe)
    pause = _sent(ExperimentCalls.pause)
    resume = _sent(ExperimentCalls.resume)
    stop = _sent(ExperimentCalls.stop)
    enable_arm = _sent(ExperimentCalls.enable_arm)
    erase = _sent(ExperimentCalls.erase)
    forget_units = _sent(ExperimentCalls.forget_units)
    extend_windows = _sent(ExperimentCalls.extend_windows)
    add_policy = _sent(ExperimentCalls.add_policy)
    preview_policy = _sent(ExperimentCalls.preview_policy)
    remove_policy = _sent(ExperimentCalls.remove_policy)
    replace_policy_code = _sent(ExperimentCalls.replace_policy_code)
    repair = _sent(ExperimentCalls.repair)
    status = _sent(ExperimentCalls.status)
    history = _sent(ExperimentCalls.history)
    diagnostics = _sent(ExperimentCalls.diagnostics)
    replications = _sent(ExperimentCalls.replications)
    results = _sent(ExperimentCalls.results)
    runs = _sent(ExperimentCalls.runs)
    export = _sent(ExperimentCalls.export)
