"""The policies of the paper, and two to compare them with: for each its parameters, its rule, its `select` body.

How a policy is written, and how to write one's own: `sameluck.selection`. Ties go to the lowest arm everywhere.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck import grammar
from sameluck.compiled import compiled, guessed, shared
from sameluck.errors import Invalid, did_you_mean, require, require_number
from sameluck.external import External
from sameluck.samplers import beta_log_odds, beta_odds, normal, uniform
from sameluck.selection import POLICIES, Tally, chances, register_tables, selects
from sameluck.streams import at

Policy: TypeAlias = tuple[Any, ...]
Floats: TypeAlias = NDArray[np.float64]


class UCB1(NamedTuple):
    """Play the arm with the highest upper confidence bound (Auer, Cesa-Bianchi and Fischer, 2002).

    Each arm once in index order; then, in period t, the arm with the largest
    `mean + sqrt(alpha * log(t - 1) / pulls)`: the logarithm's argument is the number of plays made so far, as in
    the 2002 paper. `alpha` = 2 is the textbook rule; for alpha >= 2 and rewards in [0, 1] the variance of a
    suboptimal arm's pull count is O(log(T)^2) (Proposition on UCB1 and UCB-delta), so replay applies at its best.
    """

    alpha: float = 2.0

    def check(self, arms: int) -> None:  # noqa: ARG002, D102
        require_number("UCB1.alpha", self.alpha, at_least=0)

    def prepare(self, arms: int, horizon: int) -> _Bounds:  # noqa: ARG002, D102
        growth = np.zeros(horizon + 1)
        _fill_growth(growth)
        return _Bounds(growth, _widths(self.alpha, horizon))


class UCBDelta(NamedTuple):
    """Upper confidence bounds at a fixed confidence (Lattimore and Szepesvari, 2020, Algorithm 3).

    Each arm once in index order, then the arm with the largest `mean + sqrt(2 log(1 / delta) / pulls)`.

    Args:
        d: delta = T^-d with T the experiment's horizon; d >= 2 for the Proposition's variance bound.
        delta: An explicit delta in (0, 1) instead; then the rule does not depend on the horizon.
    """

    d: float = 2.0
    delta: float | None = None

    def check(self, arms: int) -> None:  # noqa: ARG002, D102
        require_number("UCBDelta.d", self.d, at_least=0)
        if self.delta is not None:
            require_number("UCBDelta.delta", self.delta, above=0, at_most=1)

    def prepare(self, arms: int, horizon: int) -> _Bounds:  # noqa: ARG002, D102
        evidence = self.d * math.log(horizon) if self.delta is None else -math.log(self.delta)
        return _Bounds(np.ones(horizon + 1), _widths(2.0 * evidence, horizon))


class _Bounds(NamedTuple):
    growth: Floats  # by period, never falling
    width: Floats  # by number of pulls

    def memory(self, arms: int) -> int:  # noqa: ARG002
        return 1  # the ceiling

    def batched(self) -> _BoundsAnew:
        return _BoundsAnew(*self)


class _BoundsAnew(_Bounds):  # where more than one arm may have changed
    def memory(self, arms: int) -> int:  # noqa: ARG002
        return 0


@compiled
def _fill_growth(growth: Floats) -> None:
    # One scalar logarithm at a time: a vector library's last bit may depend on the processor.
    for period in range(2, growth.size):
        growth[period] = math.sqrt(math.log(period - 1))


def _widths(scale: float, horizon: int) -> Floats:
    widths: Floats = np.sqrt(scale / np.maximum(np.arange(horizon + 1), 1))
    widths[0] = np.inf  # met in batches only: otherwise each arm has been seen once
    return widths


_BLOCK = 15  # periods are looked at in blocks of 16


@selects(_Bounds)
def _highest_bound(policy: _Bounds, tally: Tally, period: int, luck: Any) -> int:  # noqa: ARG001
    # Only the arm just played has changed. While its bound exceeds a ceiling on all others' (what their bounds will
    # have grown to at the end of the block) it is the argmax, and nobody else need be looked at.
    arms = tally.pulls.size
    if period <= arms:
        tally.memory[0] = np.inf
        return period - 1
    now = policy.growth[np.uint64(period)]
    last = np.uint64(tally.last)
    bound = tally.means[last] + now * policy.width[np.uint64(tally.pulls[last])]
    if bound > tally.memory[0] and (period & _BLOCK) != 0:
        return tally.last
    later = policy.growth[min(period | _BLOCK, policy.growth.size - 1)]
    best, ceiling = 0, -np.inf
    width = policy.width[np.uint64(tally.pulls[0])]
    highest, highest_later = tally.means[0] + now * width, tally.means[0] + later * width
    for arm in range(1, arms):
        width = policy.width[np.uint64(tally.pulls[arm])]
        bound, bound_later = tally.means[arm] + now * width, tally.means[arm] + later * width
        if bound > highest:
            guessed()
            ceiling = max(ceiling, highest_later)
            best, highest, highest_later = arm, bound, bound_later
        else:
            ceiling = max(ceiling, bound_later)
    tally.memory[0] = ceiling
    return best


@selects(_BoundsAnew)
def _highest_bound_of_all(policy: _BoundsAnew, tally: Tally, period: int, luck: Any) -> int:  # noqa: ARG001
    if period <= tally.pulls.size:
        return period - 1
    best, highest = 0, -np.inf
    for arm in range(tally.pulls.size):
        width = policy.width[np.uint64(tally.pulls[arm])]
        bound = tally.means[arm] + policy.growth[np.uint64(period)] * width
        if bound > highest:
            guessed()
            best, highest = arm, bound
    return best


class ThompsonBernoulli(NamedTuple):
    """Thompson sampling with independent Beta(a, b) priors, for rewards 0 and 1 (Thompson, 1933).

    In each period draw a success chance for each arm from Beta(a + successes, b + failures) and play the arm
    with the largest. With `first_plays` = n each arm is first played n times, in index order, and those rewards
    enter the posterior (n = 0 is the textbook rule; the paper's tables need n = 1).
    """

    a: float = 1.0
    b: float = 1.0
    first_plays: int = 0

    @property
    def needs_binary(self) -> bool:
        """Its posterior counts successes: rewards must be 0 and 1."""
        return True

    def check(self, arms: int) -> None:  # noqa: ARG002, D102
        require_number("ThompsonBernoulli.a", self.a, above=0)
        require_number("ThompsonBernoulli.b", self.b, above=0)
        _check_first_plays("ThompsonBernoulli", self.first_plays)

    def prepare(self, arms: int, horizon: int) -> _BetaPosteriors:  # noqa: ARG002, D102
        smooth = self.a >= 1.0 and self.b >= 1.0
        gammas = (_gammas(self.a, horizon), _gammas(self.b, horizon))
        return _BetaPosteriors(self.a, self.b, self.first_plays, smooth, *gammas)


class _BetaPosteriors(NamedTuple):
    a: float
    b: float
    first_plays: int
    smooth: bool  # shapes >= 1: no logarithms needed
    wins: _Gammas  # by number of successes
    losses: _Gammas  # by number of failures

    def memory(self, arms: int) -> int:
        return 4 * arms  # depth and spread of each arm's two gammas

    def batched(self) -> _BetaPosteriorsAnew:
        return _BetaPosteriorsAnew(*self)


class _BetaPosteriorsAnew(_BetaPosteriors):
    def memory(self, arms: int) -> int:  # noqa: ARG002
        return 0


class _Gammas(NamedTuple):
    depth: Floats  # what the gamma sampler takes, by number of rewards added to the prior's shape
    spread: Floats


def _gammas(shape: float, horizon: int) -> _Gammas:
    depth: Floats = shape + np.arange(horizon + 1.0) - 1.0 / 3.0
    return _Gammas(depth, 1.0 / np.sqrt(9.0 * np.abs(depth)))


@shared
def _note_coin(policy: _BetaPosteriors, tally: Tally, arm: int) -> None:
    # Only the arm just played has changed, so only its numbers are looked up.
    # Unsigned numbers as indices spare the check for negative ones.
    wins = np.uint64(tally.totals[arm])
    losses = np.uint64(tally.pulls[arm]) - wins
    tally.memory[4 * arm] = policy.wins.depth[wins]
    tally.memory[4 * arm + 1] = policy.wins.spread[wins]
    tally.memory[4 * arm + 2] = policy.losses.depth[losses]
    tally.memory[4 * arm + 3] = policy.losses.spread[losses]


@selects(_BetaPosteriors)
def _likeliest_coin(policy: _BetaPosteriors, tally: Tally, period: int, luck: Any) -> int:
    arms, memory = tally.pulls.size, tally.memory
    if period == 1:
        for arm in range(arms):
            _note_coin(policy, tally, arm)
    else:
        _note_coin(policy, tally, tally.last)
    if period <= policy.first_plays * arms:
        return (period - 1) % arms
    best, highest = 0, -np.inf
    for arm in range(arms):
        bits, place = at(luck, period, arm), 4 * arm
        # The order of chances is the order of odds, which the gamma draws give without rounding to 0 or 1.
        if policy.smooth:
            odds = beta_odds(
                bits, memory[place], memory[place + 1], memory[place + 2], memory[place + 3]
            )
        else:
            wins = tally.totals[arm]
            odds = beta_log_odds(bits, policy.a + wins, policy.b + tally.pulls[arm] - wins)
        if odds > highest:
            guessed()
            best, highest = arm, odds
    return best


@selects(_BetaPosteriorsAnew)
def _likeliest_coin_of_all(
    policy: _BetaPosteriorsAnew, tally: Tally, period: int, luck: Any
) -> int:
    arms, wins, losses = tally.pulls.size, policy.wins, policy.losses
    if period <= policy.first_plays * arms:
        return (period - 1) % arms
    best, highest = 0, -np.inf
    for arm in range(arms):
        bits, total = at(luck, period, arm), tally.totals[arm]
        if policy.smooth:
            won = np.uint64(total)
            lost = np.uint64(tally.pulls[arm]) - won
            odds = beta_odds(
                bits, wins.depth[won], wins.spread[won], losses.depth[lost], losses.spread[lost]
            )
        else:
            odds = beta_log_odds(bits, policy.a + total, policy.b + tally.pulls[arm] - total)
        if odds > highest:
            guessed()
            best, highest = arm, odds
    return best


class ThompsonGaussian(NamedTuple):
    """Thompson sampling with independent normal priors on the means and normal rewards of known sd.

    In each period draw a mean for each arm from its normal posterior and play the arm with the largest.
    `first_plays` as in `ThompsonBernoulli`.
    """

    prior_mean: float = 0.0
    prior_sd: float = 1.0
    noise_sd: float = 1.0
    first_plays: int = 0

    def check(self, arms: int) -> None:  # noqa: ARG002, D102
        require_number("ThompsonGaussian.prior_mean", self.prior_mean)
        require_number("ThompsonGaussian.prior_sd", self.prior_sd, above=0, at_most=1e100)
        require_number("ThompsonGaussian.noise_sd", self.noise_sd, above=0, at_most=1e100)
        _check_first_plays("ThompsonGaussian", self.first_plays)

    def prepare(self, arms: int, horizon: int) -> _NormalPosteriors:  # noqa: ARG002, D102
        prior, noise = self.prior_sd**-2.0, self.noise_sd**-2.0
        precision = prior + noise * np.arange(horizon + 1)
        start, weight = prior * self.prior_mean / precision, noise / precision
        return _NormalPosteriors(self.first_plays, start, weight, 1 / np.sqrt(precision))


class _NormalPosteriors(NamedTuple):
    first_plays: int
    start: Floats  # by number of pulls: the posterior mean is start + weight * total
    weight: Floats
    sd: Floats

    def memory(self, arms: int) -> int:
        return 2 * arms  # mean and sd of each arm's posterior

    def batched(self) -> _NormalPosteriorsAnew:
        return _NormalPosteriorsAnew(*self)


class _NormalPosteriorsAnew(_NormalPosteriors):
    def memory(self, arms: int) -> int:  # noqa: ARG002
        return 0


@shared
def _note_mean(policy: _NormalPosteriors, tally: Tally, arm: int) -> None:
    pulls = np.uint64(tally.pulls[arm])
    tally.memory[2 * arm] = policy.start[pulls] + policy.weight[pulls] * tally.totals[arm]
    tally.memory[2 * arm + 1] = policy.sd[pulls]


@selects(_NormalPosteriors)
def _likeliest_mean(policy: _NormalPosteriors, tally: Tally, period: int, luck: Any) -> int:
    arms = tally.pulls.size
    if period == 1:
        for arm in range(arms):
            _note_mean(policy, tally, arm)
    else:
        _note_mean(policy, tally, tally.last)
    if period <= policy.first_plays * arms:
        return (period - 1) % arms
    best, highest = 0, -np.inf
    for arm in range(arms):
        mean, sd = tally.memory[2 * arm], tally.memory[2 * arm + 1]
        drawn = mean + sd * normal(at(luck, period, arm))
        if drawn > highest:
            guessed()
            best, highest = arm, drawn
    return best


@selects(_NormalPosteriorsAnew)
def _likeliest_mean_of_all(
    policy: _NormalPosteriorsAnew, tally: Tally, period: int, luck: Any
) -> int:
    arms = tally.pulls.size
    if period <= policy.first_plays * arms:
        return (period - 1) % arms
    best, highest = 0, -np.inf
    for arm in range(arms):
        pulls = np.uint64(tally.pulls[arm])
        mean = policy.start[pulls] + policy.weight[pulls] * tally.totals[arm]
        drawn = mean + policy.sd[pulls] * normal(at(luck, period, arm))
        if drawn > highest:
            guessed()
            best, highest = arm, drawn
    return best


class EpsilonGreedy(NamedTuple):
    """Explore with probability epsilon, else play the arm with the highest mean so far.

    Each arm once in index order first. Exploring picks uniformly among all arms (`explore="all"`) or among all
    but the greedy one (`explore="others"`).
    """

    epsilon: float = 0.1
    explore: str = "all"

    def check(self, arms: int) -> None:  # noqa: ARG002, D102
        require_number("EpsilonGreedy.epsilon", self.epsilon, at_least=0, at_most=1)
        choices = ("all", "others")
        message = f"EpsilonGreedy.explore must be 'all' or 'others', got {self.explore!r}"
        require(self.explore in choices, message)

    def prepare(self, arms: int, horizon: int) -> _Greedy:  # noqa: ARG002, D102
        return _Greedy(self.epsilon, self.explore == "others")


class _Greedy(NamedTuple):
    epsilon: float
    others: bool


_COIN, _CHOICE = 0, 1


@selects(_Greedy)
def _greedy_or_other(policy: _Greedy, tally: Tally, period: int, luck: Any) -> Any:
    arms = tally.pulls.size
    if period <= arms:
        return period - 1
    exploring = uniform(at(luck, period, _COIN)) < policy.epsilon
    if exploring and not policy.others:
        return np.int64(uniform(at(luck, period, _CHOICE)) * arms)
    best, highest = 0, tally.means[0]
    for arm in range(1, arms):
        if tally.means[arm] > highest:
            guessed()
            best, highest = arm, tally.means[arm]
    if exploring:
        other = np.int64(uniform(at(luck, period, _CHOICE)) * (arms - 1))
        return other + 1 if other >= best else other
    return best


@chances(_Greedy)
def _greedy_chances(policy: _Greedy, tally: Tally, period: int, chances: Floats) -> None:
    arms = chances.size
    sharing = arms - 1 if policy.others else arms
    best = 0
    for arm in range(1, arms):
        if tally.means[arm] > tally.means[best]:
            best = arm
    for arm in range(arms):
        if period <= arms:
            chances[arm] = 1.0 if arm == period - 1 else 0.0
        else:
            explored = 0.0 if policy.others and arm == best else policy.epsilon / sharing
            chances[arm] = explored + (1.0 - policy.epsilon if arm == best else 0.0)


class Uniform(NamedTuple):
    """Play an arm chosen uniformly at random in each period."""


@selects(Uniform)
def _any(policy: Uniform, tally: Tally, period: int, luck: Any) -> Any:  # noqa: ARG001
    return np.int64(uniform(at(luck, period, 0)) * tally.pulls.size)


@chances(Uniform)
def _even_chances(policy: Uniform, tally: Tally, period: int, chances: Floats) -> None:  # noqa: ARG001
    for arm in range(chances.size):
        chances[arm] = 1.0 / chances.size


class Always(NamedTuple):
    """Play one arm (an index from 0) in every period."""

    arm: int

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "always(0)"

    def check(self, arms: int) -> None:  # noqa: D102
        whole = isinstance(self.arm, int) and not isinstance(self.arm, bool)
        require(
            whole and 0 <= self.arm < arms,
            f"Always.arm must be a whole number from 0 to {arms - 1}, got {self.arm!r}",
        )


@selects(Always)
def _same(policy: Always, tally: Tally, period: int, luck: Any) -> int:  # noqa: ARG001
    return policy.arm


def _check_first_plays(policy: str, plays: object) -> None:
    whole = isinstance(plays, int) and not isinstance(plays, bool)
    require(
        whole and 0 <= plays <= 1_000_000,  # type: ignore[operator]
        f"{policy}.first_plays must be a whole number from 0 to 1,000,000, got {plays!r}",
    )


_OURS = (UCB1, UCBDelta, ThompsonBernoulli, ThompsonGaussian, EpsilonGreedy, Uniform, Always)
POLICIES.clear()  # from here on in the order of reading; those with tables are not registered by their own name
POLICIES.update({grammar.name_of(kind): kind for kind in _OURS})


def as_policy(value: Any, arms: int) -> Policy:
    """A checked policy from itself or from its text form."""
    known = {**POLICIES, grammar.name_of(External): External}
    policy = grammar.parse(value, known, "policy") if isinstance(value, str) else value
    if type(policy) not in known.values() and not register_tables(policy, arms):
        hint = did_you_mean(type(value).__name__.lower(), POLICIES)
        raise Invalid(
            f"{value!r} is not a policy; {hint}; or register your own with sameluck.selects"
        )
    policy = grammar.normal_form(policy, POLICIES)
    if hasattr(policy, "check"):
        policy.check(arms)
    return policy
