"""Forms of an experiment's page: run, stop, arms, policies, repair. The history names the visitor."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Response

from sameluck.errors import Invalid, SameluckError
from sameluck.live.experiment import LiveExperiment
from sameluck.service.dashboard.page_responses import PageRoute, page
from sameluck.service.dashboard.visitors import (
    CurrentVisitor,
    Form,
    SentForm,
    Visitor,
    path_of,
    redirect,
)
from sameluck.service.documents import Name

router = APIRouter(prefix="/experiments/{name}", route_class=PageRoute)


async def change(
    visitor: Visitor,
    name: str,
    work: Callable[[LiveExperiment], object],
    done: str,
    *,
    may_take_long: bool = True,
) -> Response:
    """Change an experiment, and show its page with a notice of success or failure."""
    make = visitor.experiments.change if may_take_long else visitor.experiments.switch
    try:
        await make(visitor.name, name, work)
    except SameluckError as error:
        done = f"Nothing was changed: {error}"
    visitor.session.notices.append(done)
    visitor.overviews.forget(name)
    return redirect(path_of(name))


def _stop_at_once(live: LiveExperiment, form: Form) -> None:
    if form["confirmation"] != live.name:
        raise Invalid(f"to stop at once, type the name of the experiment: {live.name}")
    live.stop(drain=False, reason=form["reason"])


# By the path of a form: the change, and the notice of its success.
ACTIONS: dict[str, tuple[Callable[[LiveExperiment, Form], object], str]] = {
    "/pause": (lambda live, form: live.pause(form["reason"]), "Paused."),
    "/resume": (lambda live, form: live.resume(form["reason"]), "Running."),
    "/drain": (
        lambda live, form: live.stop(reason=form["reason"]),
        "No further replication begins; open replications are completed.",
    ),
    "/stop": (_stop_at_once, "Stopped. All users get the fallback arm."),
    "/arms": (
        lambda live, form: live.disable_arm(
            form["arm"], reason=form["reason"], fallback=form["fallback"] or None
        ),
        "{arm} is disabled: no user sees it.",
    ),
    "/arms/enable": (
        lambda live, form: live.enable_arm(form["arm"], reason=form["reason"]),
        "{arm} is enabled.",
    ),
    "/policies/remove": (
        lambda live, form: live.remove_policy(form["policy"], reason=form["reason"]),
        "{policy} was removed.",
    ),
    "/repair": (
        lambda live, form: live.repair(confirm=True, reason=form["reason"]),
        "Repaired. Resume it to continue.",
    ),
}


SWITCHES = {"/pause", "/drain", "/stop", "/arms", "/arms/enable"}  # which never wait for a look


def _route(path: str, work: Callable[[LiveExperiment, Form], object], done: str) -> None:
    @router.post(path)
    async def submit(name: Name, submitted: SentForm) -> Response:
        visitor, form = submitted
        form["reason"] = form["reason"][:200]
        return await change(
            visitor,
            name,
            lambda live: work(live, form),
            done.format_map(form),
            may_take_long=path not in SWITCHES,
        )


for path, action in ACTIONS.items():
    _route(path, *action)


@router.get("/repair")
async def preview_repair(name: Name, visitor: CurrentVisitor) -> Response:
    """Show what a repair would change; nothing is changed."""
    changes = await visitor.experiments.look(name, lambda live: live.repair(), "repair")
    return page("repair.html", visitor=visitor, name=name, change=str(changes))
