"""Speed of sameluck beside C, NumPy and river on the paper's three examples.

    python benchmarks/core.py [--quick] [--json FILE]

Contestants take turns, because the machine's speed drifts; a figure is the best of its repetitions, and the median is
beside it. The C program with sameluck's own generator must give sameluck's results to the bit, or nothing is
reported.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import in_river
import objects
import reference
import vectorised
from sameluck import Experiment, simulate
from sameluck.randomness.streams import ALL_POLICIES, owner_of

SEED = 7
FIVE_BERNOULLI, TWO_BERNOULLI, FIVE_GAUSSIAN = (
    (0.9, 0.7, 0.5, 0.3, 0.1),
    (0.7, 0.3),
    (1.0, 0.8, -2.0, -3.0, -4.0),
)
EXAMPLES = {
    1: ("bernoulli", FIVE_BERNOULLI, {"control": "ucb1(2.5)", "rival": "ucb1(3)"}),
    2: (
        "bernoulli",
        TWO_BERNOULLI,
        {"control": "ucb1(2)", "rival": "thompson_bernoulli(first_plays=1)"},
    ),
    3: (
        "gaussian",
        FIVE_GAUSSIAN,
        {"control": "thompson_gaussian(first_plays=1)", "rival": "epsilon_greedy(0.1)"},
    ),
}
IN_NUMPY = {
    "ucb1(2.5)": lambda *job: vectorised.ucb1(*job, 2.5),
    "ucb1(3)": lambda *job: vectorised.ucb1(*job, 3.0),
    "ucb1(2)": lambda *job: vectorised.ucb1(*job, 2.0),
    "thompson_bernoulli(first_plays=1)": vectorised.thompson_bernoulli,
    "thompson_gaussian(first_plays=1)": vectorised.thompson_gaussian,
    "epsilon_greedy(0.1)": lambda *job: vectorised.epsilon_greedy(*job, 0.1),
}
IN_RIVER = {
    "ucb1(2.5)": lambda: in_river.ucb1(2.5),
    "ucb1(3)": lambda: in_river.ucb1(3.0),
    "ucb1(2)": lambda: in_river.ucb1(2.0),
    "thompson_bernoulli(first_plays=1)": in_river.thompson_bernoulli,
    "thompson_gaussian(first_plays=1)": in_river.thompson_gaussian,
    "epsilon_greedy(0.1)": lambda: in_river.epsilon_greedy(0.1),
}
POLICIES = (
    "ucb1",
    "ucb_delta",
    "thompson_bernoulli",
    "thompson_gaussian",
    "epsilon_greedy",
    "uniform",
    "always(0)",
)
ENVIRONMENTS = ("bernoulli(0.7,0.3)", "gaussian(1,0)", "empirical([0,1],[0,1,1])")


class Goals:
    """Goals and the measured values."""

    def __init__(self):
        self.lines = []

    def check(self, label, value, goal, met, unit=""):
        """Record a goal and print it."""
        self.lines.append({"what": label, "value": value, "goal": goal, "met": bool(met)})
        print(f"  {label:<58} {value:>8.2f} {unit:<4} goal {goal:<9} {'met' if met else 'NOT MET'}")


def interleaved(contestants, repeats, clock=time.process_time):
    """Return a list of seconds for each contestant: every contestant runs once, then every contestant again.

    Processor time by default, so that what else runs on the machine counts less.
    """
    seconds = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            begin = clock()
            run()
            seconds[name].append(clock() - begin)
    return seconds


def experiment_of(number, policies, replications, horizon):
    _, means, _ = EXAMPLES[number]
    return Experiment(
        policies=policies, arms=len(means), horizon=horizon, replications=replications, seed=SEED
    )


def environment_of(number):
    law, means, _ = EXAMPLES[number]
    return f"{law}({', '.join(map(str, means))})"


def contestants_of(number, libraries, size):
    """Return (contestant, role) -> (function to time, its number of steps)."""
    law, means, policies = EXAMPLES[number]
    arms, horizon, rows = len(means), size["horizon"], size["replications"]
    runs = {}
    for role, text in policies.items():
        alone = experiment_of(number, {role: text}, rows, horizon)
        runs["sameluck", role] = (
            lambda alone=alone: simulate(alone, environment_of(number), workers=1),
            rows * horizon,
        )
        owners = (SEED, ALL_POLICIES, owner_of(role))
        for language, library in libraries.items():
            job = (library, number, role, arms, owners, rows, horizon)
            runs[language, role] = (lambda job=job: reference.play(*job), rows * horizon)
        draw, rng = getattr(vectorised, law)(means), np.random.default_rng(SEED)
        job = (rng, draw, arms, 1000, size["numpy_horizon"])
        runs["NumPy", role] = (
            lambda text=text, job=job: IN_NUMPY[text](*job),
            1000 * size["numpy_horizon"],
        )
        if in_river.bandit:
            draw = getattr(in_river, law)(means)
            runs["river", role] = (
                lambda text=text, draw=draw: in_river.play(
                    IN_RIVER[text](), draw, arms, size["river_horizon"]
                ),
                size["river_horizon"],
            )
    return runs


def assert_equal_to_c(number, libraries, size):
    _, means, policies = EXAMPLES[number]
    rows, horizon = size["replications"], size["horizon"]
    runs = simulate(experiment_of(number, policies, rows, horizon), environment_of(number))
    for column, role in enumerate(policies):
        owners = (SEED, ALL_POLICIES, owner_of(role))
        earned, pulls = reference.play(
            libraries["C"], number, role, len(means), owners, rows, horizon
        )
        assert np.array_equal(earned, runs.rewards[:, column, 0]), (number, role)
        assert np.array_equal(pulls, runs.pulls[:, column, 0]), (number, role)


def speeds(libraries, size, goals):
    results = {}
    columns = ["sameluck", *reference.KINDS, "NumPy", "river"]
    print("\nMillion policy-steps a second, one thread: best (median)")
    print(f"{'':<48}" + "".join(f"{name:>18}" for name in columns))
    for number, (_, _, policies) in EXAMPLES.items():
        if libraries:
            assert_equal_to_c(number, libraries, size)
        runs = contestants_of(number, libraries, size)
        quick = {key: run for key, (run, _) in runs.items() if key[0] not in ("NumPy", "river")}
        slow = {key: run for key, (run, _) in runs.items() if key[0] in ("NumPy", "river")}
        simulate(experiment_of(number, policies, 1, 10), environment_of(number))
        seconds = interleaved(quick, size["repeats"]) | interleaved(slow, size["slow_repeats"])
        results[number] = rates_of(policies, runs, seconds)
        for name, row in results[number].items():
            cells = (f"{row[c][0]:.2f} ({row[c][1]:.2f})" if c in row else "-" for c in columns)
            print(f"{f'Example {number}: {name}':<48}" + "".join(f"{cell:>18}" for cell in cells))
    print("\nsameluck against the others, pairs, best against best")
    for number, rows in results.items():
        compare_pair(number, rows["pair"], goals)
    if libraries:
        print("  Results equal to C's with the same generator, to the bit.")
    else:
        print("  C was skipped: there is no gcc.")
    if not in_river.bandit:
        print(f"  {in_river.INSTALL}")
    return results


def rates_of(policies, runs, seconds):
    rows = {text: {} for text in policies.values()} | {"pair": {}}
    for contestant in dict.fromkeys(name for name, _ in runs):
        costs = []
        for role, text in policies.items():
            _, steps = runs[contestant, role]
            per_step = [duration / steps for duration in seconds[contestant, role]]
            costs.append((min(per_step), statistics.median(per_step)))
            rows[text][contestant] = tuple(1e-6 / cost for cost in costs[-1])
        rows["pair"][contestant] = tuple(
            len(costs) * 1e-6 / sum(cost) for cost in zip(*costs, strict=True)
        )
    return rows


def compare_pair(number, pair, goals):
    ours = pair["sameluck"][0]
    rivals = [pair[language][0] for language in reference.KINDS if language in pair]
    if rivals:
        ratio = ours / max(rivals)
        goals.check(f"Example {number}: of the faster C", ratio, ">= 0.85", ratio >= 0.85)
        print(
            f"  {f'Example {number}: of C with the same generator':<58} {ours / pair['C'][0]:>8.2f}"
        )
    times = ours / pair["NumPy"][0]
    goals.check(f"Example {number}: NumPy over 1,000 replications", times, ">= 3", times >= 3, "x")
    if "river" in pair:
        print(f"  {f'Example {number}: times river':<58} {ours / pair['river'][0]:>8.0f}")


def threads(size, goals):
    load = f", load {os.getloadavg()[0]:.1f} before it" if hasattr(os, "getloadavg") else ""
    print(f"\nTwo threads (needs two idle cores{load})")
    if (os.cpu_count() or 1) < 2:
        print("  skipped: this machine has one core")
        return
    for number, (_, _, policies) in EXAMPLES.items():
        experiment = experiment_of(number, policies, size["thread_replications"], size["horizon"])
        runs = {
            workers: lambda n=workers, e=experiment, k=number: simulate(
                e, environment_of(k), workers=n
            )
            for workers in (1, 2)
        }
        runs["processes"] = lambda e=experiment, k=number: in_two_processes(e, environment_of(k))
        seconds = interleaved(runs, size["repeats"], time.perf_counter)
        gain, limit = (min(seconds[1]) / min(seconds[two]) for two in (2, "processes"))
        goals.check(f"Example {number}: 2 threads over 1", gain, ">= 1.85", gain >= 1.85, "x")
        print(f"  {'  2 processes with half of it each, which share nothing':<58} {limit:>8.2f} x")


def in_two_processes(experiment, environment):
    """Measure the machine's limit: with the start of the processes, without collecting their results."""
    middle = experiment.replications // 2
    halves = (range(middle), range(middle, experiment.replications))
    team = [
        multiprocessing.get_context("fork").Process(
            target=simulate,
            args=(experiment, environment),
            kwargs={"workers": 1, "replications": half},
        )
        for half in halves
    ]
    for process in team:
        process.start()
    for process in team:
        process.join()


def linearity(size, goals):
    print("\nCost of a step in a task 8 times as large, relative to the smaller one (Example 1)")
    rows, horizon = size["replications"] // 2, size["horizon"] // 2

    def job(count, rows, horizon):
        policies = {str(i): f"ucb1({2.5 + i / 10})" for i in range(count)}
        experiment = experiment_of(1, policies, rows, horizon)
        return lambda: simulate(experiment, environment_of(1), workers=1)

    for label, larger in {
        "horizon": (1, rows, 8 * horizon),
        "replications": (1, 8 * rows, horizon),
        "policies": (8, rows, horizon),
    }.items():
        runs = {"one": job(1, rows, horizon), "eight": job(*larger)}
        seconds = interleaved(runs, max(3, size["repeats"] // 2))
        ratio = min(seconds["eight"]) / (8 * min(seconds["one"]))
        goals.check(label, ratio, "<= 1.15", ratio <= 1.15, "x")


def child(code, **environment):
    """Return what a fresh Python process prints, and its duration from start to end."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return done.stdout, time.perf_counter() - begin


def warm_start(goals):
    print("\nWarm start: from starting the process to its last printed line")
    library = (
        "import sameluck; e = sameluck.Experiment(policies={'a': 'ucb1(2.5)', 'b': 'ucb1(3)'}, arms=2,"
        "horizon=1000, replications=100); print(sameluck.simulate(e, 'bernoulli(0.7,0.3)').rewards.mean())"
    )
    arguments = ["compare", "ucb1(2.5)", "ucb1(3)", "--env", "bernoulli(0.7,0.3)"]
    command = f"import sys; from sameluck.__main__ import main; sys.argv[1:] = {arguments}; main()"
    ways = {"Python, simulate": library}
    if importlib.util.find_spec("click") and importlib.util.find_spec("rich"):
        ways["command line, sameluck compare"] = command
    for label, code in ways.items():
        child(code)
        seconds = min(child(code)[1] for _ in range(5))
        goals.check(label, seconds, "<= 1.5", seconds <= 1.5, "s")


def first_compilation(size, goals):
    print("\nFirst compilation of a policy with an environment, empty cache, seconds of processor")
    timed = (
        "import time, sameluck; begin = time.process_time();"
        "e = sameluck.Experiment(policies={{'a': '{}'}}, arms=2, horizon=10, replications=1);"
        "sameluck.simulate(e, '{}'); print(time.process_time() - begin)"
    )
    for policy in POLICIES:
        worst = {}
        for environment in ENVIRONMENTS[: size["environments"]]:
            if policy == "thompson_bernoulli" and environment.startswith("gaussian"):
                continue
            with tempfile.TemporaryDirectory() as folder:
                printed, _ = child(timed.format(policy, environment), SAMELUCK_CACHE_DIR=folder)
            worst[environment] = float(printed)
        slowest = max(worst, key=worst.get)
        seconds = worst[slowest]
        goals.check(f"{policy} with {slowest}", seconds, "<= 3", seconds <= 3, "s")


def peak_memory(size, goals):
    print("\nPeak memory, whole process")
    rows, horizon = size["memory_replications"], 10_000
    # VmHWM, because the peak that getrusage gives a child includes its parent's.
    code = (
        "import sameluck; e = sameluck.Experiment(policies={'a': 'ucb1(2.5)', 'b': 'ucb1(3)'}, arms=5,"
        f"horizon={horizon}, replications={rows}); sameluck.simulate(e, '{environment_of(1)}');"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0])"
    )
    if not Path("/proc/self/status").exists():
        print("  skipped: no /proc here")
        return
    mebibytes = int(child(code)[0]) / 1024
    label = f"{rows:,} replications x {horizon:,} periods x 2 policies"
    goals.check(label, mebibytes, "<= 300", mebibytes <= 300, "MiB")
    million = (
        "import sameluck; e = sameluck.Experiment(policies={'a': 'ucb1(2.5)', 'b': 'ucb1(3)'}, arms=5,"
        f"horizon=100, replications=1_000_000); run = sameluck.simulate; law = '{environment_of(1)}';"
        "kib = lambda: int([l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')][0]);"
        "run(e, law, replications=range(5_000)); before = kib(); r = run(e, law);"
        "print((kib() - before) * 1024 / (r.rewards.nbytes + r.pulls.nbytes + r.interactions.nbytes))"
    )
    ratio = float(child(million)[0])
    label = "1,000,000 replications x 100 periods: of the results' size"
    goals.check(label, ratio, "<= 2", ratio <= 2, "x")


def machine():
    names = ("sameluck", "numpy", "numba", "llvmlite", "river")
    versions = {name: _version(name) for name in names}
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(
            (line.split(": ")[1] for line in lines if line.startswith("model name")), model
        )
    gcc = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=False)
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "gcc": gcc.stdout.splitlines()[0] if gcc.stdout else None,
        **versions,
    }


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


FULL = {
    "horizon": 10_000,
    "replications": 500,
    "numpy_horizon": 10_000,
    "river_horizon": 10_000,
    "repeats": 11,
    "slow_repeats": 2,
    "thread_replications": 5_000,
    "environments": 3,
    "memory_replications": 10_000,
    "object_horizon": 100_000,
    "object_replications": 100,
    "dask_seconds": 60,
}
QUICK = {
    "horizon": 10_000,
    "replications": 100,
    "numpy_horizon": 500,
    "river_horizon": 1_000,
    "repeats": 3,
    "slow_repeats": 1,
    "thread_replications": 200,
    "environments": 1,
    "memory_replications": 1_000,
    "object_horizon": 20_000,
    "object_replications": 100,
    "dask_seconds": 8,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller and less certain")
    parser.add_argument("--json", metavar="FILE", help="write everything to FILE too")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    goals = Goals()
    facts = machine()
    print("$ python " + " ".join(sys.argv))
    print("\n".join(f"{name}: {value}" for name, value in facts.items()))
    with tempfile.TemporaryDirectory() as folder:
        rates = speeds(reference.build(Path(folder)), size, goals)
    threads(size, goals)
    linearity(size, goals)
    warm_start(goals)
    first_compilation(size, goals)
    peak_memory(size, goals)
    objects.python_objects(size, goals)
    objects.dask_efficiency(size, goals)
    missed = [line["what"] for line in goals.lines if not line["met"]]
    print(f"\n{len(goals.lines) - len(missed)} of {len(goals.lines)} goals met")
    if options.json:
        record = {
            "machine": facts,
            "command": sys.argv,
            "size": size,
            "rates": rates,
            "goals": goals.lines,
        }
        Path(options.json).write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
