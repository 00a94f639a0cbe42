"""How fast are sameluck, river, MABWiser, SMPyBandits, rlberry and NumPy on the same jobs, and do they agree?

    python benchmarks/peers.py [--quick] [--json FILE] [--picture FILE.svg]
    python benchmarks/peers.py --from FILE --picture FILE.svg      draws what was measured before

Every program plays on the same rewards, one thread, and the programs take turns. A package that is not installed is
named with what installs it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

import peer_policies as peers
import peers_picture
import sameluck as sl
from core import interleaved, machine
from sameluck import text_forms
from sameluck.policies.base import POLICIES

SEED = 7
ARMS = 5
CONTINUOUS = (
    "continuous_uniform(0.8, 0.4, 0, 0, 0, high=[1, 1, 1, 0.6, 0.2])"  # no two bounds are equal
)
BINARY = "bernoulli(0.9, 0.7, 0.5, 0.3, 0.1)"  # the same means
PACKAGES = ("river", "MABWiser", "SMPyBandits", "rlberry")
COLUMNS = ("sameluck", "NumPy", *PACKAGES)
FULL = {
    "horizon": 1_000,
    "replications": 20,
    "side_by_side": 1_000,
    "our_replications": 2_000,
    "repeats": 7,
    "policy_replications": 500,
}
QUICK = FULL | {"horizon": 200, "replications": 4, "repeats": 2, "policy_replications": 50}


class Peer(NamedTuple):
    """The policy of a package, and ours with the same rule and the same first plays."""

    play: Callable
    ours: str


class Job(NamedTuple):
    """A policy with the packages that have it."""

    environment: str
    ours: str
    peers: dict[str, Peer]
    randomised: bool = False


def jobs(horizon):
    """The jobs by title."""
    ucb, thompson, greedy = "ucb1(2)", "thompson_bernoulli(first_plays=1)", "epsilon_greedy(0.1)"
    moss = {"T": horizon, "A": ARMS}
    return {
        "UCB1": Job(
            CONTINUOUS,
            ucb,
            {
                "NumPy": Peer(peers.numpy_ucb1, ucb),
                "river": Peer(peers.river("UCB", delta=1, burn_in=1), ucb),
                "MABWiser": Peer(peers.mabwiser("UCB1", alpha=1), ucb),
                "SMPyBandits": Peer(peers.smpybandits("UCBalpha", alpha=4), ucb),
                "rlberry": Peer(
                    peers.rlberry_index("makeBoundedUCBIndex", delta=lambda t: t**-4.0), ucb
                ),
            },
        ),
        "MOSS": Job(
            CONTINUOUS,
            "moss",
            {
                "SMPyBandits": Peer(peers.smpybandits("MOSSH", horizon=horizon), "moss"),
                "rlberry": Peer(peers.rlberry_index("makeBoundedMOSSIndex", **moss), "moss"),
            },
        ),
        "KL-UCB": Job(
            CONTINUOUS,
            "klucb",
            {"SMPyBandits": Peer(peers.smpybandits("klUCB", tolerance=1e-12), "klucb")},
        ),
        "UCB-V": Job(
            CONTINUOUS,
            "ucbv(zeta=1)",
            {"SMPyBandits": Peer(peers.smpybandits("UCBV"), "ucbv(zeta=1)")},
        ),
        "Thompson sampling": Job(
            BINARY,
            thompson,
            {
                "NumPy": Peer(peers.numpy_thompson, thompson),
                "river": Peer(peers.river("ThompsonSampling", reward="beta", burn_in=1), thompson),
                "MABWiser": Peer(peers.mabwiser("ThompsonSampling"), thompson),
                "SMPyBandits": Peer(peers.smpybandits("Thompson"), "thompson_bernoulli"),
                "rlberry": Peer(peers.rlberry("TSAgent", "makeBetaPrior"), thompson),
            },
            randomised=True,
        ),
        "epsilon-greedy": Job(
            BINARY,
            greedy,
            {
                "NumPy": Peer(peers.numpy_epsilon_greedy, greedy),
                "river": Peer(peers.river("EpsilonGreedy", epsilon=0.1, burn_in=1), greedy),
                "MABWiser": Peer(peers.mabwiser("EpsilonGreedy", epsilon=0.1), greedy),
            },
            randomised=True,
        ),
        "EXP3": Job(
            BINARY,
            "exp3(0.1)",
            {"river": Peer(peers.river("Exp3", gamma=0.1), "exp3(0.1)")},
            randomised=True,
        ),
    }


def experiment_of(policies, horizon, replications):
    return sl.Experiment(
        policies=policies, arms=ARMS, horizon=horizon, replications=replications, seed=SEED
    )


def stacks(environment, horizon, replications):
    """The rewards (replication, arm, position) that every program reads."""
    policies = {str(arm): sl.Always(arm) for arm in range(ARMS)}
    experiment = experiment_of(policies, horizon, replications)
    traces = [sl.trace(experiment, environment, one) for one in range(replications)]
    return [[trace[name].rewards.tolist() for name in policies] for trace in traces]


def our_arms(text, environment, horizon, replications):
    """The arms (replication, period) of a policy of ours."""
    experiment = experiment_of({"it": text}, horizon, replications)
    return np.array(
        [sl.trace(experiment, environment, one)["it"].arms for one in range(replications)]
    )


@contextmanager
def lowest_of_equal_arms():
    """SMPyBandits with our convention: of equal arms the lowest."""
    usual = np.random.choice
    np.random.choice = lambda best: best[0]
    try:
        yield
    finally:
        np.random.choice = usual


def available(package):
    return package == "NumPy" or peers.module_of(package) is not None


def agreement(job, package, rewards, size):
    """Of a deterministic policy the share of equal arms; of a randomised one z of the difference in mean reward."""
    peer, horizon, count = job.peers[package], size["horizon"], size["replications"]

    def play():
        if package == "NumPy":
            return peer.play(rewards, horizon, SEED)
        return np.array([peer.play(one, horizon, seed) for seed, one in enumerate(rewards)])

    ours = our_arms(peer.ours, job.environment, horizon, count)
    if not job.randomised:
        with lowest_of_equal_arms():
            return {"equal": float(np.mean(play() == ours)), "periods": ours.size}
    earned = [
        [math.fsum(_rewards_of(arms, stack)) for arms, stack in zip(chosen, rewards, strict=True)]
        for chosen in (play(), ours)
    ]
    difference = np.subtract(*earned)
    error = difference.std(ddof=1) / math.sqrt(count)
    return {"z": float(difference.mean() / error), "difference": float(difference.mean())}


def _rewards_of(arms, stack):
    pulls = [0] * ARMS
    for arm in arms:
        yield stack[arm][pulls[arm]]
        pulls[arm] += 1


def contestants(job, rewards, size):
    """Name -> (what to time, its steps)."""
    horizon, rows, many = size["horizon"], size["our_replications"], size["side_by_side"]
    own = experiment_of({"it": job.ours}, horizon, rows)
    found = {
        "sameluck": (lambda: sl.simulate(own, job.environment, workers=1), rows * horizon),
    }
    for package, peer in job.peers.items():
        if not available(package):
            continue
        if package == "NumPy":
            wide = np.resize(np.array(rewards), (many, ARMS, horizon))
            found[package] = (
                lambda peer=peer, wide=wide: peer.play(wide, horizon, SEED),
                many * horizon,
            )
        else:
            found[package] = (lambda peer=peer: peer.play(rewards[0], horizon, SEED), horizon)
    return found


def measure(size):
    """Steps a second (best, median) and agreement, by job and package."""
    results = {}
    for title, job in jobs(size["horizon"]).items():
        rewards = stacks(job.environment, size["horizon"], size["replications"])
        runs = contestants(job, rewards, size)
        runs["sameluck"][0]()  # compiles
        seconds = interleaved({name: run for name, (run, _) in runs.items()}, size["repeats"])
        results[title] = {
            name: {
                "best": steps / min(seconds[name]),
                "median": steps / statistics.median(seconds[name]),
                **(agreement(job, name, rewards, size) if name != "sameluck" else {}),
            }
            for name, (_, steps) in runs.items()
        }
        print_job(title, results[title])
    return results


def print_job(title, row):
    cells = [f"{row[name]['best'] / 1e3:,.1f}" if name in row else "-" for name in COLUMNS]
    print(f"{title:<20}" + "".join(f"{cell:>14}" for cell in cells))
    notes = [agreement_text(row.get(name)) for name in COLUMNS]
    print(f"{'  agreement':<20}" + "".join(f"{note:>14}" for note in notes))


def agreement_text(found):
    """How a package agrees with sameluck, in a few words."""
    if found is None or not {"equal", "z"} & found.keys():
        return ""
    return f"z = {found['z']:.1f}" if "z" in found else f"{100 * found['equal']:.6g}% equal"


def policy_speeds(size):
    """Steps a second of every policy of ours, beside UCB1's."""
    texts = {
        name: text_forms.example(kind)
        for name, kind in POLICIES.items()
        if kind not in (sl.External, sl.Batched)
    }
    horizon, rows = 10_000, size["policy_replications"]
    runs = {
        name: lambda text=text: sl.simulate(
            experiment_of({"it": text}, horizon, rows), BINARY, workers=1
        )
        for name, text in texts.items()
    }
    for text in texts.values():
        sl.simulate(experiment_of({"it": text}, 10, 1), BINARY, workers=1)
    seconds = interleaved(runs, max(2, size["repeats"] // 2))
    speeds = {name: horizon * rows / min(taken) for name, taken in seconds.items()}
    base = speeds[text_forms.name_of(sl.UCB1)]
    print(f"\nEvery policy on {BINARY}, million steps a second, and as a multiple of UCB1's")
    for name, speed in sorted(speeds.items(), key=lambda pair: -pair[1]):
        print(f"  {name:<40} {speed / 1e6:>8.1f} {speed / base:>8.3f}")
    return speeds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller and less certain")
    parser.add_argument("--json", metavar="FILE", help="write everything to FILE too")
    parser.add_argument("--from", dest="read", metavar="FILE", help="measure nothing, read FILE")
    parser.add_argument("--picture", metavar="FILE.svg", help="draw UCB1 and Thompson sampling")
    options = parser.parse_args()
    record = json.loads(Path(options.read).read_text()) if options.read else run(options.quick)
    if options.json:
        Path(options.json).write_text(json.dumps(record, indent=2) + "\n")
    if options.picture:
        Path(options.picture).write_text(peers_picture.picture(record))


def run(quick):
    size = QUICK if quick else FULL
    facts = machine() | {name: peers.version_of(name) for name in PACKAGES}
    facts["sameluck"] = sl.__version__
    print("$ python " + " ".join(sys.argv))
    print("\n".join(f"{name}: {value}" for name, value in facts.items()))
    missing = {name: peers.INSTALL[name] for name in PACKAGES if not available(name)}
    for name, line in missing.items():
        print(f"{name} cannot be imported: {line}")
    print(
        f"\nThousand steps a second, {ARMS} arms, {size['horizon']:,} periods, one thread: best of the turns"
    )
    print(f"{'':<20}" + "".join(f"{name:>14}" for name in COLUMNS))
    begin = time.perf_counter()
    record = {
        "machine": facts,
        "command": sys.argv,
        "size": size,
        "missing": missing,
        "jobs": measure(size),
        "policies": policy_speeds(size),
    }
    print(f"\n{time.perf_counter() - begin:.0f} seconds")
    return record


if __name__ == "__main__":
    main()
