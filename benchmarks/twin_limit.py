"""How often the interval of the effect on the copy misses if the simulation had no error.

    python benchmarks/twin_limit.py [--experiments 2000] [--steps 1e9] [--cases NAME ...] [--counts M ...] [--table]

The effect on Bernoulli arms is a function of their means. For each cell (a case of twin.py at 1, 2, 5 or 10
replications) it is measured once: to simulations of draws of the arms from the ledgers of many experiments, each on
luck of its own, a polynomial is fitted (in the arcsine of the root of each mean; the degree by cross-validation). An
experiment then costs nothing but its ledger: its interval holds 95% of the values of the function at its 200 draws,
as a twin with unlimited simulation would; a twin adds the error of its simulation to both ends.

Results go to benchmarks/twin_limit.json, cell by cell: misses, mean half-width, the degree, and two errors of the
fit: of an end, half of the root mean square of what the ends from two halves of the draws differ; and at the true
means, where the effect is known.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sameluck as sl
from sameluck.arrays import Floats
from sameluck.files import write_whole
from sameluck.inference.twins.copies import BernoulliCopy
from sameluck.inference.twins.ledger import observed_stacks
from sameluck.inference.twins.simulations import Effort
from sameluck.simulation.tasks import Work
from twin import CASES, COUNTS, EFFORTS, LEVEL, Case, experiment, judged, read

RESULTS = Path(__file__).with_name("twin_limit.json")
BLOCK = 200  # experiments whose ledgers are made at once
AT_A_POINT = 128  # replications
FOLDS = 5
MOST_TERMS = 300
NAMES = [name for name, case in CASES.items() if isinstance(case.environment, sl.Bernoulli)]


def drawn_chances(case: Case, count: int, experiments: int) -> Floats:
    """The means that the ledger of each experiment leaves possible (experiment, draw, arm)."""
    generator = np.random.Generator(np.random.PCG64(count))
    return np.concatenate(
        [
            [BernoulliCopy(*ledger).chances(Effort().draws, generator) for ledger in block]
            for block in _ledgers(case, count, experiments)
        ]
    )


def _ledgers(case: Case, count: int, experiments: int) -> Iterator[Floats]:
    """Users and successes (experiment, 2, arm)."""
    for first in range(0, experiments, BLOCK):
        many = min(BLOCK, experiments - first)
        whole = experiment(case, count * many, 500_000_000 + 1_000 * first + count)
        moments = observed_stacks(sl.simulate(whole, case.environment, workers=1)).moments()
        both = np.stack([moments.depths.sum(axis=1), moments.totals.sum(axis=1)], axis=1)
        yield both.reshape(many, count, 2, -1).sum(axis=1).astype(float)


def simulated_effects(case: Case, chances: Floats) -> Floats:
    """The mean difference of the last policy and the first at each of the means, on luck of its own."""
    whole = experiment(case, len(chances) * AT_A_POINT, 400_000_007)
    end, names = np.array([case.horizon]), list(case.policies)
    effects = np.empty(len(chances))
    for place, means in enumerate(chances.tolist()):
        some = range(place * AT_A_POINT, (place + 1) * AT_A_POINT)
        work = Work(whole, sl.Bernoulli(means), end, some)
        last, first = (work.runner(names[column]).run(some, end).rewards for column in (-1, 0))
        effects[place] = (last - first).mean()
    return effects


class Polynomial(NamedTuple):
    """A polynomial of standardised arcsines of roots of means."""

    degree: int
    centre: Floats
    scale: Floats
    weights: Floats

    def __call__(self, chances: Floats) -> Floats:
        """Its value at rows of means."""
        return _terms((_arcsines(chances) - self.centre) / self.scale, self.degree) @ self.weights


def _arcsines(chances: Floats) -> Floats:
    return np.arcsin(np.sqrt(chances))


def _terms(values: Floats, degree: int) -> Floats:
    columns = range(values.shape[1])
    chosen = [
        list(some)
        for power in range(degree + 1)
        for some in combinations_with_replacement(columns, power)
    ]
    return np.stack([values[:, some].prod(axis=1) for some in chosen], axis=1)


def fit(chances: Floats, effects: Floats, degree: int) -> Polynomial:
    """Least squares."""
    angles = _arcsines(chances)
    centre, scale = angles.mean(axis=0), angles.std(axis=0)
    terms = _terms((angles - centre) / scale, degree)
    return Polynomial(degree, centre, scale, np.linalg.lstsq(terms, effects)[0])


def best_degree(chances: Floats, effects: Floats) -> int:
    """That of the smallest error at points that were left out."""
    fold = np.arange(len(effects)) % FOLDS
    errors: dict[int, float] = {}
    for degree in range(1, 9):
        if _terms(chances[:1], degree).shape[1] > min(MOST_TERMS, len(effects) // 10):
            break
        parts = [(fold != one, fold == one) for one in range(FOLDS)]
        left_out = [
            (fit(chances[kept], effects[kept], degree)(chances[out]) - effects[out]) ** 2
            for kept, out in parts
        ]
        errors[degree] = float(np.concatenate(left_out).mean())
    return min(errors, key=errors.__getitem__)


def measure(case: Case, count: int, experiments: int, steps: float, true: float) -> dict[str, Any]:
    """The misses of a cell."""
    chances = drawn_chances(case, count, experiments)
    flat = chances.reshape(-1, chances.shape[2])
    points = int(steps / (2 * case.horizon * AT_A_POINT))
    generator = np.random.Generator(np.random.PCG64(10))
    chosen = flat[generator.choice(len(flat), points, replace=False)]
    effects = simulated_effects(case, chosen)
    degree = best_degree(chosen, effects)
    function = fit(chosen, effects, degree)
    halves = [fit(chosen[half::2], effects[half::2], degree) for half in (0, 1)]
    low, high = _ends(function, chances)
    apart = np.subtract(*(_ends(half, chances[::10]) for half in halves))
    fitted = float(function(np.array([case.environment.means]))[0])
    return {
        "experiments": experiments,
        "below": int((high < true).sum()),
        "above": int((low > true).sum()),
        "width": float((high - low).mean() / 2),
        "degree": degree,
        "error": float(np.sqrt((apart**2).mean()) / 2),
        "at true means": fitted,
        "true": true,
        "missed fitted": int(((high < fitted) | (low > fitted)).sum()),
    }


def _ends(function: Polynomial, chances: Floats) -> Floats:
    """The ends of the interval of each experiment."""
    values = np.array([function(one) for one in chances])
    return np.quantile(values, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=1)


def read_results() -> dict[str, dict[str, Any]]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def table() -> str:
    """The interval of the effect on the copy: without an error of the simulation, and as simulated most often."""
    results, (_, cells) = read_results(), read()
    parts = [
        "| case | M | without error of simulation: experiments | miss % / half-width | "
        "all of it below, above the truth % | errors of the fit | whole twins: effort | experiments | "
        "miss % / half-width |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in CASES:
        for count in COUNTS:
            found = _limit(results.get(f"{name}, M = {count}"))
            by_effort = {effort: cells[effort, name, count] for effort in EFFORTS}
            effort, sums = max(by_effort.items(), key=lambda one: one[1]["copy given"])
            found += [effort, f"{sums['copy given']:.0f}", judged(sums, "copy")]
            parts.append(f"| {' | '.join([name, str(count), *found])} |")
    return "\n".join(parts)


def _limit(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return ["-"] * 4
    beside = found["at true means"] - found["true"]
    below, above = (100 * found[side] / found["experiments"] for side in ("below", "above"))
    missed = f"{below + above:.1f} / {found['width']:.3g}"
    return [
        f"{found['experiments']:,}",
        missed,
        f"{below:.1f}, {above:.1f}",
        f"{found['error']:.2g}, {beside:+.2g}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=2_000)
    parser.add_argument("--steps", type=float, default=1e9, help="periods of a policy, for a cell")
    parser.add_argument("--cases", nargs="*", default=NAMES)
    parser.add_argument("--counts", nargs="*", type=int, default=list(COUNTS))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        print(table())
        return
    truths = read()[0]
    for name in options.cases:
        for count in options.counts:
            found = measure(CASES[name], count, options.experiments, options.steps, truths[name])
            results = {**read_results(), f"{name}, M = {count}": found}
            write_whole(RESULTS, json.dumps(results, indent=1).encode())


if __name__ == "__main__":
    main()
