"""Speed of policies with contexts beside C and other packages.

    python benchmarks/contexts.py [--quick] [--json FILE]

LinUCB and LinTS play 5 arms with 5, 20 and 100 standard normal features, UCB1 plays 5 arms in each of 50 levels, and
Q-learning swims in RiverSwim. sameluck and C do the same job: users, choices, updates, rewards and regret. C must
play the same arms, or nothing is reported. Free C draws its numbers in sequence, as a program for this job alone
would; its mean reward must be within 4 standard errors of sameluck's. Packages choose and learn, one user at a time,
on users and rewards made beforehand. In LinUCB, packages with the same rule must play arms with the highest bound. A
package that is not installed is left out. Contestants take turns, because the machine's speed drifts; a figure is the
best of its repetitions, in processor time of one thread.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import shutil
import subprocess
import tempfile
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

import sameluck as sl
from core import Goals, interleaved, machine
from sameluck.randomness.streams import ALL_POLICIES, owner_of

SEED, ARMS = 7, 5
COMPILE = ["cc", "-O3", "-march=native", "-shared", "-fPIC"]
# By number of features; so many that starting a simulation (2 ms) does not count.
STEPS = {5: 400_000, 20: 150_000, 100: 30_000}
PACKAGE_STEPS = {5: 500, 20: 500, 100: 50}
LEAST_SHARE_OF_C = {5: 0.6, 20: 0.7, 100: 0.7}
MOST_TIMES_FREE_C = {5: 1.5, 20: 1.5, 100: 0.8}  # of LinUCB
LEVELS, STATE_STEPS = 50, 100_000  # steps in a replication
LEAST_SHARE_OF_C_IN_CELLS, MOST_TIMES_FREE_C_IN_CELLS = 0.6, 2.2
CHECKED_REPLICATIONS, STANDARD_ERRORS = 100, 4
POLICIES = {"LinUCB": sl.LinUCB(), "LinTS": sl.LinTS()}


class Job(ctypes.Structure):
    """The C side's `ContextJob`."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("seed", "reward_owner", "noise_owner")),
        *((name, ctypes.c_int64) for name in ("replications", "horizon", "features", "thompson")),
        ("width", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("weights", "earned", "regret", "pulls")),
    ]


class LevelJob(ctypes.Structure):
    """The C side's `LevelJob`."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("seed", "reward_owner", "noise_owner")),
        *((name, ctypes.c_int64) for name in ("replications", "horizon", "levels")),
        ("alpha", ctypes.c_double),
        *(
            (name, ctypes.c_void_p)
            for name in ("cumulative", "means", "earned", "regret", "visits")
        ),
    ]


class StateJob(ctypes.Structure):
    """The C side's `StateJob`."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("seed", "reward_owner", "noise_owner")),
        *(
            (name, ctypes.c_int64)
            for name in ("replications", "horizon", "states", "episode", "sizes")
        ),
        *((name, ctypes.c_double) for name in ("epsilon", "omega", "discount", "initial")),
        *(
            (name, ctypes.c_void_p)
            for name in ("steps", "offsets", "cumulative", "nexts", "rewards", "gaps")
        ),
        *((name, ctypes.c_void_p) for name in ("earned", "regret", "visits")),
    ]


def libraries_of(folder):
    """Return the libraries of C and of free C; None where there is no C compiler."""
    if shutil.which(COMPILE[0]) is None:
        return None
    libraries = []
    for name in ("contexts", "contexts_free"):
        library, source = Path(folder, f"{name}.so"), Path(__file__).with_name(f"{name}.c")
        subprocess.run([*COMPILE, "-o", str(library), str(source), "-lm"], check=True)
        libraries.append(ctypes.CDLL(str(library)))
    return libraries


def weights_of(features):
    return np.random.default_rng(SEED).normal(size=(ARMS, features)) / math.sqrt(features)


def play_in_c(play, name, features, replications, horizon):
    weights = weights_of(features)
    earned, regret = np.empty(replications), np.empty(replications)
    pulls = np.empty((replications, ARMS), np.int64)
    job = Job(
        *(
            SEED,
            ALL_POLICIES,
            owner_of(name),
            replications,
            horizon,
            features,
            name == "LinTS",
            1.0,
        ),
        *(array.ctypes.data for array in (weights, earned, regret, pulls)),
    )
    play(ctypes.byref(job))
    return earned, regret, pulls


def experiment_of(name, replications, horizon):
    policies = {name: POLICIES[name]}
    return sl.Experiment(
        policies=policies, arms=ARMS, horizon=horizon, replications=replications, seed=SEED
    )


def mabwiser(name, contexts, rewards):
    """MABWiser has a model of an arm from its first call on; it is called with a reward of weight 0."""
    mab = import_module("mabwiser.mab")
    policy = mab.MAB(list(range(ARMS)), getattr(mab.LearningPolicy, name)(alpha=1.0, l2_lambda=1.0))
    policy.fit(list(range(ARMS)), [0.0] * ARMS, np.zeros((ARMS, contexts.shape[1])))
    arms = []
    for context, row in zip(contexts, rewards, strict=True):
        arm = policy.predict(context[None])
        policy.partial_fit([arm], [row[arm]], context[None])
        arms.append(arm)
    return arms


def pymab(name, contexts, rewards):
    policies = import_module("pymab.policies.contextual_bandits")
    classes = {"LinUCB": "LinUCBPolicy", "LinTS": "LinearThompsonSamplingPolicy"}
    policy = getattr(policies, classes[name])(n_arms=ARMS, n_features=contexts.shape[1])
    random, arms = np.random.default_rng(SEED), []
    for context, row in zip(contexts, rewards, strict=True):
        by_arm = np.tile(context, (ARMS, 1))
        arm = policy.select_action(context=by_arm, rng=random)
        policy.update(action=arm, reward=float(row[arm]), context=by_arm)
        arms.append(arm)
    return arms


def contextualbandits(name, contexts, rewards):
    online = import_module("contextualbandits.online")
    settings = {"fit_intercept": False, "use_float": False, "random_state": SEED}
    width = {"alpha": 1.0} if name == "LinUCB" else {"v_sq": 1.0}
    policy = getattr(online, name)(ARMS, lambda_=1.0, **width, **settings)
    arms = []
    for context, row in zip(contexts, rewards, strict=True):
        arm = int(policy.predict(context[None])[0])
        policy.partial_fit(context[None], np.array([arm]), np.array([row[arm]]))
        arms.append(arm)
    return arms


def river(_, contexts, rewards):
    """River's LinUCB adds the standard deviation of a reward, not of its mean: another rule."""
    policy = import_module("river.bandit").LinUCBDisjoint(seed=SEED)
    arms = []
    for context, row in zip(contexts, rewards, strict=True):
        features_by_name = dict(enumerate(context.tolist()))
        arm = policy.pull(range(ARMS), context=features_by_name)
        policy.update(arm, features_by_name, float(row[arm]))
        arms.append(arm)
    return arms


PACKAGES = {
    "MABWiser": (mabwiser, ("LinUCB", "LinTS")),
    "pymab": (pymab, ("LinUCB", "LinTS")),
    "contextualbandits": (contextualbandits, ("LinUCB", "LinTS")),
    "river": (river, ("LinUCB",)),
}
HAVE_THE_SAME_RULE = (
    "MABWiser",
    "pymab",
)  # the others differ in the rule, or break ties at random


def recorded(features, horizon):
    """Return users (period, feature) and their rewards (period, arm)."""
    random = np.random.default_rng(SEED)
    contexts = random.normal(size=(horizon, features))
    return contexts, contexts @ weights_of(features).T + random.normal(size=(horizon, ARMS))


def plays_lin_ucb(arms, contexts, rewards):
    """Return whether every arm has the highest bound, with the inverses made anew; ties may go to any arm."""
    features = contexts.shape[1]
    precisions, sums = np.array([np.eye(features)] * ARMS), np.zeros((ARMS, features))
    for arm, context, row in zip(arms, contexts, rewards, strict=True):
        inverses = np.linalg.inv(precisions)
        widths = np.sqrt(np.einsum("i,aij,j->a", context, inverses, context))
        bounds = np.einsum("i,aij,aj->a", context, inverses, sums) + widths
        if bounds[arm] < bounds.max() - 1e-9:
            return False
        precisions[arm] += np.outer(context, context)
        sums[arm] += row[arm] * context
    return True


def check_means(play, experiment, environment):
    """Raise unless the mean reward of free C differs from sameluck's by a few standard errors at most."""
    rewards = sl.simulate(experiment, environment).rewards[:, 0, -1]
    earned = play(len(rewards), experiment.horizon)[0]
    error = math.sqrt((rewards.var(ddof=1) + earned.var(ddof=1)) / len(rewards))
    assert abs(rewards.mean() - earned.mean()) <= STANDARD_ERRORS * error, play


def report(label, nanoseconds, goals, share_of_c, times_free_c):
    """Print a line and check the goals against C."""
    cells = "".join(f"{key:>20} {value:>10,.1f}" for key, value in nanoseconds.items())
    print(f"{label:<22}{cells}")
    if "C" in nanoseconds:
        share = nanoseconds["C"] / nanoseconds["sameluck"]
        goals.check(f"{label}: speed against C", share, f">= {share_of_c}", share >= share_of_c)
    if "free C" in nanoseconds:
        times = nanoseconds["sameluck"] / nanoseconds["free C"]
        goal = f"<= {times_free_c}"
        goals.check(f"{label}: time against free C", times, goal, times <= times_free_c)
    return nanoseconds


def measure(name, features, libraries, size, goals):
    """Return ns a step by contestant."""
    environment = sl.Linear(weights_of(features).tolist())
    replications = 2
    horizon = STEPS[features] // size["divisor"]
    experiment = experiment_of(name, replications, horizon)
    runs = sl.simulate(experiment, environment, workers=1)
    contestants = {"sameluck": lambda: sl.simulate(experiment, environment, workers=1)}
    if libraries:
        c, free = libraries
        job = (name, features, replications, horizon)
        earned, _, pulls = play_in_c(c.play_linear, *job)
        assert np.array_equal(pulls, runs.pulls[:, 0, -1]), (name, features)
        assert np.allclose(earned, runs.rewards[:, 0, -1], rtol=1e-9), (name, features)
        contestants["C"] = lambda: play_in_c(c.play_linear, *job)
        if name == "LinUCB":
            checked = experiment_of(name, CHECKED_REPLICATIONS, horizon // 50)
            check_means(partial(play_in_c, free.free_linear, name, features), checked, environment)
            contestants["free C"] = lambda: play_in_c(free.free_linear, *job)
    steps = dict.fromkeys(contestants, replications * horizon)
    seconds = interleaved(contestants, size["repeats"])
    users = recorded(features, PACKAGE_STEPS[features] // size["divisor"])
    for package, (play, names) in PACKAGES.items():
        if name in names and find_spec(package.lower()):
            played = play(name, *users)
            if name == "LinUCB" and package in HAVE_THE_SAME_RULE:
                assert plays_lin_ucb(played, *users), (package, features)
            run = {package: lambda play=play: play(name, *users)}
            seconds |= interleaved(run, size["package_repeats"])
            steps[package] = len(users[0])
    nanoseconds = {key: min(times) / steps[key] * 1e9 for key, times in seconds.items()}
    label = f"{name}, {features} features"
    goal = LEAST_SHARE_OF_C[features], MOST_TIMES_FREE_C[features]
    return report(label, nanoseconds, goals, *goal)


def levels_environment():
    means = np.random.default_rng(SEED).uniform(0.1, 0.9, size=(LEVELS, ARMS))
    return sl.ByLevel([sl.Bernoulli(row) for row in means.tolist()])


def play_levels_in_c(play, means, replications, horizon):
    earned, regret = np.empty(replications), np.empty(replications)
    visits = np.empty((replications, LEVELS * ARMS), np.int64)
    cumulative = np.cumsum(np.full(LEVELS, 1 / LEVELS))
    cumulative[-1] = 1.0
    job = LevelJob(
        *(SEED, ALL_POLICIES, owner_of("UCB1 per level"), replications, horizon, LEVELS, 2.0),
        *(array.ctypes.data for array in (cumulative, means, earned, regret, visits)),
    )
    play(ctypes.byref(job))
    return earned, regret, visits


class RiverTables(NamedTuple):
    """RiverSwim and Q-learning as the C side takes them; see `StateJob`."""

    rule: tuple
    river: sl.RiverSwim
    offsets: np.ndarray
    cumulative: np.ndarray
    nexts: np.ndarray
    rewards: np.ndarray
    gaps: np.ndarray


def tables_of(river):
    cells = [outcomes for actions in river.tabular().outcomes for outcomes in actions]
    cumulative = np.concatenate([np.cumsum([outcome[0] for outcome in cell]) for cell in cells])
    _, nexts, rewards, _ = np.array([outcome for cell in cells for outcome in cell], float).T.copy()
    gaps = river.compiled_parameters(SEED, range(1), 2).gaps
    rule = sl.QLearning().prepare(2, STATE_STEPS, river.context)
    offsets = np.cumsum([0, *map(len, cells)])
    return RiverTables(rule, river, offsets, cumulative, nexts, rewards, gaps)


def swim_in_c(play, tables, replications, horizon):
    rule, river, *arrays = tables
    earned, regret = np.empty(replications), np.empty(replications)
    visits = np.empty((replications, 2 * river.states), np.int64)
    job = StateJob(
        *(SEED, ALL_POLICIES, owner_of("Q-learning"), replications, horizon),
        *(river.states, river.episode, rule.steps.size, *rule[:4]),
        *(array.ctypes.data for array in (rule.steps, *arrays, earned, regret, visits)),
    )
    play(ctypes.byref(job))
    return earned, regret, visits


def measure_cells(label, policy, environment, players, size, goals):
    """Return ns a step by contestant; players are functions of C and free C."""
    replications, horizon = 10, STATE_STEPS // size["divisor"]

    def experiment(replications, horizon):
        return sl.Experiment(
            policies={label: policy}, horizon=horizon, replications=replications, seed=SEED
        )

    timed = experiment(replications, horizon)
    runs = sl.simulate(timed, environment, workers=1)
    contestants = {"sameluck": lambda: sl.simulate(timed, environment, workers=1)}
    if players:
        c, free = players
        earned, regret, visits = c(replications, horizon)
        assert np.array_equal(visits, runs.visits[:, 0, -1]), label
        assert np.allclose(earned, runs.rewards[:, 0, -1], rtol=1e-9), label
        assert np.allclose(regret, runs.regret[:, 0, -1], rtol=1e-9), label
        check_means(free, experiment(CHECKED_REPLICATIONS, horizon // 10), environment)
        contestants["C"] = lambda: c(replications, horizon)
        contestants["free C"] = lambda: free(replications, horizon)
    seconds = interleaved(contestants, size["repeats"])
    steps = replications * horizon
    nanoseconds = {key: min(times) / steps * 1e9 for key, times in seconds.items()}
    goal = LEAST_SHARE_OF_C_IN_CELLS, MOST_TIMES_FREE_C_IN_CELLS
    return report(label, nanoseconds, goals, *goal)


def main():
    """Measure, print and, if asked, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the steps")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    size = {"divisor": 1, "repeats": 7, "package_repeats": 2}
    if options.quick:
        size = {"divisor": 5, "repeats": 3, "package_repeats": 1}
    goals, results = Goals(), {}
    print("Nanoseconds a step, one thread, 5 arms: best of the repetitions")
    with tempfile.TemporaryDirectory() as folder:
        libraries = libraries_of(folder)
        for features in STEPS:
            for name in POLICIES:
                results[f"{name}, {features} features"] = measure(
                    name, features, libraries, size, goals
                )
        levels, river = levels_environment(), sl.RiverSwim()
        by_level = river_players = None
        if libraries:
            c, free = libraries
            means, tables = levels.level_means(), tables_of(river)
            by_level = [
                partial(play_levels_in_c, play, means) for play in (c.play_levels, free.free_levels)
            ]
            river_players = [
                partial(swim_in_c, play, tables) for play in (c.play_states, free.free_states)
            ]
        for label, policy, environment, players in (
            ("UCB1 per level", sl.PerLevel(sl.UCB1(2)), levels, by_level),
            ("Q-learning", sl.QLearning(), river, river_players),
        ):
            results[label] = measure_cells(label, policy, environment, players, size, goals)
    if libraries is None:
        print("C was skipped: there is no C compiler.")
    if options.json:
        written = {"machine": machine(), "nanoseconds": results, "goals": goals.lines}
        options.json.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
