"""What can go wrong, and what each kind means to the command line.

SameluckError
  Invalid        the caller's arguments are wrong              (also a ValueError)    exit code 2
    TooLarge     a valid request this machine has no memory for                       exit code 2
    Unplayable   a policy failed, or chose an arm that is not there                   exit code 2
  Missing        an optional dependency is not installed       (also an ImportError)  exit code 2
  Interrupted    somebody pressed Ctrl-C; says what was kept                          exit code 130
  AddressReused  a policy read the same luck twice, which would change its law        exit code 1
  Unknown        no experiment or assignment of that name      (also a LookupError)   exit code 2
  Conflict       what happened before forbids it; says what                           exit code 2
  Diverged       a ledger is not what its policies would have done                    exit code 1
  Unavailable    the database cannot be used just now; says why                       exit code 1

Messages name the object, the rule, the value and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType


class SameluckError(Exception):
    """Anything sameluck raises on purpose."""

    exit_code = 1


class Invalid(SameluckError, ValueError):
    """The caller's arguments are wrong; nothing was done."""

    exit_code = 2


class TooLarge(Invalid):
    """The request is valid, but this machine has not the memory for it."""


class Unplayable(Invalid):
    """A policy raised an error while it was played, or chose an arm that is not there."""


class Missing(SameluckError, ImportError):
    """An optional dependency is not installed; the message holds the `pip install` line."""

    exit_code = 2


class Interrupted(SameluckError):
    """Somebody pressed Ctrl-C; the message says what was kept and how to go on."""

    exit_code = 130


class AddressReused(SameluckError):
    """A policy read one address twice: its law is no longer its solo law (the fresh-key lemma)."""


class Unknown(SameluckError, LookupError):
    """There is no experiment or assignment of that name."""

    exit_code = 2


class Conflict(SameluckError):
    """What happened before forbids it; nothing was changed but the audit log.

    `code` says what happened: `reward_conflict`, `reward_late`, `assignment_voided`, `already_exposed`,
    `already_settled`, `name_taken`, `invalid_transition`.
    """

    exit_code = 2

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Diverged(SameluckError):
    """A ledger is not what its policies would have done; the experiment is stopped."""


class Unavailable(SameluckError):
    """The database cannot be used just now: another process writes to it, or it cannot be reached."""


def optional(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        message = f"{package} is not installed; run: pip install 'sameluck[{extra}]'"
        raise Missing(message) from error


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The known words, the nearest one first where one is near: the end of an error message."""
    words = list(known)
    near = difflib.get_close_matches(word, words, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}known: {', '.join(words)}"
