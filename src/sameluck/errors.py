"""Exceptions, and the exit code of the command line for each of them.

SameluckError
  Invalid        an argument is not valid                      (also a ValueError)    exit code 2
    TooLarge     the results do not fit into memory                                   exit code 2
    Unplayable   a policy raised an error or chose an arm that does not exist         exit code 2
  Missing        an optional dependency is not installed       (also an ImportError)  exit code 2
  Interrupted    Ctrl-C was pressed; some results were kept                           exit code 130
  AddressReused  a policy read a random number twice                                  exit code 1
  Unknown        no experiment or assignment has that name     (also a LookupError)   exit code 2
  Conflict       the call contradicts an earlier one                                  exit code 2
  Diverged       a ledger differs from what its policies request                      exit code 1
    OtherVersion a policy's code in this process differs from the experiment's        exit code 1
  Unavailable    the database cannot be used at the moment                            exit code 1
    Misconfigured  the database's address, rights or settings must be changed         exit code 2
    Closed       the store or the client was closed                                   exit code 1

A message names the object, the rule, the value and the remedy.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType


class SameluckError(Exception):
    """Base class of the errors that sameluck raises on purpose.

    `code` is the reason as programs read it: the class name in lower case (`too_large`), or a `Conflict`'s reason.
    """

    exit_code = 1
    code = "sameluck_error"

    def __init_subclass__(cls) -> None:
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


class Invalid(SameluckError, ValueError):
    """An argument is invalid; nothing was changed."""

    exit_code = 2


class TooLarge(Invalid):
    """The results of a valid request do not fit into this machine's memory."""


class Unplayable(Invalid):
    """A policy raised an error or chose an arm that does not exist."""


class Missing(SameluckError, ImportError):
    """An optional dependency is not installed; the message holds the `pip install` line."""

    exit_code = 2


class Interrupted(SameluckError):
    """Ctrl-C was pressed; the message names the results that were kept and how to continue."""

    exit_code = 130


class AddressReused(SameluckError):
    """A policy read a random number twice, so its distribution differs from its distribution in a solo run."""


class Unknown(SameluckError, LookupError):
    """No experiment or assignment has that name."""

    exit_code = 2


class Conflict(SameluckError):
    """The call contradicts an earlier one; only the audit log was changed.

    `code` is the reason: `reward_conflict`, `reward_late`, `assignment_voided`, `already_exposed`,
    `already_settled`, `name_taken`, `invalid_transition`.
    """

    exit_code = 2

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[Conflict], tuple[str, str]]:
        # Exceptions are unpickled from `args`, which lack the code.
        return type(self), (str(self), self.code)


class Diverged(SameluckError):
    """A ledger differs from the entries that its policies request; the experiment is stopped."""


class OtherVersion(Diverged):
    """A policy's code in this process differs from the experiment's; other processes continue."""


class Unavailable(SameluckError):
    """The database is unavailable at the moment: another process writes to it, or it cannot be reached."""


class Misconfigured(Unavailable):
    """The database is unavailable until its address, rights or settings are changed; waiting does not help."""

    exit_code = 2


class Closed(Unavailable):
    """The store or the client was closed; open it again."""


def optional(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or raise `Missing` with the extra that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        message = f"{package} is not installed; run: pip install 'sameluck[{extra}]'"
        raise Missing(message) from error


MAX_CHARACTERS = 200  # of a value in a message
MAX_WORDS = 50  # listed in a message


def shown(value: object) -> str:
    """Return a value as messages show it, on one line: its `repr`, shortened, or the shape of a large array."""
    if isinstance(value, str | bytes):
        value = value[: 10 * MAX_CHARACTERS]  # the `repr` of megabytes takes a tenth of a second
    try:
        text = repr(value)
    except Exception:  # a number with too many digits, or an object whose repr fails
        text = f"<{type(value).__name__}>"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and ("\n" in text or len(text) > MAX_CHARACTERS):
        return f"<{type(value).__name__} of shape {shape}>"
    text = " ".join(text.split())
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 3]}..."


def did_you_mean(word: object, valid: Iterable[str]) -> str:
    """Return the end of an error message: the closest of the valid words, if any, and all of them."""
    words, text = list(valid), word[:MAX_CHARACTERS] if isinstance(word, str) else ""
    near = sorted(difflib.get_close_matches(text, words), key=words.index)
    closest = max(near, key=lambda w: difflib.SequenceMatcher(None, w, text).ratio(), default="")
    hint = f"did you mean {closest!r}? " if closest else ""
    more = f", ... ({len(words):,} in all)" if len(words) > MAX_WORDS else ""
    return f"{hint}known: {', '.join(words[:MAX_WORDS])}{more}"
