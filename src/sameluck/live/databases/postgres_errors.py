"""Messages for PostgreSQL's errors, each with a remedy."""

from __future__ import annotations

import re

from sameluck.errors import Misconfigured, Unavailable


class DeadlineExceeded(Exception):
    """Raised when the server does not answer before the deadline of the call."""


_POOLER = "a connection pooler must support prepared statements (PgBouncer does from 1.21 on), or pool whole sessions"
_SCHEMA = "tables were dropped or changed while the store was open; restore a backup, and open the store again"
_REMEDIES = {  # by SQLSTATE
    "22P05": "make the database with ENCODING 'UTF8'",
    "25006": "is this a standby, or default_transaction_read_only on?",
    "25P03": "raise idle_in_transaction_session_timeout",
    "25P04": "raise transaction_timeout",
    "26000": _POOLER,
    "3F000": _SCHEMA,
    "42501": "grant the right to this user, or use another user",
    "42703": _SCHEMA,
    "42P01": _SCHEMA,
    "42P05": _POOLER,
    "53100": "the server's disk is full; make room",
    "53300": "raise max_connections, or open stores with fewer connections",
    "55P03": "another session holds a lock for longer than lock_timeout",
    "57014": "another session holds a lock, the server is slow, or statement_timeout is short; open(timeout=...) "
    "sets how long sameluck waits",
}
_PERMANENT = {"22P05", "25006", "3F000", "42501", "42703", "42P01"}  # waiting does not help

# A server that refuses a connection gives no code, only text: (text, remedy, is permanent)
_REFUSALS = (
    (
        r"password authentication failed|no password supplied|authentication failed",
        "was the password changed? Give it in the address, in PGPASSWORD or in a password file",
        True,
    ),
    (r"role .* does not exist", "is the user's name right?", True),
    (r"database .* does not exist", "create it, or correct the address", True),
    (r"no pg_hba.conf entry", "allow this user and host in pg_hba.conf", True),
    (
        r"too many (clients|connections)|connection slots are reserved",
        "the server runs, but all its connections are taken: open stores with fewer (connections=...), or raise "
        "max_connections",
        False,
    ),
    (
        r"starting up|shutting down|in recovery|not yet accepting",
        "the server is being started or stopped; wait",
        False,
    ),
)


def connection_error(error: BaseException) -> Unavailable:
    text = first_line(error)
    for pattern, remedy, permanent in _REFUSALS:
        if re.search(pattern, text):
            error_class = Misconfigured if permanent else Unavailable
            return error_class(f"cannot connect to PostgreSQL: {text}; {remedy}")
    return Unavailable(
        f"cannot connect to PostgreSQL: {text}; does the server run, and is the address right?"
    )


def unavailable(error: BaseException) -> Unavailable:
    """Return the error for a failed statement or transaction."""
    permanent = getattr(error, "sqlstate", None) in _PERMANENT
    return (Misconfigured if permanent else Unavailable)(message_of(error))


def message_of(error: BaseException) -> str:
    """Return the server's message and the remedy, if there is one."""
    code = "57014" if isinstance(error, DeadlineExceeded) else getattr(error, "sqlstate", None)
    remedy = _REMEDIES.get(code or "")
    return f"PostgreSQL: {first_line(error)}" + (f"; {remedy}" if remedy else "")


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
