"""Realised power of plans from few replications, beside the range of power that they state.

    python benchmarks/plans.py [--plans 60] [--pilots copies runs]

A plan is made on a copy of the arms that M replications at a short horizon have measured, for a longer horizon, or
from M replications at the planned horizon (runs). Its number of replications is then simulated on the true arms, with
the differences shifted to the planned effect. Prints
for each case the plans made and refused, the planned power, the 10% and 90% quantiles of the realised power, the mean
range stated, how many ranges contain the realised power, and the processor time of a plan.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import NamedTuple

import numpy as np

import sameluck as sl
from sameluck.intervals import t_critical


class Case(NamedTuple):
    """Policies, true arms, the horizons of pilot and plan, and the effect to detect."""

    policies: tuple[str, str]
    environment: str
    pilot: int
    planned: int
    effect: float


CASES = {
    ".35, .33, .10": Case(("ucb1(0.5)", "thompson_bernoulli"), "bernoulli(0.35, 0.33, 0.10)", 200, 800, 5.0),
    "conversions .05, .04": Case(("ucb1(0.1)", "epsilon_greedy"), "bernoulli(0.05, 0.04)", 500, 2_000, 4.0),
    "five arms .5 to .3": Case(
        ("ucb1(0.5)", "ucb1(1)"), "bernoulli(0.5, 0.45, 0.4, 0.35, 0.3)", 300, 1_000, 5.0
    ),
    "Gaussian 1, .6, .2": Case(("ucb1(2)", "thompson_gaussian"), "gaussian(1, 0.6, 0.2)", 200, 800, 10.0),
}  # fmt: skip
POOL, SAMPLES = 20_000, 2_000
REPLICATIONS = {"copies": (1, 3), "runs": (10, 20, 50)}  # of a pilot


def realised_power(pool: np.ndarray, plan: sl.Plan, generator: np.random.Generator) -> float:
    """Return the share of experiments of the planned size whose t interval leaves out 0."""
    count = plan.replications
    groups = generator.choice(pool - pool.mean() + plan.effect, (SAMPLES, count))
    errors = groups.std(axis=1, ddof=1) / np.sqrt(count)
    return float(np.mean(np.abs(groups.mean(axis=1)) > t_critical(count - 1, plan.level) * errors))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--plans", type=int, default=60)
    parser.add_argument(
        "--pilots", nargs="*", choices=list(REPLICATIONS), default=list(REPLICATIONS)
    )
    options = parser.parse_args()
    sizes = [(pilot, count) for pilot in options.pilots for count in REPLICATIONS[pilot]]
    print(f"$ python {' '.join(sys.argv)}\n")
    print(
        "| case | pilot | M | plans | refused | planned | realised 10 to 90% | lowest | mean range | inside | s |"
    )
    print(f"|{'---|' * 11}")
    generator = np.random.default_rng(1)
    for name, case in CASES.items():
        settings = {"policies": dict(zip("ab", case.policies, strict=True)), "replications": POOL}
        pool_runs = sl.simulate(
            sl.Experiment(**settings, horizon=case.planned, seed=9), case.environment
        )
        pool = np.subtract(*pool_runs.rewards[:, ::-1, 0].T)
        for pilot, replications in sizes:
            on_copy = pilot == "copies"
            plans, powers, refused, started = [], [], 0, time.process_time()
            for seed in range(options.plans):
                experiment = sl.Experiment(
                    policies=settings["policies"],
                    horizon=case.pilot if on_copy else case.planned,
                    replications=replications,
                    seed=1_000 + seed,
                )
                runs = sl.simulate(experiment, case.environment)
                try:
                    horizon = case.planned if on_copy else None
                    plan = sl.plan(
                        runs.experiment, runs, horizon=horizon, effect=case.effect, power=0.9
                    )
                except sl.Invalid:
                    refused += 1
                    continue
                plans.append(plan)
            seconds = (time.process_time() - started) / options.plans
            powers = np.array([realised_power(pool, plan, generator) for plan in plans])
            low, high = np.array([plan.power_range for plan in plans]).T
            inside = int(np.sum((low - 0.005 <= powers) & (powers <= high + 0.005)))
            tenth, nine_tenths = np.quantile(powers, [0.1, 0.9])
            cells = [
                f"{len(plans)}",
                f"{refused}",
                f"{np.mean([plan.power for plan in plans]):.2f}",
                f"{tenth:.2f} to {nine_tenths:.2f}",
                f"{powers.min():.2f}",
                f"{low.mean():.2f} to {high.mean():.2f}",
                f"{inside} of {len(plans)}",
                f"{seconds:.1f}",
            ]
            print(f"| {name} | {pilot} | {replications} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
