"""Compare bandit algorithms on the same luck, for the price of one."""

from sameluck.design import Naive, Replay, TimeCoupled
from sameluck.environments.bernoulli import Bernoulli
from sameluck.environments.empirical import Empirical
from sameluck.environments.gaussian import Gaussian
from sameluck.environments.priors import BernoulliPrior, GaussianPrior
from sameluck.errors import (
    AddressReused,
    Conflict,
    Diverged,
    Interrupted,
    Invalid,
    Missing,
    SameluckError,
    TooLarge,
    Unavailable,
    Unknown,
    Unplayable,
)
from sameluck.experiment import Experiment
from sameluck.inference.comparison import Comparison, compare
from sameluck.inference.coverage import Coverage, coverage
from sameluck.inference.design_comparison import DesignComparison, designs
from sameluck.inference.effects import Effect
from sameluck.inference.planning import Plan, plan
from sameluck.inference.policy_summaries import PolicySummary, Standing
from sameluck.inference.racing import Race, race
from sameluck.inference.variance_split import VarianceSplit, split_variance
from sameluck.live.diagnostics import Check
from sameluck.live.experiment import LiveExperiment
from sameluck.live.logs.importing import Imported
from sameluck.live.options import Live, Reward
from sameluck.live.records import Assignment, Description, Joining, Receipt, Status
from sameluck.live.rehearsal.rehearsal import Rehearsal, VirtualClock, rehearse
from sameluck.live.rehearsal.traffic import Traffic
from sameluck.live.store import Store, open
from sameluck.policies.base import Tally, chances, selects
from sameluck.policies.baselines import Always, Uniform
from sameluck.policies.batched import Batched
from sameluck.policies.epsilon_greedy import EpsilonGreedy
from sameluck.policies.external import External
from sameluck.policies.thompson import ThompsonBernoulli, ThompsonGaussian
from sameluck.policies.ucb import UCB1, UCBDelta
from sameluck.runs import Runs
from sameluck.simulation.simulate import simulate
from sameluck.simulation.trace import trace
from sameluck.trajectories import Trace, Trajectory

__all__ = [
    "UCB1",
    "AddressReused",
    "Always",
    "Assignment",
    "Batched",
    "Bernoulli",
    "BernoulliPrior",
    "Check",
    "Comparison",
    "Conflict",
    "Coverage",
    "Description",
    "DesignComparison",
    "Diverged",
    "Effect",
    "Empirical",
    "EpsilonGreedy",
    "Experiment",
    "External",
    "Gaussian",
    "GaussianPrior",
    "Imported",
    "Interrupted",
    "Invalid",
    "Joining",
    "Live",
    "LiveExperiment",
    "Missing",
    "Naive",
    "Plan",
    "PolicySummary",
    "Race",
    "Receipt",
    "Rehearsal",
    "Replay",
    "Reward",
    "Runs",
    "SameluckError",
    "Standing",
    "Status",
    "Store",
    "Tally",
    "ThompsonBernoulli",
    "ThompsonGaussian",
    "TimeCoupled",
    "TooLarge",
    "Trace",
    "Traffic",
    "Trajectory",
    "UCBDelta",
    "Unavailable",
    "Uniform",
    "Unknown",
    "Unplayable",
    "VarianceSplit",
    "VirtualClock",
    "chances",
    "compare",
    "coverage",
    "designs",
    "open",
    "plan",
    "race",
    "rehearse",
    "selects",
    "simulate",
    "split_variance",
    "trace",
]
