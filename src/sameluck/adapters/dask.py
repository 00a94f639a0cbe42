"""`simulate(..., map=on(client))`: the tasks on a Dask cluster. The only module that imports Dask.

A task is a pure function of its arguments (experiment, environment, checkpoints, replications), so a worker may
die and its tasks run again elsewhere: the result has the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from sameluck.errors import Invalid, optional

if TYPE_CHECKING:
    from distributed import Client

Item = TypeVar("Item")
Result = TypeVar("Result")


def on(client: Client) -> Callable[[Callable[[Item], Result], Iterable[Item]], Iterator[Result]]:
    """A `map` that runs on the cluster of a `distributed.Client` and yields results in order."""

    def map_on_cluster(
        function: Callable[[Item], Result], tasks: Iterable[Item]
    ) -> Iterator[Result]:
        futures = client.map(function, list(tasks), pure=False)
        try:
            while futures:
                # Popped, so that the cluster may forget what has been collected.
                yield futures.pop(0).result()
        finally:
            client.cancel(futures)

    return map_on_cluster


def connect(address: str) -> Client:
    """A client of the cluster whose scheduler listens at the address, such as `tcp://10.0.0.5:8786`."""
    distributed = optional("distributed", "dask")
    try:
        return distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise Invalid(f"no Dask scheduler answers at {address!r}: {error}") from None
