"""Logs that look sorted are refused; those of policies are not."""

import numpy as np
import pytest

import budget
import sameluck as sl
from nonempty import nonempty
from sameluck.live.logs.importing import sorted_by_arm, sorted_by_reward
from sameluck.logs.rows import Log

POLICIES = {
    "ucb": "ucb1",
    "thompson": "thompson_bernoulli",
    "greedy": "epsilon_greedy(epsilon=0.1)",
}


def log_of(arms, rewards, replication=None, names=("a", "b", "c")):
    arms, rewards = np.asarray(arms), np.asarray(rewards, float)
    number = np.zeros(arms.size, np.int64) if replication is None else np.asarray(replication)
    replications = tuple(map(str, range(int(number.max()) + 1)))
    return Log("log", names, replications, number, arms, rewards, np.arange(arms.size), ())


def random_log(seed, size=400, binary=True, replications=1):
    rng = np.random.default_rng((budget.SEED, seed))
    arms = rng.integers(0, 3, size)
    rewards = rng.random(size) < 0.3 if binary else rng.normal(size=size)
    return log_of(arms, rewards, np.arange(size) * replications // size)


def reordered(log, *keys):
    order = np.lexsort([*keys, log.replication])
    return log._replace(arm=log.arm[order], reward=log.reward[order])


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("replications", [1, 8])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_log_that_is_sorted_by_reward(binary, replications, sign):
    log = random_log(1, binary=binary, replications=replications)
    assert sorted_by_reward(reordered(log, sign * log.reward))
    assert sorted_by_reward(reordered(log, sign * log.reward, log.arm))
    assert not sorted_by_reward(log)


def test_a_log_that_is_nearly_sorted_by_reward():
    log = random_log(2)
    nearly = reordered(log, log.reward)
    nearly.reward[:4] = 1
    assert sorted_by_reward(nearly)


@pytest.mark.parametrize("replications", [1, 8])
def test_a_log_that_is_sorted_by_arm(replications):
    log = random_log(3, replications=replications)
    assert sorted_by_arm(reordered(log, log.arm))
    assert sorted_by_arm(reordered(log, -log.arm))
    assert not sorted_by_arm(log)
    assert not sorted_by_reward(reordered(log, log.arm))


def test_few_rows_are_not_judged():
    for rows in range(1, 12):
        log = log_of(np.arange(rows) % 3, np.arange(rows) > 5)
        assert not sorted_by_reward(log)
    assert not sorted_by_arm(log_of([0, 1, 2, 2, 2, 2, 2, 2, 2, 2], [1] * 10))
    assert not sorted_by_reward(log_of([0] * 1_000, [1] * 1_000))


def test_logs_of_policies_are_in_order():
    """Rewards that rise because a policy learns are not sorted; a false alarm has a chance below 1e-6."""
    for seed in range(20):
        design = sl.Experiment(policies=POLICIES, arms=3, horizon=300, replications=1, seed=seed)
        for trajectory in nonempty(sl.trace(design, "bernoulli(0.1, 0.3, 0.9)", 0).values()):
            log = log_of(trajectory.arms, trajectory.rewards)
            assert not sorted_by_reward(log)
            assert not sorted_by_arm(log)


def test_random_orders_are_not_sorted():
    for seed in range(300):
        log = random_log(seed, size=60, binary=seed % 2)
        assert not sorted_by_reward(log)
        assert not sorted_by_arm(log)


COLUMNS = {"arm": "arm", "reward": "paid", "policies": {"old": "ucb1", "new": "uniform"}}


def records(log):
    pairs = zip(log.arm.tolist(), log.reward.tolist(), strict=True)
    return [{"arm": "abc"[arm], "paid": paid} for arm, paid in pairs]


@pytest.mark.parametrize("key", ["reward", "arm"])
def test_a_sorted_log_is_refused_unless_confirmed(key):
    log = random_log(5, size=120)
    rows = records(reordered(log, getattr(log, key)))
    with sl.open("sqlite://") as store:
        with pytest.raises(sl.Invalid, match=r"sorted.*time=.*sorted_ok=True \(--sorted-ok\)"):
            store.import_log("shop", rows, **COLUMNS)
        assert store.names() == []
        assert store.import_log("shop", rows, **COLUMNS, sorted_ok=True).rows == 120


def test_a_column_of_time_puts_a_sorted_log_in_order():
    log = random_log(6, size=120)
    rows = [row | {"at": at} for at, row in enumerate(records(log))]
    rows.sort(key=lambda row: row["paid"])
    with sl.open("sqlite://") as store:
        assert store.import_log("shop", rows, **COLUMNS, time="at").rows == 120


def test_a_policy_that_tries_one_arm_after_the_other_wrote_a_log_sorted_by_arm():
    """Its agreement with the log shows that the order is right."""

    class InBlocks:
        def __init__(self, seed):
            self.seed = seed

        def select(self, period):
            return (period - 1) // 20

        def update(self, arm, reward):
            pass

    policies = {"blocks": sl.External("blocks"), "new": "ucb1"}
    rows = [{"arm": "abc"[index // 20], "paid": index % 2} for index in range(60)]
    more = {"arm": "arm", "reward": "paid", "policies": policies, "makers": {"blocks": InBlocks}}
    with sl.open("sqlite://") as store:
        assert store.import_log("shop", rows, **more, logged_by="blocks").agrees
        with pytest.raises(sl.Invalid, match="sorted by arm"):
            store.import_log("other", rows, **more)


def test_a_mismatch_stops_the_import_unless_confirmed():
    rows = records(random_log(7, size=60))
    with sl.open("sqlite://") as store:
        with pytest.raises(sl.Invalid, match=r"ucb1\(.*mismatch_ok=True \(--mismatch-ok\)"):
            store.import_log("shop", rows, **COLUMNS, logged_by="old")
        assert store.names() == []
        record = store.import_log("shop", rows, **COLUMNS, logged_by="old", mismatch_ok=True)
        assert not record.agrees
