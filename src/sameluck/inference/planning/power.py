"""Power analysis: two of effect, power and replications give the third, for a t interval of normal differences."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Floats
from sameluck.errors import Invalid
from sameluck.intervals import check_level, t_critical
from sameluck.validation import require_number, require_whole

LARGE_NONCENTRALITY = 25.0  # above it the power is integrated numerically
MAX_REPLICATIONS = 10**9
DEFAULT_POWER = 0.8


def stated_share(effect: str) -> float:
    """Return the share that an effect such as "2%" states; raise `Invalid` for other text."""
    number = re.fullmatch(r"\s*([-+]?(?:\d+\.?\d*|\.\d+))\s*%\s*", effect)
    if number is None:
        raise Invalid(
            f'effect must be a number, or a share of the control\'s reward such as "2%", got {effect!r}'
        )
    return float(number[1]) / 100


class PowerAnalysis(NamedTuple):
    """Two of effect, power and replications; the third is None and follows from the standard deviation."""

    effect: float | None  # in rewards; a share as given until the control's reward is known
    power: float | None
    replications: int | None
    level: float
    share: float | None = None  # of the control's reward, if the effect is given as a share

    @classmethod
    def requested(
        cls, effect: float | str | None, power: float | None, replications: int | None, level: float
    ) -> PowerAnalysis:
        """Return the analysis of a user's arguments; raise `Invalid` if it is impossible."""
        if power is None and (effect is None) != (replications is None):
            power = DEFAULT_POWER
        share = None
        if isinstance(effect, str):
            effect = share = stated_share(effect)
        analysis = cls(effect, power, replications, level, share)
        analysis.check()
        return analysis

    def with_control_reward(self, control: str, reward: float, error: float) -> PowerAnalysis:
        """Return the analysis with a share as a difference in reward; raise `Invalid` if the reward may be 0."""
        if self.share is None:
            return self
        if abs(reward) <= 2 * error:
            raise Invalid(
                f"effect='{100 * self.share:g}%' is a share of the reward of {control!r}, which may be 0 in the "
                f"pilot ({reward:.3g}, standard error {error:.2g}); give the effect as a number"
            )
        return self._replace(effect=self.share * abs(reward))

    def check(self) -> None:
        """Raise `Invalid` unless exactly one is missing and the others are possible."""
        quantities = (self.effect, self.power, self.replications)
        if sum(quantity is None for quantity in quantities) != 1:
            raise Invalid(
                "plan needs effect, replications, or two of effect, power and replications; it computes the third"
            )
        check_level(self.level)
        if self.effect is not None:
            require_number("effect", self.effect)
            if self.effect == 0:
                raise Invalid("effect must not be 0: no number of replications shows equality")
        if self.power is not None:
            require_number("power", self.power, below=1)
            if self.power <= 1 - self.level:
                raise Invalid(
                    f"power must be above 1 - level = {1 - self.level:g}, the power without an effect"
                )
        if self.replications is not None:
            require_whole("replications", self.replications, 2, MAX_REPLICATIONS)

    def solve(self, sd: float, *, paired: bool) -> tuple[float, float, int]:
        """Return effect, power and replications; the power belongs to the whole number of replications."""
        power, replications, level = self.power or 0.0, self.replications or 0, self.level
        if self.effect is None:
            return effect_for(power, sd, replications, level, paired=paired), power, replications
        if self.replications is None:
            replications = replications_for(self.effect, power, sd, level, paired=paired)
        power = power_of(self.effect, sd, replications, level, paired=paired)
        return self.effect, power, replications


def power_of(
    effect: float, sd: float, replications: int, level: float, *, paired: bool = True
) -> float:
    """Return the probability that the t interval leaves out 0, for normal differences."""
    if sd == 0:
        return 1.0
    freedom = (replications - 1) * (1 if paired else 2)
    noncentrality = abs(effect) * math.sqrt(replications) / sd
    critical = t_critical(freedom, level)
    below, above = scipy.special.nctdtr(freedom, noncentrality, [-critical, critical]).tolist()
    both_tails = 1 - above + below
    if math.isfinite(both_tails) and noncentrality < LARGE_NONCENTRALITY:
        return both_tails
    # SciPy's noncentral t fails for a large noncentrality. Given the estimated sd the mean is normal: average its
    # tails over quantiles of the sd.
    limits = critical * _quantiles_of_sd(freedom)
    tails = (scipy.special.ndtr(sign * noncentrality - limits) for sign in (1, -1))
    return float(np.mean(sum(tails)))


@lru_cache(maxsize=4)  # the bisection over effects needs the same quantiles 60 times
def _quantiles_of_sd(freedom: float) -> Floats:
    probabilities = (np.arange(20_000) + 0.5) / 20_000
    return np.sqrt(2 * scipy.special.gammaincinv(freedom / 2, probabilities) / freedom)


def replications_for(effect: float, power: float, sd: float, level: float, *, paired: bool) -> int:
    # Double until the power suffices, then bisect: the power grows with the replications.
    low, high = 1, 2
    while power_of(effect, sd, high, level, paired=paired) < power:
        low, high = high, high * 2
        if high > MAX_REPLICATIONS:
            raise Invalid(
                f"effect {effect:g} is too small for an sd of {sd:g}: it needs more than {MAX_REPLICATIONS:,} "
                "replications. An effect is a difference over the whole horizon, or a share of the control's reward: "
                'effect="2%" (--effect 2%)'
            )
    while high - low > 1:
        middle = (low + high) // 2
        enough = power_of(effect, sd, middle, level, paired=paired) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


def effect_for(power: float, sd: float, replications: int, level: float, *, paired: bool) -> float:
    low, high = 0.0, sd
    while power_of(high, sd, replications, level, paired=paired) < power:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        enough = power_of(middle, sd, replications, level, paired=paired) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high
