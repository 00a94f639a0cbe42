"""Parts of `core.py`: policies that are Python objects, alone and in `simulate`, and tasks on a Dask cluster."""

from __future__ import annotations

import os
import time

import in_river
from sameluck import Bernoulli, Experiment, External, simulate
from sameluck.adapters import dask

try:
    import distributed
except ImportError:
    distributed = None

MEANS = (0.9, 0.7, 0.5, 0.3, 0.1)
SEED = 7


class InTurn:
    """As little as an object can do: what remains is the loop."""

    def __init__(self, _seed):
        self.updates = 0

    def select(self, period):
        """The arms in turn."""
        return period % len(MEANS)

    def update(self, _arm, _reward):
        """Count."""
        self.updates += 1


def river_ucb(_seed):
    return in_river.ucb1(2.5)


def alone(make, periods, choose):
    """A loop around the object with a constant reward: what it takes by itself."""
    policy, names = make(SEED), list(range(len(MEANS)))
    select = (lambda _: policy.pull(names)) if choose == "pull" else policy.select
    for period in range(1, periods + 1):
        policy.update(select(period), 1.0)


def simulated(make, periods, replications=1, workers=1):
    experiment = Experiment(
        policies={"it": External("it")},
        arms=len(MEANS),
        horizon=periods,
        replications=replications,
        seed=SEED,
    )
    simulate(experiment, Bernoulli(MEANS), makers={"it": make}, workers=workers)


def best_seconds(runs, repeats, clock):
    """The best of several turns by name; the programs take turns."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            begin = clock()
            run()
            best[name] = min(best[name], clock() - begin)
    return best


def python_objects(size, goals):
    print("\nPolicies that are Python objects, one thread, microseconds a step: best of the turns")
    periods, repeats = size["object_horizon"], size["repeats"]
    makers = {"an object that does nothing": (InTurn, "select")}
    if in_river.bandit:
        makers["river's UCB"] = (river_ucb, "pull")
    for what, (make, choose) in makers.items():
        simulated(make, periods)  # checks the object, and compiles
        runs = {
            "alone": lambda make=make, choose=choose: alone(make, periods, choose),
            "in simulate": lambda make=make: simulated(make, periods),
        }
        best = best_seconds(runs, repeats, time.thread_time)
        each = {name: 1e6 * seconds / periods for name, seconds in best.items()}
        print(f"  {what:<40} alone {each['alone']:.2f}, in simulate {each['in simulate']:.2f}")
        added = each["in simulate"] - each["alone"]
        goals.check(f"{what}: added by simulate", added, "<= 0.3", added <= 0.3, "us")
    if not in_river.bandit:
        print(f"  {in_river.INSTALL}")
    if (os.cpu_count() or 1) < 2:
        return
    runs = {
        workers: lambda workers=workers: simulated(
            InTurn, periods, size["object_replications"], workers
        )
        for workers in (1, 2)
    }
    best = best_seconds(runs, max(1, repeats // 3), time.perf_counter)
    goals.check("2 processes over 1", best[1] / best[2], ">= 1.7", best[1] / best[2] >= 1.7, "x")


def dask_efficiency(size, goals):
    print("\nDask on this machine, two workers of one thread (needs two idle cores)")
    if distributed is None or (os.cpu_count() or 1) < 2:
        print("  skipped: it needs pip install 'sameluck[dask]' and two cores")
        return
    policies = {"a": "ucb1", "b": "thompson_bernoulli"}
    one = Experiment(policies=policies, arms=len(MEANS), horizon=10_000, replications=64, seed=SEED)
    runs = {"one thread": lambda: simulate(one, Bernoulli(MEANS), workers=1)}
    runs["one thread"]()
    each = best_seconds(runs, 3, time.perf_counter)["one thread"] / 64
    job = one.replace(replications=int(size["dask_seconds"] / each))
    arrived = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        simulate(one, Bernoulli(MEANS), map=dask.on(client))  # each worker loads its machine code
        begin = time.perf_counter()
        simulate(
            job,
            Bernoulli(MEANS),
            map=dask.on(client),
            progress=lambda *_: arrived.append(time.perf_counter() - begin),
        )
        seconds = time.perf_counter() - begin
    work = each * job.replications
    print(
        f"  {work:.1f} s of one thread took {seconds:.1f} s: {len(arrived)} tasks, the first result after "
        f"{arrived[0]:.1f} s"
    )
    share = work / (2 * seconds)
    goals.check("efficiency of two Dask workers", share, ">= 0.85", share >= 0.85)
