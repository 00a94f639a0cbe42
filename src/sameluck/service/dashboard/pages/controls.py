"""What the forms of an experiment's page do: run, stop, arms, policies, repair. The history has who did it."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Response

from sameluck.errors import Invalid, SameluckError
from sameluck.live.experiment import LiveExperiment
from sameluck.service.dashboard.page_responses import PageRoute, page
from sameluck.service.dashboard.visitors import Changing, Visitor, Watching, path_of, see
from sameluck.service.documents import Name

router = APIRouter(prefix="/experiments/{name}", route_class=PageRoute)


async def change(
    visitor: Visitor, name: str, work: Callable[[LiveExperiment], object], done: str
) -> Response:
    """Change an experiment, and show its page with what was done, or with why it was not."""
    try:
        await visitor.experiments.change(visitor.name, name, work)
    except SameluckError as error:
        visitor.session.notices.append(f"Nothing was changed: {error}")
    else:
        visitor.session.notices.append(done)
    visitor.overviews.forget(name)
    return see(path_of(name))


@router.post("/pause")
async def pause(name: Name, sent: Changing) -> Response:
    """Enrol nobody until it is resumed."""
    visitor, form = sent
    return await change(visitor, name, lambda live: live.pause(_reason(form)), "Paused.")


@router.post("/resume")
async def resume(name: Name, sent: Changing) -> Response:
    """Continue, or start."""
    visitor, form = sent
    return await change(visitor, name, lambda live: live.resume(_reason(form)), "It runs.")


@router.post("/drain")
async def drain(name: Name, sent: Changing) -> Response:
    """Complete the replications that have begun, and begin no other."""
    visitor, form = sent
    done = "No further replication begins; those that have begun are completed."
    return await change(visitor, name, lambda live: live.stop(reason=_reason(form)), done)


@router.post("/stop")
async def stop(name: Name, sent: Changing) -> Response:
    """Stop at once; the form has the name of the experiment, typed."""
    visitor, form = sent

    def work(live: LiveExperiment) -> None:
        if form.get("confirmation", "") != name:
            raise Invalid(f"to stop at once, type the name of the experiment: {name}")
        live.stop(drain=False, reason=_reason(form))

    return await change(visitor, name, work, "Stopped. Everybody gets the fallback arm.")


@router.post("/arms")
async def disable_arm(name: Name, sent: Changing) -> Response:
    """Show an arm to nobody."""
    visitor, form = sent
    arm, fallback = form.get("arm", ""), form.get("fallback") or None
    done = f"Nobody is shown {arm} any more."
    return await change(
        visitor,
        name,
        lambda live: live.disable_arm(arm, reason=_reason(form), fallback=fallback),
        done,
    )


@router.post("/arms/enable")
async def enable_arm(name: Name, sent: Changing) -> Response:
    """Show a disabled arm again."""
    visitor, form = sent
    arm = form.get("arm", "")
    return await change(
        visitor,
        name,
        lambda live: live.enable_arm(arm, reason=_reason(form)),
        f"{arm} is shown again.",
    )


@router.post("/policies/remove")
async def remove_policy(name: Name, sent: Changing) -> Response:
    """Remove a challenger; what was asked for it stays."""
    visitor, form = sent
    policy = form.get("policy", "")
    return await change(
        visitor,
        name,
        lambda live: live.remove_policy(policy, reason=_reason(form)),
        f"{policy} was removed.",
    )


@router.get("/repair")
async def preview_repair(name: Name, visitor: Watching) -> Response:
    """What a repair would change; nothing is changed."""
    found = await visitor.experiments.read(name, lambda live: live.repair())
    return page("repair.html", visitor=visitor, name=name, change=str(found))


@router.post("/repair")
async def repair(name: Name, sent: Changing) -> Response:
    """Bring the ledger in line with the policies."""
    visitor, form = sent
    return await change(
        visitor,
        name,
        lambda live: live.repair(confirm=True, reason=_reason(form)),
        "Repaired. It goes on when it is resumed.",
    )


def _reason(form: dict[str, str]) -> str:
    return form.get("reason", "")[:200]
