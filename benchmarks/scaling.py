"""What does a step cost with more arms, and with a longer horizon?

    python benchmarks/scaling.py [--quick] [--json FILE]

Nanoseconds of one thread per policy-step, the best of several repetitions. A slope is that of the logarithm of the
cost over the logarithm of the number of arms, or of the horizon: 1 if it is proportional, 0 if it does not grow.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np

from core import Goals, interleaved, machine
from sameluck import Bernoulli, Experiment, Gaussian, simulate
from sameluck.policies.fast import tournament
from sameluck.simulation.runners.compiled_runner import CompiledRunner

SEED = 7
LOOP = "  its loop over all arms"
BY_ARMS = ("ucb1", "ucb_delta", "epsilon_greedy", "thompson_gaussian", "thompson_bernoulli")
IN_TOURNAMENT = BY_ARMS[:3]
BY_HORIZON = {
    "ucb1(2.5), 5 arms": ("ucb1(2.5)", 5),
    "ucb1(2.5), 100 arms": ("ucb1(2.5)", 100),
    "epsilon_greedy(0.1), 5 arms": ("epsilon_greedy(0.1)", 5),
    "thompson_gaussian, 5 arms": ("thompson_gaussian", 5),
}
FULL = {
    "arms": (2, 10, 64, 100, 1_000, 10_000),
    "horizons": (10**3, 10**4, 10**5, 10**6, 10**7),
    "horizon": 100_000,
    "thompson_horizon": 20_000,
    "repeats": 5,
}
QUICK = {
    "arms": (2, 10, 64, 100, 1_000),
    "horizons": (10**3, 10**4, 10**5, 10**6),
    "horizon": 20_000,
    "thompson_horizon": 5_000,
    "repeats": 3,
}


def experiment_of(policy, arms, horizon, replications):
    size = {"arms": arms, "horizon": horizon, "replications": replications}
    return Experiment(policies={policy: policy}, seed=SEED, **size)


def environment_of(policy, arms):
    """Means from 0.1 to 0.9, in random order."""
    means = np.random.default_rng(SEED).permutation(np.linspace(0.1, 0.9, arms)).tolist()
    return Gaussian(means) if "gaussian" in policy else Bernoulli(means)


def looping(stack):
    """Until the stack is closed, policies are prepared for a loop over all arms."""
    stack.enter_context(mock.patch.object(tournament, "MANY_ARMS", math.inf))


def runner_of(policy, arms, horizon, *, loop_over_all):
    """What runs the periods of one policy, without the checks and the tables."""
    with ExitStack() as stack:
        if loop_over_all:
            looping(stack)
        experiment = experiment_of(policy, arms, horizon, 1)
        return CompiledRunner(experiment, environment_of(policy, arms), policy)


def by_arms(size, goals):
    many = [arms for arms in size["arms"] if arms > tournament.MANY_ARMS]
    rows = [
        row for one in BY_ARMS for row in ((one, one + LOOP) if one in IN_TOURNAMENT else (one,))
    ]
    horizons = {row: size["thompson_horizon" if "thompson" in row else "horizon"] for row in rows}
    costs = {row: {} for row in rows}
    for arms in size["arms"]:
        runs, replications = {}, range(10 if arms < 1_000 else 1)
        for row, horizon in horizons.items():
            policy, loop_over_all = row.removesuffix(LOOP), row.endswith(LOOP)
            if arms in many or not loop_over_all:
                runner = runner_of(policy, arms, horizon, loop_over_all=loop_over_all)
                end = np.array([horizon])
                runner.run(range(0), end)
                runs[row] = lambda r=runner, e=end, n=replications: r.run(n, e)
        for row, seconds in interleaved(runs, size["repeats"]).items():
            costs[row][arms] = 1e9 * min(seconds) / horizons[row] / len(replications)
    title = f"Nanoseconds per step by number of arms, horizon {size['horizon']:,}"
    print(f"\n{title} (Thompson sampling {size['thompson_horizon']:,})")
    show(costs, size["arms"], many[0])
    times = costs["ucb1" + LOOP][many[-1]] / costs["ucb1"][many[-1]]
    if many[-1] == 10_000:
        what = "UCB1, 10,000 arms: times its loop over all arms"
        goals.check(what, times, ">= 20", times >= 20, "x")
    return costs


def by_horizon(size):
    most = size["horizons"][-1]
    costs = {row: {} for row in BY_HORIZON}
    for horizon in size["horizons"]:
        for row, (policy, arms) in BY_HORIZON.items():
            experiment = experiment_of(policy, arms, horizon, most // horizon)
            environment = environment_of(policy, arms)
            # One policy at a time: its tables are made in the first call and kept for the others.
            simulate(experiment.replace(replications=1), environment, workers=1)
            runs = {row: lambda e=experiment, v=environment: simulate(e, v, workers=1)}
            costs[row][horizon] = 1e9 * min(interleaved(runs, size["repeats"])[row]) / most
    print(f"\nNanoseconds per step by horizon, {most:,} steps in each cell; tables are there")
    show(costs, size["horizons"], size["horizons"][0])
    return costs


def show(costs, columns, first):
    print(f"{'':<44}" + "".join(f"{column:>12,}" for column in columns) + f"{'slope':>8}")
    for row, cells in costs.items():
        name = LOOP if row.endswith(LOOP) else row
        printed = "".join(f"{cells[c]:>12.1f}" if c in cells else f"{'-':>12}" for c in columns)
        slope = math.log(cells[columns[-1]] / cells[first]) / math.log(columns[-1] / first)
        print(f"{name:<44}{printed}{slope:>8.2f}")
    print(f"  slopes from {first:,} to {columns[-1]:,}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller and less certain")
    parser.add_argument("--json", metavar="FILE", help="write everything to FILE too")
    options = parser.parse_args()
    size, goals, facts = QUICK if options.quick else FULL, Goals(), machine()
    print("$ python " + " ".join(sys.argv))
    print("\n".join(f"{name}: {value}" for name, value in facts.items()))
    costs = {"arms": by_arms(size, goals), "horizons": by_horizon(size)}
    if options.json:
        record = {"machine": facts, "command": sys.argv, "costs": costs, "goals": goals.lines}
        Path(options.json).write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
