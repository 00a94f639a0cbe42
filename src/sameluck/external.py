"""`External`: a policy that is an object of the application's own, for live experiments."""

from __future__ import annotations

from typing import NamedTuple

from sameluck.errors import require


class External(NamedTuple):
    """A policy written as an ordinary Python object, made by the application under this name.

    A live experiment is told how to make it: `store.start(..., makers={name: make})`, where `make(seed)` returns a
    fresh object with `select(period) -> arm index` and `update(arm, reward)`, or river's `pull(arms)` and
    `update(arm, reward)`. It must be deterministic given its seed and the rewards it has seen.

    Args:
        name: What the maker is called.
        batch: It acts that often, then sees the rewards.
    """

    name: str
    batch: int = 1

    def check(self, arms: int) -> None:  # noqa: ARG002, D102
        fits = isinstance(self.name, str) and 0 < len(self.name) <= 200
        require(fits, f"External.name must be 1 to 200 characters, got {self.name!r}")
        whole = isinstance(self.batch, int) and not isinstance(self.batch, bool)
        require(
            whole and 1 <= self.batch <= 1 << 40,
            f"External.batch must be a whole number >= 1, got {self.batch!r}",
        )
