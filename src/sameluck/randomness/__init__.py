"""Random numbers by address and samplers of distributions, for select and draw functions."""

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
