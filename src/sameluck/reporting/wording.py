"""How sentences name numbers of things, and arms."""

from __future__ import annotations

from collections.abc import Iterable

AT_MOST = 10  # things that a sentence lists


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number of things: `1 user`, `2 users`, `1,000 entries` (`plural` where an s does not do)."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def arm_in(name: str) -> str:
    """An arm in a list: by its name, or as `arm 0` if it has none but its number."""
    return f"arm {name}" if name.isdigit() else name


def listed(things: Iterable[str]) -> str:
    """Things with commas between them; of very many the first few."""
    words = list(things)
    left = len(words) - AT_MOST
    return ", ".join(words if left <= 0 else [*words[:AT_MOST], f"and {left:,} more"])


def sentence(text: str) -> str:
    """A message as a sentence: a capital letter and one full stop."""
    return text[:1].upper() + text[1:].removesuffix(".") + "."
