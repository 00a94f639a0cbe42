"""Misses of a twin's intervals, false alarms of its tests, and failures that it flags.

    python benchmarks/twin.py [--effort brief] [--experiments 500] [--minutes 60] [--cases NAME ...] [--counts M ...]

A cell is an effort and a case at 1, 2, 5 or 10 replications; without `--counts`, at the replications of CASE_COUNTS.
Every experiment of a cell is a line of twin.jsonl, or of the file that TWIN_LINES names. So the work may be stopped
at any time, and the same command continues it; all cells grow together. The effort `long-run` leaves out the draws
of the arms, and with them the interval of the effect on the copy. Efforts have different experiments. `--keep` adds
the lines to the sums of each cell in benchmarks/twin_sums.json and removes the file; later experiments continue their
numbers. `--table` prints the Markdown tables of docs/twin.md. `--drift` measures the test for stationary arms on arms
that change, `--equality` how often equal arms are ruled out.

A cell counts misses of the effect's interval where it is not withheld, of the interval around the observed mean, and
of the t interval from two replications on. For the guaranteed interval it counts true arms outside the confidence
set. It also has mean half-widths of finite intervals, rejections of stationary arms, and rare failures flagged and
met. The truth is the mean of a long simulation of the true arms.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sameluck as sl
from sameluck.arrays import Floats
from sameluck.files import write_whole
from sameluck.inference.twins.bernoulli_confidence_set import bernoulli_confidence_set
from sameluck.inference.twins.copies import BernoulliCopy, copy_arms
from sameluck.inference.twins.draws import drawn_effects
from sameluck.inference.twins.failures import rare_failures
from sameluck.inference.twins.intervals import (
    admits_equality,
    copied_effects,
    effects_around_mean,
)
from sameluck.inference.twins.observed_rewards import observed_stacks
from sameluck.inference.twins.simulations import CopySimulator, Effort, run_long
from sameluck.inference.twins.stability import check_stability, reasons_to_withhold
from sameluck.intervals import t_interval
from sameluck.simulation.rewards import observed_rewards

LINES = Path(os.environ.get("TWIN_LINES", "twin.jsonl"))
SUMS = Path(__file__).with_name("twin_sums.json")
COUNTS = (1, 2, 5, 10)
EFFORTS = {
    "long-run": Effort(1_024, 0, 0, 0),
    "brief": Effort(1_024, 100, 32, 0),
    "draws": Effort(2_048),
    "default": Effort(),
}
# Numbers of experiments
FIRST_NUMBERS = {"long-run": 0, "brief": 10_000, "draws": 30_000, "default": 61_000}
LEVEL = 0.95
BLOCK = 50  # experiments on arms that change


class Case(NamedTuple):
    """Policies, the last of which is compared with the first, and an environment."""

    policies: dict[str, Any]
    environment: Any
    horizon: int = 1_000


def _rare(policy: Any, means: tuple[float, float], horizon: int = 1_000) -> Case:
    return Case({"ucb1(2)": sl.UCB1(2.0), "bold": policy}, sl.Bernoulli(means), horizon)


FIVE = sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1))
UCBS = {"ucb1(2.5)": sl.UCB1(2.5), "ucb1(3)": sl.UCB1(3.0)}
THOMPSON = sl.ThompsonBernoulli(first_plays=1)
REVENUE = [
    [0.0] * 90 + [float(x) for x in range(5, 15)],
    [0.0] * 95 + [20.0, 30.0, 40.0, 50.0, 5.0],
]
RATINGS = [
    [1.0] * 5 + [2.0] * 10 + [3.0] * 20 + [4.0] * 30 + [5.0] * 35,
    [1.0] * 10 + [2.0] * 20 + [3.0] * 30 + [4.0] * 25 + [5.0] * 15,
    [1.0] * 30 + [2.0] * 30 + [3.0] * 20 + [4.0] * 10 + [5.0] * 10,
]
TEN = sl.Bernoulli(tuple(np.linspace(0.5, 0.2, 10).tolist()))
CASES = {
    "example 1": Case(UCBS, FIVE),
    "example 2": Case({"ucb1(2)": sl.UCB1(2.0), "thompson": THOMPSON}, sl.Bernoulli((0.7, 0.3))),
    "example 3": Case(
        {"thompson": sl.ThompsonGaussian(first_plays=1), "epsilon 0.1": sl.EpsilonGreedy(0.1)},
        sl.Gaussian((1.0, 0.8, -2.0, -3.0, -4.0)),
    ),
    "example 1, T = 50": Case(UCBS, FIVE, 50),
    "example 1, T = 5,000": Case(UCBS, FIVE, 5_000),
    "near-tie, UCB1": Case({"1": sl.UCB1(1.0), "2": sl.UCB1(2.0)}, sl.Bernoulli((0.5, 0.48))),
    "near-tie, Thompson": Case(
        {"ucb1(2)": sl.UCB1(2.0), "thompson": THOMPSON}, sl.Bernoulli((0.5, 0.48))
    ),
    "10 arms": Case(
        {"ucb1(1)": sl.UCB1(1.0), "thompson": THOMPSON},
        TEN,
    ),
    "revenue": Case(
        {"ucb1(50)": sl.UCB1(50.0), "epsilon 0.1": sl.EpsilonGreedy(0.1)},
        sl.Empirical(REVENUE),
    ),
    "ratings": Case(
        {"ucb1(20)": sl.UCB1(20.0), "epsilon 0.1": sl.EpsilonGreedy(0.1)},
        sl.Empirical(RATINGS),
    ),
    "three policies": Case(
        {"ucb1(2)": sl.UCB1(2.0), "thompson": THOMPSON, "epsilon 0.1": sl.EpsilonGreedy(0.1)},
        sl.Bernoulli((0.6, 0.5, 0.4)),
    ),
    "equal, 2 arms": Case(
        {"epsilon 0.1": sl.EpsilonGreedy(0.1), "thompson": THOMPSON}, sl.Bernoulli((0.3,) * 2), 300
    ),
    "equal, 3 arms": Case(
        {"uniform": sl.Uniform(), "ucb1(0.5)": sl.UCB1(0.5)}, sl.Bernoulli((0.5,) * 3), 200
    ),
    "equal, 10 arms": Case(
        {"exp3": sl.EXP3(0.1), "ucb1(0.5)": sl.UCB1(0.5)}, sl.Bernoulli((0.3,) * 10), 200
    ),
    "equal, 3%": Case(
        {"uniform": sl.Uniform(), "ucb1(0.1)": sl.UCB1(0.1)}, sl.Bernoulli((0.03,) * 3), 1_000
    ),
    "equal, Gaussian": Case(
        {"uniform": sl.Uniform(), "thompson": sl.ThompsonGaussian()}, sl.Gaussian((1.0,) * 3), 300
    ),
    "equal, revenue": Case(
        {"ucb1(50)": sl.UCB1(50.0), "epsilon 0.1": sl.EpsilonGreedy(0.1)},
        sl.Empirical([[0.0] * 90 + [10.0] * 10, [0.0] * 95 + [10.0, 15.0, 20.0, 25.0, 30.0]]),
    ),
    ".52 / .50 / .48": Case(
        {"uniform": sl.Uniform(), "thompson": THOMPSON}, sl.Bernoulli((0.52, 0.50, 0.48)), 300
    ),
    ".04 / .03": Case(
        {"thompson": THOMPSON, "kl-ucb": sl.KLUCB()}, sl.Bernoulli((0.04, 0.03)), 400
    ),
    "10 arms, .1 to .5": Case(
        {"exp3": sl.EXP3(0.1), "ucb1(0.5)": sl.UCB1(0.5)},
        sl.Bernoulli(tuple(np.linspace(0.5, 0.1, 10).tolist())),
        200,
    ),
    "10 arms, a good arm": Case(
        {"uniform": sl.Uniform(), "thompson": THOMPSON}, sl.Bernoulli((0.5, *[0.3] * 9)), 300
    ),
    "10 arms, a bad arm": Case(
        {"uniform": sl.Uniform(), "thompson": THOMPSON}, sl.Bernoulli((*[0.5] * 9, 0.2)), 300
    ),
    "docs/twin.md": Case(UCBS, sl.Bernoulli((0.8, 0.5, 0.3)), 300),
    "rare: UCB1(0.05), .9 / .5": _rare(sl.UCB1(0.05), (0.9, 0.5)),
    "rare: UCB1(0.1), .9 / .6": _rare(sl.UCB1(0.1), (0.9, 0.6)),
    "rare: epsilon 0, .95 / .5": _rare(sl.EpsilonGreedy(0.0), (0.95, 0.5)),
    "rare: epsilon 0, .95 / .5, T = 5,000": _rare(sl.EpsilonGreedy(0.0), (0.95, 0.5), 5_000),
}
# Replications of the cells in which the effect's interval is measured, where they are not 1
CASE_COUNTS = {
    **dict.fromkeys(("equal, 2 arms", "equal, 3 arms", "equal, 10 arms"), (1, 2, 5)),
    "equal, Gaussian": (1, 2, 5),
    **dict.fromkeys(("revenue", "equal, revenue"), (2,)),
    **dict.fromkeys(("near-tie, Thompson", "10 arms", "10 arms, a bad arm"), ()),
    **dict.fromkeys(("example 1, T = 50", "example 1, T = 5,000"), ()),
    **dict.fromkeys(("rare: UCB1(0.1), .9 / .6", "rare: epsilon 0, .95 / .5, T = 5,000"), ()),
}


def experiment(case: Case, replications: int, seed: int) -> sl.Experiment:
    arms = case.environment.arms
    return sl.Experiment(
        policies=case.policies,
        arms=arms,
        horizon=case.horizon,
        replications=replications,
        seed=seed,
    )


def truth(case: Case, replications: int = 100_000) -> float:
    """Simulate the last policy's effect against the first, the control, from their pulls: equal arms give 0."""
    runs = sl.simulate(experiment(case, replications, 999_983), case.environment, workers=1)
    means = np.array(case.environment.means)
    pulls = (runs.pulls[:, -1, 0] - runs.pulls[:, 0, 0]).mean(axis=0)
    return float(pulls @ (means - means[0]))


def measure(case: Case, count: int, number: int, effort: Effort, true: float) -> dict[str, Any]:
    """Simulate an experiment and return what its twin says, and whether that is right."""
    runs = sl.simulate(
        experiment(case, count, 1_000_000 * count + number), case.environment, workers=1
    )
    runs = replace(runs, environment=None, observed=observed_rewards(runs))
    simulator = CopySimulator(runs, workers=1)
    long_run = run_long(runs, None, simulator, effort.replications)
    pair = simulator.pairs.index((runs.policies[-1], runs.policies[0]))
    stability = check_stability(long_run.stacks, long_run.runs, simulator.generator(0))
    line: dict[str, Any] = {"p": stability.p_value, "rejected": stability.rejected}
    line["withheld"] = len(reasons_to_withhold(long_run, stability)) > 0
    copied = copied_effects(long_run, LEVEL)
    line["on copy"] = copied[pair].effect
    if effort.draws and not line["withheld"]:
        drawn = drawn_effects(long_run, effort, LEVEL)[pair][0]
        low, high = line["ends"] = list(drawn.interval[:2])
        line["effect"], line["copy"] = drawn.effect, _judged(low, high, true)
    around = effects_around_mean(long_run, copied, LEVEL)[pair]
    line["mean"] = _judged(around.low, around.high, true)
    line["observed"] = around.effect
    if count > 1:
        line["t"] = _judged(
            *t_interval(simulator.differences(runs.rewards)[:, pair, 0], LEVEL)[:2], true
        )
    if isinstance(long_run.copy, BernoulliCopy):
        means = np.array([case.environment.means])
        line["outside"] = not bool(
            bernoulli_confidence_set(long_run.copy, LEVEL).contains(means)[0]
        )
    flagged = [
        failure
        for failure in rare_failures(long_run)
        if {failure.policy, failure.control} == set(simulator.pairs[pair])
    ]
    line["flagged"], line["met"] = bool(flagged), sum(failure.met for failure in flagged)
    return line


def _judged(low: float, high: float, true: float) -> list[float]:
    return [float(not low <= true <= high), (high - low) / 2]


def run(options: argparse.Namespace) -> None:
    """Grow the cells together until each has its experiments, or the time is over; costly cells grow less."""
    truths, cells = read()
    effort, experiments = options.effort, options.experiments
    counted = "copy given" if EFFORTS[effort].draws else "experiments"  # and not withheld
    until = time.monotonic() + 60 * options.minutes
    asked = [
        (effort, name, count)
        for name in options.cases
        for count in options.counts or CASE_COUNTS.get(name, (1,))
    ]
    with LINES.open("a") as file:
        while time.monotonic() < until:
            left = [cell for cell in asked if cells[cell][counted] < experiments]
            if not left:
                return
            _, name, count = cell = min(left, key=lambda cell: _turn(cells[cell]))
            if name not in truths:
                truths[name] = truth(CASES[name])
                file.write(json.dumps({"case": name, "truth": truths[name]}) + "\n")
            started = time.process_time()
            number = FIRST_NUMBERS[effort] + int(cells[cell]["experiments"])
            result = measure(CASES[name], count, number, EFFORTS[effort], truths[name])
            result["seconds"] = time.process_time() - started
            line = {"effort": effort, "case": name, "count": count, "number": number, **result}
            file.write(json.dumps(line) + "\n")
            file.flush()
            add(cells[cell], result)


def _turn(sums: Sums) -> float:
    """Return the key by which cells take turns; a cell that takes four times as long gets half as many."""
    return float((sums["experiments"] * sums["seconds"]) ** 0.5)


Sums = Counter[str]  # over the experiments of a cell
Cells = defaultdict[tuple[str, str, int], Sums]  # by effort, case and replications


def add(sums: Sums, line: dict[str, Any]) -> None:
    """Add an experiment to the sums of its cell."""
    judged = {"mean": line["mean"]}
    if "copy" in line:
        judged["copy"] = line["copy"]
        sums.update({"copy effect": line["effect"], "copy effect with bias": line["on copy"]})
    if "t" in line:
        judged["t"] = line["t"]
    for name, (missed, width) in judged.items():
        sums.update({f"{name} given": 1, f"{name} missed": missed})
        if np.isfinite(width):
            sums.update({f"{name} finite": 1, f"{name} width": width})
    if "outside" in line:
        sums.update({"guaranteed": 1, "outside": line["outside"]})
    sums.update({"experiments": 1, "rejected": line["rejected"], "flagged": line["flagged"]})
    sums["met"] += line["met"] > 0
    sums["seconds"] += line.get("seconds", 0.0)


def read() -> tuple[dict[str, float], Cells]:
    """Return the truth of each case, and the sums of each cell: stored sums and the lines since."""
    stored = json.loads(SUMS.read_text()) if SUMS.exists() else {"truths": {}, "cells": []}
    truths, cells = stored["truths"], Cells(Sums)
    for effort, name, count, sums in stored["cells"]:
        cells[effort, name, count] = Sums(sums)
    for text in LINES.read_text().splitlines() if LINES.exists() else ():
        line = json.loads(text)
        if "truth" in line:
            truths[line["case"]] = line["truth"]
        else:
            add(cells[line["effort"], line["case"], line["count"]], line)
    return truths, cells


def keep() -> None:
    """Add the lines to the stored sums."""
    truths, cells = read()
    listed = [[*cell, dict(sums)] for cell, sums in sorted(cells.items())]
    write_whole(SUMS, json.dumps({"truths": truths, "cells": listed}, indent=1).encode())
    LINES.unlink(missing_ok=True)


def tables(truths: dict[str, float], cells: Cells) -> Iterator[str]:
    """Yield the tables: the interval of the effect at the default effort, and what needs the long run alone."""
    names = [(name, count) for name in CASES for count in COUNTS]
    yield "| case | M | true effect | intervals | withheld | missed | half-width | bias | bias on the copy |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, count in names:
        sums = cells["default", name, count]
        if given := sums["copy given"]:
            yield _row(
                name,
                count,
                f"{truths[name]:.3g}",
                f"{given:.0f}",
                f"{sums['experiments'] - given:.0f}",
                f"{sums['copy missed']:.0f}",
                f"{sums['copy width'] / given:.3g}",
                *(f"{sums[effect] / given - truths[name]:.2g}" for effect in EFFECTS),
            )
    yield ""
    yield (
        "| case | M | experiments | around the mean: miss % / half-width | t | arms outside the guaranteed set % | "
        "constancy rejected % | failure flagged % | met % |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, count in names:
        sums = sum((cells[effort, name, count] for effort in EFFORTS), Sums())
        if not sums["experiments"]:
            continue
        shares = [_share(sums, name, "experiments") for name in ("rejected", "flagged", "met")]
        outside = _share(sums, "outside", "guaranteed")
        around = judged(sums, "mean"), judged(sums, "t")
        yield _row(name, count, _count(sums, "experiments"), *around, outside, *shares)


EFFECTS = ("copy effect", "copy effect with bias")


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _count(sums: Sums, name: str) -> str:
    return f"{sums[name]:.0f}" if sums[name] else "-"


def _share(sums: Sums, name: str, of: str) -> str:
    return f"{100 * sums[name] / sums[of]:.1f}" if sums[of] else "-"


def judged(sums: Sums, name: str) -> str:
    """Return the misses and half-width of an interval as text."""
    if not (given := sums[f"{name} given"]):
        return "-"
    width = sums[f"{name} width"] / max(1, sums[f"{name} finite"])
    return f"{100 * sums[f'{name} missed'] / given:.1f} / {width:.3g}"


def drifting_runs(count: int, fall: float, seed: int, horizon: int = 1_000) -> sl.Runs:
    """Simulate example 1 in lock-step on arms whose best mean falls by `fall` over the horizon."""
    generator = np.random.Generator(np.random.PCG64(seed))
    means, alphas = np.array(FIVE.means), (2.5, 3.0)
    stacks = np.full((count, 5, horizon), np.nan)
    pulls, totals = np.zeros((count, 2, 5), np.int64), np.zeros((count, 2, 5))
    rows = np.arange(count)
    for period in range(1, horizon + 1):
        now = means - fall * (period / horizon) * (np.arange(5) == 0)
        for policy, alpha in enumerate(alphas):
            with np.errstate(divide="ignore", invalid="ignore"):
                bonus = np.sqrt(alpha * np.log(period) / pulls[:, policy])
                index = np.where(
                    pulls[:, policy] == 0, np.inf, totals[:, policy] / pulls[:, policy] + bonus
                )
            arm = index.argmax(axis=1)
            position = pulls[rows, policy, arm]
            fresh = np.isnan(stacks[rows, arm, position])
            drawn = (generator.random(count) < now[arm]).astype(float)
            stacks[rows, arm, position] = np.where(fresh, drawn, stacks[rows, arm, position])
            totals[rows, policy, arm] += stacks[rows, arm, position]
            pulls[rows, policy, arm] += 1
    whole = sl.Experiment(policies=UCBS, arms=5, horizon=horizon, replications=count, seed=seed)
    observed: list[Floats] = [
        stacks[row, arm, : pulls[row, :, arm].max()] for row in range(count) for arm in range(5)
    ]
    return sl.Runs(
        whole,
        np.array([horizon]),
        totals.sum(axis=2)[:, :, None],
        pulls[:, :, None],
        whole.design.interactions(pulls[:, :, None]),
        observed=np.concatenate(observed),
    )


def drift(experiments: int) -> Iterator[str]:
    """Yield how often a fall of the best arm by 0.1, and no fall, is rejected at 1, 5 and 10 replications."""
    yield "| fall of the best arm | M | experiments | constancy rejected % |"
    yield "|---|---|---|---|"
    for fall in (0.0, 0.1):
        for count in (1, 5, 10):
            rejected = sum(map(_is_rejected, _drifting_experiments(count, fall, experiments)))
            yield f"| {fall:g} | {count} | {experiments} | {100 * rejected / experiments:.1f} |"


def _drifting_experiments(count: int, fall: float, experiments: int) -> Iterator[sl.Runs]:
    for first in range(0, experiments, BLOCK):
        experiments_at_once = min(BLOCK, experiments - first)
        whole = drifting_runs(count * experiments_at_once, fall, 10_000 * count + first)
        for number in range(experiments_at_once):
            seed = 1_000_000 * count + first + number  # of its twin's random numbers
            experiment = whole.experiment.replace(seed=seed, replications=count)
            yield replace(whole.part(number * count, count), first=0, experiment=experiment)


def equality(experiments: int) -> Iterator[str]:
    """Yield how often equal arms are ruled out, so that the effect's interval may leave out the true effect 0."""
    yield "| case | M | experiments | equal arms ruled out % |"
    yield "|---|---|---|---|"
    for name in [name for name in CASES if name.startswith("equal")]:
        for count in (1, 2, 5):
            admitted = sum(
                _admits_equal_arms(CASES[name], count, number) for number in range(experiments)
            )
            yield f"| {name} | {count} | {experiments} | {100 * (1 - admitted / experiments):.1f} |"


def _admits_equal_arms(case: Case, count: int, number: int) -> bool:
    seed = 1_000_000 * count + 80_000 + number
    runs = sl.simulate(experiment(case, count, seed), case.environment, workers=1)
    copy = copy_arms(observed_stacks(runs), None, runs.experiment.arm_names)
    return admits_equality(copy.tied_arms.equality, LEVEL)


def _is_rejected(runs: sl.Runs) -> bool:
    simulator = CopySimulator(runs, workers=1)
    long_run = run_long(runs, None, simulator, EFFORTS["brief"].replications)
    return check_stability(long_run.stacks, long_run.runs, simulator.generator(0)).rejected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--counts", nargs="*", type=int)
    parser.add_argument("--effort", choices=EFFORTS, default="brief")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--drift", type=int, default=0, metavar="EXPERIMENTS")
    parser.add_argument("--equality", type=int, default=0, metavar="EXPERIMENTS")
    options = parser.parse_args()
    if options.drift or options.equality:
        lines = drift(options.drift) if options.drift else equality(options.equality)
        for line in lines:
            print(line, flush=True)
    elif options.table:
        print(*tables(*read()), sep="\n")
    elif options.keep:
        keep()
    else:
        run(options)


if __name__ == "__main__":
    main()
