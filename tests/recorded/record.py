"""Record what sameluck produces, to the bit; `test_recorded.py` compares.

`digests.json` has digests of every policy and environment (`pairs.py`), by environment:

    python tests/recorded/record.py           # write it; `git diff` must show new lines only
    python tests/recorded/record.py --check   # name each digest that differs

The other files are of version 0.1.0: digests of simulations and of live experiments, saved runs and a database. They
were written by that version, with a folder as argument.
"""

import hashlib
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import sameluck as sl

HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))  # as for the tests

from recorded import pairs  # noqa: E402 the script needs the path

DIGESTS = HERE / "digests.json"
ENVIRONMENTS = {
    "bernoulli": "bernoulli(0.7, 0.5, 0.3)",
    "gaussian": "gaussian(1, 0.8, 0.2, sd=[1, 0.5, 2])",
    "empirical": "empirical([0, 1, 1, 0.5], [2.5, 0, 0.25], [1])",
    "bernoulli_prior": "bernoulli_prior(1, 2)",
    "gaussian_prior": "gaussian_prior(0, 1, 0.5)",
}
BINARY = {
    "thompson": "thompson_bernoulli()",
    "thompson_first": "thompson_bernoulli(first_plays=1)",
    "thompson_flat": "thompson_bernoulli(a=0.5, b=0.5)",
    "thompson_batched": "batched(thompson_bernoulli(a=2, b=1), size=7)",
}
REAL = {
    "ucb": "ucb1(alpha=2.5)",
    "ucb_batched": "batched(ucb1(), size=5)",
    "delta": "ucb_delta(d=2)",
    "gauss": "thompson_gaussian(0, 2, 1)",
    "gauss_batched": "batched(thompson_gaussian(first_plays=1), size=4)",
    "greedy": "epsilon_greedy(0.1)",
    "others": "epsilon_greedy(0.2, explore=others)",
    "greedy_batched": "batched(epsilon_greedy(0.1), size=3)",
    "uniform": "uniform",
    "always": "always(1)",
}
COLUMNS = 4  # of a trajectory in version 0.1.0: arms, positions, rewards, replayed
DESIGNS = ("naive", "replay", "replay(share_noise=true)", "time_coupled")


def digest(*arrays: object) -> str:
    """A short hash of the bytes of arrays."""
    total = hashlib.blake2b(digest_size=12)
    for array in arrays:
        total.update(array.tobytes() if hasattr(array, "tobytes") else repr(array).encode())
    return total.hexdigest()


def experiment(environment: str, design: str, horizon: int = 300) -> sl.Experiment:
    """Every policy that can be run on the environment."""
    policies = {**REAL, **BINARY} if environment.startswith("bernoulli") else REAL
    return sl.Experiment(
        policies=policies, arms=3, horizon=horizon, replications=4, design=design, seed=20261116
    )


def simulated() -> Iterator[tuple[str, str]]:
    """Digests of simulated runs and traces, policy by policy."""
    for name, environment in ENVIRONMENTS.items():
        for design in DESIGNS:
            definition = experiment(name, design)
            runs = sl.simulate(definition, environment, checkpoints=[1, 37, 300])
            yield f"{name} {design} interactions", digest(runs.interactions)
            traces = [sl.trace(definition, environment, number) for number in range(4)]
            for index, policy in enumerate(runs.policies):
                totals = [pairs.totals(trace[policy], 3, runs.checkpoints) for trace in traces]
                arrays = runs.rewards[:, index], runs.pulls[:, index], np.array(totals)
                yield f"{name} {design} {policy}", digest(*arrays, *traces[2][policy][:COLUMNS])


def rehearsed() -> Iterator[tuple[str, str]]:
    """Digests of live experiments on synthetic users."""
    for design in ("naive", "replay", "replay(share_noise=true)"):
        for order in ("lockstep", "phase"):
            definition = experiment("bernoulli", design, 40)
            clock = sl.VirtualClock()
            with warnings.catch_warnings(), sl.open("sqlite://", clock=clock) as store:
                warnings.simplefilter("ignore")
                live = store.start(
                    "recorded", definition, options={"order": order, "audit_share": 0.1}
                )
                sl.rehearse(live, "bernoulli(0.7, 0.5, 0.3)")
                runs = live.runs()
                users = live.status().users
                arrays = runs.rewards, runs.pulls, runs.interactions, users
                yield f"live {design} {order}", digest(*arrays)


def digests() -> dict[str, str]:
    """Everything that must stay the same to the bit."""
    return dict([*simulated(), *rehearsed()])


def record_database(path: Path) -> None:
    """A live experiment half way, with a challenger, voided and default rewards."""
    clock = sl.VirtualClock()
    definition = sl.Experiment(
        policies={"ucb": sl.UCB1(), "greedy": sl.EpsilonGreedy()},
        arms=["red", "blue"],
        horizon=30,
        replications=6,
        seed=3,
    )
    settings = {"exposure": "explicit", "reward": {"window_seconds": 3600}, "audit_share": 0.2}
    traffic = {"arrivals_per_day": 500, "loss": 0.05, "unexposed": 0.1, "delay": "exponential(600)"}
    with warnings.catch_warnings(), sl.open(f"sqlite:///{path}", clock=clock) as store:
        warnings.simplefilter("ignore")
        live = store.start("colours", definition, options=settings)
        sl.rehearse(live, "bernoulli(0.6, 0.4)", traffic=traffic, days=0.25)
        live.add_policy("thompson", "thompson_bernoulli()")
        sl.rehearse(live, "bernoulli(0.6, 0.4)", traffic=traffic, days=0.35, seed=1)


def database_facts(path: Path) -> dict[str, object]:
    """Return the contents of the recorded database."""
    with sl.open(f"sqlite:///{path}", read_only=True) as store:
        live = store.load("colours")
        runs, status = live.runs(), live.status()
        return {
            "runs": digest(runs.rewards, runs.pulls, runs.interactions),
            "trace": digest(
                *(column for path in live.trace(0).values() for column in path[:COLUMNS])
            ),
            "replications": runs.replications,
            "status": status._asdict(),
        }


def runs_facts(runs: sl.Runs) -> dict[str, object]:
    """Return the contents of the recorded runs."""
    arrays = runs.rewards, runs.pulls, runs.interactions, runs.totals
    # Version 0.1 had no adjustment for several pairs.
    alone = {} if sl.__dict__.get("__version__") is None else {"simultaneous": "none"}
    effect = sl.compare(runs, **alone).effects[-1]
    return {
        "digest": digest(*arrays),
        "experiment": runs.experiment.digest,
        "effect": [effect.effect, effect.low, effect.high, effect.p_value],
    }


def record_first_version(folder: Path) -> None:
    """Write digests, runs and a database with what they hold."""
    definition = experiment("gaussian", "replay")
    runs = sl.simulate(definition, ENVIRONMENTS["gaussian"], checkpoints=[37, 300])
    runs.save(folder / "runs.npz")
    record_database(folder / "live.db")
    facts = {
        "digests": digests(),
        "runs": runs_facts(runs),
        "database": database_facts(folder / "live.db"),
    }
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def recorded() -> dict[str, dict[str, str]]:
    """Return the recorded digests by environment."""
    return json.loads(DIGESTS.read_text(encoding="utf-8"))


def differences(found: dict[str, str], expected: dict[str, str]) -> list[str]:
    """Return a line for each digest that is not as recorded."""
    keys = [*expected, *(key for key in found if key not in expected)]
    return [
        f"{key}: recorded {expected.get(key)}, found {found.get(key)}"
        for key in keys
        if found.get(key) != expected.get(key)
    ]


def check() -> int:
    """Print each difference from the record; return how many there are."""
    before, names, count = recorded(), pairs.environments(), 0
    for name in {**before, **names}:
        found = pairs.digests(name) if name in names else {}
        for line in differences(found, before.get(name, {})):
            print(line, flush=True)
            count += 1
    print(f"{count} digests differ from {DIGESTS}")
    return count


def main(arguments: list[str]) -> None:
    if arguments == ["--check"]:
        sys.exit(check() > 0)
    if arguments:
        record_first_version(Path(arguments[0]))
        return
    digests_by_environment = {name: pairs.digests(name) for name in pairs.environments()}
    DIGESTS.write_text(json.dumps(digests_by_environment, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
