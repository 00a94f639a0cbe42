"""A design is a choice of address: who owns a reward, by what it is indexed, and who owns a policy's noise.

Policies never talk to each other. All coupling is here, and by the fresh-key lemma every choice below leaves
each policy's own law as it is when it runs alone, so every design is unbiased.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from sameluck import grammar
from sameluck.errors import Invalid, did_you_mean
from sameluck.streams import EVERYBODY, owner_of


class Naive(NamedTuple):
    """Each policy meets its own users (Algorithm 1): N T real interactions, nothing shared."""

    @property
    def timed(self) -> bool:
        """Whether rewards are indexed by the period rather than by the position in the arm's stack."""
        return False

    def reward_owner(self, policy: str) -> int:
        """Every policy draws from reward stacks of its own."""
        return owner_of(policy)

    def noise_owner(self, policy: str) -> int:
        """Every policy has its own decision noise."""
        return owner_of(policy)


class Replay(NamedTuple):
    """Artificial Replay (Algorithm 2) in its shared-reward-stack form, for any number of policies.

    The k-th pull of an arm pays the same to every policy of a replication, so only entries that no other
    policy has revealed cost a real interaction: the sum over arms of the largest pull count.

    Args:
        share_noise: Share the policies' decision noise too, by (period, arm). Still unbiased; it lowers the
            variance between policies of one family.
    """

    share_noise: bool = False

    @property
    def timed(self) -> bool:
        """Whether rewards are indexed by the period rather than by the position in the arm's stack."""
        return False

    def reward_owner(self, policy: str) -> int:  # noqa: ARG002
        """All policies of a replication draw from the same reward stacks."""
        return EVERYBODY

    def noise_owner(self, policy: str) -> int:
        """Decision noise is a policy's own unless it is shared."""
        return EVERYBODY if self.share_noise else owner_of(policy)


class TimeCoupled(NamedTuple):
    """Rewards shared by (arm, period): the coupling of other libraries, for simulation only.

    Interactions are the distinct (period, arm) pairs that the policies ask for.
    """

    @property
    def timed(self) -> bool:
        """Whether rewards are indexed by the period rather than by the position in the arm's stack."""
        return True

    def reward_owner(self, policy: str) -> int:  # noqa: ARG002
        """All policies of a replication share one table of rewards."""
        return EVERYBODY

    def noise_owner(self, policy: str) -> int:
        """Every policy has its own decision noise."""
        return owner_of(policy)


Design: TypeAlias = Naive | Replay | TimeCoupled

DESIGNS: dict[str, type] = {grammar.name_of(kind): kind for kind in (Naive, Replay, TimeCoupled)}


def as_design(value: Any) -> Design:
    """A design from itself or from its text form: `naive`, `replay`, `replay(share_noise=true)`."""
    design = grammar.parse(value, DESIGNS, "design") if isinstance(value, str) else value
    if type(design) not in DESIGNS.values():
        raise Invalid(f"unknown design {value!r}; {did_you_mean(str(value), DESIGNS)}")
    if not all(isinstance(field, bool) for field in design):
        raise Invalid(f"{grammar.write(design)}: share_noise must be true or false")
    return design
