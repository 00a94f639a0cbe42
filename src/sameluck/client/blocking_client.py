"""`Client`: a service, called from threads. Every method runs the coroutine of `AsyncClient` to its end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import httpx

from sameluck.client.async_client import AsyncRemoteExperiment, ClientCore
from sameluck.client.connection import ASSIGN_SECONDS, BlockingSender, Connection
from sameluck.experiment import Experiment

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, without an event loop, and return its value.

    All waiting is done by a `BlockingSender`, which blocks the thread. So the first step is also the last.
    """
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    # It awaited something other than its sender; without an event loop it would never continue.
    raise AssertionError("a coroutine of the blocking client was suspended")


class _Blocking(Generic[A]):
    """An object whose methods run the coroutines of another object."""

    def __init__(self, coroutines: A) -> None:
        self._coroutines = coroutines


def _blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Blocking[A], P], T]:
    """Return the method that runs a coroutine method to its end."""

    @wraps(method)
    def call(self: _Blocking[A], /, *arguments: P.args, **named: P.kwargs) -> T:
        return run(method(self._coroutines, *arguments, **named))

    return call


def _loading(
    method: Callable[Concatenate[ClientCore, P], Coroutine[Any, Any, AsyncRemoteExperiment]],
) -> Callable[Concatenate[Client, P], RemoteExperiment]:
    """Return the method that runs a coroutine method and wraps the experiment that it returns."""

    @wraps(method)
    def call(self: Client, /, *arguments: P.args, **named: P.kwargs) -> RemoteExperiment:
        return RemoteExperiment(run(method(self._coroutines, *arguments, **named)))

    returned = signature(method).replace(return_annotation="RemoteExperiment")
    call.__signature__ = returned  # type: ignore[attr-defined]
    return call


class Client(_Blocking[ClientCore]):
    """Experiments of a service, with the methods of a `Store`; use it as a context manager.

    Args:
        url: The address of the service, such as `http://127.0.0.1:8321`.
        token: A token; the variable SAMELUCK_TOKEN if not given.
        timeout: Seconds that `assign` may take, all attempts together, before it answers with the fallback arm.
            The other calls for users have 5 seconds, or `timeout` if that is longer.
        transport: A transport of httpx, in place of the network.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = ASSIGN_SECONDS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(ClientCore(Connection(url, token, timeout, BlockingSender, transport)))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    close = _blocking(ClientCore.close)
    names = _blocking(ClientCore.names)
    statuses = _blocking(ClientCore.statuses)
    start = _loading(ClientCore.start)
    load = _loading(ClientCore.load)
    delete = _blocking(ClientCore.delete)


class RemoteExperiment(_Blocking[AsyncRemoteExperiment]):
    """An experiment of a service, with the methods of a `LiveExperiment`."""

    def __init__(self, coroutines: AsyncRemoteExperiment) -> None:
        super().__init__(coroutines)
        self.name = coroutines.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    @property
    def experiment(self) -> Experiment:
        """Experiment when it was last read; `refresh` reads it again."""
        return self._coroutines.last_read or self.refresh()

    refresh = _blocking(AsyncRemoteExperiment.refresh)
    assign = _blocking(AsyncRemoteExperiment.assign)
    assign_many = _blocking(AsyncRemoteExperiment.assign_many)
    reward = _blocking(AsyncRemoteExperiment.reward)
    reward_many = _blocking(AsyncRemoteExperiment.reward_many)
    expose = _blocking(AsyncRemoteExperiment.expose)
    void = _blocking(AsyncRemoteExperiment.void)
    describe = _blocking(AsyncRemoteExperiment.describe)
    pause = _blocking(AsyncRemoteExperiment.pause)
    resume = _blocking(AsyncRemoteExperiment.resume)
    stop = _blocking(AsyncRemoteExperiment.stop)
    disable_arm = _blocking(AsyncRemoteExperiment.disable_arm)
    enable_arm = _blocking(AsyncRemoteExperiment.enable_arm)
    erase = _blocking(AsyncRemoteExperiment.erase)
    forget_units = _blocking(AsyncRemoteExperiment.forget_units)
    extend_windows = _blocking(AsyncRemoteExperiment.extend_windows)
    add_policy = _blocking(AsyncRemoteExperiment.add_policy)
    preview_policy = _blocking(AsyncRemoteExperiment.preview_policy)
    remove_policy = _blocking(AsyncRemoteExperiment.remove_policy)
    replace_policy_code = _blocking(AsyncRemoteExperiment.replace_policy_code)
    repair = _blocking(AsyncRemoteExperiment.repair)
    status = _blocking(AsyncRemoteExperiment.status)
    history = _blocking(AsyncRemoteExperiment.history)
    diagnostics = _blocking(AsyncRemoteExperiment.diagnostics)
    replications = _blocking(AsyncRemoteExperiment.replications)
    results = _blocking(AsyncRemoteExperiment.results)
    runs = _blocking(AsyncRemoteExperiment.runs)
    trace = _blocking(AsyncRemoteExperiment.trace)
    export = _blocking(AsyncRemoteExperiment.export)
