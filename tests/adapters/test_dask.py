"""The same bits on a Dask cluster of separate processes, one of which dies in the middle."""

import os
import signal
import threading
import time
from functools import partial

import distributed
import numpy as np
import pytest

import sameluck as sl
from sameluck import cli
from sameluck.adapters import dask
from sameluck.runs import CONTEXTUAL

EXPERIMENT = sl.Experiment(
    policies={"ucb": sl.UCB1(), "thompson": sl.ThompsonBernoulli()},
    arms=3,
    horizon=20_000,
    replications=600,
    seed=11,
)
BERNOULLI = sl.Bernoulli((0.6, 0.5, 0.4))


@pytest.fixture(scope="module")
def cluster():
    local = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with local, distributed.Client(local) as client:
        yield client


def equal(one: sl.Runs, other: sl.Runs) -> bool:
    names = ("rewards", "pulls", "interactions")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def late_first(number):
    time.sleep(1.0 * (number == 0))
    return number


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own, of a second cluster
def test_results_come_as_they_are_ready():
    """On one worker with two threads, so that no scheduling puts the others behind the late one."""
    local = distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    )
    with local, distributed.Client(local, set_as_default=False) as client:
        numbers = list(dask.on(client)(late_first, range(6)))
    assert sorted(numbers) == list(range(6))
    assert numbers[-1] == 0


@pytest.mark.slow
def test_what_is_not_collected_is_cancelled(cluster):
    """As after Ctrl-C: the error ends the iteration, and the cluster forgets the tasks."""

    def interrupt(*_):
        raise KeyboardInterrupt

    many = EXPERIMENT.replace(replications=100_000)
    with pytest.raises(KeyboardInterrupt):
        sl.simulate(many, BERNOULLI, map=dask.on(cluster), progress=interrupt)
    for _ in range(100):
        known = cluster.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        if known == 0:
            break
        time.sleep(0.1)
    assert known == 0


def length_and(content, number):
    return len(content), number


@pytest.mark.slow
def test_what_tasks_have_in_common_is_sent_once(cluster, monkeypatch):
    submitted, mapped = [], []
    submit, map_all = cluster.submit, cluster.map
    monkeypatch.setattr(
        cluster, "submit", lambda f, *a, **k: [submitted.append(a), submit(f, *a, **k)][1]
    )
    monkeypatch.setattr(
        cluster, "map", lambda f, *a, **k: [mapped.append(a), map_all(f, *a, **k)][1]
    )
    function = partial(length_and, b"x" * 20_000_000)  # larger than what Dask warns of
    results = dask.on(cluster)(function, range(8))
    assert sorted(results) == [(20_000_000, number) for number in range(8)]
    ((sent,),), ((shared, numbers),) = submitted, mapped
    assert sent is function
    assert len(set(shared)) == 1
    assert numbers == list(range(8))


class Turns:
    def __init__(self, seed):
        self.first = seed % 3

    def select(self, period):
        return (self.first + period) % 3

    def update(self, arm, reward):
        pass


@pytest.mark.slow
def test_python_objects_whose_maker_cannot_be_imported(cluster):
    policies = {"ucb": sl.UCB1(), "turns": sl.External("turns")}
    experiment = EXPERIMENT.replace(policies=policies, horizon=50, replications=20)

    class Local(Turns):
        pass

    call = {"makers": {"turns": Local}}
    runs = sl.simulate(experiment, BERNOULLI, map=dask.on(cluster), **call)
    assert equal(runs, sl.simulate(experiment, BERNOULLI, **call))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own, when a worker vanishes
def test_a_worker_that_is_killed_in_the_middle_changes_no_bit(cluster):
    expected = sl.simulate(EXPERIMENT, BERNOULLI, checkpoints=[100, 20_000])
    first_results = threading.Event()
    killed = []

    def kill_a_worker() -> None:
        first_results.wait(60)
        pids = list(cluster.run(os.getpid).values())
        os.kill(pids[0], signal.SIGKILL)
        killed.append(pids[0])

    killer = threading.Thread(target=kill_a_worker)
    killer.start()
    runs = sl.simulate(
        EXPERIMENT,
        BERNOULLI,
        checkpoints=[100, 20_000],
        workers=8,
        progress=lambda *_: first_results.set(),
        map=dask.on(cluster),
    )
    killer.join()

    assert killed
    assert equal(runs, expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_users_with_levels_have_the_same_bits_on_a_cluster(cluster):
    levels = sl.ByLevel([sl.Bernoulli([0.6, 0.5]), sl.Bernoulli([0.3, 0.45])])
    policies = {"tree": sl.PerLevel(sl.UCB1()), "uniform": sl.Uniform()}
    experiment = sl.Experiment(policies=policies, horizon=50, replications=20, seed=3)

    here = sl.simulate(experiment, levels)
    there = sl.simulate(experiment, levels, map=dask.on(cluster))

    for name in ("rewards", "interactions", *CONTEXTUAL):
        assert getattr(there, name).tobytes() == getattr(here, name).tobytes()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_command_line_takes_a_cluster(cluster, capsys):
    words = ["compare", "ucb1", "ucb1(alpha=3)", "--env", "bernoulli(0.7,0.3)", "--json"]
    assert cli.run([*words, "--replications", "20"]) == 0
    here = capsys.readouterr().out
    address = cluster.scheduler.address
    for _ in range(20):  # the worker killed above may still be restarting
        if len(cluster.scheduler_info()["workers"]):
            break
        time.sleep(0.5)
    assert cli.run([*words, "--replications", "20", "--dask", address]) == 0
    assert capsys.readouterr().out == here


def test_an_address_without_a_scheduler_is_one_clear_line(capsys):
    words = ["compare", "ucb1", "uniform", "--env", "bernoulli(0.7,0.3)", "--dask", "nonsense://x"]
    assert cli.run(words) == 2
    assert "no Dask scheduler answers at 'nonsense://x'" in capsys.readouterr().err
