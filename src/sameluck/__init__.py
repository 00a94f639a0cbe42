"""Compare bandit algorithms on the same luck, for the price of one."""

from sameluck.batching import Batched
from sameluck.calibration import Coverage, coverage
from sameluck.comparison import Comparison, compare
from sameluck.design import Naive, Replay, TimeCoupled
from sameluck.environments import Bernoulli, BernoulliPrior, Empirical, Gaussian, GaussianPrior
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
from sameluck.estimates import Effect
from sameluck.experiment import Experiment
from sameluck.external import External
from sameluck.instances import VarianceSplit, split_variance
from sameluck.live.answers import Assignment, Description, Joining, Receipt, Status
from sameluck.live.checks import Check
from sameluck.live.importing import Imported
from sameluck.live.options import Live, Reward
from sameluck.live.rehearsal import Rehearsal, VirtualClock, rehearse
from sameluck.live.running import LiveExperiment
from sameluck.live.store import Store, open
from sameluck.live.traffic import Traffic
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
from sameluck.tracing import trace
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
