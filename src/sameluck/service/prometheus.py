"""Metrics in the text format of Prometheus: requests by route, and the counts of experiments."""

from __future__ import annotations

import time
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sameluck.live.records import Status

COUNTS = ("users", "settled", "defaulted", "waiting", "wanted", "voided", "complete", "opened")
CLIENT_GONE = 499  # nginx's status for a request whose client has gone
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)


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
        self._children: dict[tuple[str, str, int], tuple[Histogram, Counter]] = {}

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        key = method, route, status
        if key not in self._children:
            counter = self._responses.labels(method, route, str(status))
            self._children[key] = self._seconds.labels(method, route), counter
        histogram, counter = self._children[key]
        histogram.observe(seconds)
        counter.inc()

    def text(self, statuses: Sequence[Status]) -> tuple[bytes, int, dict[str, str]]:
        """Return the body, the status and the headers of a response with the current metrics."""
        experiments = CollectorRegistry()
        counts = {
            name: Gauge(
                f"sameluck_experiment_{name}",
                f"Status of an experiment: {name}",
                ("experiment",),
                registry=experiments,
            )
            for name in COUNTS
        }
        answers = Gauge(
            "sameluck_experiment_answers",
            "Assignments by the reason of the answer",
            ("experiment", "reason"),
            registry=experiments,
        )
        for status in statuses:
            for name, gauge in counts.items():
                gauge.labels(status.name).set(getattr(status, name))
            for reason, calls in status.answers.items():
                answers.labels(status.name, reason).set(calls)
        content = generate_latest(self._registry) + generate_latest(experiments)
        return content, 200, {"Content-Type": CONTENT_TYPE_LATEST}


class Measured:
    """An ASGI application whose requests are counted by route; unknown paths count as one route."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), CLIENT_GONE

        async def send_noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
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
