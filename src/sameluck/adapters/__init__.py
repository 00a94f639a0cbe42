"""Adapters: other libraries, used through the interfaces of sameluck.

`river`, `mabwiser`, `smpybandits` and `bayesianbandits` take a function that makes a bandit of that package from a
seed, and return a maker for `External` policies: `makers={"theirs": sl.adapters.river(make)}`. `dask.on(client)` is a
`map` of `simulate`. `gymnasium(name)` returns an environment with a table of outcomes as a `TabularMDP`.
"""

from sameluck.adapters import dask
from sameluck.adapters.bandit_packages import bayesianbandits, mabwiser, river, smpybandits
from sameluck.adapters.gymnasium_tables import gymnasium

__all__ = ["bayesianbandits", "dask", "gymnasium", "mabwiser", "river", "smpybandits"]
