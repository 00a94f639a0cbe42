"""Units: the users of a live experiment, as the application names them and as the database stores them."""

from __future__ import annotations

import hashlib
import operator
import re
from typing import SupportsIndex, TypeAlias
from uuid import UUID

from sameluck.errors import Invalid, shown
from sameluck.validation import is_whole

Unit: TypeAlias = str | SupportsIndex | UUID

MAX_LENGTH = 1_000  # characters of a unit
ASSIGNMENT_ID = re.compile("[ -~]{0,100}")  # printable ASCII


def hash_unit(unit: object, salt: bytes) -> str:
    """Return the keyed hash that a unit is stored as, so that the database holds no name."""
    text = str(unit) if _has_short_text(unit) else unit
    if not isinstance(text, str) or not 0 < len(text) <= MAX_LENGTH:
        raise Invalid(
            f"a unit must be text of 1 to {MAX_LENGTH:,} characters (or a whole number, or a UUID), got {shown(unit)}"
        )
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"a unit must be valid Unicode, got {shown(unit)}") from None
    return hashlib.blake2b(content, key=salt, digest_size=16).hexdigest()


def is_unit(unit: object) -> bool:
    """Return whether a value can be assigned an arm."""
    try:
        return bool(hash_unit(unit, b""))
    except Invalid:
        return False


def json_unit(unit: object) -> object:
    """Return the unit as JSON. An invalid unit becomes a list, which the service rejects."""
    if isinstance(unit, UUID):
        return str(unit)
    if is_whole(unit) and _has_short_text(unit):
        return operator.index(unit)
    if isinstance(unit, str) and not any("\ud800" <= letter <= "\udfff" for letter in unit):
        return unit
    return [shown(unit)]


def _has_short_text(unit: object) -> bool:
    """Return True for a UUID, and for a whole number short enough to be converted to text."""
    return isinstance(unit, UUID) or (is_whole(unit) and abs(operator.index(unit)) < 10**MAX_LENGTH)


def is_in_traffic_share(unit_hash: str, share: float) -> bool:
    """Return True if a hashed unit is inside the traffic share: a fixed function of the unit."""
    if share >= 1:
        return True
    draw = hashlib.blake2b(b"traffic share", key=bytes.fromhex(unit_hash), digest_size=8).digest()
    return int.from_bytes(draw, "little") < share * 2**64


def is_id(id: object) -> bool:
    """Return True if a value may be an assignment's id."""
    return isinstance(id, str) and ASSIGNMENT_ID.fullmatch(id) is not None
