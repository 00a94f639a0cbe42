"""Adapters: other libraries, used through the interfaces of sameluck.

`river`, `mabwiser`, `smpybandits` and `bayesianbandits` take a function that makes a bandit of that package from a
seed, and return a maker for `External` policies: `makers={"theirs": sl.adapters.river(make)}`.
"""

from sameluck.adapters.bayesianbandits_agent import bayesianbandits
from sameluck.adapters.mabwiser_bandit import mabwiser
from sameluck.adapters.river_policy import river
from sameluck.adapters.smpybandits_policy import smpybandits

__all__ = ["bayesianbandits", "mabwiser", "river", "smpybandits"]
