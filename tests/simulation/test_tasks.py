"""How work is cut into tasks: by what it takes, and small to send."""

import pickle
import threading
import tracemalloc
from functools import partial

import numpy as np
import pytest

import sameluck as sl
from sameluck.simulation import workers
from sameluck.simulation.tasks import Assembly, Work, run_task, split

BERNOULLI = sl.Bernoulli((0.6, 0.5))


def work_of(policies, horizon=1_000, replications=1_000, arms=2, makers=(), **changes):
    experiment = sl.Experiment(
        policies=policies, arms=arms, horizon=horizon, replications=replications, **changes
    )
    return Work(
        experiment, BERNOULLI, np.array([horizon]), range(replications), makers=dict(makers)
    )


def sizes(tasks, policy):
    return [len(task.replications) for task in tasks if policy in task.policies]


@pytest.mark.parametrize("design", ["replay", "time_coupled"])
@pytest.mark.parametrize("count", [1, 7, 100, 3_001])
def test_every_replication_of_every_policy_is_in_one_task(design, count):
    makers = {"mine": object}
    policies = {"a": "ucb1", "mine": sl.External("mine")}
    work = work_of(policies, replications=count, makers=makers, design=design)
    for count_of_workers in (1, 2, 500):
        tasks = split(work, count_of_workers, 0.25)
        assert [task.number for task in tasks] == list(range(len(tasks)))
        for policy in policies:
            done = [r for task in tasks if policy in task.policies for r in task.replications]
            assert done == list(range(count))


def test_a_long_job_is_cut_by_its_work_not_by_the_number_of_workers():
    """A million replications of 10,000 periods: about a second each, whatever this machine has."""
    small = work_of({"a": "ucb1"}, horizon=10_000, replications=1_000_000)
    large = work_of({"a": "ucb1"}, horizon=10_000, replications=1_000_000, arms=200)
    for work in (small, large):
        tasks = split(work, 1, 1.0)
        assert all(0.5 <= task.seconds <= 2 for task in tasks[:-1])
        assert split(work, 8, 1.0) == tasks
    assert len(split(large, 1, 1.0)) > 10 * len(split(small, 1, 1.0))


def test_a_short_job_has_four_tasks_per_worker_or_as_many_as_asked():
    work = work_of({"a": "ucb1", "b": "uniform"}, horizon=1_000, replications=20_000)
    assert 2 * 30 <= len(split(work, 8, 1.0)) <= 2 * 32
    long = work_of({"a": "ucb1"}, horizon=100_000, replications=512)
    assert sizes(split(long, 4, 1.0, tasks_each=16), "a") == [8] * 64
    assert sizes(split(long, 1, 1.0, tasks_each=16), "a") == [32] * 16
    few = work_of({"a": "ucb1"}, horizon=1_000_000, replications=32)
    assert sizes(split(few, 4, 1.0, tasks_each=16), "a") == [1] * 32


def test_no_task_is_shorter_than_four_milliseconds():
    work = work_of({"a": "ucb1"}, horizon=100, replications=10_000)
    assert all(task.seconds >= 4e-3 for task in split(work, 500, 1.0)[:-1])
    assert len(split(work_of({"a": "ucb1"}, horizon=10, replications=100), 8, 1.0)) == 1


def test_objects_are_cut_by_their_measured_speed():
    work = work_of({"mine": sl.External("mine")}, makers={"mine": object})
    assert sizes(split(work, 1, 1.0, {"mine": 1e-4}), "mine") == [10] * 100
    assert sizes(split(work, 1, 1.0, {"mine": 1e-1}), "mine") == [1] * 1_000
    assert max(sizes(split(work, 1, 1.0), "mine")) == 200


def test_a_task_is_small_to_send():
    """Neither a task nor what tasks have in common holds tables, results or trajectories."""
    work = work_of({"a": "ucb1", "b": "ucb_delta"}, horizon=10_000_000)
    tasks = split(work, 2, 1.0)
    assert len(pickle.dumps(tasks[0])) < 300
    assert len(pickle.dumps(partial(run_task, work))) < 2_000


@pytest.mark.slow
def test_results_need_little_more_memory_than_their_size():
    work = work_of({"a": "ucb1", "b": "uniform"}, horizon=20, replications=2_000)
    tasks = split(work, 1, 1.0)
    for result in workers.run_tasks(work, tasks[:1], 1):  # compiles
        size = sum(array.nbytes for results in result.results for array in results[2:])
    tracemalloc.start()
    run_task(work, tasks[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * size + 100_000


def test_interactions_are_counted_in_parts():
    runs = sl.simulate(work_of({"a": "ucb1", "b": "uniform"}, 10, 50).experiment, BERNOULLI)
    assembly = Assembly(work_of({"a": "ucb1", "b": "uniform"}, 10, 50))
    assembly.arrays.update(rewards=runs.rewards, pulls=runs.pulls)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sameluck.simulation.tasks._ROWS", 7)
        np.testing.assert_array_equal(assembly.runs().interactions, runs.interactions)


def test_ctrl_c_does_not_wait_for_a_long_replication(monkeypatch):
    """Machine code cannot be interrupted: it runs in another thread, also with one worker, and is left behind."""
    begun, let_end, ended = (threading.Event() for _ in range(3))

    def run_long(work, task):
        if task.number > 0:
            begun.set()
            let_end.wait(60)
            ended.set()
        return threading.current_thread()

    monkeypatch.setattr(workers, "run_task", run_long)
    work = work_of({"a": "ucb1"}, horizon=10**9, replications=2)
    results = workers.run_tasks(work, split(work, 1, 0.25), 1)
    try:
        assert next(results) is not threading.current_thread()
        assert begun.wait(60)
        results.close()  # as an exception does
        assert not ended.is_set()
    finally:
        let_end.set()
