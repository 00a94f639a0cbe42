"""Variance of an effect under each way of sharing or removing noise, relative to plain replay.

    python benchmarks/variance.py [--replications 10000] [--json FILE]

Prints a Markdown table of variances relative to plain replay, with standard errors, at horizon 1,000. The
replications are 20 independent experiments. The jackknife over them gives the standard errors, so these contain the
errors of fitted coefficients and of rare replications.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

import sameluck as sl
from sameluck.inference.adjustments import adjusted_differences

COINS5, COINS2 = sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1)), sl.Bernoulli((0.7, 0.3))
GAUSSIAN = sl.Gaussian((1.0, 0.8, -2.0, -3.0, -4.0))
CASES = {
    "UCB1 2.5 v 3, 5 Bernoulli arms": (sl.UCB1(2.5), sl.UCB1(3.0), COINS5),
    "UCB1 2 v Thompson, 2 Bernoulli arms": (sl.UCB1(), sl.ThompsonBernoulli(first_plays=1), COINS2),
    "Thompson v epsilon 0.1, Gaussian": (
        sl.ThompsonGaussian(first_plays=1),
        sl.EpsilonGreedy(),
        GAUSSIAN,
    ),
    "Thompson Beta(1,1) v (3,3), 5 Bernoulli arms": (
        sl.ThompsonBernoulli(),
        sl.ThompsonBernoulli(3, 3),
        COINS5,
    ),
    "Thompson prior sd 1 v 2, Gaussian": (
        sl.ThompsonGaussian(),
        sl.ThompsonGaussian(prior_sd=2.0),
        GAUSSIAN,
    ),
    "epsilon 0.1 v 0.05, 5 Bernoulli arms": (sl.EpsilonGreedy(0.1), sl.EpsilonGreedy(0.05), COINS5),
    "epsilon 0.1 v 0.05, Gaussian": (sl.EpsilonGreedy(0.1), sl.EpsilonGreedy(0.05), GAUSSIAN),
}
WAYS = {
    "naive": (sl.Naive(), None),
    "time_coupled": (sl.TimeCoupled(), None),
    "replay": (sl.Replay(), None),
    "shared noise": (sl.Replay(share_noise=True), None),
    "adjust means": (sl.Replay(), "means"),
    "adjust exploration": (sl.Replay(), "exploration"),
    "noise + exploration": (sl.Replay(share_noise=True), "exploration"),
    "pseudo-regret": (sl.Replay(), "all"),  # for comparison: not offered by compare(adjust=)
}
EXPERIMENTS = 20


def variances(case: tuple, design: object, adjust: str | None, replications: int) -> tuple:
    """Return the variance of a replication's difference in each experiment, and the effect."""
    first, second, environment = case
    experiment = sl.Experiment(
        policies={"first": first, "second": second},
        arms=environment.arms,
        horizon=1_000,
        replications=replications,
        design=design,
        seed=11,
    )
    runs = sl.simulate(experiment, environment, detail=adjust is not None)
    count = replications // EXPERIMENTS
    values = [
        _differences(runs.part(number * count, count), environment, adjust)
        for number in range(EXPERIMENTS)
    ]
    return np.array([differences.var(ddof=1) for differences in values]), float(np.mean(values))


def _differences(runs: sl.Runs, environment: object, adjust: str | None) -> np.ndarray:
    if adjust == "all":
        return (runs.pulls[:, 1, 0] - runs.pulls[:, 0, 0]) @ np.array(environment.means)
    if adjust is None:
        return runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]
    return adjusted_differences(runs, ("second", "first"), 0, adjust, predictable=False)


def ratio_and_error(reduced: np.ndarray, plain: np.ndarray) -> tuple[float, float]:
    """Return the ratio of two mean variances, with its jackknife standard error over the experiments."""
    without = (reduced.sum() - reduced) / (plain.sum() - plain)
    error = np.sqrt((reduced.size - 1) * np.mean((without - without.mean()) ** 2))
    return float(reduced.mean() / plain.mean()), float(error)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--replications", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"$ python {' '.join(sys.argv)}\n")
    print("| case | effect | " + " | ".join(WAYS) + " |")
    print("|---|---|" + "---|" * len(WAYS))
    results = {}
    for name, case in CASES.items():
        results_by_way = {
            way: variances(case, *settings, options.replications) for way, settings in WAYS.items()
        }
        plain, effect = results_by_way["replay"]
        ratios = {
            way: ratio_and_error(reduced, plain) for way, (reduced, _) in results_by_way.items()
        }
        cells = [f"{ratio:.3g} ({error:.1g})" for ratio, error in ratios.values()]
        cells[list(WAYS).index("replay")] = f"1 (variance {plain.mean():.4g})"
        print(f"| {name} | {effect:.4g} | " + " | ".join(cells) + " |", flush=True)
        results[name] = ratios
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
