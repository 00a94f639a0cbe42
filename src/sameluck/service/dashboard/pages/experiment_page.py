"""The page of one experiment."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from sameluck.live.experiment import LiveExperiment
from sameluck.live.start import NOT_STARTED
from sameluck.service.dashboard.arms import ribbons
from sameluck.service.dashboard.live_charts import (
    MANY,
    challengers_board,
    horizon_chart,
    replications_chart,
    users_chart,
)
from sameluck.service.dashboard.overview import Overview
from sameluck.service.dashboard.page_responses import PageRoute, page, unless_known
from sameluck.service.dashboard.progress import milestones, progress_of
from sameluck.service.dashboard.stacks import Stacks, stacks_of
from sameluck.service.dashboard.visitors import Watching, path_of
from sameluck.service.documents import Name

router = APIRouter(route_class=PageRoute)

HISTORY = 40  # changes that are shown, the newest


@router.get("/experiments/{name}")
async def show_experiment(
    request: Request,
    name: Name,
    visitor: Watching,
    policy: Annotated[str, Query(max_length=200)] = "",
    replication: Annotated[int | None, Query(ge=0)] = None,
    period: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """The verdict, the charts, the stacks, the progress, the health checks, the history and the controls."""

    def work(live: LiveExperiment) -> Response:
        overview = visitor.overviews.of(live)
        stacks = _stacks(live, overview, replication, period)
        notices = list(visitor.session.notices)
        response = page(
            "experiment.html",
            visitor=visitor,
            notices=notices,
            stacks=stacks,
            **_values(overview, policy),
        )
        if not request.headers.get("x-refresh"):
            visitor.session.notices.clear()
        return response

    return unless_known(request, await visitor.experiments.read(name, work))


def _values(overview: Overview, policy: str) -> dict[str, object]:
    verdicts = overview.verdicts
    main = next((one for one in verdicts if one.finding.policy == policy), None)
    main = main or (verdicts[0] if verdicts else None)
    effect, factor = (horizon_chart(main) if main else None) or (None, None)
    drawn, arms, shades = ribbons(overview.runs, overview.places)
    asked, naive = overview.users
    return {
        "overview": overview,
        "status": overview.status,
        "experiment": overview.experiment,
        "progress": progress_of(overview.status, overview.replications, datetime.now(UTC)),
        "places": overview.places,
        "main": main,
        "verdicts": verdicts,
        "bounds": main.bounds if main and effect else None,
        "board": challengers_board(verdicts, path_of(overview.name)),
        "summary": overview.summary if len(verdicts) >= MANY and not policy else "",
        "milestones": milestones(main.finding, overview.replications) if main else [],
        "effect": effect,
        "factor": factor,
        "dots": replications_chart(main.finding) if main else None,
        "users": users_chart(overview.runs),
        "asked": asked,
        "naive": naive,
        "ribbons": drawn,
        "arms": arms,
        "shades": shades,
        "behind": [
            one for one in overview.experiment.policies if one not in overview.runs.policies
        ],
        "changes": overview.history[::-1][:HISTORY],
        "is_new": (overview.status.status, overview.status.reason) == ("paused", NOT_STARTED),
    }


def _stacks(
    live: LiveExperiment, overview: Overview, replication: int | None, period: int | None
) -> Stacks | None:
    """The stacks of a replication; of the newest one that has begun if none is chosen."""
    begun, design = len(overview.replications), overview.experiment.design
    if not begun or design.indexed_by_period or not design.shares_rewards:
        return None
    newest = next(
        (one.replication for one in overview.replications if one.state == "open"), begun - 1
    )
    chosen = newest if replication is None else min(replication, begun - 1)
    return stacks_of(live.trace(chosen), overview.added, overview.places, period)
