"""`Batched`: a policy that acts several times before it observes the rewards.

The arm that a batched policy plays depends only on its past and its random numbers, as for every policy. So designs,
intervals and plans apply to it unchanged.
"""

from __future__ import annotations

from typing import NamedTuple

from sameluck import text_forms
from sameluck.compilation.functions import is_builtin
from sameluck.errors import Invalid, shown
from sameluck.policies import base
from sameluck.policies.base import Policy, Tally, select
from sameluck.policies.external import External
from sameluck.policies.observations import (
    keep_tally,
    seen_in,
    shown_tally,
    stored_tally,
    stored_tally_size,
)
from sameluck.randomness.streams import Key
from sameluck.validation import require_whole

_MAX_SIZE = 1 << 40
_ANY_HORIZON = 100


@text_forms.with_sample("batched(ucb1(alpha=2), size=10)")
class Batched(NamedTuple):
    """Act `size` times by a policy's rule, then observe the `size` rewards: for delayed rewards.

    Batches are the periods 1 to size, size + 1 to 2 size and so on; the last may be shorter. In every period of a
    batch the policy's rule is applied to the tally (pulls, totals, means, last arm and its reward) from the start of
    the batch. The period and its random numbers are current. `Batched(policy, 1)` equals the policy itself, bit for
    bit.

    For an arm not yet observed the mean is 0, the upper confidence bound is infinite and the posterior is the prior.
    Ties go to the lowest arm.

    Args:
        policy: The policy, or its text form; not itself batched. A policy that keeps memory needs a `batched` method
            (`sameluck.policies.base`); built-in policies that learn from single rewards are refused.
        size: Periods in a batch, 1 to 2^40.
    """

    policy: Policy | str
    size: int

    @property
    def needs_binary(self) -> bool:
        return base.needs_binary(self._rule)

    def reward_scale(self) -> base.RewardScale | None:
        return base.reward_scale(self._rule)

    def rescaled(self, sd: float, mean: float) -> Policy | None:
        rule = base.rescaled(self._rule, sd, mean)
        return rule and self._replace(policy=rule)

    @property
    def _rule(self) -> Policy:
        if isinstance(self.policy, str):
            return text_forms.parse(self.policy, base.POLICIES, "policy")
        return self.policy

    def check_alone(self) -> None:
        """Raise `Invalid` for parameters that are invalid for every number of arms."""
        self._require_policy(is_policy=text_forms.is_parameters(self._rule))
        if isinstance(self._rule, Batched):
            raise Invalid(
                f"Batched.policy must not be batched itself, got {self.policy!r}; batch once, with the size you mean"
            )
        require_whole("Batched.size", self.size, 1, _MAX_SIZE)

    def _require_policy(self, *, is_policy: bool) -> None:
        if not is_policy:
            raise Invalid(
                f"Batched.policy must be a policy or its text form, got {shown(self.policy)}; register your own with "
                "sameluck.selects"
            )

    def check(self, arms: int) -> None:
        self.check_alone()
        rule = self._rule
        self._require_policy(is_policy=base.has_select_function(rule, arms))
        if isinstance(rule, External):
            raise Invalid(
                f"Batched.policy is an external policy; write External({rule.name!r}, batch={self.size})"
            )
        base.check_parameters(rule, arms)
        _without_memory(rule, arms, _ANY_HORIZON)

    def prepare(self, arms: int, horizon: int) -> _Batched:
        # Under the class that is compiled, or a policy defined again would run the previous machine code.
        return _Batched(base.as_compiled(_without_memory(self._rule, arms, horizon)), self.size)


def batch_of(policy: Policy) -> int:
    """Return how many periods a policy acts before it observes their rewards: 1 unless it is batched."""
    return policy.size if isinstance(policy, Batched) else 1


def _without_memory(policy: Policy, arms: int, horizon: int) -> Policy:
    prepared = base.rule_of(policy, arms, horizon)
    rule, class_name = prepared, type(prepared).__name__
    if hasattr(prepared, "batched"):
        rule = base.require_rule(f"{class_name}.batched", prepared.batched())
    if base.memory_of(rule, arms) != 0 and is_builtin(type(rule)):
        raise Invalid(
            f"Batched.policy {text_forms.write(policy)} learns from every single reward, and a batch shows only "
            "their sums; use a policy that learns from pulls and means, such as ucb1 or thompson_bernoulli"
        )
    if base.memory_of(rule, arms) != 0:
        raise Invalid(
            f"Batched.policy {text_forms.write(policy)} keeps numbers in tally.memory between periods, which a "
            f"batch must not change; give {class_name} a method `batched()` that returns the same rule "
            "without memory"
        )
    base.select_function_of(rule)  # raises if it has none
    return rule


class _Batched(NamedTuple):
    inner: Policy
    size: int

    def memory(self, arms: int) -> int:
        return stored_tally_size(arms)  # for the tally at the start of the batch


@base.selects(_Batched)
def _select_in_batch(policy: _Batched, tally: Tally, period: int, noise: Key) -> int:
    stored = stored_tally(tally.memory, 0, tally.pulls.size, 0)
    if (period - 1) % policy.size == 0:
        keep_tally(stored, tally)
    return select(policy.inner, shown_tally(stored, seen_in(tally)), period, noise)
