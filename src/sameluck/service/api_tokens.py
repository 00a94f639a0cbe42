"""Tokens of the service: names, scopes and hashes.

A token is `sl_` and 64 hexadecimal digits, 256 random bits. The database holds only its SHA-256, so that a token is
shown once, when it is created. The history of experiments names the token of each change; a name is never reused.
"""

from __future__ import annotations

import builtins
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Iterable
from typing import NamedTuple

from sameluck.errors import Conflict, Invalid, Unavailable, Unknown, did_you_mean
from sameluck.live.calls.timing import time_limit
from sameluck.live.databases.base import Database, Transaction
from sameluck.live.databases.rows import ApiKeyRow
from sameluck.live.records import moment
from sameluck.validation import require_name, require_one_of

PREFIX = "sl_"
_SECRET = re.compile("sl_[0-9a-f]{64}")
SESSION = "sameluck serve"  # the name, in the history, of the token that the command prints
SCOPES = {
    "serve": "assign arms, report exposures, void assignments",
    "reward": "report rewards",
    "read": "read experiments and their results",
    "manage": "create, change and delete experiments, and tokens",
}
READ_SECONDS = 0.25  # time limit for reading the tokens
FRESH_SECONDS = 1.0  # tokens are kept in memory; a revoked token is refused after this time
REFUSED_SECONDS = 1.0  # an unknown token is not looked up again in the database before
MAX_REFUSED = 10_000  # unknown tokens that are remembered


class Token(NamedTuple):
    """A token without its secret."""

    name: str
    scopes: tuple[str, ...]
    created_at: str
    revoked_at: str | None


class Holder(NamedTuple):
    """Name and the scopes of a token that was presented."""

    name: str
    scopes: frozenset[str]


def new_secret() -> str:
    return PREFIX + secrets.token_hex(32)


def digest(secret: str) -> str:
    """Return the stored hash of a token. A token has 256 random bits, so that no slow hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def checked_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes in their order, each once; raise `Invalid` for none or an unknown scope."""
    requested = [*scopes]
    for scope in requested:
        require_one_of("scope", scope, list(SCOPES))
    if not requested:
        raise Invalid(f"a token needs a scope: {', '.join(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in requested)


class Tokens:
    """Tokens of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sessions: dict[str, Holder] = {}  # by digest; not stored
        self._holders: dict[str, Holder] | None = None  # by digest; None until they were read
        self._read_at = -FRESH_SECONDS
        self._refused: dict[str, float] = {}  # by digest, until when; the oldest first

    def create(self, name: str, scopes: Iterable[str]) -> str:
        """Create a token and return it; it cannot be read again."""
        require_name("a token's name", name)
        if " ".join(name.split()).casefold() == SESSION:
            raise Invalid(
                f"a token's name cannot be {name!r}, the name of the token that `sameluck serve` prints; "
                "choose another name"
            )
        allowed, secret = checked_scopes(scopes), new_secret()

        def work(transaction: Transaction) -> None:
            if name in [row.id for row in transaction.fetch_all(ApiKeyRow, "api_keys")]:
                message = f"a token {name!r} exists or existed; choose another name"
                raise Conflict(message, "name_taken")
            now = round(time.time() * 1_000_000)
            values = {"id": name, "digest": digest(secret), "scopes": " ".join(allowed)}
            transaction.execute("add_api_key", **values, now=now)

        self._database.write(work)
        self._read_at = -FRESH_SECONDS
        return secret

    def create_session(self, name: str) -> str:
        """Return a token with all scopes that is not stored: it is valid until this process ends."""
        secret = new_secret()
        self._sessions[digest(secret)] = Holder(name, frozenset(SCOPES))
        return secret

    def revoke(self, name: str) -> None:
        """Refuse a token from now on, in other processes within a second."""

        def work(transaction: Transaction) -> None:
            names = [row.id for row in transaction.fetch_all(ApiKeyRow, "api_keys")]
            if name not in names:
                hint = did_you_mean(name, names) if names else "the store has none"
                raise Unknown(f"no token {name!r}; {hint}")
            transaction.execute("revoke_api_key", id=name, now=round(time.time() * 1_000_000))

        self._database.write(work)
        self._read_at = -FRESH_SECONDS

    def list(self) -> builtins.list[Token]:
        """Return all tokens, the oldest first, revoked tokens included."""
        return [
            Token(
                row.id,
                tuple(row.scopes.split()),
                str(moment(row.created_us)),
                moment(row.revoked_us),
            )
            for row in self._rows()
        ]

    def _rows(self) -> builtins.list[ApiKeyRow]:
        return self._database.read(lambda transaction: transaction.fetch_all(ApiKeyRow, "api_keys"))

    def is_stale(self) -> bool:
        """Return whether the tokens must be read again before they are compared."""
        return self._holders is None or time.monotonic() >= self._read_at + FRESH_SECONDS

    def was_read_since(self, moment: float) -> bool:
        """Return whether the last reading of the tokens began after a moment of `time.monotonic`."""
        return self._read_at > moment

    def may_be_new(self, secret: str) -> bool:
        """Return whether an unknown token may have been made elsewhere since the tokens were read."""
        if not _SECRET.fullmatch(secret):
            return False
        return time.monotonic() >= self._refused.get(digest(secret), 0.0)

    def refuse(self, secret: str) -> None:
        """Remember for a second that the database does not have a token, so that it is not read for it again."""
        self._refused.pop(digest(secret), None)
        self._refused[digest(secret)] = time.monotonic() + REFUSED_SECONDS
        if len(self._refused) > MAX_REFUSED:
            del self._refused[next(iter(self._refused))]

    def refresh(self) -> bool:
        """Read the tokens again; while the database is unavailable, return False: those in memory stay valid."""
        self._read_at = time.monotonic()  # first, so that concurrent calls do not read them too
        try:
            with time_limit(READ_SECONDS):
                rows = self._rows()
        except Unavailable:
            if self._holders is None:
                raise
            return False
        self._holders = {
            row.secret_sha256: Holder(row.id, frozenset(row.scopes.split()))
            for row in rows
            if row.revoked_us is None
        }
        return True

    def holder(self, secret: str) -> Holder | None:
        """Return the holder of a token, from memory; None if no token matches.

        All digests are compared, each in constant time, so that the time reveals nothing but the number of tokens.
        """
        presented, result = digest(secret), None
        for stored, holder in (*self._sessions.items(), *(self._holders or {}).items()):
            if hmac.compare_digest(stored, presented):
                result = holder
        return result
