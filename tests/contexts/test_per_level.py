"""`PerLevel` of every policy: in each level the policy plays as it would alone, with the users of the level."""

import numpy as np
import pytest

import cases
import sameluck as sl
from sameluck.policies.base import is_randomised
from sameluck.simulation.plain_runner import PlainRunner
from sameluck.simulation.preconditions import fitted
from sameluck.simulation.runners.compiled_runner import CompiledRunner
from sameluck.trajectories import empty_trajectory

ARMS, HORIZON = (0.7, 0.4, 0.2), 40
PLAIN = [cases.policy_examples(policy_class)[0] for policy_class in cases.POLICY_CLASSES]
DETERMINISTIC = [policy for policy in PLAIN if not is_randomised(policy, 3)]


# Compiled and compared with plain Python; every other policy is run in plain Python, which compiles nothing.
COMPILED = [sl.UCB1(), sl.UCBTuned(), sl.ThompsonBernoulli(), sl.EXP3()]


def run_plainly(policy, environment):
    """Return the trajectory of a policy; a random number that is read twice raises."""
    experiment = sl.Experiment(policies={"it": policy}, horizon=HORIZON, replications=1, seed=5)
    runner = CompiledRunner(*fitted(experiment, environment), "it")
    trajectory = empty_trajectory(HORIZON, runner.setting.experiment)
    PlainRunner(runner).run(0, np.array([HORIZON]), trajectory)
    return trajectory


@pytest.mark.slow
@pytest.mark.parametrize("policy", COMPILED, ids=cases.name)
def test_machine_code_plays_as_plain_python(policy):
    levels = sl.ByLevel([sl.Bernoulli(ARMS), sl.Bernoulli([0.1, 0.5, 0.9])])
    experiment = sl.Experiment(policies={"it": sl.PerLevel(policy)}, horizon=200, replications=1)

    sl.trace(experiment, levels, guard=True)


@pytest.mark.parametrize("policy", DETERMINISTIC, ids=cases.name)
def test_in_a_single_level_a_policy_plays_as_without_levels(policy):
    alone = run_plainly(policy, sl.Bernoulli(ARMS))

    per_level = run_plainly(sl.PerLevel(policy), sl.ByLevel([sl.Bernoulli(ARMS)]))

    assert per_level.arms.tolist() == alone.arms.tolist()
    assert per_level.rewards.tolist() == alone.rewards.tolist()


@pytest.mark.parametrize("policy", PLAIN, ids=cases.name)
def test_a_level_does_not_depend_on_the_users_of_another_level(policy):
    """Level 0 has the same arms, stacks and noise in both environments, so its users get the same arms."""
    environments = [
        sl.ByLevel([sl.Bernoulli(ARMS), sl.Bernoulli(other)], frequencies=[0.5, 0.5])
        for other in ([0.5, 0.5, 0.5], [0.0, 1.0, 0.0])
    ]
    first, second = (run_plainly(sl.PerLevel(policy), environment) for environment in environments)

    assert first.contexts.tolist() == second.contexts.tolist()
    in_level = first.contexts[:, 0] == 0
    assert first.arms[in_level].tolist() == second.arms[in_level].tolist()


def test_many_levels_of_one_family_are_compiled_as_one_environment():
    levels = sl.ByLevel([sl.Bernoulli([level / 100, 0.5]) for level in range(100)])
    parameters = levels.compiled_parameters(0, range(2), 2)

    assert type(parameters.cells).__name__ == "CompiledBernoulli"
    assert parameters.cells.probability.shape == (2, 200)


def test_priors_of_levels_are_independent():
    levels = sl.ByLevel([sl.BernoulliPrior(), sl.BernoulliPrior()])
    means = levels.compiled_parameters(0, range(1_000), 2).cell_means

    correlations = np.corrcoef(means.T)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 0.16  # 5 standard errors: a false alarm in 3e-6


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda: sl.PerLevel(sl.PerLevel("ucb1")), "without contexts"),
        (lambda: sl.PerLevel(3), "PerLevel.policy"),
        (lambda: sl.PerLevel("linucb"), "needs users with features"),
        (lambda: sl.PerLevel(sl.External("mine")), "PerLevel.policy"),
    ],
)
def test_what_has_no_policy_per_level_is_refused(policy, message):
    with pytest.raises(sl.Invalid, match=message):
        sl.Experiment(policies={"it": policy()}, arms=2, horizon=5, replications=1)
