"""Pairs of a policy and an environment, found by discovery, and the digests of all that they produce.

Every policy meets one environment, and every environment a few quick policies: each pair is compiled.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import cases
import sameluck as sl
from sameluck import text_forms
from sameluck.environments.base import ENVIRONMENTS
from sameluck.policies.base import POLICIES, check_context, needs_binary
from sameluck.randomness.samplers import normal, uniform
from sameluck.randomness.streams import at

HORIZON, REPLICATIONS, CHECKPOINTS = 200, 3, [1, 37, 200]
DESIGNS = [text_forms.write(design, brief=True) for design in cases.ALL_DESIGNS]
# Arrays of `Runs` by the class of the context; arrays that runs may have besides are not recorded.
ARRAYS = {
    type(None): ("rewards", "pulls", "interactions"),
    sl.Features: ("rewards", "pulls", "interactions", "regret", "best_pulls"),
    sl.States: ("rewards", "pulls", "interactions", "regret", "best_pulls", "visits"),
    sl.Levels: (
        *("rewards", "pulls", "interactions", "regret", "best_pulls", "visits", "level_rewards"),
    ),
}
COLUMNS = ("arms", "positions", "rewards", "replayed", "contexts")


class Winner(NamedTuple):
    """A user's policy: the same arm after a reward above `success`, else any."""

    success: float = 0.5


def _select_winner(policy, tally, period, noise):
    if period > 1 and tally.last_reward > policy.success:
        return tally.last_arm
    return int(uniform(at(noise, period, 0)) * tally.pulls.size)


class Sign(NamedTuple):
    """A user's policy with contexts: the last arm while the first feature keeps its sign."""

    def check_context(self, context):
        if not isinstance(context, sl.Features) or context.per_arm:
            raise sl.Invalid("Sign needs features")


def _select_sign(policy, tally, period, noise):
    if tally.context[0] * tally.last_context[0] > 0.0 and tally.last_reward > 0.0:
        return tally.last_arm
    return int(uniform(at(noise, period, 0)) * tally.pulls.size)


class Steps(NamedTuple):
    """A user's environment: rewards in steps of 1/2."""

    means: Sequence[float]


def _draw_steps(parameters, row, arm, bits):
    return parameters.means[arm] + 0.5 * np.floor(3.0 * uniform(bits)) - 0.5


class Shop(NamedTuple):
    """A user's environment with features, or with levels."""

    weights: Sequence[Sequence[float]]
    levels: int = 0

    arms = property(lambda self: len(self.weights))

    @property
    def context(self):
        return sl.Levels(self.levels) if self.levels else sl.Features(len(self.weights[0]))


def _write_shop(parameters, row, period, noise, context):
    for feature in range(context.size):
        number = uniform(at(noise, period, feature))
        context[feature] = np.floor(parameters.levels * number) if parameters.levels else number


def _draw_shop(parameters, row, context, arm, bits):
    return parameters.weights[arm][0] * context[0] + normal(bits)


def _expect_shop(parameters, row, context, arm):
    return parameters.weights[arm][0] * context[0]


def _python_reward(arm, number):
    return (number < 0.3 + 0.2 * arm) * (1.0 + arm)


class Random:
    """An object without contexts, randomised by its seed: an arm that paid is kept."""

    def __init__(self, seed):
        self.rng, self.kept = np.random.default_rng(seed), None

    def select(self, period):
        return int(self.rng.integers(2)) if self.kept is None else self.kept

    def update(self, arm, reward):
        self.kept = arm if reward > 0.5 else None


class Seeing(Random):
    """The same with contexts, for an index of a level or an array of features."""

    def select(self, context):
        return (super().select(0) + int(np.sum(context) > 0.5)) % 2

    def update(self, context, arm, reward):
        super().update(arm, reward + 0.1 * float(np.sum(context)))


def _function_of_past(seed):
    return lambda arms, rewards: (seed + len(arms) * (sum(rewards) > 3.0)) % 2


MAKERS = {"mine": Random, "seeing": Seeing, "past": _function_of_past}
OBJECTS = [sl.External(name, batch) for name in MAKERS for batch in (1, 7)]
SEEING = [policy for policy in OBJECTS if policy.name == "seeing"]


def register() -> None:
    """Register the classes of a user."""
    sl.selects(Winner)(_select_winner)
    sl.selects(Sign)(_select_sign)
    sl.draws(Steps)(_draw_steps)
    sl.draws(Shop)(_draw_shop)
    sl.contexts(Shop)(_write_shop)
    sl.expects(Shop)(_expect_shop)


LOG = [
    {"level": "ab"[row % 2], "arm": "xyz"[row % 3], "reward": row * row % 7 / 4}
    for row in range(36)
]
LEVELS = sl.ByLevel([sl.Bernoulli([0.6, 0.5]), sl.Bernoulli([0.3, 0.45])], frequencies=[0.7, 0.3])
OTHER_LEVELS = sl.ByLevel([sl.Bernoulli([0.2, 0.5]), sl.Bernoulli([0.8, 0.4])])
LINEAR = [sl.Linear([[0.5, 0.1], [0.2, 0.3]]), sl.Linear([[-0.5, 0.9], [0.2, 0.3]], sd=[0.5, 2])]
PER_ARM = [sl.Linear([0.5, -0.3, 0.2], arms=3), sl.Linear([-0.1, 0.3, 0.9], arms=3)]
LOGISTIC = [sl.Logistic([[1.0, -0.5], [0.2, 0.8]]), sl.Logistic([[-1.0, 0.5], [0.2, 0.1]])]
GAUSSIAN = [sl.Gaussian([1, 0.8, 0.2], sd=[1, 0.5, 2]), sl.Gaussian([0, 0.8, 1.2])]
MIXED = [sl.Gaussian([1.0, 0.5]), sl.Bernoulli([0.2, 0.9])]
ROWS = [[[1, 0], [0, 1], [1, 1]], [[0.5, 2], [1, -1], [0, 0]], [[3, 1], [0.25, 1], [1, 0]]]
OUTCOMES = [
    [[(0.7, 0, 0.2, 0), (0.3, 1, 0.0, 0)], [(0.5, 1, 0.0, 0), (0.4, 2, 0.5, 0), (0.1, 0, 0.0, 1)]],
    [[(1.0, 0, 0.1, 0)], [(0.6, 2, 0.0, 0), (0.4, 1, 1.0, 0)]],
    [[(0.5, 2, 0.3, 0), (0.5, 0, 0.9, 1)], [(0.8, 1, 0.0, 0), (0.2, 2, 1.0, 0)]],
]


def variants() -> dict[str, object]:
    """Return environments that run other code than the example of their class."""
    register()
    shop = Shop(((1.0, 2.0), (0.0, 1.0)))
    per_arm = sl.FromContexts(ROWS, sl.Linear([0.5, -0.3], arms=3))
    return {
        "gaussian, an sd each": GAUSSIAN[0],
        "empirical from a log": sl.Empirical.from_log(LOG, arm="arm", reward="reward"),
        "by_level from a log": sl.ByLevel.from_log(LOG, level="level", arm="arm", reward="reward"),
        "by_level of gaussian and bernoulli": sl.ByLevel(MIXED),
        "linear, features per arm": PER_ARM[0],
        "logistic, features per arm": sl.Logistic([0.5, -0.3, 0.2], arms=3),
        "linear_prior, features per arm": sl.LinearPrior(3, shared=True),
        "from_contexts, features per arm": per_arm,
        "tabular_mdp that ends": sl.TabularMDP(OUTCOMES, [0.6, 0.0, 0.4], 4),
        "river_swim without episodes": sl.RiverSwim(states=4, episode=HORIZON),
        "switching bernoulli": sl.Switching([MIXED[1], sl.Bernoulli([0.7, 0.3])], every=30),
        "switching gaussian": sl.Switching(GAUSSIAN, every=30, repeat=False),
        "switching gaussian and bernoulli": sl.Switching(MIXED, every=30),
        "switching levels": sl.Switching([LEVELS, OTHER_LEVELS], every=30),
        "switching linear": sl.Switching(LINEAR, every=30),
        "switching from_contexts": sl.Switching([per_arm, per_arm], every=30, repeat=False),
        "drifting gaussian": sl.Drifting(GAUSSIAN, over=150),
        "drifting gaussian and bernoulli": sl.Drifting(MIXED, over=150),
        "drifting levels": sl.Drifting([LEVELS, OTHER_LEVELS], over=150),
        "drifting linear": sl.Drifting(LINEAR, over=150),
        "drifting linear, features per arm": sl.Drifting(PER_ARM, over=150),
        "drifting logistic": sl.Drifting(LOGISTIC, over=150),
        "python function": sl.python_environment(_python_reward, [0.3, 1.0, 2.1], name="paid"),
        "own": Steps((0.2, 0.5, 0.3)),
        "own, features": shop,
        "own, levels": shop._replace(levels=3),
    }


# The environments in which policies are recorded; a policy is recorded in the first that it fits.
HOMES = ("bernoulli", "by_level", "linear", "logistic", "river_swim")
QUICK = [sl.UCB1(), sl.ThompsonBernoulli(), sl.LinUCB(), sl.PerLevel(sl.UCB1()), sl.QLearning()]
# What is recorded besides, where it fits. A user's functions are compiled each time, so `own` has only these.
FURTHER = {
    "bernoulli": [*OBJECTS, Winner()],
    "gaussian": [sl.ThompsonGaussian(), sl.Batched(sl.ThompsonGaussian(), 4), sl.EpsilonGreedy()],
    "gaussian_prior": [sl.Batched(sl.UCB1(), 7), sl.External("mine")],
    "switching gaussian": OBJECTS[:2],
    "by_level": [
        *(sl.PerLevel(sl.ThompsonBernoulli()), sl.PerLevel(sl.EXP3()), sl.PerLevel(sl.KLUCB())),
        *(sl.PerLevel(sl.Batched(sl.UCB1(), 5)), sl.Batched(sl.UCB1(), 5), *OBJECTS),
        sl.PerLevel(Winner()),
    ],
    "linear": [*OBJECTS, sl.Batched(sl.UCB1(), 5), Sign()],
    "linear, features per arm": [*cases.CONTEXTUAL_POLICY_CLASSES, *OBJECTS[:4]],
    "logistic, features per arm": [sl.LogisticTS()],
    "switching levels": OBJECTS[:4],
    "drifting linear": OBJECTS[:4],
    "river_swim": OBJECTS[:4],
    "tabular_mdp that ends": [*cases.CONTEXTUAL_POLICY_CLASSES, *OBJECTS[:4]],
    "own": [Winner(), sl.External("mine")],
    "own, features": [Sign(), sl.External("seeing")],
    "own, levels": [sl.UCB1(), sl.External("seeing", 7)],
}


def fits(policy, environment) -> bool:
    """Return whether a policy can be run in an environment."""
    if policy in SEEING and environment.context is None:
        return False
    try:
        check_context(policy, environment.context, environment.arms or 3)
    except sl.Invalid:
        return False
    return environment.binary or not needs_binary(policy)


def environments() -> dict[str, object]:
    """Return the example of every environment by its name, and the variants."""
    kinds = cases.ours(ENVIRONMENTS)
    found = {text_forms.name_of(kind): cases.environment_example(kind) for kind in kinds}
    return {**found, **variants()}


def pairs() -> dict[str, dict[str, object]]:
    """Return the policies that are recorded in each environment, by their text forms."""
    everywhere = environments()
    chosen = {name: [] if name.startswith("own") else [*QUICK] for name in everywhere}
    for kind in cases.ours(POLICIES):
        for policy in cases.policy_examples(kind):
            home = next((name for name in HOMES if fits(policy, everywhere[name])), None)
            assert home, f"no environment of HOMES in {__file__} fits {policy}; add one"
            chosen[home].append(policy)
    for name, policies in FURTHER.items():
        for policy in policies:
            chosen[name] += cases.policy_examples(policy) if isinstance(policy, type) else [policy]
    return {
        name: {
            text_forms.write(policy, brief=True): policy
            for policy in policies
            if fits(policy, everywhere[name])
        }
        for name, policies in chosen.items()
    }


def designs_on(environment) -> list[str]:
    """Return the designs that are defined on an environment: rewards that move are shared by period only."""
    may_share = isinstance(environment.context, sl.Features) or not environment.is_moving
    return DESIGNS if may_share else ["naive", "time_coupled"]


def keys() -> dict[str, list[str]]:
    """Return the keys of all digests, by environment."""
    everywhere = environments()
    return {
        name: [
            f"{name} | {design} | {text}"
            for design in designs_on(everywhere[name])
            for text in policies
        ]
        for name, policies in pairs().items()
    }


def digests(name: str) -> dict[str, str]:
    """Return the digests of an environment by their keys."""
    policies, environment = pairs()[name], environments()[name]
    return {
        f"{name} | {design} | {text}": digest_of(policy, environment, design)
        for design in designs_on(environment)
        for text, policy in policies.items()
    }


def digest_of(policy, environment, design: str) -> str:
    """Return a digest of runs and traces of a policy after `uniform`, whose rewards it may replay.

    The policy's name is the same for all, because random numbers depend on it and not on the text form.
    """
    experiment = sl.Experiment(
        policies={"uniform": sl.Uniform(), "policy": policy},
        arms=environment.arms or 3,
        horizon=HORIZON,
        replications=REPLICATIONS,
        design=design,
        seed=20261118,
    )
    makers = {policy.name: MAKERS[policy.name]} if isinstance(policy, sl.External) else None
    runs = sl.simulate(experiment, environment, checkpoints=CHECKPOINTS, workers=1, makers=makers)
    arrays = [getattr(runs, array) for array in ARRAYS[type(runs.experiment.context)]]
    for replication in range(REPLICATIONS):
        guard = design == "naive" and replication == 1  # plain Python takes long
        trace = sl.trace(experiment, environment, replication, guard=guard, makers=makers)
        for trajectory in trace.trajectories.values():
            arrays += totals(trajectory, runs.experiment.n_arms)
            arrays += [getattr(trajectory, column) for column in COLUMNS]
    return digest(*arrays)


def totals(trajectory, arms: int, checkpoints: Sequence[int] = CHECKPOINTS) -> list[np.ndarray]:
    """Return the sum of each arm's rewards at each checkpoint."""
    played = [(trajectory.arms[:end], trajectory.rewards[:end]) for end in checkpoints]
    return [np.bincount(chosen, rewards, minlength=arms) for chosen, rewards in played]


def digest(*arrays: np.ndarray | None) -> str:
    """Return a short hash of numbers, whatever the width in which they are stored, and of their shapes."""
    total = hashlib.blake2b(digest_size=8)
    for array in arrays:
        if array is not None and array.size:  # without contexts, say
            wide = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
            total.update(repr(wide.shape).encode() + wide.tobytes())
    return total.hexdigest()
