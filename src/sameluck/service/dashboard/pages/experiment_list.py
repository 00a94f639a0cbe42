"""The list of experiments: those to look at first, then those that run, then those that have ended."""

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
from sameluck.service.dashboard.page_responses import PageRoute, page, unless_known
from sameluck.service.dashboard.verdicts import Verdict
from sameluck.service.dashboard.visitors import Visitor, Watching

router = APIRouter(route_class=PageRoute)

MOST = 100  # experiments in the list, the newest
MOST_SENTENCES = 2  # verdicts that a row has room for
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
        """Its findings in words."""
        return self.overview.verdicts if self.overview else []

    @property
    def summary(self) -> str:
        """Many challengers in a sentence; empty if each has its own."""
        many = len(self.verdicts) > MOST_SENTENCES
        return self.overview.summary if self.overview and many else ""

    @property
    def _decided(self) -> list[Verdict]:
        return [one for one in self.verdicts if one.kind == "decided"]

    @property
    def when(self) -> tuple[str, str] | None:
        """Since when it is what it is: a word and a time."""
        history = self.overview.history if self.overview else []
        last = next((one for one in history[::-1] if one.what in CHANGES), None)
        return (CHANGES[last.what], last.at) if last else None

    @property
    def spark(self) -> Chart | None:
        """The effect so far."""
        return (
            sparkline(self.overview.findings[0])
            if self.overview and self.overview.findings
            else None
        )

    @property
    def ready(self) -> bool:
        """Whether it may be stopped, since a difference is shown."""
        return self.status.status not in ENDED and bool(self._decided)

    @property
    def look(self) -> bool:
        """Whether something is wrong."""
        alarm = self.overview is None or bool(self.overview.alarm)
        return self.status.status == "failed" or (alarm and self.status.status not in ENDED)

    @property
    def ended(self) -> bool:
        """Whether nobody is enrolled any more."""
        return self.status.status in ENDED

    @property
    def rank(self) -> int:
        """Its place in the list."""
        order = (self.ready, self.look, self.status.status not in ENDED)
        return next((place for place, holds in enumerate(order) if holds), len(order))


FILTERS: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "": ("All", lambda _: True),
    "going": ("Going on", lambda row: not row.ended),
    "look": ("Need a look", lambda row: row.look),
    "ended": ("Ended", lambda row: row.ended),
}


@router.get("/")
async def show_experiments(
    request: Request, visitor: Watching, show: Annotated[str, Query(max_length=20)] = ""
) -> Response:
    """The list, or a part of it."""
    statuses = await visitor.experiments.read_store(lambda store: store.statuses())
    rows = [await _row(visitor, status) for status in statuses[-MOST:][::-1]]
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
    return unless_known(request, response)


async def _row(visitor: Visitor, status: Status) -> Row:
    try:
        overview = await visitor.experiments.read(status.name, visitor.overviews.of)
    except SameluckError as error:
        return Row(status, None, str(error))
    return Row(overview.status, overview, "")
