"""Coverage of intervals of the worst tenth and of quantiles, on known distributions: `python benchmarks/tails.py`.

Each row has 4,000 samples of 40 to 1,000 replications. It shows the coverage at 95% of the mean of the worst tenth,
its bias in standard errors, and the coverage of the 10% quantile and of a difference of two 10% quantiles. The
rewards of the two have correlation 0.9.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from sameluck.inference.metrics import METRICS, WORST_SHARE, worst_values
from sameluck.inference.tails import quantile_difference, quantile_interval, tail_value

SAMPLES, LEVEL = 4_000, 0.95
DISTRIBUTIONS = {  # inverse distribution functions
    "normal": stats.norm.ppf,
    "exponential, long to the left": np.log,
    "exponential, long to the right": lambda u: -np.log1p(-u),
    "3% fail": lambda u: np.where(u < 0.03, u - 20.0, stats.norm.ppf((u - 0.03) / 0.97)),
}


def worst(quantile_function, uniforms) -> tuple[float, float]:
    """Return the coverage of the worst tenth's interval, and the estimate's bias in standard errors."""
    grid = (np.arange(1_000_000) + 0.5) / 1_000_000
    truth = float(np.mean(quantile_function(WORST_SHARE * grid)))
    intervals = [
        tail_value(worst_values(quantile_function(row)), METRICS["worst_tenth"], LEVEL)
        for row in uniforms
    ]
    estimates = np.array([value for value, _ in intervals])
    covered = np.mean([interval.low <= truth <= interval.high for _, interval in intervals])
    return float(covered), float((estimates.mean() - truth) / estimates.std())


def quantiles(quantile_function, normals, correlated) -> tuple[float, float]:
    """Return the coverage of a 10% quantile's interval and of a difference's; the second reward is twice as large."""
    first, second = (
        quantile_function(stats.norm.cdf(normals)),
        2 * quantile_function(stats.norm.cdf(correlated)),
    )
    truth = float(quantile_function(np.array(WORST_SHARE)))
    alone = [quantile_interval(row, WORST_SHARE, LEVEL) for row in first]
    pairs = zip(second, first, strict=True)
    both = [quantile_difference(a, b, WORST_SHARE, LEVEL, paired=True) for a, b in pairs]
    return (
        float(np.mean([interval.low <= truth <= interval.high for interval in alone])),
        float(np.mean([interval.low <= truth <= interval.high for interval in both])),
    )


if __name__ == "__main__":
    print(
        "distribution, replications: worst tenth covered (bias), 10% quantile covered, difference covered"
    )
    rng = np.random.default_rng(1)
    for name, quantile_function in DISTRIBUTIONS.items():
        for size in (40, 100, 200, 1_000):
            normals = rng.standard_normal((SAMPLES, size))
            correlated = 0.9 * normals + np.sqrt(0.19) * rng.standard_normal((SAMPLES, size))
            tenth = "refused"
            if size >= 100:
                tenth = "{:.1%} ({:+.2f})".format(
                    *worst(quantile_function, stats.norm.cdf(normals))
                )
            quantile, difference = quantiles(quantile_function, normals, correlated)
            print(f"{name}, {size:,}: {tenth}, {quantile:.1%}, {difference:.1%}")
