"""Adapters: other libraries, used through the interfaces of sameluck.

`river`, `mabwiser`, `smpybandits` and `bayesianbandits` take a function that makes a bandit of that package from a
seed, and return a maker for `External` policies: `makers={"theirs": sl.adapters.river(make)}`. `dask.on(client)` is a
`map` of `simulate`.
"""

from sameluck.adapters import dask
from sameluck.adapters.bandit_packages import bayesianbandits, mabwiser, river, smpybandits

__all__ = ["bayesianbandits", "dask", "mabwiser", "river", "smpybandits"]
