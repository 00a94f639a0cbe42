"""`ServiceProcess`: a service that listens at an address, run by uvicorn."""

from __future__ import annotations

import gc
import logging
import os
import socket
import threading
from typing import Any

import uvicorn

from sameluck.errors import Invalid
from sameluck.live.options import Makers
from sameluck.live.store import Store
from sameluck.service.addresses import Address
from sameluck.service.api_tokens import SESSION, Tokens
from sameluck.service.app import create_app
from sameluck.service.dashboard.visitors import Sessions
from sameluck.service.demo import run_demo
from sameluck.service.loaded_experiments import LoadedExperiments

GRACE_SECONDS = 3  # for requests under way when the service is told to end
END_SECONDS = 4.5  # until the process ends, whatever it waits for
HEAD_SECONDS = 15  # a connection on which no request begins is closed after 15 to 30 seconds
TICKS_PER_SECOND = 10  # of uvicorn

_log = logging.getLogger("sameluck")


class Server(uvicorn.Server):
    """A server that closes connections on which no request begins; `Guard` limits the time of requests.

    In the main thread it has the process to itself, and exempts loaded experiments from the garbage collector.
    """

    _stalled: frozenset[Any] = frozenset()

    def __init__(self, config: uvicorn.Config, experiments: LoadedExperiments) -> None:
        super().__init__(config)
        self._experiments = experiments
        self._exempt_loads = -1  # `LoadedExperiments.loads` when objects were last exempted

    async def on_tick(self, counter: int) -> bool:
        if counter % (HEAD_SECONDS * TICKS_PER_SECOND) == 0:
            self.close_stalled()
        # In another thread the process belongs to somebody else, whose objects are not exempted.
        is_main_thread = threading.current_thread() is threading.main_thread()
        if counter % TICKS_PER_SECOND == 0 and is_main_thread:
            self.exempt_loaded()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the requests and the application; in the main thread, end the process at the promised time."""
        # A thread may wait for a database that does not answer, and Python would wait for the thread. Nothing
        # acknowledged is lost, since the process may be killed at any moment.
        if threading.current_thread() is threading.main_thread():
            timer = threading.Timer(END_SECONDS, _end_process)
            timer.daemon = True
            timer.start()
        await super().shutdown(sockets)

    def exempt_loaded(self) -> None:
        """Exempt all objects from the garbage collector if an experiment was loaded since the last call.

        Policies and the packages that compile them are some 200,000 objects that stay. The collector would visit
        all of them every few thousand requests, and no request is answered during these 0.1 to 0.2 seconds.
        """
        if self._experiments.loads != self._exempt_loads:
            self._exempt_loads = self._experiments.loads
            # Frozen objects are never collected, so they are unfrozen for one collection at each load.
            gc.unfreeze()  # experiments that were deleted since are garbage
            gc.collect()
            gc.freeze()

    def close_stalled(self) -> None:
        """Close the connections that have waited for a request since the last call."""
        # A connection must be seen waiting twice, so that a new connection has at least HEAD_SECONDS.
        waiting = frozenset(filter(_waits_for_request, self.server_state.connections))
        for connection in self._stalled & waiting:
            connection.transport.close()
        self._stalled = waiting


def _end_process() -> None:
    _log.error("sameluck: the service ends without waiting for the database, which does not answer")
    os._exit(0)


def _waits_for_request(connection: Any) -> bool:
    """Return whether a connection has sent no request, or part of a head; uvicorn times kept-alive connections."""
    kept_alive = connection.timeout_keep_alive_task is not None
    answered = connection.cycle is None or connection.cycle.response_complete
    return answered and not kept_alive


class ServiceProcess:
    """A service of a store that listens at an address.

    Args:
        store: The store; it is closed when the service ends.
        address: The address. `Invalid` if other machines can reach it and the store has no token.
        listener: The bound socket.
        makers: For `External` policies: name -> function of a seed that returns the policy.
        demo: Start an experiment and send it synthetic users.
    """

    def __init__(
        self,
        store: Store,
        address: Address,
        listener: socket.socket,
        makers: Makers | None = None,
        *,
        demo: bool = False,
    ) -> None:
        tokens = Tokens(store.database)
        self.url = address.url(listener)
        self.token: str | None = None
        if address.is_loopback:
            self.token = tokens.create_session(SESSION)
        elif all(token.revoked_at for token in tokens.list()):
            raise Invalid(
                f"--host {address.host} can be called from other machines, and the store has no token; create one: "
                "sameluck token create NAME --scope ..."
            )
        self._listener = listener
        self._app = create_app(
            store,
            tokens=tokens,
            makers=makers,
            hosts=address.hosts,
            background=run_demo if demo else None,
        )
        sessions: Sessions = self._app.state.sessions
        # Where a browser begins; the link works once.
        self.dashboard = self.url + (sessions.create_link(self.token) if self.token else "/login")

        config = uvicorn.Config(
            self._app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # any client can send them, and nothing here depends on its address
            ws="none",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        self.server = Server(config, self._app.state.service.experiments)

    def run(self) -> None:
        """Serve until SIGTERM or Ctrl-C."""
        self.server.run(sockets=[self._listener])
