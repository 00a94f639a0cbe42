"""Rates at which `compare` warns rightly and for nothing, on cases where few replications mislead.

    python benchmarks/seed_checks.py [--experiments 300] [--seed 1000] [--live] [--unchecked] [--only ...]

A verdict is wrong if the 95% t interval misses the true difference, which 40,000 other replications give. Each
experiment has its own seed, and so its own check on other seeds. The table has the share of wrong verdicts, the share
of wrong and of right verdicts with a caution, verdicts with the wrong sign and how many of them have no caution, the
share of experiments whose verdict says that such intervals miss too often, and how many wrong and right verdicts name
a rare failure.

With `--unchecked`, `compare` does not check, as where policies are Python objects, and states a bound instead: the
share of failures that would not show. Verdicts with the bound count as naming a failure.

With `--live`, `compare` gets what a live experiment has: the rewards of its users, without the environment. It runs
the policies on a copy of the arms instead of other seeds. The first experiment of each case is rehearsed event by
event, and its runs must have the bits of the simulated runs that the others use.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import sameluck as sl
from sameluck.simulation.rewards import observed_rewards

HEADER = (
    "case",
    "M",
    "wrong",
    "of these cautioned",
    "right and cautioned",
    "wrong sign",
    "of these silent",
    "miss rate stated",
    "failure named if wrong",
    "if right",
)
COUNTS = (10, 20, 50)
TRUTH = 40_000  # replications
UCB, EPSILON, GREEDY = sl.UCB1(2.0), sl.EpsilonGreedy(0.1), sl.EpsilonGreedy(0.0)
REVENUE = sl.ZeroInflatedLognormal((0.10, 0.12), (2.0, 2.0), (1.0, 1.0))
TEN_ARMS = (0.3, 0.25, 0.25, 0.2, 0.2, 0.2, 0.15, 0.15, 0.1, 0.1)
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
    "lognormal, epsilon v Thompson": Case(
        sl.ThompsonNormalInverseGamma(), sl.EpsilonGreedy(0.05), sl.Lognormal((2.2, 2.0, 1.8)), 300
    ),
    "exponential, KL-UCB v commit": Case(
        sl.KLUCBGaussian(), sl.ExploreThenCommit(8), sl.Exponential((1.3, 1.0)), 400
    ),
    "ten arms, Thompson v gradient": Case(
        sl.ThompsonBernoulli(), sl.GradientBandit(0.3), sl.Bernoulli(TEN_ARMS), 600
    ),
    "Gaussian prior, UCB1 v epsilon": Case(
        sl.UCB1(1.0), sl.EpsilonGreedy(0.02), sl.GaussianPrior(), 250, 4
    ),
    "conversions, UCB-tuned v epsilon": Case(
        sl.UCBTuned(), sl.DecreasingEpsilonGreedy(0.5, 1.0), sl.Bernoulli((0.06, 0.03, 0.03)), 800
    ),
}  # fmt: skip
EQUAL = sl.Bernoulli((0.5, 0.5, 0.5))
LIVE_CASES = {
    **{name: case for name, case in CASES.items() if case.arms is None},
    "greedy fails in 1 of 40": Case(UCB, GREEDY, sl.Bernoulli((0.95, 0.5)), 2_000),
    "equal arms, uniform v UCB1": Case(sl.Uniform(), sl.UCB1(0.5), EQUAL, 200),
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
    named_wrong: int
    named_right: int
    bound_stated: int

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
            f"{self.named_wrong} of {self.wrong}",
            f"{self.named_right} of {right}",
        ]


def simulated(experiment: sl.Experiment, settings: Case) -> sl.Runs:
    return sl.simulate(experiment, settings.environment)


def as_live(experiment: sl.Experiment, settings: Case) -> sl.Runs:
    """Return the runs that a live experiment would have: single rewards, and no environment."""
    runs = simulated(experiment, settings)
    return dataclasses.replace(runs, environment=None, observed=observed_rewards(runs))


def rehearsed(experiment: sl.Experiment, settings: Case) -> sl.Runs:
    with sl.open("sqlite://", clock=sl.VirtualClock()) as store:
        live = store.start("rehearsed", experiment)
        sl.rehearse(live, settings.environment)
        return live.runs()


def require_same(runs: sl.Runs, other: sl.Runs) -> None:
    for name in ("rewards", "pulls", "observed"):
        if not np.array_equal(getattr(runs, name), getattr(other, name)):
            raise SystemExit(f"a rehearsal has other {name} than a simulation")


def rows(case: str, experiments: int, first_seed: int, *, live: bool, check: bool) -> Iterator[Row]:
    settings = LIVE_CASES[case] if live else CASES[case]
    make = as_live if live else simulated
    experiment = sl.Experiment(
        policies={"control": settings.control, "policy": settings.policy},
        arms=settings.arms or settings.environment.arms,
        horizon=settings.horizon,
        replications=TRUTH,
        seed=999,
    )
    long = sl.simulate(experiment, settings.environment).rewards[:, :, 0]
    truth = float((long[:, 1] - long[:, 0]).mean())
    if live:
        first = experiment.replace(replications=min(COUNTS), seed=first_seed)
        require_same(as_live(first, settings), rehearsed(first, settings))
    for count in COUNTS:
        found = [0] * 9
        for seed in range(experiments):
            changes = {"replications": count, "seed": first_seed + seed}
            result = sl.compare(make(experiment.replace(**changes), settings), check=check)
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
            states_bound = "would not show in" in result.verdict
            names_failure = states_bound or bool(result.check.failures or result.failures)
            found[6] += is_wrong and names_failure
            found[7] += not is_wrong and names_failure
            found[8] += states_bound
        yield Row(case, count, experiments, *found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1_000, help="of the first experiment")
    parser.add_argument("--live", action="store_true", help="as live runs, without an environment")
    parser.add_argument("--unchecked", action="store_true", help="without other seeds or a copy")
    parser.add_argument("--only", nargs="*", help="cases")
    arguments = parser.parse_args()
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    total = [0] * 10
    options = {"live": arguments.live, "check": not arguments.unchecked}
    for case in arguments.only or (LIVE_CASES if arguments.live else CASES):
        for row in rows(case, arguments.experiments, arguments.seed, **options):
            print(f"| {' | '.join(row.cells())} |", flush=True)
            total = [a + b for a, b in zip(total, row[2:], strict=True)]
    experiments, wrong, warned_wrong, warned_right, wrong_sign, silent, *_, bounds = total
    print(
        f"\nAll: {warned_wrong} of {wrong} wrong verdicts cautioned ({warned_wrong / max(wrong, 1):.0%}), "
        f"{warned_right} of {experiments - wrong} right verdicts ({warned_right / max(experiments - wrong, 1):.1%}); "
        f"{silent} of {wrong_sign} verdicts with the wrong sign have no caution; {bounds} verdicts state the "
        "share of failures that would not show."
    )


if __name__ == "__main__":
    main()
