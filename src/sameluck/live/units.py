"""Units: the users of a live experiment, as the application names them and as the database stores them."""

from __future__ import annotations

import hashlib
from typing import TypeAlias

from sameluck.errors import Invalid
from sameluck.validation import is_whole

Unit: TypeAlias = str | int


def hash_unit(unit: object, salt: bytes) -> str:
    """The keyed hash that a unit is stored as: the database holds no name."""
    text = str(unit) if is_whole(unit) else unit
    if not isinstance(text, str) or not 0 < len(text) <= 1_000:
        raise Invalid(
            f"a unit must be text of 1 to 1,000 characters (or a whole number), got {unit!r}"
        )
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"a unit must be valid Unicode, got {unit!r}") from None
    return hashlib.blake2b(content, key=salt, digest_size=16).hexdigest()


def is_in_traffic_share(code: str, share: float) -> bool:
    """Whether a hashed unit is inside the traffic share: a fixed function of the unit."""
    if share >= 1:
        return True
    draw = hashlib.blake2b(b"traffic share", key=bytes.fromhex(code), digest_size=8).digest()
    return int.from_bytes(draw, "little") < share * 2**64
