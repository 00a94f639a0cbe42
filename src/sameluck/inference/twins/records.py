"""The records of a twin beside its effects: guaranteed intervals, rare failures, and whether the arms stood still."""

from __future__ import annotations

from typing import NamedTuple

from sameluck.wording import amount

REJECTED = 0.05


class Guaranteed(NamedTuple):
    """An interval that holds at every look, for all pairs and horizons at once."""

    policy: str
    control: str
    checkpoint: int
    low: float
    high: float
    level: float


class Failure(NamedTuple):
    """A way to fail that is rare and still decides the variance of the difference."""

    policy: str  # that fails
    control: str  # that it ends behind
    checkpoint: int
    loss: float  # it ends at least this much behind
    one_in: float  # replications on the copy
    met: int  # of the observed replications
    replications: int  # observed

    def __str__(self) -> str:
        seen = f"{self.met:,} of your {self.replications:,} have"
        if self.met == 0:
            seen = (
                f"none of your {self.replications:,} has"
                if self.replications > 1
                else "yours has not"
            )
        return (
            f"On a copy of your arms, {self.policy} ends {amount(self.loss)} or more behind {self.control} in about "
            f"1 replication in {self.one_in:,.0f}; {seen} met this."
        )


class Stability(NamedTuple):
    """Whether the arms' rewards changed within replications, or between them."""

    trend: float  # p-value: rewards along the stacks
    heterogeneity: (
        float | None
    )  # p-value: rewards between stacks of an arm; None if there is one of each
    arm: int  # that gives most reason to doubt

    @property
    def p_value(self) -> float:
        """Of both tests together (Bonferroni)."""
        if self.heterogeneity is None:
            return self.trend
        return min(1.0, 2 * min(self.trend, self.heterogeneity))

    @property
    def rejected(self) -> bool:
        """Whether the arms did not stand still, at the 5% level."""
        return self.p_value < REJECTED

    @property
    def what(self) -> str:
        """What the smaller p-value is about."""
        if self.heterogeneity is not None and self.heterogeneity < self.trend:
            return "between replications"
        return "within replications"
