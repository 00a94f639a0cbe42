"""Compare bandit algorithms on the same luck, for the price of one."""

from sameluck.calibration import Coverage, coverage
from sameluck.comparison import Comparison, compare
from sameluck.designs import Naive, Replay, TimeCoupled
from sameluck.environments import Bernoulli, BernoulliPrior, Empirical, Gaussian, GaussianPrior
from sameluck.errors import AddressReused, Invalid, Missing, SameluckError, TooLarge
from sameluck.estimates import Effect
from sameluck.experiment import Experiment
from sameluck.planning import Plan, plan
from sameluck.policies import (
    UCB1,
    Always,
    EpsilonGreedy,
    Tally,
    ThompsonBernoulli,
    ThompsonGaussian,
    UCBDelta,
    Uniform,
    selects,
)
from sameluck.racing import Race, race
from sameluck.runs import Runs
from sameluck.simulation import Trace, Trajectory, simulate, trace
from sameluck.summaries import PolicySummary, Standing

__all__ = [
    "UCB1",
    "AddressReused",
    "Always",
    "Bernoulli",
    "BernoulliPrior",
    "Comparison",
    "Coverage",
    "Effect",
    "Empirical",
    "EpsilonGreedy",
    "Experiment",
    "Gaussian",
    "GaussianPrior",
    "Invalid",
    "Missing",
    "Naive",
    "Plan",
    "PolicySummary",
    "Race",
    "Replay",
    "Runs",
    "SameluckError",
    "Standing",
    "Tally",
    "ThompsonBernoulli",
    "ThompsonGaussian",
    "TimeCoupled",
    "TooLarge",
    "Trace",
    "Trajectory",
    "UCBDelta",
    "Uniform",
    "compare",
    "coverage",
    "plan",
    "race",
    "selects",
    "simulate",
    "trace",
]
