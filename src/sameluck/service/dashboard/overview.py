"""`Overview`: the data of one experiment's pages, computed at most once a second for all visitors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from sameluck.errors import SameluckError
from sameluck.experiment import Experiment
from sameluck.live.control.history import Change
from sameluck.live.databases.rows import ENDED
from sameluck.live.diagnostics.check import Check
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import LiveOptions
from sameluck.live.records import ReplicationStatus, Status
from sameluck.runs import Runs
from sameluck.service.dashboard.findings import (
    Finding,
    current_experiment,
    findings_of,
    widest_runs,
)
from sameluck.service.dashboard.verdicts import Verdict, summary_of, verdict_of
from sameluck.service.loaded_experiments import LoadedExperiments

FRESH_SECONDS, CHECKED_SECONDS = 0.9, 10.0
# Between two health checks for the list. Checks take most of a look's time, and the list has up to 100 rows.
LIST_SECONDS = 60.0
COLOURS = 4  # with more policies than this none has a colour


class Overview(NamedTuple):
    """An experiment at one moment."""

    at: float  # monotonic seconds
    checked_at: float  # monotonic seconds of the health checks
    name: str
    started_at: str | None
    experiment: Experiment
    options: LiveOptions
    status: Status
    findings: list[Finding]
    runs: Runs  # of the policies with the most complete replications
    replications: list[ReplicationStatus]
    checks: tuple[Check, ...]
    history: list[Change]

    @property
    def alarming(self) -> Check | None:
        return next((check for check in self.checks if check.verdict == "alarm"), None)

    @property
    def alarm(self) -> str:
        """Name of the first health check in the state alarm; empty without an alarm."""
        return self.alarming.name if self.alarming else ""

    @property
    def verdicts(self) -> list[Verdict]:
        aa, alarm = self.options.aa, self.alarm
        return [verdict_of(finding, aa=aa, alarm=alarm) for finding in self.findings]

    @property
    def summary(self) -> str:
        return summary_of(self.verdicts)

    @property
    def colours(self) -> dict[str, int | None]:
        """Number of each policy's colour and mark, 0 for the control; None for every policy if there are many."""
        control = self.experiment.control
        names = [control, *(name for name in self.experiment.policies if name != control)]
        are_coloured = len(names) <= COLOURS
        return {name: index if are_coloured else None for index, name in enumerate(names)}

    @property
    def added(self) -> list[str]:
        """Names of the policies that were added after the start."""
        return [change.subject for change in self.history if change.what == "policy added"]

    @property
    def users(self) -> tuple[int, int]:
        """Real users of the replications that results use, and the users of the naive design."""
        runs = self.runs
        asked = int(runs.interactions[:, -1].sum()) if runs.replications else 0
        return asked, runs.replications * len(runs.policies) * self.experiment.horizon


class Overviews:
    """Overviews of a service by experiment name; `LoadedExperiments.look` computes one at a time for all visitors."""

    def __init__(self) -> None:
        self._overviews: dict[str, Overview] = {}
        self._changed_at: dict[str, float] = {}  # monotonic seconds
        self._under_way: dict[str, tuple[float, asyncio.Task[Overview]]] = {}  # since a moment
        self._tasks: dict[str, asyncio.Task[Overview]] = {}  # begun for the list
        self._turn = asyncio.Semaphore(
            1
        )  # one row of the list at a time, so that a page does not wait for all rows

    async def of(
        self, experiments: LoadedExperiments, name: str, checked_seconds: float = CHECKED_SECONDS
    ) -> Overview:
        """Return the overview of an experiment: at most a second old, or the one that is being computed.

        Unlike other looks, visitors join it after it has begun, unless a visitor has changed the experiment since.
        Health checks that are older than `checked_seconds` are made again.
        """
        begun_at, task = self._under_way.get(name, (0.0, None))
        if task is None or task.done() or begun_at < self._changed_at.get(name, 0.0):
            look = partial(self._of, checked_seconds=checked_seconds)
            task = asyncio.create_task(experiments.look(name, look, "overview", checked_seconds))
            # Retrieved, or asyncio would log the error after every visitor has left.
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            self._under_way[name] = time.monotonic(), task
        return await asyncio.shield(task)

    async def for_list(
        self, experiments: LoadedExperiments, statuses: Sequence[Status], seconds: float
    ) -> list[Overview | SameluckError | None]:
        """Return overviews after some seconds: a new or an earlier one, an error, or None while there is none."""
        due = {status.name for status in statuses if not self._is_current(status)}
        for name in due:
            if name not in self._tasks:
                self._tasks[name] = asyncio.create_task(self._in_turn(experiments, name))
        under_way = [self._tasks[status.name] for status in statuses if status.name in self._tasks]
        if under_way:
            await asyncio.wait(under_way, timeout=seconds)
        overviews: list[Overview | SameluckError | None] = []
        for name in (status.name for status in statuses):
            overview: Overview | SameluckError | None = self._overviews.get(name)
            if name in self._tasks and self._tasks[name].done():
                try:
                    overview = self._tasks.pop(name).result()
                except SameluckError as error:
                    overview = error
            overviews.append(overview)
        return overviews

    async def _in_turn(self, experiments: LoadedExperiments, name: str) -> Overview:
        async with self._turn:
            return await self.of(experiments, name, LIST_SECONDS)

    def _is_current(self, status: Status) -> bool:
        """Return True if the overview shows this status, and its health checks are not due."""
        overview = self._overviews.get(status.name)
        if overview is None or overview.at < self._changed_at.get(status.name, 0.0):
            return False
        # Calls that are counted in memory are not in the statuses of a store.
        same = overview.status._replace(answers={}) == status._replace(answers={})
        # An ended experiment is not checked again.
        since = overview.at if status.status in ENDED else overview.checked_at
        return same and time.monotonic() < since + LIST_SECONDS

    def _of(self, live: LiveExperiment, checked_seconds: float) -> Overview:
        before = self._overviews.get(live.name)
        changed_at = self._changed_at.get(live.name, 0.0)
        if before is None or time.monotonic() > before.at + FRESH_SECONDS or before.at < changed_at:
            self._overviews[live.name] = before = _overview(live, before, checked_seconds)
        return before

    def forget(self, name: str) -> None:
        """Let the next request compute an overview again, after a change."""
        self._changed_at[name] = time.monotonic()


def _overview(live: LiveExperiment, before: Overview | None, checked_seconds: float) -> Overview:
    status, history, now = live.status(), live.history(), time.monotonic()
    if before is not None and before.history != history:
        before = None  # policies may have been added or users erased
    is_due = before is None or (
        before.status.status not in ENDED and now > before.checked_at + checked_seconds
    )
    if before is not None and before.status == status and not is_due:
        return before._replace(at=now)
    # With two policies, findings change only when a replication completes or a default reward is taken back. With
    # more policies, a pair may complete a replication alone.
    if (
        before is not None
        and before.status.complete == status.complete
        and before.status.defaulted == status.defaulted
        and len(before.experiment.policies) <= 2
    ):
        experiment, findings, runs = before.experiment, before.findings, before.runs
    else:
        experiment = current_experiment(live)
        findings = findings_of(live, experiment)
        runs = widest_runs(live, experiment, findings)
    if before is None or is_due:
        checks, checked_at = live.diagnostics(), now
    else:
        checks, checked_at = before.checks, before.checked_at
    return Overview(
        now,
        checked_at,
        live.name,
        live.started_at,
        experiment,
        live.options,
        status,
        findings,
        runs,
        live.replications(),
        checks,
        history,
    )
