"""Tokens: who may call the service, and for what.

A token is `sl_` and 64 hexadecimal digits, 256 random bits. The database has its SHA-256 alone: a token is shown
once, when it is created. Its name stands in the history of experiments for what was done with it, and is never used
again.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable
from typing import NamedTuple

from sameluck.errors import Conflict, Invalid, Unavailable, Unknown, did_you_mean
from sameluck.live.calls.deadline import time_limit
from sameluck.live.databases.base import Database, Transaction
from sameluck.live.databases.rows import ApiKeyRow
from sameluck.live.records import moment
from sameluck.validation import require_name, require_one_of

PREFIX = "sl_"
SESSION = "sameluck serve"  # stands in the history for the token that the command prints
SCOPES = {
    "serve": "assign arms, report exposures, void assignments",
    "reward": "report rewards",
    "read": "read experiments and their results",
    "manage": "create, change and delete experiments, and tokens",
}
READ_SECONDS = 0.25  # that reading them may take
FRESH_SECONDS = 1.0  # that tokens are kept in memory: a revoked one is refused after as long


class Token(NamedTuple):
    """A token without its secret."""

    name: str
    scopes: tuple[str, ...]
    created_at: str
    revoked_at: str | None


class Holder(NamedTuple):
    """Whose token was presented, and what it allows."""

    name: str
    scopes: frozenset[str]


def new_secret() -> str:
    """A new token."""
    return PREFIX + secrets.token_hex(32)


def digest(secret: str) -> str:
    """What is stored of a token. It has 256 random bits, so that no slow hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def checked_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes in their order, each once; `Invalid` if there is none or an unknown one."""
    asked = list(scopes)
    for scope in asked:
        require_one_of("scope", scope, list(SCOPES))
    if not asked:
        raise Invalid(f"a token needs a scope; known: {', '.join(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in asked)


class Tokens:
    """The tokens of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sessions: dict[str, Holder] = {}  # by digest; they end with this process
        self._known: dict[str, Holder] | None = None  # None until they were read
        self._read_at = -FRESH_SECONDS

    def create(self, name: str, scopes: Iterable[str]) -> str:
        """Create a token; returns it, for the only time."""
        require_name("a token's name", name)
        if " ".join(name.split()).casefold() == SESSION:
            raise Invalid(
                f"a token's name cannot be {name!r}, which stands for the token that `sameluck serve` prints; "
                "choose another"
            )
        allowed, secret = checked_scopes(scopes), new_secret()

        def work(transaction: Transaction) -> None:
            if name in [row.id for row in transaction.fetch_all(ApiKeyRow, "api_keys")]:
                message = f"there is a token {name!r} already, or was; choose another name"
                raise Conflict(message, "name_taken")
            now = round(time.time() * 1_000_000)
            values = {"id": name, "digest": digest(secret), "scopes": " ".join(allowed)}
            transaction.execute("add_api_key", **values, now=now)

        self._database.write(work)
        self._read_at = -FRESH_SECONDS
        return secret

    def create_session(self, name: str) -> str:
        """A token for everything that is not stored: it ends with this process."""
        secret = new_secret()
        self._sessions[digest(secret)] = Holder(name, frozenset(SCOPES))
        return secret

    def revoke(self, name: str) -> None:
        """Refuse a token from now on; in other processes within a second."""

        def work(transaction: Transaction) -> None:
            names = [row.id for row in transaction.fetch_all(ApiKeyRow, "api_keys")]
            if name not in names:
                hint = did_you_mean(name, names) if names else "there is none"
                raise Unknown(f"no token {name!r}; {hint}")
            transaction.execute("revoke_api_key", id=name, now=round(time.time() * 1_000_000))

        self._database.write(work)
        self._read_at = -FRESH_SECONDS

    def every(self) -> list[Token]:
        """Every token, the oldest first, those that were revoked included."""
        return [
            Token(
                row.id,
                tuple(row.scopes.split()),
                str(moment(row.created_us)),
                moment(row.revoked_us),
            )
            for row in self._rows()
        ]

    def _rows(self) -> list[ApiKeyRow]:
        return self._database.read(lambda transaction: transaction.fetch_all(ApiKeyRow, "api_keys"))

    def is_stale(self) -> bool:
        """Whether the tokens are to be read again before they are compared."""
        return self._known is None or time.monotonic() >= self._read_at + FRESH_SECONDS

    def refresh(self) -> None:
        """Read the tokens again; while the database is away, those that are known stay valid."""
        self._read_at = time.monotonic()  # one call at a time reads them
        try:
            with time_limit(READ_SECONDS):
                rows = self._rows()
        except Unavailable:
            if self._known is None:
                raise
            return
        self._known = {
            row.secret_sha256: Holder(row.id, frozenset(row.scopes.split()))
            for row in rows
            if row.revoked_us is None
        }

    def holder(self, secret: str) -> Holder | None:
        """Whose token this is, as far as is known in memory; None if it is nobody's.

        Every digest is compared in full, in constant time: how long it takes depends on how many tokens there are.
        """
        presented, found = digest(secret), None
        for known, holder in (*self._sessions.items(), *(self._known or {}).items()):
            if hmac.compare_digest(known, presented):
                found = holder
        return found
