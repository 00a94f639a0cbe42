"""The statements that hold at every horizon, checked: models, symmetry, efficiency, unbiasedness, moments."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import sameluck as sl
from sameluck.paper.algorithms import AlteredUsers, History, Users, algorithm_2, centred_sums
from sameluck.paper.checks import (
    PendingTest,
    at_most,
    check,
    difference,
    equal,
    never,
    same_law,
    sections,
)
from sameluck.paper.examples import EXAMPLE_1, EXAMPLE_3, EXAMPLES, Example, experiment
from sameluck.paper.parts import (
    Estimate,
    Part,
    Record,
    Settings,
    Simulation,
    Simulations,
    effect_estimates,
    mean,
    no_simulations,
    variance,
)

HORIZON = 1_000
LITERAL_HORIZON, LITERAL_REPLICATIONS = 60, 6  # plain Python, so few; equality needs no more


def _short(example: Example, settings: Settings) -> sl.Experiment:
    few = settings._replace(replications=LITERAL_REPLICATIONS)
    return experiment(example, few, LITERAL_HORIZON)


def _analyse_canonical(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:  # noqa: ARG001
    pending = []
    for example in EXAMPLES:
        short = _short(example, settings)
        differing = 0
        for replication in range(short.replications):
            users = Users(short, example.environment, replication)
            literal = algorithm_2(short, replication, users, _names(example))
            stacked = sl.trace(short, example.environment, replication)
            differing += sum(_differing(literal[name], stacked[name]) for name in stacked)
        pending.append(never("periods that differ", differing, example.name))
    return check(
        "Algorithm 2, which searches the first policy's history for the earliest unused match, and the shared "
        "reward stacks give the same arms, rewards and replays in every period, not only the same law.",
        f"{LITERAL_REPLICATIONS} replications of {LITERAL_HORIZON} periods of each example, both policies",
        pending,
    )


def _names(example: Example) -> tuple[str, str]:
    first, second = example.policies
    return first, second


def _differing(literal: History, stacked: sl.Trajectory) -> int:
    unlike = np.array(literal.arms) != stacked.arms
    unlike |= np.array(literal.rewards) != stacked.rewards
    unlike |= np.array(literal.replayed) != stacked.replayed
    return int(unlike.sum())


def _analyse_stopping(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:  # noqa: ARG001
    pending = []
    for example in EXAMPLES:
        changed = sum(
            _changed_by_later_rewards(example, settings, replication, position)
            for replication in range(LITERAL_REPLICATIONS)
            for position in (5, 15)
        )
        pending.append(never("times the answer changed", changed, example.name))
    return check(
        "Whether a policy pulls an arm at most n times is determined by the arm's first n rewards, the other arms' "
        "stacks and the policy's own random numbers: altering the later rewards never changes the answer.",
        f"{LITERAL_REPLICATIONS} replications of {LITERAL_HORIZON} periods of each example, n = 5 and 15",
        pending,
    )


def _changed_by_later_rewards(
    example: Example, settings: Settings, replication: int, position: int
) -> int:
    """For how many policies altering arm 0's rewards from a position on changes whether it is pulled more often."""
    short, arm = _short(example, settings), 0
    where = short, example.environment, replication
    answers = [
        [history.arms.count(arm) <= position for history in histories.values()]
        for histories in (
            algorithm_2(short, replication, users, _names(example))
            for users in (Users(*where), AlteredUsers(*where, (arm, position)))
        )
    ]
    return sum(before != after for before, after in zip(*answers, strict=True))


def _simulations_symmetry(settings: Settings) -> Simulations:
    simulations: Simulations = {}
    for example in EXAMPLES:
        straight = experiment(example, settings, HORIZON)
        first, second = example.policies
        policies = {second: example.policies[second], first: example.policies[first]}
        swapped = straight.replace(policies=policies, control=second, seed=settings.seed + 1)
        for label, one in (("straight", straight), ("swapped", swapped)):
            simulations[f"{example.name} {label}"] = Simulation(
                one, example.environment, (HORIZON,)
            )
    return simulations


def _analyse_symmetry(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:
    pending = []
    for example in EXAMPLES:
        straight = effect_estimates(runs[f"{example.name} straight"])[:, 0]
        swapped = -effect_estimates(runs[f"{example.name} swapped"])[:, 0]
        pending.append(same_law("two-sample test", straight, swapped, example.name))
        differing = sum(_swap_differs(example, settings, r) for r in range(LITERAL_REPLICATIONS))
        pending.append(never("replications in which Algorithm 2 differs", differing, example.name))
    return check(
        "The order of the policies does not matter: with the roles swapped the estimator has the same law, and with "
        "the same random bits Algorithm 2 gives the same two trajectories.",
        f"{settings.replications:,} replications of {HORIZON:,} periods in each order, with different seeds",
        pending,
    )


def _swap_differs(example: Example, settings: Settings, replication: int) -> bool:
    short, names = _short(example, settings), _names(example)
    straight, swapped = (
        algorithm_2(short, replication, Users(short, example.environment, replication), order)
        for order in (names, names[::-1])
    )
    return any(
        (one.arms, one.rewards) != (swapped[name].arms, swapped[name].rewards)
        for name, one in straight.items()
    )


def _simulations_replay(settings: Settings) -> Simulations:
    return {
        example.name: Simulation(
            experiment(example, settings, HORIZON), example.environment, (10, 100, HORIZON)
        )
        for example in EXAMPLES
    }


def _analyse_efficiency(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:
    pending = []
    for example in EXAMPLES:
        one = runs[example.name]
        best = example.environment.best_arm
        shared = one.pulls.min(axis=1).sum(axis=-1)
        differing = int((one.interactions + shared != 2 * one.checkpoints).sum())
        pending.append(never("replications with N_e not 2T - N_r", differing, example.name))
        suboptimal = 2 * one.checkpoints - one.pulls[..., best].sum(axis=1)  # of both policies
        for place, horizon in enumerate(one.checkpoints):
            slack = one.interactions[:, place] - horizon - suboptimal[:, place]
            case = f"{example.name}, T = {horizon:,}"
            pending.append(at_most("n_e - (T + n_0 + n_1)", mean(slack), 0.0, case))
    return check(
        "Replay needs at most min(T + n_0 + n_1, 2T - n_r) users on average, where n_i is a policy's expected number "
        "of suboptimal pulls; in every replication it needs exactly 2T minus the number of replayed rewards.",
        f"{settings.replications:,} replications, T = 10, 100 and {HORIZON:,}",
        pending,
    )


def _simulations_pairs(settings: Settings) -> Simulations:
    simulations: Simulations = {}
    for name, one in _simulations_replay(settings).items():
        simulations[f"{name} replay"] = one
        naive = one.experiment.replace(design=sl.Naive(), seed=settings.seed + 1)
        simulations[f"{name} naive"] = one._replace(experiment=naive)
    return simulations


def _analyse_unbiased(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:
    pending = []
    for example in EXAMPLES:
        naive, replay = (runs[f"{example.name} {label}"] for label in ("naive", "replay"))
        for place, horizon in enumerate(replay.checkpoints):
            gap = difference(
                mean(effect_estimates(replay)[:, place]), mean(effect_estimates(naive)[:, place])
            )
            case = f"{example.name}, T = {horizon:,}"
            pending.append(equal("replay minus naive", gap, 0.0, case))
    return check(
        "The replay estimator is unbiased: its mean is the naive estimator's.",
        f"{settings.replications:,} replications of each design, independent",
        pending,
    )


def _analyse_solo(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:
    pending = []
    for example in EXAMPLES:
        naive, replay = (runs[f"{example.name} {label}"] for label in ("naive", "replay"))
        for policy, name in enumerate(example.policies):
            case = f"{example.name}, {name}"
            rewards = [one.rewards[:, policy, -1] for one in (naive, replay)]
            pulls = [one.pulls[:, policy, -1, 1] for one in (naive, replay)]
            pending.append(same_law("reward", rewards[0], rewards[1], case))
            pending.append(same_law("pulls of arm 2", pulls[0], pulls[1], case))
    return check(
        "Each policy, taken alone, behaves under replay as it does on users of its own, so its rewards and pulls "
        "have the same mean and variance.",
        f"{settings.replications:,} replications of {HORIZON:,} periods of each design, independent",
        pending,
    )


def _analyse_moments(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:
    pending: list[PendingTest] = []
    for example in (EXAMPLE_1, EXAMPLE_3):
        pending += _moments(example, runs[example.name])
    return check(
        "The centred sum S of an arm's rewards, stopped at the number of pulls of a policy or at the smaller of the "
        "two, has mean 0 and variance sigma^2 times the expected number.",
        f"{settings.replications:,} replications of {HORIZON:,} periods, every arm of examples 1 and 3",
        pending,
    )


def _moments(example: Example, runs: sl.Runs) -> list[PendingTest]:
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


_PRIORS: dict[str, tuple[sl.Environment, dict[str, sl.Policy]]] = {
    "Bernoulli arms, Beta(1, 1)": (
        sl.BernoulliPrior(),
        {"ucb1": sl.UCB1(2.0), "thompson": sl.ThompsonBernoulli(first_plays=1)},
    ),
    "Gaussian arms, N(0, 1)": (
        sl.GaussianPrior(),
        {"thompson": sl.ThompsonGaussian(first_plays=1), "epsilon_greedy": sl.EpsilonGreedy(0.1)},
    ),
}


def _simulations_bayes(settings: Settings) -> Simulations:
    simulations: Simulations = {}
    for name, (prior, policies) in _PRIORS.items():
        replay = sl.Experiment(
            policies=policies,
            arms=5,
            horizon=HORIZON,
            replications=settings.replications,
            seed=settings.seed,
        )
        naive = replay.replace(design=sl.Naive(), seed=settings.seed + 1)
        simulations[f"{name} replay"] = Simulation(replay, prior, (HORIZON,))
        simulations[f"{name} naive"] = Simulation(naive, prior, (HORIZON,))
    return simulations


def _analyse_bayes(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:
    pending = []
    for name in _PRIORS:
        naive, replay = (
            effect_estimates(runs[f"{name} {label}"])[:, 0] for label in ("naive", "replay")
        )
        pending.append(
            equal("replay minus naive", difference(mean(replay), mean(naive)), 0.0, name)
        )
        gap = difference(variance(replay), variance(naive))
        pending.append(at_most("variance, replay minus naive", gap, 0.0, name))
    return check(
        "With an instance drawn from a prior for each replication, the average of the replay estimates is unbiased "
        "for the effect averaged over the prior, and varies less than the naive one.",
        f"{settings.replications:,} instances with 5 arms from each prior, {HORIZON:,} periods",
        pending,
    )


PARTS = tuple(
    Part(name, title, simulations, analyse, sections)
    for name, title, simulations, analyse in (
        (
            "canonical",
            "Theorem: canonical and shared-stack models agree",
            no_simulations,
            _analyse_canonical,
        ),
        ("solo", "Lemma: each policy keeps its own law", _simulations_pairs, _analyse_solo),
        (
            "stopping",
            "Proposition: pull counts are stopping times",
            no_simulations,
            _analyse_stopping,
        ),
        ("symmetry", "Theorem: symmetry", _simulations_symmetry, _analyse_symmetry),
        ("efficiency", "Theorem: sample efficiency", _simulations_replay, _analyse_efficiency),
        ("unbiased", "Theorem: unbiasedness", _simulations_pairs, _analyse_unbiased),
        ("moments", "Corollary: moment identities", _simulations_replay, _analyse_moments),
        ("bayes", "Remark: bandits drawn from a prior", _simulations_bayes, _analyse_bayes),
    )
)
