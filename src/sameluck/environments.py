"""Where rewards come from: one NamedTuple for each law, and how 64 random bits become a reward of an arm.

An environment has `means`, `best_arm`, `gaps`, `arms` (None where any number fits), `binary` (rewards are 0 or 1),
`check(arms)` and `laws(seed, replications, arms)`: the parameters of the instance of each replication, as the
compiled loop takes them. A prior draws one instance a replication, the same for all policies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck import grammar
from sameluck.compiled import compiled, dispatched
from sameluck.errors import Invalid, did_you_mean, require, require_number
from sameluck.samplers import beta, normal, uniform
from sameluck.streams import EVERYBODY, INSTANCE, Bits, stream, word

Environment: TypeAlias = tuple[Any, ...]
Floats: TypeAlias = NDArray[np.float64]

LARGEST = 1e50  # a reward; sums of fourth powers of larger ones would overflow

_11 = np.uint64(11)

_DRAWS: dict[type, Callable[..., float]] = {}


def _draw(law: Any, row: int, arm: int, bits: Bits) -> float:
    """The reward of an arm that the given bits stand for, in the instance of the given row."""
    raise NotImplementedError


draw = dispatched(_draw, _DRAWS)


class _Coins(NamedTuple):
    chance: Floats  # (replication, arm)
    edge: NDArray[np.uint64]  # how many of the 2^53 values of `uniform` lie below the chance


class _Bells(NamedTuple):
    mean: Floats  # (replication, arm)
    sd: Floats  # (arm,)


class _Urns(NamedTuple):
    values: Floats  # all arms' samples one after another
    start: NDArray[np.int64]  # (arm + 1,): where each arm's begin


def _coins(chance: Floats) -> _Coins:
    return _Coins(chance, np.ceil(chance * 2.0**53).astype(np.uint64))


def _flip(law: _Coins, row: int, arm: int, bits: Bits) -> float:
    # The same as uniform(bits) < chance, without the way through a float.
    return 1.0 if (bits >> _11) < law.edge[row, arm] else 0.0


def _ring(law: _Bells, row: int, arm: int, bits: Bits) -> float:
    return law.mean[row, arm] + law.sd[arm] * normal(bits)


def _pick(law: _Urns, row: int, arm: int, bits: Bits) -> float:  # noqa: ARG001
    first = law.start[arm]
    return law.values[first + np.int64(uniform(bits) * (law.start[arm + 1] - first))]


_DRAWS[_Coins] = _flip
_DRAWS[_Bells] = _ring
_DRAWS[_Urns] = _pick


def instance_means(environment: Any, seed: int, replications: range, arms: int) -> Floats:
    """The true mean of each arm in each replication (replication, arm): a prior's instances, or always the same."""
    if not hasattr(environment, "instance"):
        return np.tile(np.asarray(environment.means, float), (len(replications), 1))
    law = environment.laws(seed, replications, arms)
    means: Floats = law.chance if isinstance(law, _Coins) else law.mean
    return means


def _gaps(means: Sequence[float]) -> tuple[float, ...]:
    best = max(means)
    return tuple(best - mean for mean in means)


class Bernoulli(NamedTuple):
    """Rewards 0 and 1 with the given success chances."""

    means: Sequence[float]

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "bernoulli(0.7, 0.3)"

    @property
    def binary(self) -> bool:
        """Whether rewards are 0 and 1 only."""
        return True

    @property
    def arms(self) -> int | None:
        """How many arms it has."""
        return len(self.means)

    @property
    def best_arm(self) -> int:
        """The arm with the highest mean; the lowest index if several."""
        return int(np.argmax(self.means))

    @property
    def gaps(self) -> tuple[float, ...]:
        """What each arm's mean lacks to the best one's."""
        return _gaps(self.means)

    def check(self, arms: int) -> None:
        """Refuse chances outside [0, 1]."""
        _check_length("Bernoulli.means", self.means, arms)
        for arm, mean in enumerate(self.means):
            require_number(f"Bernoulli.means[{arm}]", mean, at_least=0, at_most=1)

    def laws(self, seed: int, replications: range, arms: int) -> _Coins:  # noqa: ARG002
        """The same instance in all replications."""
        return _coins(np.tile(np.array(self.means, dtype=float), (len(replications), 1)))


class Gaussian(NamedTuple):
    """Normal rewards with the given means; `sd` is one number, or one for each arm."""

    means: Sequence[float]
    sd: float | Sequence[float] = 1.0

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "gaussian(1.0, 0.8, sd=1.0)"

    @property
    def binary(self) -> bool:
        """Whether rewards are 0 and 1 only."""
        return False

    @property
    def arms(self) -> int | None:
        """How many arms it has."""
        return len(self.means)

    @property
    def best_arm(self) -> int:
        """The arm with the highest mean; the lowest index if several."""
        return int(np.argmax(self.means))

    @property
    def gaps(self) -> tuple[float, ...]:
        """What each arm's mean lacks to the best one's."""
        return _gaps(self.means)

    def check(self, arms: int) -> None:
        """Refuse means that are not finite and standard deviations below 0."""
        _check_length("Gaussian.means", self.means, arms)
        for arm, mean in enumerate(self.means):
            require_number(f"Gaussian.means[{arm}]", mean, at_least=-LARGEST, at_most=LARGEST)
        _check_each("Gaussian.sd", self.sd, arms, at_least=0, at_most=LARGEST)

    def laws(self, seed: int, replications: range, arms: int) -> _Bells:  # noqa: ARG002
        """The same instance in all replications."""
        means = np.tile(np.array(self.means, dtype=float), (len(replications), 1))
        return _Bells(means, _for_each(self.sd, arms))


class Empirical(NamedTuple):
    """Each arm's rewards are drawn with replacement from values observed for it."""

    samples: Sequence[Sequence[float]]

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "empirical([0, 1, 1], [2.5, 0])"

    @property
    def arms(self) -> int | None:
        """How many arms it has."""
        return len(self.samples)

    @property
    def binary(self) -> bool:
        """Whether every observed value is 0 or 1."""
        return all(value in (0, 1) for values in self.samples for value in values)

    @property
    def means(self) -> tuple[float, ...]:
        """The average of each arm's values."""
        return tuple(float(np.mean(values)) for values in self.samples)

    @property
    def best_arm(self) -> int:
        """The arm with the highest mean; the lowest index if several."""
        return int(np.argmax(self.means))

    @property
    def gaps(self) -> tuple[float, ...]:
        """What each arm's mean lacks to the best one's."""
        return _gaps(self.means)

    def check(self, arms: int) -> None:
        """Refuse an arm without values and values that are not finite."""
        _check_length("Empirical.samples", self.samples, arms)
        for arm, values in enumerate(self.samples):
            some = isinstance(values, Sequence) and not isinstance(values, str) and len(values) > 0
            require(some, f"Empirical.samples[{arm}] must be a list of rewards, got {values!r}")
            for row, value in enumerate(values):
                require_number(
                    f"Empirical.samples[{arm}][{row}]", value, at_least=-LARGEST, at_most=LARGEST
                )

    def laws(self, seed: int, replications: range, arms: int) -> _Urns:  # noqa: ARG002
        """The same instance in all replications."""
        sizes = [len(values) for values in self.samples]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return _Urns(np.concatenate([np.asarray(v, float) for v in self.samples]), start)


class BernoulliPrior(NamedTuple):
    """A Bernoulli bandit whose chances are drawn from Beta(a, b), anew in each replication.

    `a` and `b` are one number, or one for each arm. `means` are the prior's; `instance` gives a replication's own.
    """

    a: float | Sequence[float] = 1.0
    b: float | Sequence[float] = 1.0

    @property
    def binary(self) -> bool:
        """Whether rewards are 0 and 1 only."""
        return True

    @property
    def arms(self) -> int | None:
        """How many arms it has; None if any number fits."""
        return _common_length(self.a, self.b)

    @property
    def means(self) -> tuple[float, ...]:
        """The prior mean of each arm (of one arm, if all are alike)."""
        a, b = np.asarray(self.a), np.asarray(self.b)
        return tuple(np.atleast_1d(a / (a + b)).tolist())

    @property
    def best_arm(self) -> int:
        """The arm with the highest mean; the lowest index if several."""
        return int(np.argmax(self.means))

    @property
    def gaps(self) -> tuple[float, ...]:
        """What each arm's mean lacks to the best one's."""
        return _gaps(self.means)

    def check(self, arms: int) -> None:
        """Refuse shapes that are not positive."""
        _check_each("BernoulliPrior.a", self.a, arms, above=0)
        _check_each("BernoulliPrior.b", self.b, arms, above=0)

    def laws(self, seed: int, replications: range, arms: int) -> _Coins:
        """One instance for each replication."""
        a, b = _for_each(self.a, arms), _for_each(self.b, arms)
        chances = np.empty((len(replications), arms))
        _draw_chances(np.uint64(seed), replications.start, a, b, chances)
        return _coins(chances)

    def instance(self, seed: int, replication: int, arms: int) -> Bernoulli:
        """The bandit of one replication."""
        chance = self.laws(seed, range(replication, replication + 1), arms).chance
        return Bernoulli(tuple(chance[0].tolist()))


class GaussianPrior(NamedTuple):
    """A Gaussian bandit whose means are drawn from a normal law, anew in each replication.

    Each parameter is one number, or one for each arm. `means` are the prior's; `instance` gives a replication's own.
    """

    mean: float | Sequence[float] = 0.0
    sd: float | Sequence[float] = 1.0
    noise_sd: float | Sequence[float] = 1.0

    @property
    def binary(self) -> bool:
        """Whether rewards are 0 and 1 only."""
        return False

    @property
    def arms(self) -> int | None:
        """How many arms it has; None if any number fits."""
        return _common_length(self.mean, self.sd, self.noise_sd)

    @property
    def means(self) -> tuple[float, ...]:
        """The prior mean of each arm (of one arm, if all are alike)."""
        return tuple(np.atleast_1d(np.asarray(self.mean, float)).tolist())

    @property
    def best_arm(self) -> int:
        """The arm with the highest mean; the lowest index if several."""
        return int(np.argmax(self.means))

    @property
    def gaps(self) -> tuple[float, ...]:
        """What each arm's mean lacks to the best one's."""
        return _gaps(self.means)

    def check(self, arms: int) -> None:
        """Refuse numbers that are not finite and standard deviations below 0."""
        _check_each("GaussianPrior.mean", self.mean, arms, at_least=-LARGEST, at_most=LARGEST)
        _check_each("GaussianPrior.sd", self.sd, arms, at_least=0, at_most=LARGEST)
        _check_each("GaussianPrior.noise_sd", self.noise_sd, arms, at_least=0, at_most=LARGEST)

    def laws(self, seed: int, replications: range, arms: int) -> _Bells:
        """One instance for each replication."""
        means = np.empty((len(replications), arms))
        prior = _for_each(self.mean, arms), _for_each(self.sd, arms)
        _draw_means(np.uint64(seed), replications.start, *prior, means)
        return _Bells(means, _for_each(self.noise_sd, arms))

    def instance(self, seed: int, replication: int, arms: int) -> Gaussian:
        """The bandit of one replication."""
        law = self.laws(seed, range(replication, replication + 1), arms)
        return Gaussian(tuple(law.mean[0].tolist()), tuple(law.sd.tolist()))


@compiled
def _draw_chances(seed: Bits, first: int, a: Floats, b: Floats, chances: Floats) -> None:
    for row in range(chances.shape[0]):
        key = stream(seed, INSTANCE, first + row, EVERYBODY)
        for arm in range(chances.shape[1]):
            chances[row, arm] = beta(word(key, arm), a[arm], b[arm])


@compiled
def _draw_means(seed: Bits, first: int, mean: Floats, sd: Floats, means: Floats) -> None:
    for row in range(means.shape[0]):
        key = stream(seed, INSTANCE, first + row, EVERYBODY)
        for arm in range(means.shape[1]):
            means[row, arm] = mean[arm] + sd[arm] * normal(word(key, arm))


ENVIRONMENTS: dict[str, type] = {
    grammar.name_of(kind): kind
    for kind in (Bernoulli, Gaussian, Empirical, BernoulliPrior, GaussianPrior)
}


def as_environment(value: Any) -> Any:
    """An environment from itself or from its text form; `check` it against a number of arms next."""
    if isinstance(value, str):
        value = grammar.parse(value, ENVIRONMENTS, "environment")
    if type(value) not in ENVIRONMENTS.values():
        hint = did_you_mean(type(value).__name__.lower(), ENVIRONMENTS)
        raise Invalid(f"{value!r} is not an environment; {hint}")
    return grammar.normal_form(value)


def _for_each(value: float | Sequence[float], arms: int) -> Floats:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(value, float), (arms,)))


def _common_length(*values: float | Sequence[float]) -> int | None:
    lengths = [len(value) for value in values if isinstance(value, Sequence)]
    return lengths[0] if lengths else None


def _check_length(name: str, values: Any, arms: int) -> None:
    listed = isinstance(values, Sequence) and not isinstance(values, str)
    require(listed, f"{name} must be a list with one entry for each arm, got {values!r}")
    require(
        len(values) == arms,
        f"{name} has {len(values)} entries, but the experiment has {arms} arms; make them equal",
    )


def _check_each(name: str, value: Any, arms: int, **bounds: float) -> None:
    if isinstance(value, Sequence) and not isinstance(value, str):
        _check_length(name, value, arms)
        for arm, entry in enumerate(value):
            require_number(f"{name}[{arm}]", entry, **bounds)
    else:
        require_number(name, value, **bounds)
