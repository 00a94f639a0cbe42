"""A live experiment's twin is that of the simulation whose rewards its users had, also while it runs."""

import pytest
from users import Users, finish

import sameluck as sl

EFFORT = {"replications": 300, "draws": 20, "draw_replications": 30}


@pytest.fixture(params=["replay", "naive"])
def live(request):
    """An experiment on Bernoulli arms, in memory, with its users."""
    experiment = sl.Experiment(
        policies={"a": "ucb1", "b": "uniform"},
        arms=["x", "y"],
        horizon=25,
        replications=3,
        design=request.param,
        seed=4,
    )
    users = Users(experiment, sl.Bernoulli([0.8, 0.3]))
    with sl.open("sqlite://") as store:
        yield store.start("coins", experiment, options=sl.LiveOptions(open_replications=1)), users


def assert_equal(twin, expected):
    assert twin.effects == expected.effects
    assert twin.observed == expected.observed
    assert twin.guaranteed == expected.guaranteed
    assert twin.stability == expected.stability


@pytest.mark.slow
def test_it_equals_the_twin_of_the_simulation(live):
    experiment, users = live
    finish(experiment, users)

    assert_equal(experiment.twin(**EFFORT), sl.twin(users.simulated(), **EFFORT))
    early = experiment.twin([10], policies=["b", "a"], **EFFORT)
    assert early.effects[0].checkpoint == 10
    assert early.suggestion is None  # it has ended


@pytest.mark.slow
def test_while_it_runs_it_suggests_but_says_on_what_that_rests(live):
    """After one of three replications."""
    experiment, users = live
    unit = 0
    while experiment.runs().replications < 1:
        assignment = experiment.assign(unit)
        experiment.reward(assignment.id, users.reward(experiment, assignment.id))
        unit += 1
    twin = experiment.twin(**EFFORT)

    assert twin.source.replications == 1
    assert "rests wholly on stationary arms" in twin.suggestion or "continue" in twin.suggestion
    assert twin.suggestion in " ".join(str(twin).split())
    assert len(sl.compare(experiment.runs(), interval="twin").effects) == 1


@pytest.mark.slow
def test_its_runs_are_saved_with_their_rewards(live, tmp_path):
    experiment, users = live
    finish(experiment, users)
    experiment.runs().save(tmp_path / "runs.npz")

    loaded = sl.Runs.load(tmp_path / "runs.npz")
    assert_equal(sl.twin(loaded, **EFFORT), experiment.twin(**EFFORT))
