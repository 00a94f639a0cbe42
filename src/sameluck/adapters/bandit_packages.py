"""Makers of other packages' bandits for `External` policies: `river`, `mabwiser`, `smpybandits`, `bayesianbandits`.

An adapter gives a package's bandit the methods `pull(arms)` and `update(arm, reward)`. It needs no import of the
package: the application's function makes the bandit.
"""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.random.mtrand import get_bit_generator, set_bit_generator

from sameluck.errors import Invalid, Missing, shown

Make: TypeAlias = Callable[[int], object]  # makes a bandit from a seed
_MABWISER_DEFAULT_SEED = 123456
_global_randomness = threading.RLock()  # all threads share the global generators


class AdaptedBandit:
    """A package's bandit with the methods that sameluck calls.

    Subclasses name the package, the class that `make(seed)` must return and its methods. They may override how the
    bandit is made and checked.
    """

    package: ClassVar[str]
    expected: ClassVar[str]
    methods: ClassVar[tuple[str, ...]]

    def __init__(self, make: Make, seed: int) -> None:
        self.bandit: Any = make(seed)
        for name in self.methods:
            if not callable(getattr(self.bandit, name, None)):
                raise Invalid(
                    f"make(seed) must return {self.expected}, got {type(self.bandit).__name__}, which has no {name}"
                )

    def pull(self, arms: Sequence[int]) -> int:
        """Return the index of the arm to play."""
        raise NotImplementedError

    def update(self, arm: int, reward: float) -> None:
        """Observe a reward."""
        raise NotImplementedError

    def _refuse_context(self, remedy: str = "") -> None:
        name = type(self.bandit).__name__
        raise Invalid(
            f"{name} of {self.package} needs a context, which experiments do not have{remedy}"
        )


def _require_arms(arms: Sequence[int], count: int) -> None:
    if len(arms) != count:
        raise Invalid(f"the bandit was made with {count} arms, but the experiment has {len(arms)}")


class RiverPolicy(AdaptedBandit):
    """A policy of `river.bandit`."""

    package, expected, methods = "river", "a policy of river.bandit", ("pull", "update")

    def __init__(self, make: Make, seed: int) -> None:
        super().__init__(make, seed)
        if "context" in inspect.signature(self.bandit.update).parameters:
            self._refuse_context()

    def pull(self, arms: Sequence[int]) -> int:
        return self.bandit.pull(arms)

    def update(self, arm: int, reward: float) -> None:
        self.bandit.update(arm, reward)


class MabwiserBandit(AdaptedBandit):
    """A `MAB` that plays the arms in turn until each has a reward, then what `predict` returns.

    MABWiser leaves the first plays to its caller: `predict` needs a fitted bandit, and an arm without a reward has
    the expectation 0. Arms are numbered in the order of `mab.arms`, whatever their names.
    """

    package, expected = "mabwiser", "a mabwiser.mab.MAB"
    methods = ("fit", "partial_fit", "predict")

    def __init__(self, make: Make, seed: int) -> None:
        super().__init__(make, seed)
        if self.bandit.is_contextual:
            self._refuse_context()
        if self.bandit.seed == _MABWISER_DEFAULT_SEED != seed:
            raise Invalid(
                "the MAB was made without a seed, so that its random choices would be the same in every replication; "
                "write MAB(..., seed=seed)"
            )
        self._indices = {arm: index for index, arm in enumerate(self.bandit.arms)}
        self._unobserved = set(self._indices.values())
        self._turns = 0

    def pull(self, arms: Sequence[int]) -> int:
        if not self._unobserved:
            return self._indices[self.bandit.predict()]
        _require_arms(arms, len(self._indices))
        self._turns += 1
        return (self._turns - 1) % len(arms)

    def update(self, arm: int, reward: float) -> None:
        is_first = len(self._unobserved) == len(self._indices)
        observe = self.bandit.fit if is_first else self.bandit.partial_fit
        observe([self.bandit.arms[arm]], [reward])
        self._unobserved.discard(arm)


class SMPyBanditsPolicy(AdaptedBandit):
    """A policy of SMPyBandits whose random numbers, also for breaking ties, come from its seed.

    SMPyBandits draws from the global generators of NumPy and Python. During each call they are replaced by generators
    made from the policy's seed. After the call the global generators continue where they were, except for a normal
    number that NumPy's generator keeps in reserve. Another thread that draws from them during a call draws from the
    policy's generators.
    """

    package, expected = "SMPyBandits", "a policy of SMPyBandits"
    methods = ("startGame", "choice", "getReward")

    def __init__(self, make: Make, seed: int) -> None:
        self._bits = np.random.MT19937(seed)
        with self._seeded_randomness():
            super().__init__(make, seed)
            self.bandit.startGame()

    def pull(self, arms: Sequence[int]) -> int:
        _require_arms(arms, self.bandit.nbArms)
        with self._seeded_randomness():
            return self.bandit.choice()

    def update(self, arm: int, reward: float) -> None:
        with self._seeded_randomness():
            self.bandit.getReward(arm, reward)

    @contextmanager
    def _seeded_randomness(self) -> Iterator[None]:
        with _global_randomness:
            numpy_before, python_before = get_bit_generator(), random.getstate()
            set_bit_generator(self._bits)
            random.seed(int(self._bits.random_raw()))
            try:
                yield
            finally:
                set_bit_generator(numpy_before)
                random.setstate(python_before)


class BayesianBanditsAgent(AdaptedBandit):
    """An `Agent` whose arms are numbered in the order of `agent.arms`, whatever their tokens."""

    package, expected = "bayesianbandits", "a bayesianbandits.Agent"
    methods = ("pull", "select_for_update", "update")

    def __init__(self, make: Make, seed: int) -> None:
        super().__init__(make, seed)
        arguments = inspect.signature(self.bandit.pull).parameters.values()
        if any(argument.default is argument.empty for argument in arguments):
            self._refuse_context("; use Agent")
        self._tokens = [arm.action_token for arm in self.bandit.arms]
        self._indices = {token: index for index, token in enumerate(self._tokens)}

    def pull(self, arms: Sequence[int]) -> int:
        _require_arms(arms, len(self._tokens))
        return self._indices[self.bandit.pull()[0]]

    def update(self, arm: int, reward: float) -> None:
        self.bandit.select_for_update(self._tokens[arm]).update(np.array([reward]))


@dataclass(frozen=True)
class AdaptedMaker:
    """Maker of adapted bandits; it can be pickled if `make` can."""

    make: Make
    adapter: type[AdaptedBandit]

    def __post_init__(self) -> None:
        if not callable(self.make):
            name = self.adapter.package.lower()
            raise Invalid(
                f"sl.adapters.{name} takes a function of a seed that returns a new bandit, got {shown(self.make)}; "
                f"write sl.adapters.{name}(lambda seed: ...)"
            )

    def __call__(self, seed: int) -> AdaptedBandit:
        package = self.adapter.package
        try:
            return self.adapter(self.make, seed)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == package:
                raise Missing(f"{package} is not installed; run: pip install {package}") from error
            raise

    @property
    def version(self) -> object:
        """Version of the policy's code that the application declares as `make.version`, if any."""
        return getattr(self.make, "version", None)


def river(make: Make) -> AdaptedMaker:
    """Return a maker for `External` policies from `river.bandit` policies that take no context.

    Args:
        make: Returns a new policy that has all its randomness from the seed, such as
            `lambda seed: bandit.UCB(delta=1, seed=seed)`.
    """
    return AdaptedMaker(make, RiverPolicy)


def mabwiser(make: Make) -> AdaptedMaker:
    """Return a maker for `External` policies from MABWiser's bandits without contexts.

    The arms are played in turn until each has a reward; from then on MABWiser chooses.

    Args:
        make: Returns a new bandit with as many arms as the experiment, such as
            `lambda seed: MAB([0, 1, 2], LearningPolicy.UCB1(alpha=1), seed=seed)`.
    """
    return AdaptedMaker(make, MabwiserBandit)


def smpybandits(make: Make) -> AdaptedMaker:
    """Return a maker for `External` policies from policies of SMPyBandits.

    Args:
        make: Returns a new policy with as many arms as the experiment, such as
            `lambda seed: SMPyBandits.Policies.klUCB(3)`. The seed is for the random numbers that it draws.
    """
    return AdaptedMaker(make, SMPyBanditsPolicy)


def bayesianbandits(make: Make) -> AdaptedMaker:
    """Return a maker for `External` policies from agents of bayesianbandits that take no context.

    Args:
        make: Returns a new agent with as many arms as the experiment, such as
            `lambda seed: Agent([Arm(i, learner=GammaRegressor(1, 1)) for i in range(3)], ThompsonSampling(), seed)`.
    """
    return AdaptedMaker(make, BayesianBanditsAgent)
