"""Forms of an experiment's page: run, stop, arms, policies, repair. The history names the visitor."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Response

from sameluck.errors import Invalid, SameluckError
from sameluck.live.experiment import LiveExperiment
from sameluck.service.dashboard.page_responses import PageRoute, page
from sameluck.service.dashboard.visitors import CurrentVisitor, SentForm, Visitor, path_of, redirect
from sameluck.service.documents import Name

router = APIRouter(prefix="/experiments/{name}", route_class=PageRoute)


async def change(
    visitor: Visitor, name: str, work: Callable[[LiveExperiment], object], done: str
) -> Response:
    """Change an experiment, and show its page with a notice of success or failure."""
    try:
        await visitor.experiments.change(visitor.name, name, work)
    except SameluckError as error:
        visitor.session.notices.append(f"Nothing was changed: {error}")
    else:
        visitor.session.notices.append(done)
    visitor.overviews.forget(name)
    return redirect(path_of(name))


@router.post("/pause")
async def pause(name: Name, submitted: SentForm) -> Response:
    """Enrol no unit until the experiment is resumed."""
    visitor, form = submitted
    return await change(visitor, name, lambda live: live.pause(_reason(form)), "Paused.")


@router.post("/resume")
async def resume(name: Name, submitted: SentForm) -> Response:
    """Continue, or start."""
    visitor, form = submitted
    return await change(visitor, name, lambda live: live.resume(_reason(form)), "Running.")


@router.post("/drain")
async def drain(name: Name, submitted: SentForm) -> Response:
    """Complete the open replications, and begin no other."""
    visitor, form = submitted
    done = "No further replication begins; open replications are completed."
    return await change(visitor, name, lambda live: live.stop(reason=_reason(form)), done)


@router.post("/stop")
async def stop(name: Name, submitted: SentForm) -> Response:
    """Stop at once; the form confirms it by the name of the experiment."""
    visitor, form = submitted

    def work(live: LiveExperiment) -> None:
        if form.get("confirmation", "") != name:
            raise Invalid(f"to stop at once, type the name of the experiment: {name}")
        live.stop(drain=False, reason=_reason(form))

    return await change(visitor, name, work, "Stopped. All users get the fallback arm.")


@router.post("/arms")
async def disable_arm(name: Name, submitted: SentForm) -> Response:
    """Show an arm to nobody."""
    visitor, form = submitted
    arm, fallback = form.get("arm", ""), form.get("fallback") or None
    done = f"{arm} is disabled: no user sees it."
    return await change(
        visitor,
        name,
        lambda live: live.disable_arm(arm, reason=_reason(form), fallback=fallback),
        done,
    )


@router.post("/arms/enable")
async def enable_arm(name: Name, submitted: SentForm) -> Response:
    """Show a disabled arm again."""
    visitor, form = submitted
    arm = form.get("arm", "")
    return await change(
        visitor, name, lambda live: live.enable_arm(arm, reason=_reason(form)), f"{arm} is enabled."
    )


@router.post("/policies/remove")
async def remove_policy(name: Name, submitted: SentForm) -> Response:
    """Remove a challenger; rewards requested for it stay."""
    visitor, form = submitted
    policy = form.get("policy", "")
    return await change(
        visitor,
        name,
        lambda live: live.remove_policy(policy, reason=_reason(form)),
        f"{policy} was removed.",
    )


@router.get("/repair")
async def preview_repair(name: Name, visitor: CurrentVisitor) -> Response:
    """Show what a repair would change; nothing is changed."""
    changes = await visitor.experiments.read(name, lambda live: live.repair())
    return page("repair.html", visitor=visitor, name=name, change=str(changes))


@router.post("/repair")
async def repair(name: Name, submitted: SentForm) -> Response:
    """Bring the ledger in line with the policies."""
    visitor, form = submitted
    return await change(
        visitor,
        name,
        lambda live: live.repair(confirm=True, reason=_reason(form)),
        "Repaired. Resume it to continue.",
    )


def _reason(form: dict[str, str]) -> str:
    return form.get("reason", "")[:200]
