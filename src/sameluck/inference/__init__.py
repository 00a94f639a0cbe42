"""Inference: effects, intervals, comparisons, plans and races."""

from sameluck.inference.comparing import compare
from sameluck.inference.comparison import Comparison
from sameluck.inference.coverage import Coverage, coverage
from sameluck.inference.design_comparison import designs
from sameluck.inference.design_results import DesignComparison
from sameluck.inference.effects import Effect
from sameluck.inference.plan_results import Plan
from sameluck.inference.planning import plan
from sameluck.inference.policy_summaries import PolicyMetric, PolicySummary, Standing
from sameluck.inference.race_results import Race
from sameluck.inference.racing import race
from sameluck.inference.twins.estimate import twin
from sameluck.inference.twins.records import Failure, Guaranteed
from sameluck.inference.twins.result import Twin
from sameluck.inference.variance_split import VarianceSplit, split_variance

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
