"""Import, simulate, compare: what must work on every operating system. Run by the workflow and by the tests."""

import sameluck as sl

experiment = sl.Experiment(
    policies={"ucb": sl.UCB1(alpha=2.0), "thompson": sl.ThompsonBernoulli()},
    arms=2,
    horizon=1_000,
    replications=10,
    seed=7,
)
runs = sl.simulate(experiment, sl.Bernoulli([0.7, 0.3]))
again = sl.simulate(experiment, "bernoulli(0.7, 0.3)", workers=1)
assert (runs.rewards == again.rewards).all()
print(sl.compare(runs))  # noqa: T201 for the log of the workflow
