"""Page of one experiment."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from sameluck.live.experiment import LiveExperiment
from sameluck.live.store import NOT_STARTED
from sameluck.service.dashboard import live_charts
from sameluck.service.dashboard.experiment_progress import milestones, progress_of
from sameluck.service.dashboard.overview import Overview
from sameluck.service.dashboard.page_responses import (
    PageRoute,
    render,
    respond_page,
    unless_unchanged,
)
from sameluck.service.dashboard.stack_drawing import Stacks, stacks_of
from sameluck.service.dashboard.visitors import CurrentVisitor, path_of
from sameluck.service.documents import Name

router = APIRouter(route_class=PageRoute)

SHOWN_CHANGES = 40  # of the history, the newest


@router.get("/experiments/{name}")
async def show_experiment(
    request: Request,
    name: Name,
    visitor: CurrentVisitor,
    policy: Annotated[str, Query(max_length=200)] = "",
    replication: Annotated[int | None, Query(ge=0)] = None,
    period: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """Show the verdict, the charts, the stacks, the progress, the health checks, the history and the controls."""
    experiments = visitor.experiments
    overview = await visitor.overviews.of(experiments, name)

    def work(live: LiveExperiment) -> dict[str, object]:
        stacks = _stacks(live, overview, replication, period)
        return {"stacks": stacks, **_values(overview, policy)}

    key = "page", overview.at, policy, replication, period
    values = await experiments.look(name, work, *key)
    notices = list(visitor.session.notices)
    # A refresh replaces only parts of a page, and the notices are not among them.
    if not request.headers.get("x-refresh"):
        visitor.session.notices.clear()
    make = partial(render, "experiment.html", visitor=visitor, notices=notices, **values)
    # Tabs of one session show the same page.
    shared = (name, *key, visitor.session.form_key, *notices)
    return unless_unchanged(request, respond_page(await experiments.compute(make, *shared)))


def _values(overview: Overview, policy: str) -> dict[str, object]:
    verdicts = overview.verdicts
    main = next((verdict for verdict in verdicts if verdict.finding.policy == policy), None)
    main = main or (verdicts[0] if verdicts else None)
    effect, factor = (live_charts.horizon_chart(main) if main else None) or (None, None)
    drawn, arms, shades = live_charts.ribbons(overview.runs, overview.colours)
    asked, naive = overview.users
    is_board = len(verdicts) >= live_charts.MIN_BOARD and not policy
    return {
        "overview": overview,
        "status": overview.status,
        "experiment": overview.experiment,
        "progress": progress_of(overview.status, overview.replications, datetime.now(UTC)),
        "colours": overview.colours,
        "main": main,
        "verdicts": verdicts,
        "interval": live_charts.interval_drawing(main) if main else None,
        "board": live_charts.challengers_board(verdicts, path_of(overview.name)),
        "summary": overview.summary if is_board else "",
        "milestones": milestones(main.finding, overview.replications) if main else [],
        "effect": effect,
        "factor": factor,
        "dots": live_charts.replications_chart(main.finding) if main else None,
        "users": live_charts.users_chart(overview.runs),
        "asked": asked,
        "naive": naive,
        "ribbons": drawn,
        "arms": arms,
        "shades": shades,
        "behind": [
            name for name in overview.experiment.policies if name not in overview.runs.policies
        ],
        "changes": overview.history[::-1][:SHOWN_CHANGES],
        "is_new": (overview.status.status, overview.status.reason) == ("paused", NOT_STARTED),
    }


def _stacks(
    live: LiveExperiment, overview: Overview, replication: int | None, period: int | None
) -> Stacks | None:
    """Return the stacks of a replication; by default of the first open one, or of the last."""
    begun, design = len(overview.replications), overview.experiment.design
    if not begun or not design.shares_rewards:
        return None
    if replication is None:
        unfinished = [item.replication for item in overview.replications if item.state == "open"]
        replication = unfinished[0] if unfinished else begun - 1
    chosen = min(replication, begun - 1)
    return stacks_of(live.trace(chosen), overview.added, overview.colours, period)
