"""Simulation on a Dask cluster, by `simulate(..., map=on(client))`. The only module that imports Dask.

A task is a pure function of its arguments (experiment, environment, checkpoints, replications), so a worker may
die and its tasks run again elsewhere with the same bits. The arguments that all tasks share travel once to each
worker, and a result is collected as soon as it is ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from sameluck.errors import Invalid, optional

if TYPE_CHECKING:
    from distributed import Client

Item = TypeVar("Item")
Result = TypeVar("Result")
Function = TypeVar("Function")


def on(client: Client) -> Callable[[Callable[[Item], Result], Iterable[Item]], Iterator[Result]]:
    """Return a `map` that runs on the cluster of a `distributed.Client` and yields results as they arrive."""

    def map_on_cluster(
        function: Callable[[Item], Result], tasks: Iterable[Item]
    ) -> Iterator[Result]:
        config, distributed = optional("dask.config", "dask"), optional("distributed", "dask")
        items = list(tasks)
        # The result of a task: if its workers die, Dask runs the task again, but does not restore scattered data.
        with config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            common = client.submit(_identity, function, pure=False)
        waiting = set(client.map(_call, [common] * len(items), items, pure=False))
        try:
            # Without a loop, `as_completed` looks for a default client, which `connect` does not set.
            arriving = distributed.as_completed(waiting, loop=client.loop, with_results=True)
            for future, result in arriving:
                waiting.discard(future)  # the cluster may now release the result
                yield result
        finally:
            client.cancel([*waiting, common])

    return map_on_cluster


def _identity(function: Function) -> Function:
    return function


def _call(function: Callable[[Item], Result], task: Item) -> Result:
    return function(task)


def connect(address: str) -> Client:
    """Return a client of the cluster whose scheduler listens at an address, such as `tcp://10.0.0.5:8786`."""
    distributed = optional("distributed", "dask")
    try:
        return distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise Invalid(f"no Dask scheduler answers at {address!r}: {error}") from None
