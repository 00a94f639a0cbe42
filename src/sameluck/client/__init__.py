"""Clients of the service: the experiments of `sameluck serve`, with the methods of a store's experiments."""

from sameluck.errors import optional

optional("httpx", "client")

from sameluck.client.async_client import AsyncClient, AsyncRemoteExperiment  # noqa: E402 httpx is there
from sameluck.client.blocking_client import Client, RemoteExperiment  # noqa: E402

__all__ = ["AsyncClient", "AsyncRemoteExperiment", "Client", "RemoteExperiment"]
