"""`difference_from_rerun`: whether runs that are simulated again have the same bits."""

from __future__ import annotations

import numpy as np

from sameluck.errors import Invalid
from sameluck.runs import Runs
from sameluck.simulation.simulate import Progress, simulate

_ARRAYS = ("rewards", "pulls", "interactions", "totals", "exploration_excess")


def difference_from_rerun(
    runs: Runs, *, workers: int | None = None, progress: Progress | None = None
) -> str | None:
    """Simulate runs again from what they hold; the first difference as a sentence, None if every bit is equal."""
    if runs.environment is None:
        raise Invalid(
            "these runs have no environment: they are of a live experiment, whose ledger "
            "`sameluck live doctor` checks"
        )
    again = simulate(
        runs.experiment,
        runs.environment,
        checkpoints=runs.checkpoints.tolist(),
        replications=range(runs.first, runs.first + runs.replications),
        detail=runs.totals is not None,
        workers=workers,
        progress=progress,
    )
    for name in _ARRAYS:
        saved, new = getattr(runs, name), getattr(again, name)
        if saved is not None and saved.tobytes() != new.tobytes():
            return _sentence(runs, name, np.argwhere(~np.equal(saved, new)))
    return None


def _sentence(runs: Runs, name: str, places: np.ndarray) -> str:
    many = f"{len(places):,} of {getattr(runs, name).size:,} {name} differ"
    if not len(places):
        return f"{name} differ in the sign of a zero or in their type"
    first = [runs.first + int(places[0][0]), *map(int, places[0][1:])]
    policy = "" if name == "interactions" else f" of policy {runs.policies[first.pop(1)]!r}"
    return f"{many}, first in replication {first[0]}{policy} at checkpoint {runs.checkpoints[first[1]]}"
