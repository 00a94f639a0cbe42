"""How often intervals of the worst tenth and of quantiles cover, on known laws: `python benchmarks/tails.py`.

Each row is 4,000 samples of 40 to 1,000 replications. Covered at 95%: the mean of the worst tenth, its bias in
standard errors, the 10% quantile, and the difference of two 10% quantiles whose rewards have correlation 0.9.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from sameluck.inference.metrics import METRICS, WORST_SHARE, worst_values
from sameluck.inference.tails import quantile_difference, quantile_interval, tail_value

SAMPLES, LEVEL = 4_000, 0.95
LAWS = {  # inverse distribution functions
    "normal": stats.norm.ppf,
    "exponential, long to the left": np.log,
    "exponential, long to the right": lambda u: -np.log1p(-u),
    "3% fail": lambda u: np.where(u < 0.03, u - 20.0, stats.norm.ppf((u - 0.03) / 0.97)),
}


def worst(law, uniforms) -> tuple[float, float]:
    """How often the interval of the worst tenth covers it, and the bias of the estimate in standard errors."""
    grid = (np.arange(1_000_000) + 0.5) / 1_000_000
    truth = float(np.mean(law(WORST_SHARE * grid)))
    found = [tail_value(worst_values(law(row)), METRICS["worst_tenth"], LEVEL) for row in uniforms]
    estimates = np.array([value for value, _ in found])
    covered = np.mean([one.low <= truth <= one.high for _, one in found])
    return float(covered), float((estimates.mean() - truth) / estimates.std())


def quantiles(law, normals, others) -> tuple[float, float]:
    """How often intervals of a 10% quantile and of a difference of two cover; the second reward is twice as large."""
    first, second = law(stats.norm.cdf(normals)), 2 * law(stats.norm.cdf(others))
    truth = float(law(np.array(WORST_SHARE)))
    alone = [quantile_interval(row, WORST_SHARE, LEVEL) for row in first]
    pairs = zip(second, first, strict=True)
    both = [quantile_difference(a, b, WORST_SHARE, LEVEL, paired=True) for a, b in pairs]
    return (
        float(np.mean([one.low <= truth <= one.high for one in alone])),
        float(np.mean([one.low <= truth <= one.high for one in both])),
    )


if __name__ == "__main__":
    print("law, replications: worst tenth covered (bias), 10% quantile covered, difference covered")
    rng = np.random.default_rng(1)
    for name, law in LAWS.items():
        for size in (40, 100, 200, 1_000):
            normals = rng.standard_normal((SAMPLES, size))
            others = 0.9 * normals + np.sqrt(0.19) * rng.standard_normal((SAMPLES, size))
            tenth = "refused"
            if size >= 100:
                tenth = "{:.1%} ({:+.2f})".format(*worst(law, stats.norm.cdf(normals)))
            one, two = quantiles(law, normals, others)
            print(f"{name}, {size:,}: {tenth}, {one:.1%}, {two:.1%}")
