"""Variance of an effect under each way of sharing or removing noise, relative to plain replay.

    python benchmarks/variance.py [--replications 10000] [--json FILE] [--noise] [--contexts]

Prints a Markdown table of variances relative to plain replay, with standard errors, at horizon 1,000. The
replications are 20 independent experiments. The jackknife over them gives the standard errors, so these contain the
errors of fitted coefficients and of rare replications.

With --noise it prints instead how shared noise changes the variance of a replication's difference, for pairs of
randomised policies.

With --contexts it prints, for policies with contexts, the variance of a replication's difference and the real users
under the designs naive (users of one's own), time_coupled (the same user in a period) and replay (stacks by cell).
The efficiency at equal users is the naive design's variance times users over the design's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from importlib.util import find_spec
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
    "pseudo-regret": (sl.Replay(), "all"),  # for comparison: not offered by compare(adjust=)
}
EXPERIMENTS = 20
RANDOMISED = {
    "EpsilonGreedy": sl.EpsilonGreedy(),
    "EpsilonGreedy(0.05)": sl.EpsilonGreedy(0.05),
    "ThompsonBernoulli": sl.ThompsonBernoulli(),
    "ThompsonBernoulli(3, 3)": sl.ThompsonBernoulli(3, 3),
    "DiscountedThompson": sl.DiscountedThompson(),
    "GradientBandit": sl.GradientBandit(),
    "EXP3": sl.EXP3(),
    "EXP3(0.2)": sl.EXP3(0.2),
    "EXP3IX": sl.EXP3IX(),
}
NOISY = {".9 to .1": COINS5, ".7, .3": COINS2, ".5, .45": sl.Bernoulli((0.5, 0.45))}


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
    runs = sl.simulate(experiment, environment)
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
    return adjusted_differences(runs, ("second", "first"), 0, predictable=False)


def ratio_and_error(reduced: np.ndarray, plain: np.ndarray) -> tuple[float, float]:
    """Return the ratio of two mean variances, with its jackknife standard error over the experiments."""
    without = (reduced.sum() - reduced) / (plain.sum() - plain)
    error = np.sqrt((reduced.size - 1) * np.mean((without - without.mean()) ** 2))
    return float(reduced.mean() / plain.mean()), float(error)


def print_noise(replications: int) -> None:
    """Print the variance with shared noise relative to plain replay, the largest ratio first."""
    ratios: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for environment in NOISY.values():
        experiment = sl.Experiment(
            policies=RANDOMISED, horizon=1_000, replications=replications, seed=13
        )
        plain, shared = (
            sl.simulate(experiment.replace(design=design), environment).rewards[:, :, 0].T
            for design in (sl.Replay(), sl.Replay(share_noise=True))
        )
        for first, second in itertools.combinations(range(len(RANDOMISED)), 2):
            differences = (rewards[first] - rewards[second] for rewards in (shared, plain))
            by_experiment = [values.reshape(EXPERIMENTS, -1).var(axis=1) for values in differences]
            pair = tuple(list(RANDOMISED)[index] for index in (first, second))
            ratios.setdefault(pair, []).append(ratio_and_error(*by_experiment))
    print(f"| pair | {' | '.join(NOISY)} |\n|---|{'---|' * len(NOISY)}")
    for pair, cells in sorted(ratios.items(), key=lambda item: -max(ratio for ratio, _ in item[1])):
        print(f"| {' v '.join(pair)} | {' | '.join(f'{r:.2f} ({e:.2f})' for r, e in cells)} |")


def context_cases() -> dict[str, tuple]:
    """Return two policies, an environment and a horizon for each kind of context."""
    random = np.random.default_rng(5)
    cases = {}
    for levels in (3, 12, 40):
        means = random.uniform(0.1, 0.9, (levels, 4)).tolist()
        segments = sl.ByLevel([sl.Bernoulli(row) for row in means])
        policies = sl.PerLevel(sl.UCB1(0.5)), sl.PerLevel(sl.ThompsonBernoulli())
        cases[f"{levels} levels, UCB1 v Thompson"] = (*policies, segments, 2_000)
    for features in (3, 8):
        shop = sl.Linear(random.normal(0, 0.5, (5, features)).tolist())
        cases[f"linear, {features} features, LinUCB v LinTS"] = (
            sl.LinUCB(),
            sl.LinTS(),
            shop,
            1_000,
        )
    clicks = sl.Logistic(random.normal(0, 0.7, (5, 5)).tolist())
    cases["logistic, 5 features, LogisticTS v LinUCB"] = (
        sl.LogisticTS(),
        sl.LinUCB(),
        clicks,
        1_000,
    )
    if find_spec("sklearn"):
        digits = sl.Classification.digits()
        cases["digits, LinUCB v LinGreedy"] = (sl.LinUCB(), sl.LinGreedy(), digits, 800)
    learners = {
        "PSRL v Q-learning": (sl.PSRL("beta"), sl.QLearning()),
        "two of Q-learning": (sl.QLearning(), sl.QLearning(omega=0.6)),
        "two of PSRL": (sl.PSRL("beta"), sl.PSRL("beta", prior_weight=5.0)),
    }
    processes = {"RiverSwim": sl.RiverSwim(), "random process": sl.RandomMDP(10, 3)}
    if find_spec("gymnasium"):
        processes["FrozenLake"] = sl.adapters.gymnasium("FrozenLake-v1")
    for process_name, process in processes.items():
        for name, policies in learners.items():
            cases[f"{process_name}, {name}"] = (*policies, process, 2_000)
    return cases


def print_contexts(replications: int) -> None:
    """Print variance, users and efficiency at equal users of each design on environments with contexts."""
    designs = {"naive": sl.Naive(), "same user": sl.TimeCoupled(), "cells": sl.Replay()}
    columns = " | ".join(f"{name}: sd, users" for name in designs)
    print(f"| case | T | effect | {columns} | efficiency, same user | efficiency, cells |")
    print(f"|---|---|---|{'---|' * (len(designs) + 2)}")
    for name, (first, second, environment, horizon) in context_cases().items():
        experiment = sl.Experiment(
            policies={"first": first, "second": second},
            horizon=horizon,
            replications=replications,
            seed=14,
        )
        costs, cells, effect = {}, [], 0.0
        for design_name, design in designs.items():
            runs = sl.simulate(experiment.replace(design=design), environment)
            differences = runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]
            variances_by_experiment = differences.reshape(EXPERIMENTS, -1).var(axis=1, ddof=1)
            users, effect = runs.interactions.mean(), differences.mean()
            costs[design_name] = variances_by_experiment * users
            cells.append(f"{differences.std(ddof=1):.3g}, {users:,.0f}")
        gains = [
            "{:.3g} ({:.1g})".format(*ratio_and_error(costs["naive"], costs[design_name]))
            for design_name in ("same user", "cells")
        ]
        row = [name, f"{horizon:,}", f"{effect:.3g}", *cells, *gains]
        print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--replications", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--noise", action="store_true")
    parser.add_argument("--contexts", action="store_true")
    options = parser.parse_args()
    print(f"$ python {' '.join(sys.argv)}\n")
    if options.contexts:
        print_contexts(options.replications)
        return
    if options.noise:
        print_noise(options.replications)
        return
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
