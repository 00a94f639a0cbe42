"""`AsyncClient`: a service, called from coroutines.

`ClientCore` and `AsyncRemoteExperiment` hold the behaviour of both clients. The blocking client runs the same
coroutines with a sender that never suspends.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import httpx

from sameluck.client import calls
from sameluck.client.calls import Call, ExperimentCalls, ExperimentDocument, trace_of
from sameluck.client.connection import (
    ASSIGN_SECONDS,
    MAX_ITEMS,
    AsyncSender,
    Connection,
    NotReceived,
)
from sameluck.errors import Closed, Invalid, SameluckError, Unavailable, Unknown, shown
from sameluck.experiment import Experiment
from sameluck.live import Assignment, LiveOptions, Receipt, Reward, Status
from sameluck.live.options import as_options
from sameluck.live.records import UNAVAILABLE
from sameluck.live.users.rewards import checked_reward
from sameluck.live.users.units import Unit, is_id
from sameluck.trajectories import Trace
from sameluck.validation import require_flag, require_list, require_name

P = ParamSpec("P")
T = TypeVar("T")


class ClientCore:
    """Experiments of a service, called through a sender."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def close(self) -> None:
        """Void the assignments of units whose answer was lost, if the service answers, and close the connections."""
        with suppress(SameluckError):
            while names := self._connection.experiments_to_void:
                # Nobody waits for an arm, so that the service gets more time.
                await void_undelivered(self._connection, names[0], is_assign=False)
        await self._connection.close()

    async def names(self) -> list[str]:
        """Return the names of the service's experiments, the oldest first."""
        return [status.name for status in await self.statuses()]

    async def statuses(self) -> list[Status]:
        """Return the status of every experiment, the oldest first."""
        return await self._connection.send(calls.list_statuses())

    async def start(
        self,
        name: str,
        experiment: Experiment,
        *,
        options: LiveOptions | Mapping[str, object] | None = None,
        paused: bool = False,
    ) -> AsyncRemoteExperiment:
        """Start an experiment, or load the experiment of this name that was started with the same settings.

        Args:
            name: 1 to 200 printable characters without a slash.
            experiment: What to compare.
            options: How to run it; `LiveOptions()` if not given.
            paused: Enrol no unit until `resume` is called.
        """
        call = calls.create(name, experiment, as_options(options), paused=paused)
        return AsyncRemoteExperiment(
            self._connection, name, None, await self._connection.send(call)
        )

    async def load(self, name: str, *, fallback: str | None = None) -> AsyncRemoteExperiment:
        """Return an experiment of the service.

        Args:
            name: Its name.
            fallback: The arm for units while the service is unavailable. If it is given, this call sends nothing;
                otherwise the fallback arm is read from the service now.
        """
        document = await self._connection.send(calls.show(name)) if fallback is None else None
        return AsyncRemoteExperiment(self._connection, name, fallback, document)

    async def delete(self, name: str, *, reason: str = "") -> None:
        """Delete an experiment that is stopped, complete or failed, with its ledger and its audit log."""
        await self._connection.send(calls.delete(name, reason))


class AsyncClient(ClientCore):
    """Experiments of a service, with the methods of a `Store` as coroutines; use it with `async with`.

    It has the arguments of `Client`, but for a transport: an `httpx.AsyncBaseTransport`.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = ASSIGN_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(Connection(url, token, timeout, AsyncSender, transport))

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _sent(
    method: Callable[Concatenate[ExperimentCalls, P], Call[T]],
) -> Callable[Concatenate[AsyncRemoteExperiment, P], Coroutine[Any, Any, T]]:

    @wraps(method)
    async def send(self: AsyncRemoteExperiment, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await self._connection.send(method(self._calls, *arguments, **named))

    return send


class AsyncRemoteExperiment:
    """An experiment of a service, with the methods of a `LiveExperiment` as coroutines."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        fallback: str | None,
        document: ExperimentDocument | None = None,
    ) -> None:
        self.name = name
        self.last_read: Experiment | None = None
        self._connection = connection
        self._calls = ExperimentCalls(name)
        self._fallback = fallback
        if document is not None:
            self._take(document)
        if fallback is not None:
            require_name("fallback", fallback)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    @property
    def experiment(self) -> Experiment:
        """Experiment when it was last read; `refresh` reads it again."""
        if self.last_read is None:
            message = f"experiment {self.name!r} was loaded with a fallback arm and not read; await refresh() first"
            raise Invalid(message)
        return self.last_read

    async def refresh(self) -> Experiment:
        """Read the experiment again, with the policies that were added since."""
        return self._take(await self._connection.send(calls.show(self.name)))

    def _take(self, document: ExperimentDocument) -> Experiment:
        self.last_read = Experiment.from_dict(document["experiment"])
        self._fallback = document["fallback"]
        return self.last_read

    async def assign(self, unit: Unit, *, strict: bool = False) -> Assignment:
        """Return the arm to show a unit that has just arrived, as `LiveExperiment.assign` does.

        If the service is unavailable or does not answer in time, the unit gets the fallback arm with the reason
        UNAVAILABLE, unless `strict`, which raises `Unavailable`. If the service enrolled the unit nevertheless, its
        assignment is voided before the next assignment, or when the client is closed.
        """
        require_flag("strict", strict)
        sent: list[Unit] = []
        try:
            await void_undelivered(self._connection, self.name)
            sent.append(unit)
            answer = await self._connection.send(self._calls.assign(unit), is_assign=True)
        except BaseException as error:
            return self._undelivered(sent, error, strict=strict)
        return self._delivered(unit, answer)

    async def assign_many(
        self, units: Iterable[Unit], *, strict: bool = False
    ) -> list[Assignment | SameluckError]:
        """Return what `assign` returns for several units, in their order; an error takes the place of its answer."""
        answers: list[Assignment | SameluckError] = []
        require_flag("strict", strict)
        for batch in _batches("assign_many: units", units):
            sent: list[Unit] = []
            try:
                await void_undelivered(self._connection, self.name)
                sent.extend(batch)
                call = self._calls.assign_many(batch)
                received = await self._connection.send(call, is_assign=True)
            except BaseException as error:
                answers += [self._undelivered(sent, error, strict=strict)] * len(batch)
            else:
                answers += [
                    self._delivered(unit, answer) if isinstance(answer, Assignment) else answer
                    for unit, answer in zip(batch, received, strict=True)
                ]
        return answers

    def _delivered(self, unit: Unit, answer: Assignment) -> Assignment:
        """Remember a unit that got its arm, or the fallback arm, which an operator may have changed.

        Return the answer; the fallback answer if another call is voiding the unit's assignment at this moment.
        """
        if not answer.enrolled:
            self._fallback = answer.arm
        elif not self._connection.add_delivered(self.name, unit):
            error = Unavailable("another call is voiding the unit's assignment; assign it again")
            return self._undelivered([unit], error, strict=False)
        return answer

    def _undelivered(
        self, units: Sequence[Unit], error: BaseException, *, strict: bool
    ) -> Assignment:
        """Return the fallback answer for units, or raise the error; remember to void what the service assigned."""
        is_unavailable = isinstance(error, Unavailable)
        if is_unavailable and (strict or self._fallback is None):
            raise error  # the unit got no arm, and its caller may repeat the call
        if _may_be_lost(error) and not isinstance(error, NotReceived):
            self._connection.add_undelivered(self.name, units)
        if not is_unavailable or isinstance(error, Closed) or self._fallback is None:
            raise error
        return Assignment(None, self._fallback, enrolled=False, reason=UNAVAILABLE)

    async def reward(self, id: str | None, value: float) -> Receipt:
        """Report the reward of a unit, as `LiveExperiment.reward` does; it is durable once this returns."""
        report = _checked_report((id, value))
        if isinstance(report, SameluckError):
            raise report
        if id is None:
            return _not_enrolled(report.value)
        return await self._connection.send(self._calls.reward(*report))

    async def reward_many(
        self, pairs: Iterable[tuple[str | None, float]]
    ) -> list[Receipt | SameluckError]:
        """Report several rewards; return what `reward` returns for each, or its error in its place."""
        reports = [_checked_report(pair) for pair in require_list("reward_many: pairs", pairs)]
        enrolled = [
            report for report in reports if isinstance(report, _Report) and report.id is not None
        ]
        answers: list[Receipt | SameluckError] = []
        for batch in _batches("reward_many: pairs", enrolled):
            answers += await self._connection.send(self._calls.reward_many(batch))
        received = iter(answers)
        return [_unsent(report) or next(received) for report in reports]

    async def expose(self, id: str | None) -> None:
        """Report that the unit has seen its arm."""
        if id is not None:
            await self._connection.send(self._calls.expose(id))

    async def void(self, id: str | None) -> None:
        """Report that the unit never saw its arm."""
        if id is not None:
            await self._connection.send(self._calls.void(id))

    async def disable_arm(self, arm: str, *, reason: str = "", fallback: str | None = None) -> None:
        """Show an arm to nobody, as `LiveExperiment.disable_arm` does."""
        await self._connection.send(self._calls.disable_arm(arm, reason=reason, fallback=fallback))
        self._fallback = fallback or self._fallback  # also while the service is unavailable

    async def trace(self, replication: int = 0) -> Trace:
        """Return every period of one replication that each policy has completed."""
        record = await self._connection.send(self._calls.trace(replication))
        return trace_of(await self.refresh(), record)

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


class _Report(NamedTuple):
    """A reward to report; id None is a unit that is not enrolled."""

    id: str | None
    value: float


async def void_undelivered(connection: Connection, name: str, *, is_assign: bool = True) -> None:
    """Void assignments of units whose answer was lost."""
    if units := connection.take_undelivered(name):
        voided = True
        try:
            await connection.send(ExperimentCalls(name).void_units(units), is_assign=is_assign)
        except BaseException as error:
            voided = not _may_be_lost(error)  # or tried again before the next assignment
            raise
        finally:
            connection.end_voiding(name, units, voided=voided)


def _may_be_lost(error: BaseException) -> bool:
    """Return whether the service may have answered a call that raised an error, without the caller's knowledge."""
    # An error that is no `Exception` ends the caller's wait: Ctrl-C, or a task that is cancelled.
    return isinstance(error, Unavailable) or not isinstance(error, Exception)


def _batches(name: str, items: Iterable[T]) -> list[Sequence[T]]:
    checked = require_list(name, items)
    return [checked[first : first + MAX_ITEMS] for first in range(0, len(checked), MAX_ITEMS)]


def _checked_report(pair: Any) -> _Report | SameluckError:
    """Return a reward to report, or the embedded call's error; the service checks the reward's range."""
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
    return _Report(id, number)


def _not_enrolled(value: float) -> Receipt:
    return Receipt(applied=False, duplicate=False, value=float(value))


def _unsent(report: _Report | SameluckError) -> Receipt | SameluckError | None:
    if isinstance(report, SameluckError):
        return report
    return _not_enrolled(report.value) if report.id is None else None
