"""Compare bandit algorithms on the same luck, for the price of one."""

from sameluck.designs import Naive, Replay, TimeCoupled
from sameluck.environments import Bernoulli, BernoulliPrior, Empirical, Gaussian, GaussianPrior
from sameluck.errors import AddressReused, Invalid, Missing, SameluckError, TooLarge
from sameluck.experiment import Experiment
from sameluck.policies import (
    UCB1,
    Always,
    EpsilonGreedy,
    ThompsonBernoulli,
    ThompsonGaussian,
    UCBDelta,
    Uniform,
    selects,
)
from sameluck.runs import Runs
from sameluck.simulation import simulate, trace
