"""Inference: effects, intervals, comparisons, plans and races."""

from sameluck.inference.compare import compare
from sameluck.inference.comparison import Comparison
from sameluck.inference.effects import Effect
from sameluck.inference.planning.coverage import Coverage, coverage
from sameluck.inference.planning.designs import DesignComparison, designs
from sameluck.inference.planning.plan import Plan, plan
from sameluck.inference.planning.variance_split import VarianceSplit, split_variance
from sameluck.inference.policy_summaries import PolicyMetric, PolicySummary, Standing
from sameluck.inference.racing.race import race
from sameluck.inference.racing.race_results import Race
from sameluck.inference.twins.bernoulli_confidence_set import Guaranteed
from sameluck.inference.twins.failures import Failure
from sameluck.inference.twins.twin import Twin, twin
from sameluck.inference.unseen import SeedCheck

__all__ = [
    "Comparison",
    "Coverage",
    "DesignComparison",
    "Effect",
    "Failure",
    "Guaranteed",
    "Plan",
    "PolicyMetric",
    "PolicySummary",
    "Race",
    "SeedCheck",
    "Standing",
    "Twin",
    "VarianceSplit",
    "compare",
    "coverage",
    "designs",
    "plan",
    "race",
    "split_variance",
    "twin",
]
