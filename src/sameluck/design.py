"""Designs: choices of address, that is, who owns a reward, how it is indexed, and who owns a policy's decision noise.

Policies never communicate. All coupling is in the addresses, and by the fresh-key lemma every choice below leaves
each policy's distribution as it is in a solo run, so every design is unbiased.
"""

from __future__ import annotations

from typing import NamedTuple

from sameluck import text_forms
from sameluck.arrays import Ints
from sameluck.errors import Invalid, did_you_mean
from sameluck.randomness.streams import ALL_POLICIES, owner_of


class Design:
    """Rule that says which rewards and which decision noise the policies of a replication share."""

    __slots__ = ()
    shares_rewards = False  # whether all policies of a replication read the same rewards
    indexed_by_period = False  # whether rewards are indexed by period, not by position in the stack

    @property
    def label(self) -> str:
        """Text form without the parameters that have their defaults."""
        return text_forms.write(self, brief=True)

    @property
    def shares_noise(self) -> bool:
        """Return whether all policies of a replication read the same decision noise."""
        return False

    def reward_owner(self, policy: str) -> int:
        """Return the stream owner of a policy's rewards."""
        return ALL_POLICIES if self.shares_rewards else owner_of(policy)

    def noise_owner(self, policy: str) -> int:
        """Return the stream owner of a policy's decision noise."""
        return ALL_POLICIES if self.shares_noise else owner_of(policy)

    def depths(self, visits: Ints) -> Ints:
        """Return how many rewards of each cell's stack are read, from visits (replication, policy, ..., cell).

        Shared stacks have one owner and are read to the largest count of the policies (replication, 1, ..., cell).
        Otherwise each policy owns its stacks (replication, policy, ..., cell). A cell is an arm, or with levels a
        pair of level and arm. `TimeCoupled` has no stacks.
        """
        return visits.max(axis=1, keepdims=True) if self.shares_rewards else visits

    def interactions(self, visits: Ints) -> Ints:
        """Return the real users that the design spends, from visits (replication, policy, checkpoint, cell).

        On shared stacks this is the sum over cells of the largest count; otherwise every visit counts. The users of
        `TimeCoupled` do not follow from visits.
        """
        return self.depths(visits).sum(axis=(1, -1))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other  # a tuple's method compares the parameters only

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self))  # type: ignore[misc]  # a NamedTuple


class _NoParameters(NamedTuple):
    pass


class Naive(Design, _NoParameters):
    """Each policy has its own users (Algorithm 1): N T real interactions, nothing shared."""

    __slots__ = ()


class _ReplayParameters(NamedTuple):
    share_noise: bool = False


class Replay(Design, _ReplayParameters):
    """Artificial Replay (Algorithm 2) in its shared-reward-stack form, for any number of policies.

    The k-th pull of an arm pays the same to every policy of a replication, so only entries that no other
    policy has revealed cost a real interaction: the sum over arms of the largest pull count.

    Args:
        share_noise: Share the policies' decision noise too, by (period, arm). Still unbiased; it lowers the
            variance between policies of one class, and raises it between `EXP3IX` and `EXP3` or `GradientBandit`.
    """

    __slots__ = ()
    shares_rewards = True

    @property
    def shares_noise(self) -> bool:
        return self.share_noise


class TimeCoupled(Design, _NoParameters):
    """Rewards shared by (arm, period): the coupling of other libraries, for simulation only.

    Interactions are the distinct (period, arm) pairs that the policies request.
    """

    __slots__ = ()
    shares_rewards = True
    indexed_by_period = True


DESIGNS: dict[str, type[Design]] = {
    text_forms.name_of(design_class): design_class for design_class in (Naive, Replay, TimeCoupled)
}


def as_design(value: object) -> Design:
    """Return a design from itself or from its text form: `naive`, `replay`, `replay(share_noise=true)`."""
    design = text_forms.parse(value, DESIGNS, "design") if isinstance(value, str) else value
    if not isinstance(design, Design):
        raise Invalid(f"unknown design {value!r}; {did_you_mean(str(value), DESIGNS)}")
    if not isinstance(design.shares_noise, bool):
        raise Invalid(f"{text_forms.write(design)}: share_noise must be true or false")
    return design
