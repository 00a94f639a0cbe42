"""`Batched`: a policy that acts several times before it sees what that paid.

A batched policy is a policy like any other: what it plays depends on its own past and its own luck. So designs,
intervals and plans hold for it as they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sameluck import grammar
from sameluck.compiled import shared
from sameluck.errors import require
from sameluck.policies import Floats, Policy, as_policy
from sameluck.selection import (
    POLICIES,
    Tally,
    as_compiled,
    body_of,
    chances,
    fill_chances,
    memory_of,
    prepare,
    select,
    selects,
)

LARGEST = 1 << 40
_ANY_HORIZON = 100


class Batched(NamedTuple):
    """Act `size` times by a policy's rule, then see the `size` rewards: for rewards that come late.

    Batches are the periods 1 to size, size + 1 to 2 size and so on; the last may be shorter. In every period of a
    batch the policy's rule is applied to the tally (pulls, totals, means, last arm and its reward) as it stood when
    the batch began; the number of the period and the luck at its address go on. So `Batched(policy, 1)` plays as the
    policy does, to the bit.

    What a rule says for an arm of which nothing has been seen counts here more than elsewhere: its mean is 0, its
    upper confidence bound infinite, its posterior the prior; ties go to the lowest arm.

    Args:
        policy: The policy, or its text form; not itself batched. One that keeps memory needs a `batched` method
            (`sameluck.selection`). Its chances, if it states them, are stated for the batches too.
        size: Periods in a batch, 1 to 2^40.
    """

    policy: Policy | str
    size: int

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "batched(ucb1(alpha=2), size=10)"

    @property
    def needs_binary(self) -> bool:
        """As its policy does."""
        return bool(getattr(self.policy, "needs_binary", False))

    def check(self, arms: int) -> None:  # noqa: D102
        require(
            type(self.policy) in POLICIES.values(),
            f"Batched.policy must be a policy or its text form, got {self.policy!r}; register your own with "
            "sameluck.selects",
        )
        require(
            not isinstance(self.policy, Batched),
            f"Batched.policy must not be batched itself, got {self.policy!r}; batch once, with the size you mean",
        )
        whole = isinstance(self.size, int) and not isinstance(self.size, bool)
        require(
            whole and 1 <= self.size <= LARGEST,
            f"Batched.size must be a whole number from 1 to 2^40, got {self.size!r}",
        )
        as_policy(self.policy, arms)
        _fit_for_batches(self.policy, arms, _ANY_HORIZON)

    def prepare(self, arms: int, horizon: int) -> _Batched:  # noqa: D102
        # Under the class its machine code is made for, or a policy defined anew would run the old one's.
        inner = as_compiled(_fit_for_batches(self.policy, arms, horizon))
        return _Batched(inner, self.size)


def batch_of(policy: Policy) -> int:
    """How many periods a policy plays before it sees their rewards: 1 unless it is batched."""
    return policy.size if isinstance(policy, Batched) else 1


def _fit_for_batches(policy: Any, arms: int, horizon: int) -> Any:
    prepared = prepare(policy, arms, horizon)
    own_way = callable(getattr(prepared, "batched", None))
    fit = prepared.batched() if own_way else prepared
    require(
        memory_of(fit, arms) == 0,
        f"Batched.policy {grammar.write(policy)} keeps numbers in tally.memory between periods, and a batch must not "
        f"change what it knows; give {type(prepared).__name__} a method `batched()` that returns the same rule "
        "without memory",
    )
    body_of(fit)
    return fit


class _Batched(NamedTuple):
    inner: Any
    size: int

    def memory(self, arms: int) -> int:
        return 3 * arms + 2  # the tally when the batch began


@shared
def _freeze(tally: Tally) -> None:
    arms, memory = tally.pulls.size, tally.memory
    pulls = memory[:arms].view(np.int64)
    for arm in range(arms):
        pulls[arm] = tally.pulls[arm]
        memory[arms + arm] = tally.totals[arm]
        memory[2 * arms + arm] = tally.means[arm]
    memory[3 * arms] = tally.last
    memory[3 * arms + 1] = tally.reward


@shared
def _frozen(tally: Tally) -> Tally:
    arms, memory = tally.pulls.size, tally.memory
    return Tally(
        memory[:arms].view(np.int64),
        memory[arms : 2 * arms],
        memory[2 * arms : 3 * arms],
        memory[3 * arms + 2 :],
        np.int64(memory[3 * arms]),  # type: ignore[arg-type]
        memory[3 * arms + 1],
    )


@selects(_Batched)
def _by_the_last_batch(policy: _Batched, tally: Tally, period: int, luck: Any) -> int:
    if (period - 1) % policy.size == 0:
        _freeze(tally)
    return select(policy.inner, _frozen(tally), period, luck)


@chances(_Batched)
def _chances_by_the_last_batch(
    policy: _Batched, tally: Tally, period: int, chances: Floats
) -> None:
    if (period - 1) % policy.size == 0:
        _freeze(tally)
    fill_chances(policy.inner, _frozen(tally), period, chances)


POLICIES[grammar.name_of(Batched)] = Batched
