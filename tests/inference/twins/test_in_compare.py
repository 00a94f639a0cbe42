"""`compare` with the spread of a twin, and its warnings of rare failures."""

from dataclasses import replace

import numpy as np
import pytest

import sameluck as sl
from nonempty import nonempty
from sameluck.inference.twins.simulations import CopySimulator
from sameluck.simulation.rewards import observed_rewards


def simulated(replications=2, environment="bernoulli(0.7, 0.4)", **changes):
    values = {"policies": {"a": "ucb1", "b": "uniform", "c": "epsilon_greedy"}, "arms": 2}
    values |= {"horizon": 60, "replications": replications, "seed": 3, **changes}
    horizon = values["horizon"]
    checkpoints = [horizon // 2, horizon]
    return sl.simulate(sl.Experiment(**values), environment, checkpoints=checkpoints)


@pytest.fixture(scope="module")
def one_replication():
    return simulated(1)


def live(runs, planned=None):
    """Return the runs as if the rewards had come from users."""
    planned = planned or runs.replications
    experiment = runs.experiment.replace(replications=planned)
    return replace(runs, experiment=experiment, environment=None, observed=observed_rewards(runs))


class InTurn:
    """Policy that is a Python object."""

    def __init__(self, _seed):
        self.updates = 0

    def select(self, period):
        return period % 2

    def update(self, _arm, _reward):
        self.updates += 1


@pytest.mark.slow
def test_objects_need_their_makers(monkeypatch):
    expected = []
    monkeypatch.setattr(
        CopySimulator, "warn_of_time", lambda self, _: expected.append(self.expected)
    )
    policies = {"a": "ucb1", "b": sl.External("mine")}
    experiment = sl.Experiment(policies=policies, arms=2, horizon=4, replications=1)
    runs = sl.simulate(experiment, "bernoulli(0.7, 0.4)", makers={"mine": InTurn})
    with pytest.raises(sl.Invalid, match=r"pass makers=\{'mine': make\}"):
        sl.compare(runs, interval="twin")
    (effect,) = sl.compare(runs, interval="twin", makers={"mine": InTurn}).effects
    assert np.isfinite(effect.low)
    assert expected == [20_000, 20_000]  # of which a message warns if they take long


@pytest.mark.slow
def test_one_replication_is_enough(one_replication):
    result = sl.compare(one_replication, interval="twin", simultaneous="none")

    observed = {
        (e.policy, e.control, e.checkpoint): e
        for e in sl.twin(one_replication, draws=20, draw_replications=20).observed
    }
    for effect in result.effects:
        alone = observed[effect.policy, effect.control, effect.checkpoint]
        assert effect.effect == alone.effect == effect.reward - effect.control_reward
        assert effect.replications == 1
        # With one replication both use the long run's quantiles, so they agree to the bit.
        assert (effect.low, effect.high) == (alone.low, alone.high)
    assert "twin interval" in str(result)
    assert any("assumes that their rewards are i.i.d." in caution for caution in result.cautions)


def test_pairs_hold_together(one_replication):
    alone = sl.compare(one_replication, interval="twin", simultaneous="none").effects
    both = sl.compare(one_replication, interval="twin").effects

    for first, second in nonempty(zip(alone, both, strict=True)):
        assert second.low < first.low < first.high < second.high
        assert second.p_adjusted == min(1, 2 * first.p_value)
        assert second.level == 0.95


def test_other_pairs_and_controls(one_replication):
    effects = sl.compare(one_replication.at([60]), interval="twin", control="c").effects

    assert [(e.policy, e.control) for e in effects] == [("a", "c"), ("b", "c")]
    assert len(sl.compare(one_replication, interval="twin", pairs="all").effects) == 6


def test_what_is_refused(one_replication):
    with pytest.raises(sl.Invalid, match=r'interval="twin" needs one'):
        sl.compare(one_replication)
    with pytest.raises(sl.Invalid, match="best=True"):
        sl.compare(one_replication, interval="twin", best=True)
    with pytest.raises(sl.Invalid, match="takes no adjust"):
        sl.compare(one_replication, interval="twin", adjust="means")


def test_a_running_experiment_can_be_compared_after_one_replication(one_replication):
    running = live(one_replication, planned=10)

    with pytest.raises(sl.Invalid, match='use interval="twin"'):
        sl.compare(running)
    assert np.isfinite(sl.compare(running, interval="twin").effects[0].low)


BOLD = {"policies": {"ucb": sl.UCB1(2.0), "bold": sl.UCB1(0.05)}, "horizon": 300}


def test_live_runs_warn_of_failures_that_were_not_met():
    runs = simulated(3, "bernoulli(0.9, 0.5)", **BOLD)

    assert sl.compare(runs).failures == ()  # a simulation is to be continued instead
    result = sl.compare(live(runs))
    assert (result.failures[0].policy, result.failures[0].met) == ("bold", 0)
    assert str(result.failures[0]) in result.verdict
    assert sl.compare(replace(live(runs), observed=None)).failures == ()


def test_ordinary_policies_have_no_warning():
    runs = simulated(policies={"a": "ucb1", "b": "uniform"})

    assert sl.compare(live(runs)).failures == ()
