"""Grammar of text forms, on the command line, in files and over HTTP; nothing is evaluated.

call   = name [ "(" [ item { "," item } ] ")" ]
item   = [ name "=" ] ( value | call )
value  = number | word | "text" | "[" [ value { "," value } ] "]"
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from sameluck.errors import Invalid, shown

MAX_CHARACTERS = 50_000_000  # two million observed rewards of an empirical environment
MAX_DEPTH = 8

# A list of such numbers is one token, because reading a million rewards one by one is slow.
_JSON_NUMBER = r"-?(?:0|[1-9]\d{0,30}+)(?:\.\d++)?+(?:[eE][+-]?\d++)?+"
_JSON_LIST = r"\[\s*+JSON(?:\s*+,\s*+JSON)*+\s*+\]".replace("JSON", _JSON_NUMBER)
# Python 3.11.2 keeps what a possessive group had read when it failed. There, groups are greedy and take more memory.
if re.match(_JSON_LIST, "[0.0,]"):
    _JSON_LIST = re.sub(r"(?<=[*+?}])\+", "", _JSON_LIST)
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[+-]?(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
          |(?P<word>[A-Za-z][\w-]*)
          |(?P<text>"(?:[^"\\]|\\.)*")
          |(?P<numbers>JSON_LIST)
          |(?P<mark>[()\[\],=]))""".replace("JSON_LIST", _JSON_LIST),
    re.VERBOSE,
)

Value: TypeAlias = bool | int | float | str | tuple["Value", ...] | None
Token: TypeAlias = tuple[str | None, str]  # its type, a group of _TOKEN, and its text

_END: Token = (None, "")
WORDS = {"none": None, "true": True, "false": False}


@dataclass(frozen=True)
class Call:
    """A name with arguments, as parsed."""

    name: str
    positional: list[Argument]
    named: dict[str, Argument]


Argument: TypeAlias = "Value | Call"


def read_call(text: object, subject: str) -> Call:
    """Return the name and the arguments in a text; `subject` is what messages call it."""
    if not isinstance(text, str):
        raise Invalid(f"{subject} must be text such as 'name(value)', got {shown(text)}")
    if len(text) > MAX_CHARACTERS:
        raise Invalid(
            f"{subject} text has {len(text):,} characters; the limit is {MAX_CHARACTERS:,}"
        )
    return _Reader(text, subject).whole()


class _Reader:
    def __init__(self, text: str, subject: str) -> None:
        self.text, self.subject, self.position = text, subject, 0
        # Two ends, because the parser looks two tokens ahead.
        self.tokens = [*self._tokens(), _END, _END]

    def _tokens(self) -> Iterator[Token]:
        position, end = 0, len(self.text.rstrip())
        while position < end:
            match = _TOKEN.match(self.text, position)
            if match is None:
                remainder = self.text[position:].lstrip()[:20]
                raise Invalid(f"cannot read {self.subject} {self._excerpt()} at {remainder!r}")
            yield match.lastgroup, match[match.lastgroup or ""]
            position = match.end()

    def _excerpt(self) -> str:
        return repr(self.text if len(self.text) <= 80 else self.text[:77] + "...")

    def whole(self) -> Call:
        call = self._call(0)
        if self.tokens[self.position] != _END:
            raise Invalid(f"{self._excerpt()} has text after its end; remove it")
        return call

    def _call(self, depth: int) -> Call:
        if depth >= MAX_DEPTH:
            raise Invalid(
                f"{self._excerpt()} is nested too deeply; the limit is {MAX_DEPTH} levels"
            )
        call = Call(self._take("word", "a word"), [], {})
        if self._accept("("):
            for _ in self._items(")"):
                self._add_argument(call, depth)
        return call

    def _add_argument(self, call: Call, depth: int) -> None:
        if self.tokens[self.position + 1] == ("mark", "="):
            name = self._take("word", "a word")
            self._accept("=")
            if name in call.named:
                raise Invalid(f"{self._excerpt()} gives {name} twice")
            call.named[name] = self._value_or_call(depth)
        elif call.named:
            raise Invalid(f"{self._excerpt()}: a value without a name follows a named value")
        else:
            call.positional.append(self._value_or_call(depth))

    def _value_or_call(self, depth: int) -> Argument:
        (token_type, _), following = self.tokens[self.position : self.position + 2]
        is_call = token_type == "word" and following == ("mark", "(")
        return self._call(depth + 1) if is_call else self._value(0)

    def _value(self, depth: int) -> Value:
        if depth >= MAX_DEPTH:
            raise Invalid(
                f"{self._excerpt()}: lists are nested too deeply; the limit is {MAX_DEPTH} levels"
            )
        if self._accept("["):
            return tuple([self._value(depth + 1) for _ in self._items("]")])
        token_type, token = self._next()
        if token_type == "number":
            return _number(token)
        if token_type == "numbers":
            return tuple(json.loads(token))
        if token_type == "text":
            try:
                return str(json.loads(token))
            except ValueError:
                raise Invalid(f"{self._excerpt()}: {token} is not a valid text") from None
        if token_type != "word":
            raise Invalid(f"{self._excerpt()}: expected a value, got {token!r}")
        return WORDS.get(token.lower(), token)

    def _items(self, end: str) -> Iterator[None]:
        """Yield once per item before the closing mark; a comma may follow the last item."""
        while not self._accept(end):
            yield
            if not self._accept(","):
                self._take("mark", repr(end), end)
                return

    def _next(self) -> Token:
        token = self.tokens[self.position]
        if token == _END:
            raise Invalid(f"{self.subject} {self._excerpt()} ends too early")
        self.position += 1
        return token

    def _take(self, token_type: str, expected: str, text: str | None = None) -> str:
        actual_type, token = self._next()
        if actual_type != token_type or text not in (None, token):
            raise Invalid(
                f"cannot read {self.subject} {self._excerpt()}: expected {expected}, got {shown(token)}"
            )
        return token

    def _accept(self, mark: str) -> bool:
        accepted = self.tokens[self.position] == ("mark", mark)
        self.position += accepted
        return accepted


def _number(token: str) -> int | float:
    if not re.fullmatch(r"[+-]?[\d_]+", token):
        return float(token)
    if len(token) > 40:
        raise Invalid(f"the number {token[:20]}... has too many digits")
    return int(token)
