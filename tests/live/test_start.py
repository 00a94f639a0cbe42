"""To start an experiment that may have been started before."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import users

import sameluck as sl

BERNOULLI = sl.Bernoulli((0.3, 0.6))
EXPERIMENT = sl.Experiment(
    policies={"ucb": "ucb1(alpha=2)", "ts": "thompson_bernoulli"},
    arms=["red", "blue"],
    horizon=6,
    replications=3,
    seed=4,
)
LIVE = sl.LiveOptions(fallback="red", batch={"ts": 2}, reward=sl.Reward(window_seconds=900))


def start(store, experiment=EXPERIMENT, live=LIVE, **more):
    return store.start("socks", experiment, options=live, exist_ok=True, **more)


def test_every_start_continues_the_same_experiment(url):
    """However often the program is restarted, the experiment ends as if it had never stopped."""
    for round_ in range(1, 100):
        with sl.open(url) as store:
            live = start(store)
            if live.status().status == "complete":
                break
            answers = users.Users(live.experiment, BERNOULLI)
            for unit in range(3):
                argument = live.assign(f"{round_}-{unit}")
                if argument.id is not None:
                    live.reward(argument.id, answers.reward(live, argument.id))
    with sl.open(url) as store:
        runs = start(store).runs()
        assert store.names() == ["socks"]
        played = store.load("socks").experiment
    assert round_ > 3
    assert (runs.rewards == sl.simulate(played, BERNOULLI).rewards).all()


def test_policies_that_joined_are_no_difference(url):
    with sl.open(url) as store:
        start(store).add_policy("late", "uniform")
        assert list(start(store).experiment.policies) == ["ucb", "ts", "late"]


@pytest.mark.parametrize(
    ("experiment", "live", "message"),
    [
        (EXPERIMENT.replace(horizon=7), LIVE, "horizon is 6 there and 7 here"),
        (EXPERIMENT.replace(seed=5), LIVE, "seed is 4 there and 5 here"),
        (EXPERIMENT.replace(arms=2), replace(LIVE, fallback=None), "arms is"),
        (EXPERIMENT.replace(design="naive"), LIVE, "design is 'replay"),
        (EXPERIMENT.replace(control="ts"), LIVE, "control is 'ucb' there and 'ts' here"),
        (
            EXPERIMENT.replace(policies={**EXPERIMENT.policies, "ucb": "ucb1(alpha=3)"}),
            LIVE,
            r"policy ucb is 'ucb1\(alpha=2.*' there and 'ucb1\(alpha=3",
        ),
        (
            EXPERIMENT.replace(policies={"ucb": "ucb1(alpha=2)"}),
            replace(LIVE, batch=1),
            "LiveOptions.batch is",
        ),
        (
            EXPERIMENT.replace(policies={**EXPERIMENT.policies, "new": "uniform"}),
            LIVE,
            "policies is .* there and .*new.* here",
        ),
        (
            EXPERIMENT,
            replace(LIVE, traffic_share=0.5),
            "LiveOptions.traffic_share is 1.* there and 0.5",
        ),
        (EXPERIMENT, replace(LIVE, reward=sl.Reward(window_seconds=60)), "LiveOptions.reward is"),
    ],
)
def test_another_experiment_of_the_same_name_is_refused(experiment, live, message):
    with sl.open("sqlite://") as store:
        first = start(store)
        with pytest.raises(
            sl.Conflict, match=f"'socks' was started with other settings: {message}"
        ) as refused:
            start(store, experiment, live)
        assert refused.value.code == "name_taken"
        assert store.names() == ["socks"]
        assert first.status().status == "running"


def test_without_it_a_name_is_taken(url):
    with sl.open(url) as store:
        start(store)
        with pytest.raises(sl.Conflict, match="already; load it"):
            store.start("socks", EXPERIMENT, options=LIVE)


def test_of_several_processes_that_begin_at_once_one_starts_it(postgres_url):
    stores = [sl.open(postgres_url, connections=2) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        lives = list(pool.map(start, stores))
    ids = {live.assign("ann").id for live in lives}
    assert len(ids) == 1
    for store in stores:
        store.close()
