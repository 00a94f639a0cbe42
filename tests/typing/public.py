"""The public surface as a typed program uses it; checked by mypy, not run."""

from typing import NamedTuple

import sameluck as sl


class Mine(NamedTuple):
    optimism: float = 1.0


@sl.selects(Mine)
def choose(policy: Mine, tally: sl.Tally, period: int, noise: object) -> int:
    return 0 if policy.optimism > tally.means[0] else period % tally.pulls.size


experiment = sl.Experiment(
    policies={"ucb": sl.UCB1(alpha=2.0), "thompson": sl.ThompsonBernoulli(), "mine": Mine()},
    arms=2,
    horizon=10_000,
    replications=10,
    design=sl.Replay(share_noise=True),
    control="ucb",
    seed=7,
)
runs: sl.Runs = sl.simulate(experiment, sl.Bernoulli([0.7, 0.3]), checkpoints=[100, 10_000])
late = experiment.replace(policies={"a": sl.Batched(sl.UCB1(), 10), "b": sl.Batched("uniform", 5)})
total: float = float(runs.rewards.sum())
result: sl.Comparison = sl.compare(runs, level=0.99, pairs="all")
low: float = result.effects[0].low
best: int = sl.Gaussian([1.0, 0.8], sd=[1.0, 2.0]).best_arm
chances: sl.Bernoulli = sl.BernoulliPrior(a=1.0).instance(7, 0, 2)
trace = sl.trace(experiment, sl.Empirical([[0, 1], [1]]), replication=0)
arms = trace["ucb"].arms
reward: float = trace.to_dicts()[0]["reward"]
texts: dict[str, str] = experiment.to_dict()["policies"]

with sl.open("sqlite://", clock=sl.VirtualClock()) as store:
    live: sl.LiveExperiment = store.start(
        "socks",
        experiment,
        options=sl.LiveOptions(reward=sl.Reward(min=0, max=1), batch={"ucb": 5}),
    )
    answer: sl.Assignment = live.assign("user-1")
    shown: str = answer.arm
    receipt: sl.Receipt = live.reward(answer.id, 1.0)
    joining: sl.AddedPolicy = live.add_policy("late", sl.UCBDelta())
    users: int = live.status().users
    verdicts: list[str] = [check.verdict for check in live.diagnostics()]
    rehearsal: sl.Rehearsal = sl.rehearse(live, "bernoulli(0.7, 0.3)", traffic=sl.Traffic(loss=0.1))
    first: sl.Comparison = sl.compare(live.runs([100]))


async def serve(url: str) -> sl.Comparison:
    async with sl.open_async(url, timeout=0.1) as store:
        live: sl.AsyncLiveExperiment = await store.start("socks", experiment, exist_ok=True)
        answer: sl.Assignment = await live.assign("user-1", strict=True)
        receipt: sl.Receipt = await live.reward(answer.id, 1.0)
        answers: list[sl.Assignment | sl.SameluckError] = await live.assign_many(["a", "b"])
        await live.stop(drain=False, reason=f"{receipt} {len(answers)}")
        names: list[str] = await store.names()
        runs: sl.Runs = await (await store.load(names[0])).runs([100])
        return sl.compare(runs)


async def open_for_long(url: str) -> sl.AsyncStore:
    store = await sl.open_async(url)
    await store.start("socks", experiment, exist_okay=True)  # type: ignore[call-arg]
    await (await store.load("socks")).pause(why="?")  # type: ignore[call-arg]
    await store.peek(7)  # type: ignore[arg-type]
    return store


def call_service(url: str) -> sl.Comparison:
    with sl.Client(url, token="sl_", timeout=0.5) as client:
        live = client.start("socks", experiment, options=sl.LiveOptions(fallback="red"))
        answer: sl.Assignment = live.assign("user-1", strict=True)
        receipt: sl.Receipt = live.reward(answer.id, 1.0)
        live.stop(drain=False, reason=str(receipt))
        live.pause(why="?")  # type: ignore[call-arg]
        joining: sl.AddedPolicy = client.load("socks", fallback="red").add_policy(
            "late", sl.UCBDelta()
        )
        return sl.compare(live.runs([joining.replayed]))


async def await_service(url: str) -> sl.Status:
    async with sl.AsyncClient(url) as client:
        live = await client.load("socks")
        answers: list[sl.Assignment | sl.SameluckError] = await live.assign_many(["a", "b"])
        await live.disable_arm("red", reason=f"{len(answers)}")
        await live.void(5)  # type: ignore[arg-type]
        status: sl.Status = await live.status()
        return status
