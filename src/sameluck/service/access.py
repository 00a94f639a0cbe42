"""Access to routes: the bearer token of a request, its scopes and its rate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple, TypeAlias

from anyio import to_thread
from fastapi import FastAPI, Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security import SecurityScopes
from fastapi.security.base import SecurityBase

from sameluck.errors import Unavailable
from sameluck.service.api_tokens import PREFIX, Holder, Tokens
from sameluck.service.limits import Limits
from sameluck.service.loaded_experiments import LoadedExperiments
from sameluck.service.looks import ComparisonCache
from sameluck.service.problems import Refused

LOOK_UP_SECONDS = 0.05  # between two readings of the tokens for unknown tokens
NOBODY = ""  # the name under which requests without a valid token are counted


@dataclass(frozen=True)
class Service:
    """Objects that every route may use."""

    experiments: LoadedExperiments
    tokens: Tokens
    limits: Limits
    rates: Rates
    comparison_cache: ComparisonCache = field(default_factory=ComparisonCache)
    _token_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def holder(self, secret: str) -> Holder | None:
        """Return the holder of a token; None if it is not valid. Raise `Refused` after too many requests."""
        is_token = secret.startswith(PREFIX)
        holder = (await self.fresh_tokens()).holder(secret) if is_token else None
        if holder is None and self.tokens.may_be_new(secret):
            holder = await self._look_up(secret)
        # Invalid tokens count under one name, so that tokens cannot be guessed faster than the rate.
        if not self.rates.take(holder.name if holder else NOBODY):
            limit = self.limits.requests_per_second
            detail = f"more than {limit:g} requests per second; try again in a second"
            raise Refused(429, "too_many_requests", detail)
        return holder

    async def fresh_tokens(self) -> Tokens:
        """Return the tokens; if they are stale, one request reads them again while the others wait."""
        if self.tokens.is_stale():
            # Asked again under the lock: another request may have read the tokens in the meantime.
            async with self._token_lock:
                if self.tokens.is_stale():
                    await to_thread.run_sync(self.tokens.refresh)
        return self.tokens

    async def _look_up(self, secret: str) -> Holder | None:
        """Return the holder of a token that another process may have made a moment ago.

        Many unknown tokens cost one reading of all tokens at a time, and few readings per second: a request is
        content with a reading that began after it. Raise `Unavailable` if the tokens cannot be read.
        """
        arrived = time.monotonic()
        async with self._token_lock:
            if not self.tokens.was_read_since(arrived):
                if self.tokens.was_read_since(arrived - LOOK_UP_SECONDS):
                    await asyncio.sleep(LOOK_UP_SECONDS)
                if not await to_thread.run_sync(self.tokens.refresh):
                    raise Unavailable(
                        "the database is unavailable, and this token is not known yet"
                    )
        holder = self.tokens.holder(secret)
        if holder is None:
            self.tokens.refuse(secret)
        return holder


class Rates:
    """Rate limits: a token bucket for each holder of a token."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._left: dict[str, tuple[float, float]] = {}  # requests left, and the monotonic time

    def take(self, name: str) -> bool:
        """Count a request; return False if the holder has made too many."""
        now = time.monotonic()
        # A bucket of two seconds' requests, refilled continuously since the last request.
        left, then = self._left.get(name, (2 * self._per_second, now))
        # Nothing is awaited between reading and writing, so that the event loop's requests need no lock.
        left = min(2 * self._per_second, left + (now - then) * self._per_second)
        self._left[name] = (max(left - 1, 0.0), now)
        return left >= 1


class Caller(NamedTuple):
    """Holder of a valid token, and the service."""

    name: str
    service: Service

    @property
    def experiments(self) -> LoadedExperiments:
        return self.service.experiments


class Bearer(SecurityBase):
    """Dependency that returns the caller, or refuses: 401 without a valid token, 403 without the scope, 429."""

    scheme_name = "token"
    model = HTTPBearer(description="A token made by `sameluck token create`; it starts with `sl_`.")

    async def __call__(self, request: Request, needed: SecurityScopes) -> Caller:
        header = request.headers.get("authorization", "")
        return await self.caller(request.app, header, needed.scopes)

    async def caller(self, app: FastAPI, header: str, needed: Sequence[str]) -> Caller:
        service: Service = app.state.service
        scheme, _, secret = header.partition(" ")
        holder = await service.holder(secret if scheme.lower() == "bearer" else "")
        if holder is None:
            detail = "send a valid token: the header Authorization: Bearer sl_..."
            raise Refused(401, "unauthenticated", detail, {"WWW-Authenticate": "Bearer"})
        for scope in needed:
            if scope not in holder.scopes:
                detail = f"this call needs a token with the scope {scope!r}"
                raise Refused(403, "wrong_scope", detail)
        return Caller(holder.name, service)


_bearer = Bearer()
ServeCaller: TypeAlias = Annotated[Caller, Security(_bearer, scopes=["serve"])]
RewardCaller: TypeAlias = Annotated[Caller, Security(_bearer, scopes=["reward"])]
ReadCaller: TypeAlias = Annotated[Caller, Security(_bearer, scopes=["read"])]
ManageCaller: TypeAlias = Annotated[Caller, Security(_bearer, scopes=["manage"])]
