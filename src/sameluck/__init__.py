"""Compare bandit algorithms on the same luck, for the price of one."""

from sameluck.comparison import Comparison, compare
from sameluck.designs import Naive, Replay, TimeCoupled
from sameluck.environments import Bernoulli, BernoulliPrior, Empirical, Gaussian, GaussianPrior
from sameluck.errors import AddressReused, Invalid, Missing, SameluckError, TooLarge
from sameluck.estimates import Effect
from sameluck.experiment import Experiment
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
from sameluck.runs import Runs
from sameluck.simulation import Trace, Trajectory, simulate, trace

__all__ = [
    "UCB1",
    "AddressReused",
    "Always",
    "Bernoulli",
    "BernoulliPrior",
    "Comparison",
    "Effect",
    "Empirical",
    "EpsilonGreedy",
    "Experiment",
    "Gaussian",
    "GaussianPrior",
    "Invalid",
    "Missing",
    "Naive",
    "Replay",
    "Runs",
    "SameluckError",
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
    "selects",
    "simulate",
    "trace",
]
