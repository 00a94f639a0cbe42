"""Compare bandit algorithms on the same luck, for the price of one.

Policies, environments, designs and simulation are imported with the package; inference and live experiments when one
of their names is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sameluck.context import Features, Levels, States
from sameluck.design import Naive, Replay, TimeCoupled
from sameluck.environments.base import ENVIRONMENTS, Environment, draws
from sameluck.environments.bounded import Beta, ContinuousUniform
from sameluck.environments.contextual.base import contexts, expects
from sameluck.environments.contextual.levels import ByLevel
from sameluck.environments.contextual.linear import Linear
from sameluck.environments.discrete import Bernoulli, Categorical, Poisson
from sameluck.environments.empirical import Empirical
from sameluck.environments.normal import Gaussian, GaussianMixture, StudentT, TruncatedGaussian
from sameluck.environments.positive import Exponential, Lognormal, ZeroInflatedLognormal
from sameluck.environments.priors import BernoulliPrior, GaussianPrior
from sameluck.environments.python_environment import python_environment
from sameluck.errors import (
    AddressReused,
    Closed,
    Conflict,
    Diverged,
    Interrupted,
    Invalid,
    Misconfigured,
    Missing,
    OtherVersion,
    SameluckError,
    TooLarge,
    Unavailable,
    Unknown,
    Unplayable,
)
from sameluck.experiment import Experiment
from sameluck.policies.base import POLICIES, Policy, Tally, selects
from sameluck.policies.batched import Batched
from sameluck.policies.contextual.per_level import PerLevel
from sameluck.policies.epsilon_greedy import EpsilonGreedy
from sameluck.policies.external import External
from sameluck.policies.simple import Always, Uniform
from sameluck.policies.thompson import ThompsonBernoulli, ThompsonGaussian
from sameluck.policies.ucb import UCB1, UCBDelta
from sameluck.runs import Runs
from sameluck.simulation.simulate import simulate
from sameluck.simulation.trace import trace
from sameluck.simulation.verification import check_environment, check_policy
from sameluck.trajectories import Trace, Trajectory

if TYPE_CHECKING:
    from sameluck import adapters as adapters
    from sameluck.client import AsyncClient as AsyncClient
    from sameluck.client import Client as Client
    from sameluck.inference import *
    from sameluck.live import *
    from sameluck.live import open as open

__version__ = "0.2.0"

# Without `open`, which a star import would put in the place of the builtin.
# fmt: off
__all__ = [
    "UCB1", "AddedPolicy", "AddressReused", "Always", "Assignment", "AssignmentDetails",
    "AsyncLiveExperiment", "AsyncStore", "Batched", "Bernoulli", "BernoulliPrior", "Beta", "ByLevel",
    "Categorical", "Change", "Check", "Closed", "Comparison", "Conflict", "ContinuousUniform",
    "Coverage", "DesignComparison", "Diverged", "Effect", "Empirical", "Environment",
    "EpsilonGreedy", "Experiment", "Exponential", "External", "Failure", "Features", "Gaussian",
    "GaussianMixture", "GaussianPrior", "Guaranteed", "Imported", "Interrupted", "Invalid",
    "LedgerChanges", "LedgerDifference", "Levels", "Linear", "LiveExperiment", "LiveOptions", "Lognormal",
    "Misconfigured", "Missing", "Naive", "OtherVersion", "PerLevel", "Plan", "Poisson", "Policy",
    "PolicyMetric", "PolicySummary", "Race", "Receipt", "Rehearsal", "Replay", "ReplicationStatus",
    "Reward", "Runs", "SameluckError", "SeedCheck", "Standing", "States", "Status", "Store", "StudentT", "Tally",
    "ThompsonBernoulli", "ThompsonGaussian", "TimeCoupled", "TooLarge", "Trace", "Traffic",
    "Trajectory", "TruncatedGaussian", "Twin", "UCBDelta", "Unavailable", "Uniform", "Unknown",
    "Unplayable", "VarianceSplit", "VirtualClock", "WindowExtension", "ZeroInflatedLognormal",
    "check_environment", "check_policy", "compare", "contexts", "coverage", "designs", "draws", "expects",
    "open_async", "plan",
    "python_environment", "race", "rehearse", "restore", "selects", "simulate",
    "split_variance", "trace", "twin",
]
# fmt: on

# Policies and environments are found by discovery; a new module needs no line above.
_DISCOVERED = {named.__name__: named for named in (*POLICIES.values(), *ENVIRONMENTS.values())}
for _name, _class in _DISCOVERED.items():
    if _name in (*__all__, *globals()) and globals().get(_name) is not _class:
        raise ImportError(f"{_class.__module__}.{_name} would hide sameluck.{_name}; rename it")
globals().update(_DISCOVERED)
__all__.extend(name for name in _DISCOVERED if name not in __all__)

_LATER = ("sameluck.inference", "sameluck.live")
_MODULES = {"adapters": "sameluck.adapters", "plots": "sameluck.reporting.plots"}
_OPTIONAL = {"AsyncClient": "sameluck.client", "Client": "sameluck.client"}  # these need an extra


def __getattr__(name: str) -> Any:
    """Import names of inference and live experiments, adapters and figures when first used."""
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _OPTIONAL:
        return getattr(import_module(_OPTIONAL[name]), name)
    for package in _LATER if name in (*__all__, "open") else ():
        module = import_module(package)
        if name in (*module.__all__, "open") and hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module 'sameluck' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_OPTIONAL, "__version__", "adapters", "open"]
