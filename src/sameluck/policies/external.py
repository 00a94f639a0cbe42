"""`External`: a policy that is an ordinary Python object, made from a seed.

`make(seed)` returns a new object with `select(period) -> arm index` and `update(arm, reward)`, or with river's
`pull(arms)` and `update(arm, reward)`, or a function `choose(arms, rewards) -> arm index` of its past. Simulations
and live experiments make and call it in the same way. Its arms must be a function of its seed and of the rewards it
has observed.
"""

from __future__ import annotations

import inspect
import operator
import reprlib
import traceback
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from sameluck import text_forms
from sameluck.compilation.decorators import compiled
from sameluck.errors import (
    Diverged,
    Invalid,
    Missing,
    SameluckError,
    Unplayable,
    did_you_mean,
    shown,
)
from sameluck.policies.base import Policy
from sameluck.randomness.streams import DECISION, Bits, stream, word
from sameluck.validation import require_name, require_whole

Maker: TypeAlias = Callable[[int], object]  # makes the object from a seed
Makers: TypeAlias = Mapping[str, Maker]  # by the names of external policies

_MAX_BATCH = 1 << 40  # periods


@text_forms.with_sample("external(mine)")
class External(NamedTuple):
    """A policy written as an ordinary Python object, made by the application under this name.

    Pass its maker to `simulate(..., makers={name: make})` or `store.start(..., makers={name: make})`. `make(seed)`
    returns a new object with `select(period) -> arm index` and `update(arm, reward)`, or with river's `pull(arms)`
    and `update(arm, reward)`. It may also return a function `choose(arms, rewards) -> arm index` of the arms played
    so far and their rewards. Choices must depend only on the seed and on the observed rewards. Where users have
    contexts, an object with `select(context)` and `update(context, arm, reward)` gets an array of features, or the
    index of a level.

    Args:
        name: The name of its maker.
        batch: Periods that it acts before it observes their rewards.
    """

    name: str
    batch: int = 1

    def check(self, arms: int) -> None:
        require_name("External.name", self.name)
        require_whole("External.batch", self.batch, 1, _MAX_BATCH)


def checked_makers(makers: object) -> dict[str, Maker]:
    """Return the makers by name, or raise `Invalid` unless they map names to functions."""
    if not isinstance(makers, Mapping | None):
        raise Invalid(f"makers must map names to functions of a seed, got {shown(makers)}")
    for name, make in (makers or {}).items():
        if make is not None and not callable(make):
            raise Invalid(
                f"the maker {shown(name)} must be a function of a seed, got {shown(make)}"
            )
    return dict(makers or {})


def maker_of(name: str, policy: External, makers: Makers) -> Maker:
    make = makers.get(policy.name)
    if make is None:
        hint = did_you_mean(policy.name, makers) if makers else "no makers were passed"
        raise Invalid(
            f"policy {name!r} is external({policy.name!r}); pass makers={{{policy.name!r}: make}} (sameluck live: "
            f"--maker), where make(seed) returns the policy; {hint}"
        )
    return make


def makers_of(policies: Mapping[str, Policy], makers: object) -> dict[str, Maker]:
    """Return the makers by policy name, or raise `Invalid` for a missing or superfluous maker."""
    checked = checked_makers(makers)
    external = {n: policy for n, policy in policies.items() if isinstance(policy, External)}
    used = {policy.name for policy in external.values()}
    for name in checked:
        if name not in used:
            hint = did_you_mean(str(name), sorted(used)) if used else "no policy is external"
            raise Invalid(
                f"makers has {name!r}, but no policy is external({name!r}); leave it out or add the policy; {hint}"
            )
    return {name: maker_of(name, policy, checked) for name, policy in external.items()}


def makers_for(policies: Mapping[str, Policy], makers: Makers | None) -> dict[str, Maker]:
    used = {policy.name for policy in policies.values() if isinstance(policy, External)}
    return {name: make for name, make in (makers or {}).items() if name in used}


def object_seed(seed: int, replication: int, owner: int) -> int:
    """Return the seed of an object in a replication: the first number of its decision noise."""
    return int(_first_word(np.uint64(seed), replication, np.uint64(owner)))


@compiled
def _first_word(seed: Bits, replication: int, owner: Bits) -> Bits:
    return word(stream(seed, DECISION, replication, owner), 0)


class FunctionOfPast:
    """A function `choose(arms, rewards)` as an object that records the arms it has played and their rewards."""

    def __init__(self, choose: Callable[[list[int], list[float]], object]) -> None:
        self.choose = choose
        self.arms: list[int] = []
        self.rewards: list[float] = []

    def select(self) -> object:
        return self.choose(self.arms, self.rewards)

    def update(self, arm: int, reward: float) -> None:
        self.arms.append(arm)
        self.rewards.append(reward)


class ObjectPolicy:
    """An external policy's object in one replication.

    `select` and `update` are the object's methods; `choose` and `observe` call them and explain errors. Where users
    have contexts, an object whose `update` takes three arguments gets the context in both.
    """

    def __init__(
        self,
        name: str,
        make: Maker,
        arms: int,
        seed: int,
        has_contexts: bool = False,  # noqa: FBT001, FBT002
        where: str = "",
    ) -> None:
        self.name = name
        self.arms = arms
        self._where, self._period = where, 0  # named in errors
        try:
            self.made = make(seed)
        except Missing:
            raise
        except Exception as error:
            raise self.failure(": its maker failed", error) from error
        if inspect.isroutine(self.made):
            self.made = FunctionOfPast(self.made)
        self.select = self._select_method()
        update = getattr(self.made, "update", None)
        if not callable(update):
            raise Invalid(f"policy {name!r}: {type(self.made).__name__} has no update(arm, reward)")
        self.update: Callable[..., object] = update
        self._sees_contexts = has_contexts and _count_arguments(update, 2) > 2

    def _select_method(self) -> Callable[[object], object]:
        if callable(select := getattr(self.made, "select", None)):
            return select if _count_arguments(select, 1) > 0 else lambda _: select()
        if callable(pull := getattr(self.made, "pull", None)):
            arms = list(range(self.arms))
            return lambda _: pull(arms.copy())  # pull may change the list
        raise Invalid(
            f"policy {self.name!r}: {type(self.made).__name__} has neither select(period) nor pull(arms); "
            "add one of them"
        )

    def choose(self, period: int, context: object = None) -> int:
        self._period = period
        try:
            answer = self.select(context if self._sees_contexts else period)
        except Exception as error:
            raise self.failure(f" failed in period {period}{self._where}", error) from error
        if type(answer) is int and 0 <= answer < self.arms:
            return answer
        return self.arm_of(answer, period)

    def observe(self, arm: int, reward: float, context: object = None) -> None:
        try:
            if self._sees_contexts:
                self.update(context, arm, reward)
            else:
                self.update(arm, reward)
        except Exception as error:
            period = f", period {self._period}{self._where}" if self._where else ""
            raise self.failure(f" failed in update({arm}, {reward}){period}", error) from error

    def arm_of(self, answer: object, period: int) -> int:
        """Return the arm's index that it returned as an int, or raise `Unplayable`."""
        try:
            arm = operator.index(answer)  # type: ignore[arg-type]  # anything else raises
        except Exception:
            arm = -1
        if not 0 <= arm < self.arms:
            raise Unplayable(
                f"policy {self.name!r} chose {reprlib.repr(answer)} in period {period}{self._where}; it must return "
                f"an arm's index, 0 to {self.arms - 1}"
            )
        return int(arm)

    def failure(self, where: str, error: Exception) -> Unplayable:
        # str(error) may fail for an exception of the application.
        reason = " ".join(traceback.format_exception_only(error)).strip()
        if isinstance(error, SameluckError):
            reason = str(error)
        if "2**32" in reason:
            reason += (
                "; the seed is below 2**64: use numpy.random.default_rng(seed), or seed % 2**32"
            )
        return Unplayable(f"policy {self.name!r}{where}: {reason}")


def _count_arguments(method: Callable[..., object], unknown: int) -> int:
    try:
        return len(inspect.signature(method).parameters)
    except (TypeError, ValueError):  # a function of an extension module
        return unknown


class ObjectPair:
    """Two objects made with the same seed and given the same rewards, which must choose the same arms.

    This detects a policy that uses randomness other than its seed.
    """

    def __init__(
        self,
        name: str,
        make: Maker,
        arms: int,
        seed: int,
        has_contexts: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        self.name = name
        self._first = ObjectPolicy(name, make, arms, seed, has_contexts)
        self._second = ObjectPolicy(name, make, arms, seed, has_contexts)
        if self._first.made is self._second.made:
            raise Invalid(
                f"policy {name!r}: its maker returned the same object twice; make(seed) must return a new object, "
                "because each replication starts without a past"
            )

    def choose(self, period: int, context: object = None) -> int:
        """Return the arm that both choose, or raise `Diverged` if they differ."""
        first = self._first.choose(period, context)
        second = self._second.choose(period, context)
        if first != second:
            raise Diverged(
                f"policy {self.name!r} is not deterministic: made twice with the same seed and given the same "
                f"rewards, it chose arm {first} and arm {second} in period {period}. Derive all randomness from the "
                "seed, and do not read the clock"
            )
        return first

    def observe(self, arm: int, reward: float, context: object = None) -> None:
        self._first.observe(arm, reward, context)
        self._second.observe(arm, reward, context)
