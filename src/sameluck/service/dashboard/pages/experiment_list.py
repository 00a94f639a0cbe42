"""List of experiments: experiments that need attention, then running and ended experiments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from sameluck.errors import SameluckError
from sameluck.live.databases.rows import ENDED
from sameluck.live.records import Status
from sameluck.reporting.pages.charts import Chart
from sameluck.service.dashboard.live_charts import sparkline
from sameluck.service.dashboard.overview import Overview
from sameluck.service.dashboard.page_responses import (
    PageRoute,
    render,
    respond_page,
    unless_unchanged,
)
from sameluck.service.dashboard.verdicts import Verdict
from sameluck.service.dashboard.visitors import CurrentVisitor, Visitor

router = APIRouter(route_class=PageRoute)

MAX_ROWS = 100  # the newest experiments
WAIT_SECONDS = 0.5  # for rows that are computed; the page shows the others as they come
MAX_SENTENCES = 2  # verdicts in a row of the list
CHANGES = {
    "started": "since",
    "resumed": "since",
    "running": "since",
    "paused": "paused",
    "failed": "stopped",
    "draining": "draining since",
    "complete": "ended",
    "stopped": "ended",
}


@dataclass(frozen=True)
class Row:
    """One experiment in the list."""

    status: Status
    overview: Overview | None  # None while it is computed, and if the experiment cannot be loaded
    problem: str  # why it cannot be loaded

    @property
    def pending(self) -> bool:
        return self.overview is None and not self.problem

    @cached_property
    def verdicts(self) -> list[Verdict]:
        return self.overview.verdicts if self.overview else []

    @property
    def summary(self) -> str:
        """Sentence about many challengers; empty if each challenger has its own sentence."""
        is_long = len(self.verdicts) > MAX_SENTENCES
        return self.overview.summary if self.overview and is_long else ""

    @property
    def when(self) -> tuple[str, str] | None:
        """Word and time of the last change of status."""
        history = self.overview.history if self.overview else []
        last = next((change for change in history[::-1] if change.what in CHANGES), None)
        return (CHANGES[last.what], last.at) if last else None

    @property
    def spark(self) -> Chart | None:
        findings = self.overview.findings if self.overview else []
        return sparkline(findings[0]) if findings else None

    @property
    def ready(self) -> bool:
        """True if it may be stopped because a difference is shown."""
        return not self.ended and any(verdict.state == "decided" for verdict in self.verdicts)

    @property
    def needs_attention(self) -> bool:
        """True if it failed, cannot be loaded, or has a health check in the state alarm."""
        alarm = bool(self.problem) or (self.overview is not None and bool(self.overview.alarm))
        return self.status.status == "failed" or (alarm and not self.ended)

    @property
    def ended(self) -> bool:
        """True if it enrols no more units."""
        return self.status.status in ENDED

    @property
    def rank(self) -> int:
        return (self.ready, self.needs_attention, not self.ended, True).index(True)


FILTERS: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "": ("All", lambda _: True),
    "going": ("Active", lambda row: not row.ended),
    "look": ("Need attention", lambda row: row.needs_attention),
    "ended": ("Ended", lambda row: row.ended),
}


@router.get("/")
async def show_experiments(
    request: Request, visitor: CurrentVisitor, show: Annotated[str, Query(max_length=20)] = ""
) -> Response:
    """Show the list, or the rows of a filter."""
    experiments = visitor.experiments
    statuses = await experiments.read_store(lambda store: store.statuses())
    newest = statuses[-MAX_ROWS:][::-1]
    overviews = await visitor.overviews.for_list(experiments, newest, WAIT_SECONDS)
    rows = list(map(_row, newest, overviews))
    show = show if show in FILTERS else ""
    text = await experiments.compute(lambda: _text(visitor, statuses, rows, show), object())
    return unless_unchanged(request, respond_page(text))


def _row(status: Status, overview: Overview | SameluckError | None) -> Row:
    if isinstance(overview, SameluckError):
        return Row(status, None, str(overview))
    return Row(status, overview, "")


def _text(visitor: Visitor, statuses: Sequence[Status], rows: list[Row], show: str) -> str:
    rows.sort(key=lambda row: row.rank)
    users = [row.overview.users for row in rows if row.overview]
    return render(
        "experiments.html",
        visitor=visitor,
        rows=rows,
        shown=[row for row in rows if FILTERS[show][1](row)],
        filters=[
            (key, title, sum(map(holds, rows)), key == show)
            for key, (title, holds) in FILTERS.items()
        ],
        hidden=len(statuses) - len(rows),
        counts=Counter(status.status for status in statuses),
        asked=sum(asked for asked, _ in users),
        naive=sum(naive for _, naive in users),
        pending=any(row.pending for row in rows),
    )
