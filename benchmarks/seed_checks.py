"""Rates at which `compare` warns rightly and for nothing, on cases where few replications mislead.

    python benchmarks/seed_checks.py [--experiments 300] [--seed 1000] [--only NAME ...]

A verdict is wrong if the 95% t interval misses the true difference, which 40,000 other replications give. Each
experiment has its own seed, and so its own check on other seeds. The table has the share of wrong verdicts, the share
of wrong and of right verdicts with a caution, verdicts with the wrong sign and how many of them have no caution, and
the share of experiments whose verdict says that such intervals miss too often.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import sameluck as sl

HEADER = (
    "case",
    "M",
    "wrong",
    "of these cautioned",
    "right and cautioned",
    "wrong sign",
    "of these silent",
    "miss rate stated",
)
COUNTS = (10, 20, 50)
TRUTH = 40_000  # replications
UCB, EPSILON, GREEDY = sl.UCB1(2.0), sl.EpsilonGreedy(0.1), sl.EpsilonGreedy(0.0)
REVENUE = sl.ZeroInflatedLognormal((0.10, 0.12), (2.0, 2.0), (1.0, 1.0))
ARMS5 = sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1))


class Case(NamedTuple):
    """Two policies, the control first, and an environment."""

    control: object
    policy: object
    environment: object
    horizon: int
    arms: int | None = None


CASES = {
    "healthy: UCB1 2.5 v 3, five arms": Case(sl.UCB1(2.5), sl.UCB1(3.0), ARMS5, 1_000),
    "Gaussian 1/.6/.2, UCB1 v epsilon": Case(EPSILON, UCB, sl.Gaussian((1.0, 0.6, 0.2)), 200),
    "Student t, df 3, UCB1 v epsilon": Case(EPSILON, UCB, sl.StudentT((1.0, 0.6, 0.2), df=3.0), 200),
    "greedy fails in 1 of 40": Case(UCB, GREEDY, sl.Bernoulli((0.95, 0.5)), 5_000),
    "bold UCB1 fails": Case(sl.UCB1(0.5), sl.UCB1(0.05), sl.Bernoulli((0.9, 0.6)), 500),
    "explore, then commit": Case(UCB, sl.ExploreThenCommit(5), sl.Gaussian((0.5, 0.0)), 1_000),
    "example 3": Case(
        sl.ThompsonGaussian(first_plays=1), EPSILON, sl.Gaussian((1.0, 0.8, -2.0, -3.0, -4.0)), 1_000
    ),
    "revenue": Case(sl.ThompsonGaussian(), sl.EpsilonGreedy(0.05), REVENUE, 1_000),
    "prior, Thompson v greedy": Case(sl.ThompsonBernoulli(), GREEDY, sl.BernoulliPrior(), 300, 3),
    "elimination v Thompson": Case(
        sl.SuccessiveElimination(), sl.ThompsonBernoulli(), sl.Bernoulli((0.5, 0.45)), 2_000
    ),
}  # fmt: skip


class Row(NamedTuple):
    case: str
    replications: int
    experiments: int
    wrong: int
    warned_wrong: int
    warned_right: int
    wrong_sign: int
    silent_wrong_sign: int
    rate_stated: int

    def cells(self) -> list[str]:
        right = self.experiments - self.wrong
        return [
            self.case,
            str(self.replications),
            f"{self.wrong / self.experiments:.1%}",
            f"{self.warned_wrong} of {self.wrong}",
            f"{self.warned_right / right:.1%}" if right else "-",
            str(self.wrong_sign),
            str(self.silent_wrong_sign),
            f"{self.rate_stated / self.experiments:.0%}",
        ]


def rows(case: str, experiments: int, first_seed: int) -> Iterator[Row]:
    settings = CASES[case]
    experiment = sl.Experiment(
        policies={"control": settings.control, "policy": settings.policy},
        arms=settings.arms or settings.environment.arms,
        horizon=settings.horizon,
        replications=TRUTH,
        seed=999,
    )
    long = sl.simulate(experiment, settings.environment).rewards[:, :, 0]
    truth = float((long[:, 1] - long[:, 0]).mean())
    for count in COUNTS:
        found = [0] * 6
        for seed in range(experiments):
            runs = sl.simulate(
                experiment.replace(replications=count, seed=first_seed + seed), settings.environment
            )
            result = sl.compare(runs)
            (effect,) = result.effects
            is_wrong = not effect.low <= truth <= effect.high
            wrong_sign = effect.shows_difference and effect.effect * truth < 0
            warned = bool(result.cautions)
            found[0] += is_wrong
            found[1] += is_wrong and warned
            found[2] += not is_wrong and warned
            found[3] += wrong_sign
            found[4] += wrong_sign and not warned
            found[5] += result.violations.misses is not None
        yield Row(case, count, experiments, *found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1_000, help="of the first experiment")
    parser.add_argument("--only", nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    total = [0] * 6
    for case in arguments.only:
        for row in rows(case, arguments.experiments, arguments.seed):
            print(f"| {' | '.join(row.cells())} |", flush=True)
            total = [a + b for a, b in zip(total, row[2:8], strict=True)]
    experiments, wrong, warned_wrong, warned_right, wrong_sign, silent = total
    print(
        f"\nAll: {warned_wrong} of {wrong} wrong verdicts cautioned ({warned_wrong / max(wrong, 1):.0%}), "
        f"{warned_right} of {experiments - wrong} right verdicts ({warned_right / max(experiments - wrong, 1):.1%}); "
        f"{silent} of {wrong_sign} verdicts with the wrong sign have no caution."
    )


if __name__ == "__main__":
    main()
