"""The simulation of a command: its progress, a Dask cluster, and what is kept if Ctrl-C is pressed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import sameluck as sl
from sameluck.adapters import dask as dask_adapter
from sameluck.cli.output import progress_bar
from sameluck.environments.base import Environment
from sameluck.experiment import checked_checkpoints
from sameluck.simulation.keeping import KeptRuns
from sameluck.simulation.simulate import available_workers
from sameluck.simulation.tasks import Work


def simulate(
    experiment: sl.Experiment,
    environment: Environment,
    *,
    keep: str | None,
    dask: str | None,
    **options: Any,
) -> sl.Runs:
    """The runs, on the cluster at an address if given; after Ctrl-C complete replications are saved, if to a file."""
    with ExitStack() as stack, progress_bar("simulating") as progress:
        if dask is not None:
            client = stack.enter_context(closing(dask_adapter.connect(dask)))
            options["map"] = dask_adapter.on(client)
        if keep is None:
            return sl.simulate(experiment, environment, progress=progress, **options)
        return _simulate_kept(keep, experiment, environment, progress, **options)


def _simulate_kept(
    path: str,
    experiment: sl.Experiment,
    environment: Environment,
    progress: Callable[[int, int], object],
    *,
    checkpoints: list[int] | None,
    detail: bool,
    **options: Any,
) -> sl.Runs:
    """Continues the beginning that the file holds; anything else is overwritten, as other files of results are."""
    options |= {"checkpoints": checkpoints, "detail": detail}
    run = partial(sl.simulate, experiment, environment, **options)
    horizons, numbers = (
        checked_checkpoints(experiment, checkpoints),
        range(experiment.replications),
    )
    workers = options["workers"] or available_workers()
    kept = KeptRuns(path, Work(experiment, environment, horizons, numbers, detail), workers)
    try:
        known = kept.known(run)
    except sl.Invalid:
        known = kept.nothing
    if known.replications == experiment.replications:  # not interrupted: the user wants them anew
        known = kept.nothing
    try:
        return kept.complete(run, known, progress)
    except KeyboardInterrupt as error:
        if notes := getattr(error, "__notes__", []):
            raise sl.Interrupted(notes[-1]) from None
        raise
