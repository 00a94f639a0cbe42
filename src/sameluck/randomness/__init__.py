"""Random numbers by address, and draws from distributions: what a select or draw function may use."""

from sameluck.randomness.samplers import (
    beta,
    discrete,
    exponential,
    gamma,
    normal,
    poisson,
    uniform,
)
from sameluck.randomness.streams import again, at

__all__ = [
    "again",
    "at",
    "beta",
    "discrete",
    "exponential",
    "gamma",
    "normal",
    "poisson",
    "uniform",
]
