"""Error rates that docs/statistics.md promises, beside the measured rates on hard cases.

    python benchmarks/promises.py [--experiments 1000] [--json FILE] [--only NAME ...]

Prints a Markdown table: the promise, the case, the replications of an experiment, the promised error rate, the
measured rate with its standard error, and whether the promise is kept. A kept rate is at most 3.3 standard errors
above the promise, with a false alarm in 1 of 2,000 rows. "-" means that no rate is promised: there `compare` warns
from replications on other seeds, which `benchmarks/seed_checks.py` measures.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import sameluck as sl
from sameluck.intervals import Interval, anytime_half_widths, obrien_fleming, t_interval

COUNTS = (5, 10, 20, 50)
ARMS5 = sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1))
EXAMPLE1 = {"a": sl.UCB1(2.5), "b": sl.UCB1(3.0)}
EXAMPLE2 = {"a": sl.UCB1(2.0), "b": sl.ThompsonBernoulli(first_plays=1)}
EXAMPLE3 = {"a": sl.ThompsonGaussian(first_plays=1), "b": sl.EpsilonGreedy(0.1)}
GAUSSIAN = sl.Gaussian((1.0, 0.8, -2.0, -3.0, -4.0))
EPSILON = sl.EpsilonGreedy(0.1)


def _revenue() -> sl.Empirical:
    """Return arms where a tenth of the users spend a lognormal amount; the second arm sells a little more."""
    rng = np.random.default_rng(1)
    spent = np.exp(rng.normal(2.0, 1.0, (2, 20_000)))
    bought = rng.random((2, 20_000)) < [[0.10], [0.12]]
    return sl.Empirical(tuple(tuple(row) for row in (spent * bought).tolist()))


class Case(NamedTuple):
    """Two policies, the control first, and an environment."""

    policies: dict[str, object]
    environment: object
    horizon: int
    exact: bool = True  # whether the t interval's rate is promised


CASES = {
    "equal policies, T = 200": Case({"a": EPSILON, "b": EPSILON}, ARMS5, 200),
    "example 1, T = 50": Case(EXAMPLE1, ARMS5, 50, exact=False),
    "example 1, T = 1,000": Case(EXAMPLE1, ARMS5, 1_000),
    "example 2, T = 1,000": Case(EXAMPLE2, sl.Bernoulli((0.7, 0.3)), 1_000),
    "example 3, T = 1,000": Case(EXAMPLE3, GAUSSIAN, 1_000, exact=False),
    "near-tie, T = 1,000": Case({"a": sl.UCB1(2.0), "b": sl.UCB1(2.05)}, ARMS5, 1_000, exact=False),
    "revenue, T = 1,000": Case({"a": EPSILON, "b": sl.EpsilonGreedy(0.2)}, _revenue(), 1_000),
    "rarely failing, T = 5,000": Case(
        {"a": sl.UCB1(2.0), "b": sl.EpsilonGreedy(0.0)},
        sl.Bernoulli((0.95, 0.5)),
        5_000,
        exact=False,
    ),
}


class Row(NamedTuple):
    """Promise in a case."""

    promise: str
    case: str
    replications: int
    promised: float | None  # rate of errors
    measured: float
    experiments: int

    @property
    def error(self) -> float:
        """Binomial standard error of the measured or the promised rate, whichever is larger."""
        rate = self.measured if self.promised is None else max(self.measured, self.promised)
        return math.sqrt(rate * (1 - rate) / self.experiments)

    @property
    def kept(self) -> str:
        """Verdict on the measured rate."""
        if self.promised is None:
            return "not promised"
        return "yes" if self.measured <= self.promised + 3.3 * self.error else "NO"

    def cells(self) -> list[str]:
        """Return the row as text."""
        promised = "-" if self.promised is None else f"{self.promised:.1%}"
        measured = f"{self.measured:.1%} ({self.error:.1%})"
        return [self.promise, self.case, str(self.replications), promised, measured, self.kept]


def of_policies(policies: dict[str, object], environment: object, horizon: int) -> sl.Experiment:
    arms = environment.arms
    return sl.Experiment(policies=policies, arms=arms, horizon=horizon, replications=2, seed=20_261)


def simulated(
    case: Case, count: int, experiments: int, **arguments: object
) -> tuple[sl.Runs, list[sl.Runs]]:
    """Simulate all experiments of a case; return the runs, whole and by experiment."""
    experiment = of_policies(case.policies, case.environment, case.horizon)
    whole = experiment.replace(replications=count * experiments)
    runs = sl.simulate(whole, case.environment, **arguments)
    return runs, [runs.part(number * count, count) for number in range(experiments)]


def t_intervals(experiments: int) -> Iterator[Row]:
    """Measure misses of the 95% t interval."""
    for name, case in CASES.items():
        for count in COUNTS:
            whole, by_experiment = simulated(case, count, experiments)
            truth = float((whole.rewards[:, 1, 0] - whole.rewards[:, 0, 0]).mean())
            missed = 0
            for runs in by_experiment:
                (effect,) = sl.compare(runs, check=False).effects
                missed += not effect.low <= truth <= effect.high
            promised = 0.05 if case.exact else None
            yield Row("t interval", name, count, promised, missed / experiments, experiments)


def equal(count: int) -> Case:
    return Case({f"p{number}": EPSILON for number in range(count)}, ARMS5, 100)


def families(experiments: int) -> Iterator[Row]:
    """Measure findings among equal policies, and exclusions of the best policy."""
    for count in COUNTS:
        for pairs, case, name in (
            ("all", equal(8), "8 equal policies, all pairs"),
            ("best", equal(10), "10 equal policies, with the winner"),
        ):
            experiment = of_policies(*case[:3]).replace(replications=count)
            rate = sl.coverage(experiment, ARMS5, experiments=experiments, pairs=pairs).power
            yield Row("no false finding", name, count, 0.05, rate, experiments)
        _, by_experiment = simulated(equal(8), count, experiments)
        left_out = sum(
            not sl.compare(runs, best=True, check=False).standings[0].may_be_best
            for runs in by_experiment
        )
        name = "8 equal policies, one of them the best"
        yield Row("best is not excluded", name, count, 0.05, left_out / experiments, experiments)
    grid = [10 * k for k in range(1, 21)]
    for count in COUNTS:
        case = Case({"a": EPSILON, "b": EPSILON}, ARMS5, 200)
        experiment = of_policies(*case[:3]).replace(replications=count)
        arguments = {"simultaneous": "checkpoints", "checkpoints": grid, "experiments": experiments}
        rate = sl.coverage(experiment, ARMS5, **arguments).power
        yield Row("no false finding", "A/A, 20 checkpoints", count, 0.05, rate, experiments)


def medians(experiments: int) -> Iterator[Row]:
    """Measure misses of the exact interval of the median."""
    for name in ("example 3, T = 1,000", "rarely failing, T = 5,000", "revenue, T = 1,000"):
        for count in COUNTS:
            experiment = of_policies(*CASES[name][:3]).replace(replications=count)
            missed = 1 - sl.coverage(
                experiment, CASES[name].environment, experiments=experiments, interval="median"
            ).covered  # fmt: skip
            yield Row("median interval", name, count, 0.05, missed, experiments)


def sequences(experiments: int) -> Iterator[Row]:
    """Measure misses at any look: anytime at all looks, O'Brien-Fleming at planned looks."""
    for name, case in CASES.items():
        whole, by_experiment = simulated(case, 100, experiments)
        truth = float((whole.rewards[:, 1, 0] - whole.rewards[:, 0, 0]).mean())
        differences = [runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0] for runs in by_experiment]
        for first in (5, 20, 50):
            missed = sum(_ever_missed(values, truth, first) for values in differences)
            promised = 0.05 if case.exact else None
            promise = f"anytime, looks from {first}"
            yield Row(promise, name, 100, promised, missed / experiments, experiments)
        missed = sum(
            any(not t.low <= truth <= t.high for t in _every_tenth(values))
            for values in differences
        )
        yield Row("t, extended by 10", name, 100, None, missed / experiments, experiments)
        for looks in (5, 10):
            plan = obrien_fleming(100, looks, 0.95)
            missed = sum(
                any(
                    not interval.low <= truth <= interval.high
                    for look in plan
                    if (interval := t_interval(values[: look.replications], look.level))
                )
                for values in differences
            )
            promised = 0.05 if case.exact else None
            promise = f"O'Brien-Fleming, {looks} looks"
            yield Row(promise, name, 100, promised, missed / experiments, experiments)


def _every_tenth(values: np.ndarray) -> Iterator[Interval]:
    for count in range(10, values.size + 1, 10):
        yield t_interval(values[:count], 0.95)


def _ever_missed(values: np.ndarray, truth: float, first: int) -> bool:
    means = np.cumsum(values) / np.arange(1, values.size + 1)
    half = anytime_half_widths(values, 0.95)
    return bool(np.any(np.abs(means - truth)[first - 1 :] > half[first - 1 :]))


def adjusted(experiments: int) -> Iterator[Row]:
    """Measure misses of the interval with adjust="means"."""
    for name in ("example 1, T = 1,000", "example 2, T = 1,000", "example 3, T = 1,000"):
        for count in (20, 50):
            case = CASES[name]
            experiment = of_policies(*case[:3]).replace(replications=count)
            arguments = {"experiments": experiments, "adjust": "means"}
            missed = 1 - sl.coverage(experiment, case.environment, **arguments).covered
            promised = 0.05 if case.exact else None
            yield Row('adjust="means"', name, count, promised, missed, experiments)


def races(experiments: int) -> Iterator[Row]:
    """Measure races that certify a policy beyond the tolerance of the best."""
    number = max(10, experiments // 10)
    failing = CASES["rarely failing, T = 5,000"]
    wrong = 0
    for seed in range(number):
        race = sl.race(
            failing.policies, failing.environment, tolerance=10, horizon=5_000, seed=seed
        )
        wrong += race.certified and race.best == "b"
    yield Row("race is right", "rarely failing, tolerance 10", 0, 0.05, wrong / number, number)
    alphas = {f"alpha {alpha}": sl.UCB1(alpha) for alpha in (0.5, 1.0, 2.0, 3.0)}
    experiment = of_policies(alphas, ARMS5, 300).replace(replications=20_000)
    means = sl.simulate(experiment, ARMS5).rewards[:, :, 0].mean(axis=0)
    good = {name for name, mean in zip(alphas, means, strict=True) if mean >= means.max() - 1.0}
    wrong = 0
    for seed in range(number):
        race = sl.race(alphas, ARMS5, tolerance=1.0, horizon=300, seed=seed)
        wrong += race.certified and race.best not in good
    yield Row("race is right", "UCB1, four alphas, tolerance 1", 0, 0.05, wrong / number, number)


def plans(experiments: int) -> Iterator[Row]:
    """Measure experiments of the planned size that miss the planned effect, over plans from different pilots."""
    for name in ("example 1, T = 1,000", "example 2, T = 1,000"):
        case = CASES[name]
        failed = []
        for seed in range(max(2, experiments // 100)):
            experiment = of_policies(*case[:3]).replace(seed=seed)
            plan = sl.plan(experiment, case.environment, effect=2.0, power=0.9)
            planned = experiment.replace(replications=plan.replications, seed=seed + 1_000)
            arguments = {"effect": 2.0, "experiments": 200}
            failed.append(1 - sl.coverage(planned, case.environment, **arguments).power)
        count = 200 * len(failed)
        # The promise has half a percent for the pilots' errors.
        yield Row("plan, power 90%", name, 0, 0.105, float(np.mean(failed)), count)


PROMISES: dict[str, Callable[[int], Iterator[Row]]] = {
    "t": t_intervals,
    "families": families,
    "medians": medians,
    "sequences": sequences,
    "adjusted": adjusted,
    "races": races,
    "plans": plans,
}
HEADER = ("promise", "case", "M", "promised", "measured", "kept")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=int, default=1_000)
    parser.add_argument("--only", nargs="*", choices=list(PROMISES), default=list(PROMISES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
    for name in options.only:
        for row in PROMISES[name](options.experiments):
            rows.append(row)
            print("| " + " | ".join(row.cells()) + " |", flush=True)
    if options.json:
        options.json.write_text(json.dumps([{**row._asdict(), "kept": row.kept} for row in rows]))
    broken = sum(row.kept == "NO" for row in rows)
    print(f"\n{len(rows) - broken} of {len(rows)} rows kept.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
