"""Play policies against a simulated environment: `simulate` for results, `trace` for one replication in full.

One compiled loop plays one policy in one replication and knows nothing of other policies: what the design
couples is in the addresses it reads. So results do not depend on chunks, workers, order or who else plays.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck import grammar
from sameluck.compiled import compiled, shared, uncached
from sameluck.environments import as_environment, draw
from sameluck.errors import TooLarge, require
from sameluck.experiment import Experiment
from sameluck.policies import Tally, memory_of, prepare, select
from sameluck.runs import Runs
from sameluck.streams import DECISION, REWARD, Key, OnceKey, stream, within, word

Progress: TypeAlias = Callable[[int, int], object]
MapLike: TypeAlias = Callable[..., Iterable[Any]]

log = logging.getLogger("sameluck")


class _Desk(NamedTuple):
    """The working arrays of one policy in one replication, wiped for the next."""

    first: NDArray[np.uint64]  # the keys of the arms' reward stacks
    second: NDArray[np.uint64]
    pulls: NDArray[np.int64]
    totals: NDArray[np.float64]
    means: NDArray[np.float64]
    memory: NDArray[np.float64]


class _Diary(NamedTuple):
    """Every period of one replication."""

    arms: NDArray[np.int64]
    positions: NDArray[np.int64]
    rewards: NDArray[np.float64]


@shared
def _wipe(desk, seed, owner, replication):  # type: ignore[no-untyped-def]
    key = stream(seed, REWARD, replication, owner)
    for arm in range(desk.pulls.size):
        stack = within(key, arm)
        desk.first[arm], desk.second[arm] = stack.first, stack.second
        desk.pulls[arm] = 0
        desk.totals[arm] = 0.0
        desk.means[arm] = 0.0
    for place in range(desk.memory.size):
        desk.memory[place] = 0.0


@shared
def _play(policy, law, luck, desk, row, timed, checkpoints, rewards, pulls, diary):  # type: ignore[no-untyped-def]
    # One policy, one replication. Returns 0, or the period in which the policy named an arm that is not there.
    arms = desk.pulls.size
    earned = 0.0
    arm = np.int64(0)
    reward = 0.0
    start = 1
    for checkpoint in range(checkpoints.size):
        stop = checkpoints[checkpoint] + 1
        for period in range(start, stop):
            tally = Tally(desk.pulls, desk.totals, desk.means, desk.memory, arm, reward)
            arm = np.int64(select(policy, tally, period, luck))
            if arm < 0 or arm >= arms:
                return period
            pulled = desk.pulls[arm]
            position = period - 1 if timed else pulled
            bits = word(Key(desk.first[arm], desk.second[arm]), position)
            reward = draw(law, row, arm, bits)
            total = desk.totals[arm] + reward
            desk.pulls[arm] = pulled + 1
            desk.totals[arm] = total
            desk.means[arm] = total / (pulled + 1)
            earned += reward
            if diary is not None:
                diary.arms[period - 1] = arm
                diary.positions[period - 1] = position
                diary.rewards[period - 1] = reward
        rewards[row, checkpoint] = earned
        for each in range(arms):
            pulls[row, checkpoint, each] = desk.pulls[each]
        start = stop
    return 0


@compiled
def _play_all(policy, law, owners, first, desk, timed, checkpoints, rewards, pulls, diary):  # type: ignore[no-untyped-def]
    seed, reward_owner, noise_owner = owners
    for row in range(rewards.shape[0]):
        replication = first + row
        _wipe(desk, seed, reward_owner, replication)
        luck = stream(seed, DECISION, replication, noise_owner)
        failed = _play(
            policy, law, luck, desk, row, timed, checkpoints, rewards, pulls, diary
        )
        if failed:
            return replication, failed
    return -1, 0


_play_all_uncached = uncached(_play_all)


@compiled
def _count_pairs(arms, stamp, checkpoints, counts):  # type: ignore[no-untyped-def]
    """How many distinct (period, arm) pairs the policies (rows of `arms`) ask for up to each checkpoint."""
    pairs = 0
    start = 0
    for checkpoint in range(checkpoints.size):
        for period in range(start, checkpoints[checkpoint]):
            for policy in range(arms.shape[0]):
                if stamp[arms[policy, period]] != period + 1:
                    stamp[arms[policy, period]] = period + 1
                    pairs += 1
        counts[checkpoint] = pairs
        start = checkpoints[checkpoint]


class _Player:
    """One policy of an experiment, ready to be played through any of its replications."""

    def __init__(self, experiment: Experiment, environment: Any, name: str) -> None:
        self.experiment = experiment
        self.environment = environment
        self.name = name
        arms, design = experiment.n_arms, experiment.design
        self.policy = prepare(experiment.policies[name], arms, experiment.horizon)
        self.owners = tuple(
            np.uint64(word)
            for word in (experiment.seed, design.reward_owner(name), design.noise_owner(name))
        )
        self.desk = _Desk(
            np.zeros(arms, np.uint64),
            np.zeros(arms, np.uint64),
            np.zeros(arms, np.int64),
            np.zeros(arms),
            np.zeros(arms),
            np.zeros(memory_of(self.policy, arms)),
        )

    def play(
        self, replications: range, checkpoints: NDArray[np.int64], diary: _Diary | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Rewards (replication, checkpoint) and pulls (replication, checkpoint, arm)."""
        rewards, pulls = self._empty(len(replications), checkpoints)
        law, first = self._law(replications), replications.start
        timed = self.experiment.design.timed
        ours = type(self.policy).__module__.startswith("sameluck.")
        loop = _play_all if ours else _play_all_uncached
        where = loop(
            self.policy, law, self.owners, first, self.desk, timed, checkpoints, rewards, pulls, diary
        )
        self._refuse_bad_arm(*where)
        return rewards, pulls

    def play_plainly(self, replication: int, checkpoints: NDArray[np.int64], diary: _Diary) -> None:
        """The same in plain Python, with every decision address guarded against a second read."""
        rewards, pulls = self._empty(1, checkpoints)
        seed, reward_owner, noise_owner = self.owners
        _wipe(self.desk, seed, reward_owner, replication)
        luck = OnceKey(stream(seed, DECISION, replication, noise_owner), f"policy {self.name!r}")
        law, timed = self._law(_only(replication)), self.experiment.design.timed
        failed = _play(
            self.policy, law, luck, self.desk, 0, timed, checkpoints, rewards, pulls, diary
        )
        self._refuse_bad_arm(replication, failed)

    def _law(self, replications: range) -> Any:
        return self.environment.laws(self.experiment.seed, replications, self.experiment.n_arms)

    def _empty(
        self, count: int, checkpoints: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        shape = (count, checkpoints.size)
        return np.empty(shape), np.empty((*shape, self.experiment.n_arms), np.int64)

    def _refuse_bad_arm(self, replication: int, period: int) -> None:
        arms = self.experiment.n_arms
        require(
            period == 0,
            f"policy {self.name!r} chose an arm outside 0..{arms - 1} in period {period} of replication "
            f"{replication}; its select body must return an arm's index",
        )


class _Task(NamedTuple):
    """Some policies in some replications: the unit of work of any map-like."""

    experiment: Experiment
    environment: Any
    checkpoints: NDArray[np.int64]
    policies: tuple[str, ...]
    replications: range


class _Part(NamedTuple):
    rewards: NDArray[np.float64]
    pulls: NDArray[np.int64]
    pairs: NDArray[np.int64] | None  # distinct (period, arm) pairs, where the design counts them


def _play_task(task: _Task) -> _Part:
    players = [_Player(task.experiment, task.environment, name) for name in task.policies]
    if task.experiment.design.timed:
        return _play_timed(task, players)
    return _part([player.play(task.replications, task.checkpoints) for player in players])


def _play_timed(task: _Task, players: Sequence[_Player]) -> _Part:
    # Which (period, arm) pairs coincide is known only from whole trajectories: one replication at a time.
    periods = int(task.checkpoints[-1])
    arms = np.empty((len(players), periods), np.int64)
    pairs = np.empty((len(task.replications), task.checkpoints.size), np.int64)
    stamp = np.empty(task.experiment.n_arms, np.int64)
    rows = []
    for row, replication in enumerate(task.replications):
        played = []
        for place, player in enumerate(players):
            diary = _Diary(arms[place], np.empty(periods, np.int64), np.empty(periods))
            played.append(player.play(_only(replication), task.checkpoints, diary))
        stamp[:] = 0
        _count_pairs(arms, stamp, task.checkpoints, pairs[row])
        rows.append(_part(played))
    rewards, pulls = (np.concatenate([getattr(r, name) for r in rows]) for name in ("rewards", "pulls"))
    return _Part(rewards, pulls, pairs)


def _part(played: Sequence[tuple[Any, Any]]) -> _Part:
    rewards, pulls = (np.stack(arrays, axis=1) for arrays in zip(*played, strict=True))
    return _Part(rewards, pulls, None)


def _only(replication: int) -> range:
    return range(replication, replication + 1)


def simulate(
    experiment: Experiment,
    environment: Any,
    *,
    checkpoints: Sequence[int] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    map: MapLike | None = None,
    replications: range | None = None,
) -> Runs:
    """Play every policy through every replication.

    The result depends on the experiment, the environment and the checkpoints alone: any `workers` or `map` gives
    the same bits. Memory is proportional to replications x policies x checkpoints x arms, whatever the horizon.

    Args:
        experiment: What to run.
        environment: Where rewards come from, or its text form.
        checkpoints: Horizons to report, all in one pass; the experiment's horizon if not given.
        workers: Threads; all cores if not given.
        progress: Called as `progress(done, total)`, in replications of a policy.
        map: Runs the work elsewhere: an executor's `map`, or `sameluck.distribute.on(client)`.
        replications: Play these only; they may go on where an earlier call ended, for `Runs.concat`.
    """
    environment = checked_environment(experiment, environment)
    horizons = checked_checkpoints(experiment, checkpoints)
    chosen = _checked_replications(experiment, replications)
    _refuse_too_large(experiment, len(chosen), horizons)
    workers = _checked_workers(workers)
    tasks = list(_tasks(experiment, environment, horizons, chosen, workers))
    if map is None:
        _compile(experiment, environment)
    runs = _empty_runs(experiment, environment, horizons, chosen)
    names = runs.policies
    total, done = len(chosen) * len(names), 0
    with _mapping(map, workers) as run:
        for task, part in zip(tasks, run(_play_task, tasks), strict=True):
            rows = slice(task.replications.start - chosen.start, task.replications.stop - chosen.start)
            columns = [names.index(name) for name in task.policies]
            runs.rewards[rows, columns] = part.rewards
            runs.pulls[rows, columns] = part.pulls
            if part.pairs is not None:
                runs.interactions[rows] = part.pairs
            done += len(task.replications) * len(task.policies)
            if progress is not None:
                progress(done, total)
    return _counted(runs)


def _tasks(
    experiment: Experiment,
    environment: Any,
    checkpoints: NDArray[np.int64],
    replications: range,
    workers: int,
) -> Iterator[_Task]:
    names = tuple(experiment.policies)
    groups = [names] if experiment.design.timed else [(name,) for name in names]
    most = max(1, 20_000_000 // (int(checkpoints[-1]) * len(groups[0])))
    count = min(most, -(-len(replications) // (4 * workers)))
    for first in replications[::count]:
        for group in groups:
            last = min(first + count, replications.stop)
            yield _Task(experiment, environment, checkpoints, group, range(first, last))


@contextmanager
def _mapping(map_like: MapLike | None, workers: int) -> Iterator[MapLike]:
    if map_like is not None:
        yield map_like
    elif workers == 1:
        yield map
    else:
        pool = ThreadPoolExecutor(workers, thread_name_prefix="sameluck")
        try:
            yield pool.map
        finally:
            pool.shutdown(cancel_futures=True)


def _empty_runs(
    experiment: Experiment, environment: Any, checkpoints: NDArray[np.int64], replications: range
) -> Runs:
    shape = (len(replications), len(experiment.policies), checkpoints.size)
    return Runs(
        experiment,
        checkpoints,
        np.empty(shape),
        np.empty((*shape, experiment.n_arms), np.int64),
        np.empty((shape[0], shape[2]), np.int64),
        grammar.write(environment),
        replications.start,
    )


def _counted(runs: Runs) -> Runs:
    """Fill in the real interactions where they follow from the pull counts."""
    design = runs.experiment.design
    if not design.timed:
        shared_stack = design.reward_owner("a") == design.reward_owner("b")
        used = runs.pulls.max(axis=1) if shared_stack else runs.pulls.sum(axis=1)
        runs.interactions[:] = used.sum(axis=-1)
    return runs


def _compile(experiment: Experiment, environment: Any) -> None:
    # Here rather than in the threads, which would wait for one another, and to say what takes so long.
    nothing = np.array([experiment.horizon])
    for name, policy in experiment.policies.items():
        kind = grammar.name_of(type(policy))
        what = f"compiling {kind} with {grammar.name_of(type(environment))} for this machine (once)"
        with _announced(what):
            player = _Player(experiment, environment, name)
            diary = _empty_diary(0) if experiment.design.timed else None
            player.play(range(0), nothing, diary)


@contextmanager
def _announced(what: str) -> Iterator[None]:
    # A warning, because that is what reaches the terminal when nobody has set up logging.
    timer = threading.Timer(0.5, log.warning, [f"sameluck: {what} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def checked_environment(experiment: Experiment, environment: Any) -> Any:
    """The environment in one form, or a message that says what does not fit the experiment."""
    environment = as_environment(environment)
    environment.check(experiment.n_arms)
    for name, policy in experiment.policies.items():
        require(
            environment.binary or not getattr(policy, "needs_binary", False),
            f"policy {name!r} ({grammar.write(policy)}) needs rewards 0 and 1, but {_short(environment)} pays "
            "others; use a policy for real-valued rewards, such as thompson_gaussian",
        )
    return environment


def _short(environment: Any) -> str:
    text = grammar.write(environment)
    return text if len(text) <= 80 else text[:77] + "..."


def checked_checkpoints(
    experiment: Experiment, checkpoints: Sequence[int] | None
) -> NDArray[np.int64]:
    """The horizons to report, ascending, each once."""
    if checkpoints is None:
        return np.array([experiment.horizon], np.int64)
    values = np.asarray(list(checkpoints))
    whole = values.ndim == 1 and values.size > 0 and values.dtype.kind in "iu"
    require(whole, f"checkpoints must be a list of whole numbers, got {checkpoints!r}")
    for value in values:
        require(
            1 <= value <= experiment.horizon,
            f"checkpoint {value} is outside 1..{experiment.horizon:,} (the experiment's horizon)",
        )
    return np.unique(values).astype(np.int64)


def _checked_workers(workers: int | None) -> int:
    if workers is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    whole = isinstance(workers, int) and not isinstance(workers, bool)
    require(whole and workers >= 1, f"workers must be a whole number >= 1, got {workers!r}")
    return min(workers, 1024)


def _checked_replications(experiment: Experiment, replications: range | None) -> range:
    if replications is None:
        return range(experiment.replications)
    inside = (
        isinstance(replications, range)
        and replications.step == 1
        and 0 <= replications.start < replications.stop <= experiment.replications
    )
    require(
        inside,
        f"replications must be a range of steps of 1 within 0..{experiment.replications:,} (the experiment's), "
        f"got {replications!r}",
    )
    return replications


def _refuse_too_large(
    experiment: Experiment, replications: int, checkpoints: NDArray[np.int64]
) -> None:
    policies, arms = len(experiment.policies), experiment.n_arms
    cells = replications * policies * checkpoints.size
    results = 8 * cells * (arms + 2)
    tables = 64 * experiment.horizon * (policies if experiment.design.timed else 1)
    needed, there = results + tables, _available_memory()
    if needed > there:
        raise TooLarge(
            f"this would need about {needed / 2**30:,.1f} GiB, and {there / 2**30:,.1f} GiB are free: "
            f"{replications:,} replications x {policies} policies x {checkpoints.size} "
            f"checkpoints x {arms} arms, horizon {experiment.horizon:,}; ask for fewer of them"
        )


def _available_memory() -> int:
    try:
        with open("/proc/meminfo") as lines:
            values = dict(line.split(":") for line in lines)
        return int(values["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 1 << 40


class Trajectory(NamedTuple):
    """One policy in one replication, period by period; arms and positions count from 0."""

    arms: NDArray[np.int64]
    positions: NDArray[np.int64]  # which entry of the arm's stack (under TimeCoupled: which period's)
    rewards: NDArray[np.float64]
    replayed: NDArray[np.bool_]  # an earlier policy had revealed it; False where a real user was asked


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Mapping[str, Trajectory]):
    """The trajectories of one replication by policy, in the experiment's order: the paper's phases."""

    experiment: Experiment
    environment: str | None
    replication: int
    trajectories: dict[str, Trajectory]

    def __getitem__(self, policy: str) -> Trajectory:
        return self.trajectories[policy]

    def __iter__(self) -> Iterator[str]:
        return iter(self.trajectories)

    def __len__(self) -> int:
        return len(self.trajectories)

    @property
    def interactions(self) -> int:
        """Real users asked in this replication."""
        return sum(int((~one.replayed).sum()) for one in self.trajectories.values())

    def to_dicts(self) -> list[dict[str, Any]]:
        """One record for each policy and period."""
        return [
            {
                "policy": name,
                "period": period + 1,
                "arm": int(one.arms[period]),
                "position": int(one.positions[period]),
                "reward": float(one.rewards[period]),
                "replayed": bool(one.replayed[period]),
            }
            for name, one in self.trajectories.items()
            for period in range(one.arms.size)
        ]

    def __repr__(self) -> str:
        periods = self.experiment.horizon
        lines = [f"replication {self.replication}: {self.interactions:,} real interactions"]
        for name, one in self.trajectories.items():
            shown = " ".join(
                f"{arm}{'*' if old else ''}"
                for arm, old in zip(one.arms[:24], one.replayed[:24], strict=True)
            )
            more = " ..." if periods > 24 else ""
            lines.append(f"  {name}: arms {shown}{more}  (earned {one.rewards.sum():g})")
        return "\n".join([*lines, "  * replayed"])


def trace(
    experiment: Experiment, environment: Any, replication: int = 0, *, guard: bool = False
) -> Trace:
    """Every period of one replication: arm, position, reward, replayed or real.

    Args:
        experiment: What to run.
        environment: Where rewards come from, or its text form.
        replication: Which one, from 0; the same bits `simulate` plays.
        guard: Play in plain Python and raise `AddressReused` if a policy reads the same luck twice: the check to
            run on a policy of your own.
    """
    environment = checked_environment(experiment, environment)
    whole = isinstance(replication, int | np.integer) and not isinstance(replication, bool)
    require(
        whole and 0 <= replication < experiment.replications,
        f"replication must be from 0 to {experiment.replications - 1:,}, got {replication!r}",
    )
    _refuse_too_large(experiment, 1, np.arange(1))
    trajectories: dict[str, Trajectory] = {}
    for name in experiment.policies:
        diary = _empty_diary(experiment.horizon)
        player = _Player(experiment, environment, name)
        end = np.array([experiment.horizon])
        if guard:
            player.play_plainly(int(replication), end, diary)
        else:
            player.play(_only(int(replication)), end, diary)
        replayed = _replayed(experiment, diary, list(trajectories.values()))
        trajectories[name] = Trajectory(diary.arms, diary.positions, diary.rewards, replayed)
    return Trace(experiment, grammar.write(environment), int(replication), trajectories)


def _empty_diary(periods: int) -> _Diary:
    return _Diary(np.empty(periods, np.int64), np.empty(periods, np.int64), np.empty(periods))


def _replayed(
    experiment: Experiment, diary: _Diary, earlier: Sequence[Trajectory]
) -> NDArray[np.bool_]:
    replayed = np.zeros(diary.arms.size, bool)
    design = experiment.design
    if design.timed:
        for one in earlier:
            replayed |= one.arms == diary.arms
    elif design.reward_owner("a") == design.reward_owner("b"):
        revealed = np.zeros(experiment.n_arms, np.int64)
        for one in earlier:
            pulls = np.bincount(one.arms, minlength=experiment.n_arms)
            revealed = np.maximum(revealed, pulls)
        replayed = diary.positions < revealed[diary.arms]
    return replayed
