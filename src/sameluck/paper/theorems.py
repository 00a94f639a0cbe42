"""The statements that hold at every horizon, checked: models, symmetry, efficiency, unbiasedness, moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sameluck.design import Naive
from sameluck.environments.priors import BernoulliPrior, GaussianPrior
from sameluck.experiment import Experiment
from sameluck.paper.checks import Pending, at_most, difference, equal, never, same_law, verdict
from sameluck.paper.examples import EXAMPLE_1, EXAMPLE_3, EXAMPLES, Example, experiment
from sameluck.paper.literal import Altered, History, World, algorithm_2
from sameluck.paper.parts import (
    Estimate,
    Findings,
    Part,
    Plan,
    Settings,
    Simulation,
    effects,
    mean,
    variance,
)
from sameluck.paper.stacks import centred_sums
from sameluck.policies.epsilon_greedy import EpsilonGreedy
from sameluck.policies.thompson import ThompsonBernoulli, ThompsonGaussian
from sameluck.policies.ucb import UCB1
from sameluck.runs import Runs
from sameluck.simulation.trace import trace
from sameluck.trajectories import Trajectory

HORIZON = 1_000
LITERAL_HORIZON, LITERAL_REPLICATIONS = 60, 6  # plain Python, so few; equality needs no more


def _no_plan(settings: Settings) -> Plan:  # noqa: ARG001
    return {}


def _short(example: Example, settings: Settings) -> Experiment:
    few = settings._replace(replications=LITERAL_REPLICATIONS)
    return experiment(example, few, LITERAL_HORIZON)


def _find_canonical(settings: Settings, runs: Mapping[str, Runs]) -> Findings:  # noqa: ARG001
    pending = []
    for example in EXAMPLES:
        short = _short(example, settings)
        differing = 0
        for replication in range(short.replications):
            world = World(short, example.environment, replication)
            literal = algorithm_2(short, replication, world, _names(example))
            stacked = trace(short, example.environment, replication)
            differing += sum(_differing(literal[name], stacked[name]) for name in stacked)
        pending.append(never("periods that differ", differing, example.name))
    return verdict(
        "Algorithm 2, which searches the first policy's record for the earliest unused match, and the shared "
        "reward stacks give the same arms, rewards and replays in every period, not only the same law.",
        f"{LITERAL_REPLICATIONS} replications of {LITERAL_HORIZON} periods of each example, both policies",
        pending,
    )


def _names(example: Example) -> tuple[str, str]:
    first, second = example.policies
    return first, second


def _differing(literal: History, stacked: Trajectory) -> int:
    unlike = np.array(literal.arms) != stacked.arms
    unlike |= np.array(literal.rewards) != stacked.rewards
    unlike |= np.array(literal.replayed) != stacked.replayed
    return int(unlike.sum())


def _find_stopping(settings: Settings, runs: Mapping[str, Runs]) -> Findings:  # noqa: ARG001
    pending = []
    for example in EXAMPLES:
        changed = sum(
            _told_by_later_rewards(example, settings, replication, position)
            for replication in range(LITERAL_REPLICATIONS)
            for position in (5, 15)
        )
        pending.append(never("times the answer changed", changed, example.name))
    return verdict(
        "Whether a policy pulls an arm at most n times is known from the arm's first n rewards, the other arms' "
        "stacks and its own coin: altering the later rewards never changes the answer.",
        f"{LITERAL_REPLICATIONS} replications of {LITERAL_HORIZON} periods of each example, n = 5 and 15",
        pending,
    )


def _told_by_later_rewards(
    example: Example, settings: Settings, replication: int, position: int
) -> int:
    short, arm = _short(example, settings), 0
    worlds = (
        World(short, example.environment, replication),
        Altered(short, example.environment, replication, arm, position),
    )
    answers = [
        [history.arms.count(arm) <= position for history in played.values()]
        for played in (algorithm_2(short, replication, world, _names(example)) for world in worlds)
    ]
    return sum(before != after for before, after in zip(*answers, strict=True))


def _plan_symmetry(settings: Settings) -> Plan:
    plan = {}
    for example in EXAMPLES:
        straight = experiment(example, settings, HORIZON)
        first, second = example.policies
        policies = {second: example.policies[second], first: example.policies[first]}
        swapped = straight.replace(policies=policies, control=second, seed=settings.seed + 1)
        for label, one in (("straight", straight), ("swapped", swapped)):
            plan[f"{example.name} {label}"] = Simulation(one, example.environment, (HORIZON,))
    return plan


def _find_symmetry(settings: Settings, runs: Mapping[str, Runs]) -> Findings:
    pending = []
    for example in EXAMPLES:
        straight = effects(runs[f"{example.name} straight"])[:, 0]
        swapped = -effects(runs[f"{example.name} swapped"])[:, 0]
        pending.append(same_law("two-sample test", straight, swapped, example.name))
        differing = sum(_swap_differs(example, settings, r) for r in range(LITERAL_REPLICATIONS))
        pending.append(never("replications in which Algorithm 2 differs", differing, example.name))
    return verdict(
        "Which policy goes first does not matter: with the roles swapped the estimator has the same law, and with "
        "the same luck Algorithm 2 gives the same two trajectories.",
        f"{settings.replications:,} replications of {HORIZON:,} periods in each order, other seeds",
        pending,
    )


def _swap_differs(example: Example, settings: Settings, replication: int) -> bool:
    short, names = _short(example, settings), _names(example)
    played = [
        algorithm_2(short, replication, World(short, example.environment, replication), order)
        for order in (names, names[::-1])
    ]
    return any(
        (one.arms, one.rewards) != (played[1][name].arms, played[1][name].rewards)
        for name, one in played[0].items()
    )


def _plan_replay(settings: Settings) -> Plan:
    return {
        example.name: Simulation(
            experiment(example, settings, HORIZON), example.environment, (10, 100, HORIZON)
        )
        for example in EXAMPLES
    }


def _find_efficiency(settings: Settings, runs: Mapping[str, Runs]) -> Findings:
    pending = []
    for example in EXAMPLES:
        one = runs[example.name]
        best = example.environment.best_arm
        shared = one.pulls.min(axis=1).sum(axis=-1)
        spent = one.interactions + shared - 2 * one.checkpoints
        off = int((spent != 0).sum())
        pending.append(never("replications with N_e not 2T - N_r", off, example.name))
        wrong = 2 * one.checkpoints - one.pulls[..., best].sum(
            axis=1
        )  # suboptimal pulls of both policies
        for place, horizon in enumerate(one.checkpoints):
            slack = one.interactions[:, place] - horizon - wrong[:, place]
            case = f"{example.name}, T = {horizon:,}"
            pending.append(at_most("n_e - (T + n_0 + n_1)", mean(slack), 0.0, case))
    return verdict(
        "Replay asks at most min(T + n_0 + n_1, 2T - n_r) users on average, where n_i is a policy's expected number "
        "of suboptimal pulls; and in every replication exactly 2T minus what was replayed.",
        f"{settings.replications:,} replications, T = 10, 100 and {HORIZON:,}",
        pending,
    )


def _plan_pairs(settings: Settings) -> Plan:
    plan = {}
    for name, one in _plan_replay(settings).items():
        plan[f"{name} replay"] = one
        naive = one.experiment.replace(design=Naive(), seed=settings.seed + 1)
        plan[f"{name} naive"] = one._replace(experiment=naive)
    return plan


def _find_unbiased(settings: Settings, runs: Mapping[str, Runs]) -> Findings:
    pending = []
    for example in EXAMPLES:
        naive, replay = (runs[f"{example.name} {label}"] for label in ("naive", "replay"))
        for place, horizon in enumerate(replay.checkpoints):
            gap = difference(mean(effects(replay)[:, place]), mean(effects(naive)[:, place]))
            case = f"{example.name}, T = {horizon:,}"
            pending.append(equal("replay minus naive", gap, 0.0, case))
    return verdict(
        "The replay estimator is unbiased: its mean is the naive estimator's.",
        f"{settings.replications:,} replications of each design, independent",
        pending,
    )


def _find_solo(settings: Settings, runs: Mapping[str, Runs]) -> Findings:
    pending = []
    for example in EXAMPLES:
        naive, replay = (runs[f"{example.name} {label}"] for label in ("naive", "replay"))
        for policy, name in enumerate(example.policies):
            case = f"{example.name}, {name}"
            rewards = [one.rewards[:, policy, -1] for one in (naive, replay)]
            pulls = [one.pulls[:, policy, -1, 1] for one in (naive, replay)]
            pending.append(same_law("reward", rewards[0], rewards[1], case))
            pending.append(same_law("pulls of arm 2", pulls[0], pulls[1], case))
    return verdict(
        "Either policy, taken alone, behaves under replay as it does on users of its own, so its rewards and pulls "
        "have the same mean and variance.",
        f"{settings.replications:,} replications of {HORIZON:,} periods of each design, independent",
        pending,
    )


def _find_moments(settings: Settings, runs: Mapping[str, Runs]) -> Findings:
    pending: list[Pending] = []
    for example in (EXAMPLE_1, EXAMPLE_3):
        pending += _moments(example, runs[example.name])
    return verdict(
        "The centred sum S of an arm's rewards, stopped at the number of pulls of a policy or at the smaller of the "
        "two, has mean 0 and variance sigma^2 times the expected number.",
        f"{settings.replications:,} replications of {HORIZON:,} periods, every arm of examples 1 and 3",
        pending,
    )


def _moments(example: Example, runs: Runs) -> list[Pending]:
    means = np.array(example.environment.means)
    sigma2 = means * (1 - means) if example.environment.binary else np.ones(means.size)
    pulls = runs.pulls[:, :, -1, :]
    counts = np.concatenate([pulls, pulls.min(axis=1, keepdims=True)], axis=1)
    sums = centred_sums(runs.experiment, example.environment, means, counts)
    squares = sums**2 / sigma2 - counts
    pending = []
    for stop, name in enumerate((*example.policies, "the smaller")):
        for arm in range(means.size):
            case, squared = f"arm {arm + 1}", mean(squares[:, stop, arm])
            pulled = float(counts[:, stop, arm].mean())
            spread = Estimate(pulled + squared.value, squared.error)
            pending.append(
                equal(f"{example.name}, {name}: E S", mean(sums[:, stop, arm]), 0.0, case)
            )
            pending.append(equal(f"{example.name}, {name}: Var S / sigma^2", spread, pulled, case))
    return pending


_PRIORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "coins, Beta(1, 1)": (
        BernoulliPrior(),
        {"ucb1": UCB1(2.0), "thompson": ThompsonBernoulli(first_plays=1)},
    ),
    "Gaussian arms, N(0, 1)": (
        GaussianPrior(),
        {"thompson": ThompsonGaussian(first_plays=1), "epsilon_greedy": EpsilonGreedy(0.1)},
    ),
}


def _plan_bayes(settings: Settings) -> Plan:
    plan = {}
    for name, (prior, policies) in _PRIORS.items():
        replay = Experiment(
            policies=policies,
            arms=5,
            horizon=HORIZON,
            replications=settings.replications,
            seed=settings.seed,
        )
        naive = replay.replace(design=Naive(), seed=settings.seed + 1)
        plan[f"{name} replay"] = Simulation(replay, prior, (HORIZON,))
        plan[f"{name} naive"] = Simulation(naive, prior, (HORIZON,))
    return plan


def _find_bayes(settings: Settings, runs: Mapping[str, Runs]) -> Findings:
    pending = []
    for name in _PRIORS:
        naive, replay = (effects(runs[f"{name} {label}"])[:, 0] for label in ("naive", "replay"))
        pending.append(
            equal("replay minus naive", difference(mean(replay), mean(naive)), 0.0, name)
        )
        gap = difference(variance(replay), variance(naive))
        pending.append(at_most("variance, replay minus naive", gap, 0.0, name))
    return verdict(
        "With a bandit drawn from a prior for each replication, the average of the replay estimates is unbiased for "
        "the effect averaged over the prior, and varies less than the naive one.",
        f"{settings.replications:,} bandits with 5 arms from each prior, {HORIZON:,} periods",
        pending,
    )


PARTS = (
    Part(
        "canonical", "Theorem: canonical and shared-stack models agree", _no_plan, _find_canonical
    ),
    Part("solo", "Lemma: each policy keeps its own law", _plan_pairs, _find_solo),
    Part("stopping", "Proposition: pull counts are stopping times", _no_plan, _find_stopping),
    Part("symmetry", "Theorem: symmetry", _plan_symmetry, _find_symmetry),
    Part("efficiency", "Theorem: sample efficiency", _plan_replay, _find_efficiency),
    Part("unbiased", "Theorem: unbiasedness", _plan_pairs, _find_unbiased),
    Part("moments", "Corollary: moment identities", _plan_replay, _find_moments),
    Part("bayes", "Remark: bandits drawn from a prior", _plan_bayes, _find_bayes),
)
