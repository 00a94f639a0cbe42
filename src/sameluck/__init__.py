"""Compare bandit algorithms on the same luck, for the price of one."""

from sameluck.batching import Batched
from sameluck.calibration import Coverage, coverage
from sameluck.comparison import Comparison, compare
from sameluck.design import Naive, Replay, TimeCoupled
from sameluck.environments import Bernoulli, BernoulliPrior, Empirical, Gaussian, GaussianPrior
from sameluck.errors import AddressReused, Interrupted, Invalid, Missing, SameluckError, TooLarge
from sameluck.estimates import Effect
from sameluck.experiment import Experiment
from sameluck.instances import VarianceSplit, split_variance
from sameluck.planning import Plan, plan
from sameluck.policies import (
    UCB1,
    Always,
    EpsilonGreedy,
    ThompsonBernoulli,
    ThompsonGaussian,
    UCBDelta,
    Uniform,
)
from sameluck.racing import Race, race
from sameluck.runs import Runs
from sameluck.selection import Tally, chances, selects
from sameluck.sidebyside import DesignComparison, designs
from sameluck.simulation import simulate
from sameluck.summaries import PolicySummary, Standing
from sameluck.tracing import Trace, Trajectory, trace

__all__ = [
    "UCB1",
    "AddressReused",
    "Always",
    "Batched",
    "Bernoulli",
    "BernoulliPrior",
    "Comparison",
    "Coverage",
    "DesignComparison",
    "Effect",
    "Empirical",
    "EpsilonGreedy",
    "Experiment",
    "Gaussian",
    "GaussianPrior",
    "Interrupted",
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
    "VarianceSplit",
    "chances",
    "compare",
    "coverage",
    "designs",
    "plan",
    "race",
    "selects",
    "simulate",
    "split_variance",
    "trace",
]
