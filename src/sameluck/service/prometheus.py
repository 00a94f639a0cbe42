"""Metrics in the text format of Prometheus: requests by route, errors by code, and experiments.

Requests, errors, statuses and the time of the last reward are in memory, so that they are answered while the database
is unavailable. The counts of experiments are read from the database.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter as Counted
from collections.abc import Mapping, Sequence
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sameluck.errors import SameluckError, Unavailable
from sameluck.live.calls.timing import time_limit
from sameluck.live.databases.rows import ENDED, StateRow
from sameluck.live.records import Status
from sameluck.live.store import Store
from sameluck.service.loaded_experiments import LoadedExperiments, no_experiment
from sameluck.service.problems import MEDIA_TYPE

COUNTS = ("users", "settled", "defaulted", "waiting", "wanted", "voided", "complete", "opened")
CLIENT_GONE = 499  # nginx's status for a request whose client has gone
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
MAX_COUNTED = 20  # experiments whose counts are returned unless some are named
READ_SECONDS = 1.0  # for the counts and statuses of experiments

_log = logging.getLogger("sameluck")


class Metrics:
    """Metrics of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("method", "route")
        self._seconds = Histogram(
            "sameluck_request_seconds",
            "Seconds until a request was answered",
            labels,
            registry=self._registry,
            buckets=BUCKETS,
        )
        self._responses = Counter(
            "sameluck_responses", "Responses", (*labels, "status"), registry=self._registry
        )
        self._errors = Counter(
            "sameluck_errors", "Problem documents by code", ("code",), registry=self._registry
        )
        self._children: dict[tuple[str, str, int], tuple[Histogram, Counter]] = {}
        self._states: dict[str, StateRow] | None = None  # by name, when they were last read

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        key = method, route, status
        if key not in self._children:
            counter = self._responses.labels(method, route, str(status))
            self._children[key] = self._seconds.labels(method, route), counter
        histogram, counter = self._children[key]
        histogram.observe(seconds)
        counter.inc()

    def count_error(self, content: bytes) -> None:
        """Count a problem document by its code."""
        with suppress(ValueError, KeyError, TypeError):
            self._errors.labels(json.loads(content)["code"]).inc()

    def note_states(self, rows: Sequence[StateRow]) -> None:
        """Remember the statuses of experiments, and log those that have changed since the last call."""
        before, self._states = self._states, {row.name: row for row in rows}
        for row in rows:
            earlier = None if before is None else before.get(row.name)
            is_failed = row.status == "failed"
            # Of an experiment that is seen for the first time only a failure is news.
            if row == earlier or (earlier is None and not is_failed):
                continue
            was = f" (was {earlier.status})" if earlier else ""
            reason = f": {row.reason}" if row.reason else ""
            level = logging.ERROR if is_failed else logging.WARNING
            _log.log(level, "sameluck: experiment %r is %s%s%s", row.name, row.status, was, reason)

    @property
    def any_failed(self) -> bool:
        """Whether an experiment had failed when the statuses were last read."""
        return any(row.status == "failed" for row in (self._states or {}).values())

    def text(
        self,
        statuses: Sequence[Status] | None,
        rewarded_at: Mapping[str, float],
        names: Sequence[str] = (),
    ) -> bytes:
        """Return the metrics as text.

        Args:
            statuses: Of all experiments, the oldest first; None without a database.
            rewarded_at: When this process last accepted a reward, by experiment.
            names: Return the metrics of these experiments, and no others. If empty, return requests, errors, the
                statuses of active experiments and the counts of the newest active experiments.
        """
        states = list((self._states or {}).values())
        active = [row.name for row in states if row.status not in ENDED]
        counted = set(names or active[-MAX_COUNTED:])
        registry = CollectorRegistry()
        _gauge(registry, "database_up", "1 if the counts of experiments could be read").set(
            statuses is not None
        )
        if not names:
            number = _gauge(registry, "experiments", "Number of experiments", "status")
            for status, count in Counted(row.status for row in states).items():
                number.labels(status).set(count)
            title = "Active experiments whose counts are left out; ask for them by name"
            left_out = _gauge(registry, "experiments_left_out", title)
            left_out.set(len(active) - len(counted))
        title = "1 for the status of an experiment, when it was last read"
        state = _gauge(registry, "experiment_status", title, "experiment", "status")
        for row in states:
            if row.name in (names or active):
                state.labels(row.name, row.status).set(1)
        title = "When this process last accepted a reward"
        rewarded = _gauge(registry, "experiment_last_reward_timestamp_seconds", title, "experiment")
        for name in counted & rewarded_at.keys():
            rewarded.labels(name).set(rewarded_at[name])
        _add_counts(registry, [status for status in statuses or () if status.name in counted])
        own = b"" if names else generate_latest(self._registry)
        return own + generate_latest(registry)


def _gauge(registry: CollectorRegistry, name: str, title: str, *labels: str) -> Gauge:
    return Gauge(f"sameluck_{name}", title, labels, registry=registry)


def _add_counts(registry: CollectorRegistry, statuses: Sequence[Status]) -> None:
    for name in COUNTS:
        title = f"Status of an experiment: {name}"
        gauge = _gauge(registry, f"experiment_{name}", title, "experiment")
        for status in statuses:
            gauge.labels(status.name).set(getattr(status, name))
    title = "Assignments by the reason of the answer"
    answers = _gauge(registry, "experiment_answers", title, "experiment", "reason")
    for status in statuses:
        for reason, calls in status.answers.items():
            answers.labels(status.name, reason).set(calls)


async def watch_states(experiments: LoadedExperiments, metrics: Metrics) -> None:
    """Note the statuses of all experiments each second; another process may have changed them."""
    while True:
        with suppress(SameluckError):  # the database is unavailable, which is logged elsewhere
            metrics.note_states(await experiments.states(READ_SECONDS))
        await asyncio.sleep(1)


async def read_metrics(
    experiments: LoadedExperiments, metrics: Metrics, names: Sequence[str]
) -> bytes:
    """Return what `Metrics.text` returns, within a second even if the database does not answer.

    Raise `Unknown` if the database has no experiment of a name.
    """

    def read(store: Store) -> list[Status]:
        with time_limit(READ_SECONDS):  # the thread ends too
            return store.statuses()

    statuses: Sequence[Status] | None = None
    with suppress(Unavailable, TimeoutError):
        async with asyncio.timeout(READ_SECONDS):
            statuses = await experiments.read_store(read)
            metrics.note_states([StateRow(row.name, row.status, row.reason) for row in statuses])
    if statuses is not None:
        for name in set(names).difference(status.name for status in statuses):
            raise no_experiment(name)
    return metrics.text(statuses, experiments.rewarded_at, names)


class Measured:
    """An ASGI application whose requests are counted by route; unknown paths count as one route."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, is_problem = time.perf_counter(), CLIENT_GONE, False

        async def send_noted(message: Message) -> None:
            nonlocal status, is_problem
            if message["type"] == "http.response.start":
                status = message["status"]
                is_problem = (b"content-type", MEDIA_TYPE.encode()) in message["headers"]
            elif is_problem:
                self._metrics.count_error(message["body"])
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except BaseException:
            status = 500
            raise
        finally:
            route, method = scope.get("route"), scope["method"]
            # A client could otherwise add labels without end.
            is_known = method in (getattr(route, "methods", None) or ())
            path, seconds = getattr(route, "path", "none"), time.perf_counter() - began
            self._metrics.observe(method if is_known else "any", path, status, seconds)
