"""`PerLevel`: a policy of its own for each level of a context."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck import text_forms
from sameluck.compilation.decorators import inlined
from sameluck.compilation.windows import whole_numbers
from sameluck.context import Context
from sameluck.errors import Invalid, shown
from sameluck.policies import base
from sameluck.policies.base import Policy, Tally, select
from sameluck.policies.external import External
from sameluck.policies.observations import (
    SeenContext,
    StoredTally,
    keep,
    keep_last,
    loaded,
    shown_tally,
    stored_tally,
    stored_tally_size,
    with_reward,
)
from sameluck.randomness.streams import Key, within


@text_forms.with_sample("per_level(ucb1(alpha=2))")
class PerLevel(NamedTuple):
    """Run a policy of its own in each level of the context, such as a segment of users.

    In a level the policy sees the pulls, totals and means of this level, the last arm and reward there. Its local
    period is the number of users of this level so far. So the logarithm of an upper confidence bound grows with the
    level's users. A rule that contains the horizon uses the horizon of the whole experiment.

    Args:
        policy: The policy, or its text form; it does not use contexts itself.
    """

    policy: Policy | str

    @property
    def needs_binary(self) -> bool:
        return base.needs_binary(self._rule)

    @property
    def _rule(self) -> Policy:
        if isinstance(self.policy, str):
            return text_forms.parse(self.policy, base.POLICIES, "policy")
        return self.policy

    def reward_scale(self) -> base.RewardScale | None:
        return base.reward_scale(self._rule)

    def rescaled(self, sd: float, mean: float) -> Policy | None:
        rule = base.rescaled(self._rule, sd, mean)
        return rule and self._replace(policy=rule)

    def check_alone(self) -> None:
        """Raise `Invalid` for parameters that are invalid for every number of arms."""
        rule = self._rule
        if not text_forms.is_parameters(rule) or isinstance(rule, PerLevel | External):
            raise Invalid(
                f"PerLevel.policy must be a policy without contexts or its text form, got {shown(self.policy)}"
            )

    def check(self, arms: int) -> None:
        self.check_alone()
        rule = self._rule
        if not base.has_select_function(rule, arms):
            raise Invalid(f"PerLevel.policy must be a policy, got {shown(self.policy)}")
        base.check_parameters(rule, arms)
        base.check_context(rule, None, arms)

    def check_context(self, context: Context | None) -> None:
        base.require_levels("PerLevel", context)

    def prepare(self, arms: int, horizon: int, context: Context | None) -> _PerLevel:
        rule = base.as_compiled(base.rule_of(self._rule, arms, horizon))
        levels = 1 if context is None else context.number
        return _PerLevel(rule, base.memory_of(rule, arms), levels)


class _PerLevel(NamedTuple):
    inner: Policy
    inner_memory: int
    levels: int

    def memory(self, arms: int) -> int:
        return self.levels * _stride(self, arms)


@inlined
def _stride(policy: _PerLevel, arms: int) -> int:
    """Return how many numbers are kept for a level: its periods, its tally and the inner policy's memory."""
    return 1 + stored_tally_size(arms) + policy.inner_memory


@inlined
def _stored(policy: _PerLevel, tally: Tally, level: int) -> StoredTally:
    first = level * _stride(policy, tally.pulls.size) + 1
    return stored_tally(tally.memory, first, tally.pulls.size, policy.inner_memory)


@base.selects(_PerLevel)
def _select_in_level(policy: _PerLevel, tally: Tally, period: int, noise: Key) -> int:
    if period > 1:
        before, arm = _stored(policy, tally, tally.last_level), tally.last_arm
        # Unsigned indices need no check for negative ones.
        index = np.uint64(arm)
        keep(before, index, with_reward(loaded(before, index), tally.last_reward))
        keep_last(before, arm, tally.last_reward)
    stored = _stored(policy, tally, tally.level)
    periods = whole_numbers(tally.memory, tally.level * _stride(policy, tally.pulls.size), 1)
    periods[0] += 1
    seen = SeenContext(tally.context, tally.last_context, 0, 0, 0)  # one level of its own
    own = shown_tally(stored, seen)
    return select(policy.inner, own, periods[0], within(noise, tally.level))
