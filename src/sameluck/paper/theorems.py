"""Checks of the statements that hold at every horizon: models, symmetry, efficiency, unbiasedness, moments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from scipy.special import ndtr

import sameluck as sl
from sameluck.arrays import Floats, Ints
from sameluck.paper.algorithms import Users, algorithm_2, centred_sums, transformed_counts
from sameluck.paper.chapters import (
    Estimate,
    Settings,
    Simulations,
    effect_estimates,
    mean,
    variance,
)
from sameluck.paper.examples import (
    EXAMPLE_1,
    EXAMPLE_2,
    EXAMPLE_3,
    EXAMPLES,
    Example,
    experiment,
    simulation,
    simulation_pairs,
)
from sameluck.paper.theorem_tests import (
    PendingTest,
    PendingTests,
    at_most,
    equal,
    never,
    same_distribution,
    theorem,
)

HORIZON = 1_000
CHECKPOINTS = (10, 100, HORIZON)
LITERAL_HORIZON, LITERAL_REPLICATIONS = 60, 6  # plain Python, so few; equality needs no more


def _short(example: Example, settings: Settings) -> sl.Experiment:
    short = settings._replace(replications=LITERAL_REPLICATIONS)
    return experiment(example, short, LITERAL_HORIZON)


@theorem(
    "canonical",
    "Theorem: canonical and shared-stack models agree",
    "Algorithm 2 searches the first policy's history for the earliest unused match. The shared reward stacks give "
    "the same arms, rewards and replays in every period, not only the same distribution.",
    f"{LITERAL_REPLICATIONS} replications of {LITERAL_HORIZON} periods of each example, both policies",
)
def _canonical(settings: Settings, runs: Mapping[str, sl.Runs]) -> PendingTests:
    for example in EXAMPLES:
        short = _short(example, settings)
        differing = 0
        for replication in range(short.replications):
            users = Users(short, example.environment, replication)
            literal = algorithm_2(short, replication, users, [*example.policies])
            stacked = sl.trace(short, example.environment, replication)
            for name, trajectory in stacked.items():
                columns = literal[name]._asdict().items()
                unlike = [column != getattr(trajectory, field) for field, column in columns]
                differing += int(np.any(unlike, axis=0).sum())
        yield never("periods that differ", differing, example.name)


@theorem(
    "stopping",
    "Proposition: pull counts are stopping times",
    "The arm's first n rewards, the other arms' stacks and the policy's own random numbers determine whether a "
    "policy pulls an arm at most n times. Altering later rewards of the arm never changes the answer.",
    f"{LITERAL_REPLICATIONS} replications of {LITERAL_HORIZON} periods of each example, n = 5 and 15",
)
def _stopping(settings: Settings, runs: Mapping[str, sl.Runs]) -> PendingTests:
    for example in EXAMPLES:
        changed = sum(
            _changed_by_later_rewards(example, settings, replication, position)
            for replication in range(LITERAL_REPLICATIONS)
            for position in (5, 15)
        )
        yield never("times the answer changed", changed, example.name)


def _changed_by_later_rewards(
    example: Example, settings: Settings, replication: int, position: int
) -> int:
    """Count the policies whose answer for n = `position` changes with arm 0's rewards from that position on."""
    short, answers = _short(example, settings), []
    for altered in (None, (0, position)):
        users = Users(short, example.environment, replication, altered)
        histories = algorithm_2(short, replication, users, [*example.policies]).values()
        answers.append([history.arms.count(0) <= position for history in histories])
    return sum(before != after for before, after in zip(*answers, strict=True))


def _simulations_symmetry(settings: Settings) -> Simulations:
    simulations: Simulations = {}
    for example in EXAMPLES:
        # Different seeds make the two samples independent, as the two-sample test requires.
        swapped = example._replace(policies=dict([*example.policies.items()][::-1]))
        later = settings._replace(seed=settings.seed + 1)
        simulations[f"{example.name} straight"] = simulation(example, settings, (HORIZON,))
        simulations[f"{example.name} swapped"] = simulation(swapped, later, (HORIZON,))
    return simulations


@theorem(
    "symmetry",
    "Theorem: symmetry",
    "The order of the policies does not matter. With the roles swapped the estimator has the same distribution. "
    "With the same random bits Algorithm 2 gives the same two trajectories.",
    f"{{replications:,}} replications of {HORIZON:,} periods in each order, with different seeds",
    _simulations_symmetry,
)
def _symmetry(settings: Settings, runs: Mapping[str, sl.Runs]) -> PendingTests:
    for example in EXAMPLES:
        straight = effect_estimates(runs[f"{example.name} straight"])[:, 0]
        swapped = -effect_estimates(runs[f"{example.name} swapped"])[:, 0]
        yield same_distribution("two-sample test", straight, swapped, example.name)
        differing = sum(_swap_differs(example, settings, r) for r in range(LITERAL_REPLICATIONS))
        yield never("replications in which Algorithm 2 differs", differing, example.name)


def _swap_differs(example: Example, settings: Settings, replication: int) -> bool:
    short, names = _short(example, settings), [*example.policies]
    straight, swapped = (
        algorithm_2(short, replication, Users(short, example.environment, replication), order)
        for order in (names, names[::-1])
    )
    # Arms and rewards; which of the two policies replays depends on their order.
    return any(history[:2] != swapped[name][:2] for name, history in straight.items())


def _simulations_replay(settings: Settings) -> Simulations:
    return {example.name: simulation(example, settings, CHECKPOINTS) for example in EXAMPLES}


@theorem(
    "efficiency",
    "Theorem: sample efficiency",
    "Replay needs at most min(T + n_0 + n_1, 2T - n_r) users on average. Here n_i is a policy's expected number "
    "of suboptimal pulls, and n_r the expected number of replayed rewards. In every replication it needs exactly "
    "2T minus the number of replayed rewards.",
    f"{{replications:,}} replications, T = 10, 100 and {HORIZON:,}",
    _simulations_replay,
)
def _efficiency(settings: Settings, runs: Mapping[str, sl.Runs]) -> PendingTests:
    for example in EXAMPLES:
        replay = runs[example.name]
        shared = replay.pulls.min(axis=1).sum(axis=-1)
        differing = int((replay.interactions + shared != 2 * replay.checkpoints).sum())
        yield never("replications with N_e not 2T - N_r", differing, example.name)
        best_pulls = replay.pulls[..., example.environment.best_arm].sum(axis=1)
        suboptimal = 2 * replay.checkpoints - best_pulls  # of both policies
        for column, horizon in enumerate(replay.checkpoints):
            slack = replay.interactions[:, column] - horizon - suboptimal[:, column]
            case = f"{example.name}, T = {horizon:,}"
            yield at_most("n_e - (T + n_0 + n_1)", mean(slack), 0.0, case)


def _effects(example: Example, runs: Mapping[str, sl.Runs]) -> list[Floats]:
    return [effect_estimates(runs[f"{example.name} {label}"]) for label in ("naive", "replay")]


@theorem(
    "unbiased",
    "Theorem: unbiasedness",
    "The replay estimator is unbiased: its mean is the naive estimator's.",
    "{replications:,} replications of each design, independent",
    partial(simulation_pairs, EXAMPLES, CHECKPOINTS),
)
def _unbiased(settings: Settings, runs: Mapping[str, sl.Runs]) -> PendingTests:
    for example in EXAMPLES:
        naive, replay = _effects(example, runs)
        for column, horizon in enumerate(runs[f"{example.name} replay"].checkpoints):
            gap = mean(replay[:, column]).minus(mean(naive[:, column]))
            yield equal("replay minus naive", gap, 0.0, f"{example.name}, T = {horizon:,}")


@theorem(
    "solo",
    "Lemma: each policy keeps its distribution",
    "Each policy, taken alone, behaves under replay as it does with its own users, so its rewards and pulls "
    "have the same mean and variance.",
    f"{{replications:,}} replications of {HORIZON:,} periods of each design, independent",
    partial(simulation_pairs, EXAMPLES, CHECKPOINTS),
)
def _solo(settings: Settings, runs: Mapping[str, sl.Runs]) -> PendingTests:
    for example in EXAMPLES:
        naive, replay = (runs[f"{example.name} {label}"] for label in ("naive", "replay"))
        for policy, name in enumerate(example.policies):
            case, last = f"{example.name}, {name}", np.s_[:, policy, -1]
            yield same_distribution("reward", naive.rewards[last], replay.rewards[last], case)
            pulls = naive.pulls[last][:, 1], replay.pulls[last][:, 1]
            yield same_distribution("pulls of arm 2", *pulls, case)


@theorem(
    "moments",
    "Corollary: moment identities",
    "S is the centred sum of an arm's rewards, stopped at a policy's number of pulls or at the smaller of the two "
    "numbers. It has mean 0 and variance sigma^2 times the expected number. The covariance of the two policies' "
    "sums is sigma^2 times the expected smaller number.",
    f"{{replications:,}} replications of {HORIZON:,} periods, every arm of examples 1 and 3",
    _simulations_replay,
)
def _moments(settings: Settings, runs: Mapping[str, sl.Runs]) -> PendingTests:
    for example in (EXAMPLE_1, EXAMPLE_3):
        pulls = runs[example.name].pulls[:, :, -1, :]
        counts = np.concatenate([pulls, pulls.min(axis=1, keepdims=True)], axis=1)
        sums = centred_sums(
            runs[example.name].experiment, example.environment, example.means, counts
        )
        squares = sums**2 / example.variances
        products = sums[:, 0] * sums[:, 1] / example.variances
        for arm in range(example.means.size):
            case = f"arm {arm + 1}"
            for stop, name in enumerate((*example.policies, "the smaller")):
                label, pulled = f"{example.name}, {name}", counts[:, stop, arm]
                yield equal(f"{label}: E S", mean(sums[:, stop, arm]), 0.0, case)
                squared = squares[:, stop, arm]
                quantity = f"{label}: Var S / sigma^2"
                yield _second_moment(quantity, squared, (pulled, pulled), case)
            quantity = f"{example.name}: Cov(S_0, S_1) / sigma^2"
            larger = pulls[:, :, arm].max(axis=1)
            yield _second_moment(quantity, products[:, arm], (counts[:, 2, arm], larger), case)


def _second_moment(
    quantity: str, products: Floats, pulled: tuple[Ints, Ints], case: str
) -> PendingTest:
    """Return a test that products of two sums, over sigma^2, have the mean of the smaller number of pulls.

    Few replications with many pulls dominate; if their sums are small by chance, so is the spread of the sample. The
    error is therefore at least the error for normal rewards, where sums of m and n >= m rewards have products of
    variance m (m + n).
    """
    smaller, larger = pulled
    normal_error = math.sqrt(float((smaller * (smaller + larger)).mean()) / len(smaller))
    error = max(mean(products - smaller).error, normal_error)
    return equal(quantity, Estimate(float(products.mean()), error), float(smaller.mean()), case)


def _paired(
    test: Callable[[str, Estimate, float, str], PendingTest],
    quantity: str,
    sample: Floats | Ints,
    other: Floats | Ints,
    case: str,
) -> PendingTest:
    """Return a test of a sample's mean against the mean of another sample from the same replications."""
    measured = Estimate(float(sample.mean()), mean(sample - other).error)
    return test(quantity, measured, float(other.mean()), case)


@theorem(
    "regret",
    "Remark: regret and suboptimal pulls",
    "Let n be a policy's expected number of suboptimal pulls, and a gap the difference between the means of the "
    "best arm and another arm. Then n lies between the expected regret divided by the largest gap and the expected "
    "regret divided by the smallest gap. With two arms, as in example 2, all three are equal. Regret is computed "
    "from the rewards; the error shown is the error of the difference.",
    f"{{replications:,}} replications of {HORIZON:,} periods of each example",
    _simulations_replay,
)
def _regret(settings: Settings, runs: Mapping[str, sl.Runs]) -> PendingTests:
    for example in EXAMPLES:
        replay, environment = runs[example.name], example.environment
        gaps = [gap for gap in environment.gaps if gap > 0]
        for policy, name in enumerate(example.policies):
            regret = HORIZON * example.means.max() - replay.rewards[:, policy, -1]
            pulls = HORIZON - replay.pulls[:, policy, -1, environment.best_arm]
            low, high, case = regret / max(gaps), regret / min(gaps), f"{example.name}, {name}"
            yield _paired(at_most, "E Reg / largest gap <= n", low, pulls, case)
            yield _paired(at_most, "n <= E Reg / smallest gap", pulls, high, case)


@theorem(
    "martingale",
    "Proposition: I_t(B) is a martingale",
    "I_t(B) is the number of the first t rewards of an arm's stack that fall into B, minus t P(B). Given the past "
    "(these t rewards, the other stacks, the policies' random numbers), its next increment has mean 0. The "
    "statistic is the sum of the increments times a weight that the past determines. There are three weights, the "
    "indicators of three events. The first policy reads the next entry; the second policy reads it; only the "
    "second policy reads it, after the first has finished. The third is the step in the proof that the two models "
    "agree. Each weight is used alone and times the sign of I_t(B). The statistic's mean is 0, and its variance is "
    "at most P(B)(1 - P(B)) times the expected number of entries with a weight, which gives the error. B is a "
    "reward of 1, and in example 3 a reward within half a standard deviation of the mean.",
    f"{{replications:,}} replications of {HORIZON:,} periods, every arm of each example",
    _simulations_replay,
)
def _martingale(settings: Settings, runs: Mapping[str, sl.Runs]) -> PendingTests:
    for example in EXAMPLES:
        replay, (low, high, chance) = runs[example.name], event(example)
        first, second = replay.pulls[:, 0, -1], replay.pulls[:, 1, -1]
        begins = np.stack([np.zeros_like(first), np.zeros_like(first), first], axis=1)
        ends = np.stack([first, second, np.maximum(first, second)], axis=1)
        sums = transformed_counts(
            replay.experiment, example.environment, (low, high, chance), begins, ends
        )
        # The increments are orthogonal, so their variances add up to the theoretical error.
        errors = np.sqrt(chance * (1 - chance) * (ends - begins).mean(axis=0) / len(sums))
        for (read, weight, arm), total in np.ndenumerate(sums.mean(axis=0)):
            quantity = f"{_READ_BY[read]}{_WEIGHTS[weight]}"
            case = f"{example.name}, arm {arm + 1}"
            yield equal(quantity, Estimate(float(total), float(errors[read, arm])), 0.0, case)


_READ_BY = ("read by the first policy", "read by the second policy", "read by the second alone")
_WEIGHTS = ("", ", times the sign")


def event(example: Example) -> tuple[Floats, Floats, Floats]:
    """Return B for each arm: its smallest and its largest reward, and its probability."""
    means = example.means
    if example.environment.binary:
        return np.full_like(means, 0.5), np.full_like(means, np.inf), means
    return means - 0.5, means + 0.5, np.full_like(means, 2 * ndtr(0.5) - 1)


_PRIORS = (
    EXAMPLE_2._replace(
        name="Bernoulli arms, Beta(1, 1)",
        policies={"ucb1": sl.UCB1(2.0), "thompson": sl.ThompsonBernoulli(first_plays=1)},
        environment=sl.BernoulliPrior(),
    ),
    EXAMPLE_3._replace(name="Gaussian arms, N(0, 1)", environment=sl.GaussianPrior()),
)


@theorem(
    "bayes",
    "Remark: bandits drawn from a prior",
    "An instance is drawn from a prior for each replication. The average of the replay estimates is unbiased for "
    "the effect averaged over the prior, and varies less than the naive average.",
    f"{{replications:,}} instances with 5 arms from each prior, {HORIZON:,} periods",
    partial(simulation_pairs, _PRIORS, CHECKPOINTS),
)
def _bayes(settings: Settings, runs: Mapping[str, sl.Runs]) -> PendingTests:
    for prior in _PRIORS:
        naive, replay = _effects(prior, runs)
        gap = mean(replay[:, -1]).minus(mean(naive[:, -1]))
        yield equal("replay minus naive", gap, 0.0, prior.name)
        gap = variance(replay[:, -1]).minus(variance(naive[:, -1]))
        yield at_most("variance, replay minus naive", gap, 0.0, prior.name)


CHAPTERS = (
    _canonical,
    _solo,
    _stopping,
    _martingale,
    _symmetry,
    _efficiency,
    _regret,
    _unbiased,
    _moments,
    _bayes,
)
