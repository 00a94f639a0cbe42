"""Tokens: create, list, revoke, as `sameluck token` does while no service has the database open."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from sameluck.service.access import ManageCaller
from sameluck.service.documents import Body, Name, Text, TokenModel, respond

router = APIRouter(prefix="/v1/tokens", tags=["tokens"])


class NewToken(Body):
    """A name, and the scopes that the token allows."""

    name: Text = Field(min_length=1)
    scopes: list[Literal["serve", "reward", "read", "manage"]] = Field(min_length=1)


class CreatedToken(BaseModel):
    """A token with its secret, which no other response contains."""

    name: str
    token: str


class TokenList(BaseModel):
    """All tokens without their secrets, the oldest first."""

    tokens: list[TokenModel]  # type: ignore[valid-type]


@router.post("", status_code=201, response_model=CreatedToken)
async def create_token(body: NewToken, caller: ManageCaller) -> Response:
    """Create a token; no other response contains its secret."""
    secret = await caller.experiments.change_store(
        caller.name, lambda _: caller.service.tokens.create(body.name, body.scopes)
    )
    return respond({"name": body.name, "token": secret}, 201)


@router.get("", response_model=TokenList)
async def list_tokens(caller: ManageCaller) -> Response:
    """Return all tokens without their secrets."""
    listed = await caller.experiments.read_store(lambda _: caller.service.tokens.list())
    return respond({"tokens": [token._asdict() for token in listed]})


@router.delete("/{token:path}", status_code=204)
async def revoke_token(token: Name, caller: ManageCaller) -> None:
    """Revoke a token; it is refused within a second. It is safe to repeat."""
    await caller.experiments.change_store(
        caller.name, lambda _: caller.service.tokens.revoke(token)
    )
