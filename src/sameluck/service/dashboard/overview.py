"""`Overview`: what the pages show of one experiment, computed at most once a second for all who watch."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

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

FRESH_SECONDS, CHECKED_SECONDS = 0.9, 10.0
COLOURS = 4  # of policies; with more of them none has one


class Overview(NamedTuple):
    """An experiment at one moment."""

    at: float  # of the monotonic clock
    checked_at: float
    name: str
    started_at: str | None
    experiment: Experiment
    options: LiveOptions
    status: Status
    findings: list[Finding]
    runs: Runs  # of the policies that have completed the most replications
    replications: list[ReplicationStatus]
    checks: tuple[Check, ...]
    history: list[Change]

    @property
    def alarming(self) -> Check | None:
        """The first check that gives alarm."""
        return next((check for check in self.checks if check.verdict == "alarm"), None)

    @property
    def alarm(self) -> str:
        """The name of the first check that gives alarm; empty if none does."""
        return self.alarming.name if self.alarming else ""

    @property
    def verdicts(self) -> list[Verdict]:
        """Every finding in words."""
        return [verdict_of(one, aa=self.options.aa, alarm=self.alarm) for one in self.findings]

    @property
    def summary(self) -> str:
        """All challengers in a sentence."""
        return summary_of(self.verdicts)

    @property
    def places(self) -> dict[str, int | None]:
        """The number of each policy's colour and mark: the control has the first; None if there are many."""
        control = self.experiment.control
        names = [control, *(name for name in self.experiment.policies if name != control)]
        few = len(names) <= COLOURS
        return {name: place if few else None for place, name in enumerate(names)}

    @property
    def added(self) -> list[str]:
        """Policies that were added after the start."""
        return [change.subject for change in self.history if change.what == "policy added"]

    @property
    def users(self) -> tuple[int, int]:
        """Real users of the replications that count, and those of the naive design."""
        runs = self.runs
        asked = int(runs.interactions[:, -1].sum()) if runs.replications else 0
        return asked, runs.replications * len(runs.policies) * self.experiment.horizon


class Overviews:
    """The overviews of a service by name of the experiment."""

    def __init__(self) -> None:
        self._known: dict[str, Overview] = {}
        self._locks: dict[str, threading.Lock] = {}

    def of(self, live: LiveExperiment) -> Overview:
        """The overview of an experiment, as old as a second."""
        with self._locks.setdefault(live.name, threading.Lock()):
            before = self._known.get(live.name)
            if before is None or time.monotonic() > before.at + FRESH_SECONDS:
                self._known[live.name] = _overview(live, before)
            return self._known[live.name]

    def forget(self, name: str) -> None:
        """Compute an overview anew when it is next needed, after a change."""
        self._known.pop(name, None)


def _overview(live: LiveExperiment, before: Overview | None) -> Overview:
    status, history, now = live.status(), live.history(), time.monotonic()
    if before is not None and before.history != history:
        before = None  # policies may have been added, or users erased
    if before is not None and before.status == status and not _is_unchecked(before, now):
        return before._replace(at=now)
    # Two policies have done what is complete, no more; of three, two may have done more.
    if (
        before is not None
        and _counts(before.status) == _counts(status)
        and len(before.experiment.policies) <= 2
    ):
        experiment, findings, runs = before.experiment, before.findings, before.runs
    else:
        experiment = current_experiment(live)
        findings = findings_of(live, experiment)
        runs = widest_runs(live, experiment, findings)
    checks, checked_at = (before.checks, before.checked_at) if before is not None else ((), now)
    if before is None or _is_unchecked(before, now):
        checks, checked_at = live.diagnostics(), now
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


def _counts(status: Status) -> tuple[int, int]:
    """What changes when a replication is completed, or a default reward is taken back."""
    return status.complete, status.defaulted


def _is_unchecked(overview: Overview, now: float) -> bool:
    """Whether the health checks are to be made again."""
    active = overview.status.status not in ENDED
    return active and now > overview.checked_at + CHECKED_SECONDS
