"""How sentences name numbers of things, and arms."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number of things: `1 user`, `2 users`, `1,000 entries` (`plural` where an s does not do)."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def arm_in(name: str) -> str:
    """An arm in a list: by its name, or as `arm 0` if it has none but its number."""
    return f"arm {name}" if name.isdigit() else name


def sentence(text: str) -> str:
    """A message as a sentence: a capital letter and one full stop."""
    return text[:1].upper() + text[1:].removesuffix(".") + "."
