"""The simulation of a command: its progress, a Dask cluster, and what is kept if Ctrl-C is pressed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import sameluck as sl
from sameluck.adapters import dask as dask_adapter
from sameluck.cli.output import progress_bar
from sameluck.environments.base import Environment

_FIRST, _SHORT = 32, 2.0  # replications; seconds of a part after which the next is twice as large


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
        options["progress"] = progress
        if keep is None:
            return sl.simulate(experiment, environment, **options)
        return _simulate_in_parts(keep, experiment, environment, **options)


def _simulate_in_parts(
    path: str,
    experiment: sl.Experiment,
    environment: Environment,
    *,
    progress: Callable[[int, int], object],
    **options: Any,
) -> sl.Runs:
    parts: list[sl.Runs] = []
    start, size, stop = 0, _FIRST, experiment.replications
    policies = len(experiment.policies)

    def add_progress(done: int, _: int) -> None:
        progress(start * policies + done, stop * policies)

    try:
        while start < stop:
            some = range(start, min(start + size, stop))
            part = sl.simulate(
                experiment, environment, replications=some, progress=add_progress, **options
            )
            parts.append(part)
            start = some.stop
            size *= 2 if (part.seconds or 0) < _SHORT else 1
    except KeyboardInterrupt:
        if not parts:
            raise
        sl.Runs.concat(parts).save(path)
        raise sl.Interrupted(
            f"{start:,} of {stop:,} replications are kept in {path!r}; continue with "
            f"sameluck.simulate(..., replications=range({start}, {stop})) and Runs.concat"
        ) from None
    return sl.Runs.concat(parts)
