"""`Limits`: what the service accepts at most."""

from __future__ import annotations

from typing import NamedTuple

from sameluck.errors import Invalid


class Limits(NamedTuple):
    """The most that a service accepts of one request, of one experiment and of one token."""

    body_bytes: int = 1 << 20
    items: int = 1_000  # units or rewards in one list
    arms: int = 1_000
    policies: int = 20
    horizon: int = 1_000_000
    replications: int = 100_000
    open_replications: int = (
        1_000  # at a time; beginning them is one transaction, which users wait for
    )
    requests_per_second: float = 5_000.0  # of one token; twice as many at once
    seconds: float = 30.0  # until a request is answered

    def check_experiment(
        self,
        arms: int,
        policies: int,
        horizon: int,
        replications: int,
        open_replications: int | None = None,
    ) -> None:
        """Raise `Invalid` for an experiment that is larger than this service takes."""
        sizes = {
            "arms": (arms, self.arms),
            "policies": (policies, self.policies),
            "horizon": (horizon, self.horizon),
            "replications": (replications, self.replications),
            "open_replications": (open_replications or 0, self.open_replications),
        }
        for what, (value, most) in sizes.items():
            if value > most:
                raise Invalid(
                    f"{what}: this service takes at most {most:,}, got {value:,}; start a larger experiment in Python"
                )

    def check_items(self, what: str, items: int) -> None:
        """Raise `Invalid` for a list that is too long."""
        if items > self.items:
            raise Invalid(f"{what} takes at most {self.items:,} items, got {items:,}; send several")
