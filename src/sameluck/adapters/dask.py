"""`simulate(..., map=on(client))`: the tasks on a Dask cluster. The only module that imports Dask.

A task is a pure function of its arguments (experiment, environment, checkpoints, replications), so a worker may
die and its tasks run again elsewhere: the result has the same bits. What the tasks have in common travels once to
each worker, also if it is large, and a result is collected as soon as it is there.
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
    """A `map` that runs on the cluster of a `distributed.Client` and yields results as they arrive."""

    def map_on_cluster(
        function: Callable[[Item], Result], tasks: Iterable[Item]
    ) -> Iterator[Result]:
        config, distributed = optional("dask.config", "dask"), optional("distributed", "dask")
        items = list(tasks)
        # The result of a task, because one that is lost with its workers is run again; scattered data are not.
        with config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            common = client.submit(_itself, function, pure=False)
        waiting = set(client.map(_call, [common] * len(items), items, pure=False))
        try:
            # With its loop: it would look for a default client, which the one of `connect` is not.
            arriving = distributed.as_completed(waiting, loop=client.loop, with_results=True)
            for future, result in arriving:
                waiting.discard(future)  # so that the cluster may forget what has been collected
                yield result
        finally:
            client.cancel([*waiting, common])

    return map_on_cluster


def _itself(function: Function) -> Function:
    return function


def _call(function: Callable[[Item], Result], task: Item) -> Result:
    return function(task)


def connect(address: str) -> Client:
    """A client of the cluster whose scheduler listens at the address, such as `tcp://10.0.0.5:8786`."""
    distributed = optional("distributed", "dask")
    try:
        return distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise Invalid(f"no Dask scheduler answers at {address!r}: {error}") from None
