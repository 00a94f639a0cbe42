"""The list of experiments: those to look at first, then those that run, then those that have ended."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from sameluck.errors import SameluckError
from sameluck.live.databases.rows import ENDED
from sameluck.live.records import Status
from sameluck.reporting.charts import Chart
from sameluck.service.dashboard.figures import sparkline
from sameluck.service.dashboard.overview import Overview
from sameluck.service.dashboard.rendering import PageRoute, page, unless_known
from sameluck.service.dashboard.verdicts import Verdict
from sameluck.service.dashboard.visitors import Visitor, Watching

router = APIRouter(route_class=PageRoute)

MOST = 100  # experiments in the list, the newest


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
        return self.status.status not in ENDED and any(
            one.kind == "decided" for one in self.verdicts
        )

    @property
    def look(self) -> bool:
        """Whether something is wrong."""
        alarm = self.overview is None or bool(self.overview.alarm)
        return self.status.status == "failed" or (alarm and self.status.status not in ENDED)

    @property
    def rank(self) -> int:
        """Its place in the list."""
        order = (self.ready, self.look, self.status.status not in ENDED)
        return next((place for place, holds in enumerate(order) if holds), len(order))


@router.get("/")
async def show_experiments(request: Request, visitor: Watching) -> Response:
    """The list."""
    statuses = await visitor.experiments.read_store(lambda store: store.statuses())
    rows = [await _row(visitor, status) for status in statuses[-MOST:][::-1]]
    rows.sort(key=lambda row: row.rank)
    users = [row.overview.users for row in rows if row.overview]
    response = page(
        "experiments.html",
        visitor=visitor,
        rows=rows,
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
