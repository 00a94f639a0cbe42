"""Rewards of one assignment, or of a list of assignments."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import BaseModel, StrictBool

from sameluck.service import documents
from sameluck.service.access import RewardCaller
from sameluck.service.direct_route import DirectRoute
from sameluck.service.problems import ItemError

router = APIRouter(tags=["rewards"], route_class=DirectRoute)


class RewardBody(documents.Body):
    """A reward; true and false are 1 and 0."""

    value: documents.Number | StrictBool


class AssignmentReward(RewardBody):
    """Reward of an assignment."""

    id: documents.Text


class Rewards(documents.Body):
    """Rewards of several assignments."""

    rewards: list[AssignmentReward]


class ReceiptList(BaseModel):
    """A receipt for each reward, in the same order."""

    answers: list[documents.ReceiptModel | ItemError]  # type: ignore[valid-type]


@router.post("/v1/assignments/{id}/reward", response_model=documents.ReceiptModel)
async def reward(id: documents.Id, body: RewardBody, caller: RewardCaller) -> Response:
    """Report the reward of a unit; it is durable once this is answered.

    The first value counts. The same value again is a duplicate, so that the call is safe to repeat. Another value, or
    a value after the window, is a conflict (409).
    """
    return documents.respond_record(await caller.experiments.reward(id, body.value))


@router.post("/v1/rewards/batch", response_model=ReceiptList)
async def reward_batch(body: Rewards, caller: RewardCaller) -> Response:
    """Report several rewards; an error takes the place of its receipt and does not affect the other rewards."""
    caller.service.limits.check_items("rewards", len(body.rewards))
    pairs = [(reward.id, reward.value) for reward in body.rewards]
    answers = await caller.experiments.reward_many(pairs)
    return documents.respond({"answers": [documents.item_of(answer) for answer in answers]})
