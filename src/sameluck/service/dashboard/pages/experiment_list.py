"""List of experiments: experiments that need attention, then running and ended experiments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request, Response

from sameluck.errors import SameluckError
from sameluck.live.databases.rows import ENDED
from sameluck.live.records import Status
from sameluck.reporting.pages.charts import Chart
from sameluck.service.dashboard.live_charts import sparkline
from sameluck.service.dashboard.overview import Overview
from sameluck.service.dashboard.page_responses import PageRoute, page, unless_unchanged
from sameluck.service.dashboard.verdicts import Verdict
from sameluck.service.dashboard.visitors import CurrentVisitor, Visitor

router = APIRouter(route_class=PageRoute)

MAX_ROWS = 100  # the newest experiments
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


class Row(NamedTuple):
    """One experiment in the list."""

    status: Status
    overview: Overview | None  # None if it cannot be loaded
    problem: str

    @property
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
        alarm = self.overview is None or bool(self.overview.alarm)
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
    statuses = await visitor.experiments.read_store(lambda store: store.statuses())
    rows = [await _row(visitor, status) for status in statuses[-MAX_ROWS:][::-1]]
    rows.sort(key=lambda row: row.rank)
    users = [row.overview.users for row in rows if row.overview]
    show = show if show in FILTERS else ""
    filters = [
        (key, title, sum(map(holds, rows)), key == show) for key, (title, holds) in FILTERS.items()
    ]
    response = page(
        "experiments.html",
        visitor=visitor,
        rows=rows,
        shown=[row for row in rows if FILTERS[show][1](row)],
        filters=filters,
        hidden=len(statuses) - len(rows),
        counts=Counter(status.status for status in statuses),
        asked=sum(asked for asked, _ in users),
        naive=sum(naive for _, naive in users),
    )
    return unless_unchanged(request, response)


async def _row(visitor: Visitor, status: Status) -> Row:
    try:
        overview = await visitor.overviews.of(visitor.experiments, status.name)
    except SameluckError as error:
        return Row(status, None, str(error))
    return Row(overview.status, overview, "")
