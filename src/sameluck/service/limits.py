"""`Limits`: the largest requests and experiments that the service accepts."""

from __future__ import annotations

from typing import NamedTuple

from sameluck.errors import Invalid


class Limits(NamedTuple):
    """Upper limits on one request, one experiment and one token."""

    body_bytes: int = 1 << 20
    items: int = 1_000  # units or rewards in one list
    arms: int = 1_000
    policies: int = 20
    horizon: int = 1_000_000
    replications: int = 100_000
    open_replications: int = 1_000  # one transaction opens them, and users wait for it
    requests_per_second: float = 5_000.0  # of one token, with bursts of twice as many
    seconds: float = 30.0  # until a request is answered

    def check_sizes(self, **sizes: int) -> None:
        """Raise `Invalid` for an experiment that is larger than this service accepts."""
        for name, size in sizes.items():
            limit: int = getattr(self, name)
            if size > limit:
                message = f"{name}: this service accepts at most {limit:,}, got {size:,}; start larger ones in Python"
                raise Invalid(message)

    def check_items(self, name: str, items: int) -> None:
        if items > self.items:
            rule = f"{name} takes at most {self.items:,} items, got {items:,}"
            raise Invalid(f"{rule}; send several lists")
