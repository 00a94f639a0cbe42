"""`External`: a policy that is an object of the application's own, for live experiments."""

from __future__ import annotations

from typing import NamedTuple

from sameluck.validation import require_name, require_whole

LARGEST = 1 << 40  # batch


class External(NamedTuple):
    """A policy written as an ordinary Python object, made by the application under this name.

    A live experiment gets its maker by `store.start(..., makers={name: make})`, where `make(seed)` returns
    a new object with `select(period) -> arm index` and `update(arm, reward)`, or river's `pull(arms)` and
    `update(arm, reward)`. It must be deterministic given its seed and the rewards it has seen.

    Args:
        name: The name of its maker.
        batch: Periods that it acts before it observes their rewards.
    """

    name: str
    batch: int = 1

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "external(mine)"

    def check(self, arms: int) -> None:  # noqa: ARG002, D102
        require_name("External.name", self.name)
        require_whole("External.batch", self.batch, 1, LARGEST)
