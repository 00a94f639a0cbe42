"""`PerLevel`: a policy of its own for each level of a context."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.compilation.decorators import inlined
from sameluck.context import Context
from sameluck.errors import Invalid, shown
from sameluck.policies import base
from sameluck.policies.base import Policy, Tally, select
from sameluck.policies.external import External
from sameluck.policies.observations import stored_tally_size
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
        stride = stored_tally_size(arms) + 1 + base.memory_of(rule, arms)
        return _PerLevel(rule, stride, 1 if context is None else context.number)


class _PerLevel(NamedTuple):
    inner: Policy
    stride: int  # numbers kept for a level: its tally, its periods and the inner policy's memory
    levels: int

    def memory(self, arms: int) -> int:
        return self.levels * self.stride


@base.selects(_PerLevel)
def _select_in_level(policy: _PerLevel, tally: Tally, period: int, noise: Key) -> int:
    arms, stride = tally.pulls.size, policy.stride
    if period > 1:
        _observe(tally, tally.memory[tally.last_level * stride : (tally.last_level + 1) * stride])
    kept = tally.memory[tally.level * stride : (tally.level + 1) * stride]
    local_period = int(kept[3 * arms + 2]) + 1
    kept[3 * arms + 2] = local_period
    own = Tally(
        kept[:arms].view(np.int64),
        kept[arms : 2 * arms],
        kept[2 * arms : 3 * arms],
        kept[3 * arms + 3 :],
        int(kept[3 * arms]),
        kept[3 * arms + 1],
        tally.context,
        tally.last_context,
        0,
        0,
        0,
    )
    return select(policy.inner, own, local_period, within(noise, tally.level))


@inlined
def _observe(tally: Tally, kept: Floats) -> None:
    """Add the last reward to the numbers that are kept for its level."""
    arms, arm = tally.pulls.size, tally.last_arm
    pulls = kept[:arms].view(np.int64)
    pulls[arm] += 1
    kept[arms + arm] += tally.last_reward
    kept[2 * arms + arm] = kept[arms + arm] / pulls[arm]
    kept[3 * arms], kept[3 * arms + 1] = arm, tally.last_reward
