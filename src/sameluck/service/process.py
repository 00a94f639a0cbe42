"""`ServiceProcess`: a service that listens at an address, run by uvicorn."""

from __future__ import annotations

import gc
import socket
import threading
from typing import Any

import uvicorn

from sameluck.errors import Invalid
from sameluck.live.options import Makers
from sameluck.live.store import Store
from sameluck.service.addresses import Address
from sameluck.service.app import create_app
from sameluck.service.dashboard.sessions import Sessions
from sameluck.service.demo import run_demo
from sameluck.service.loaded_experiments import LoadedExperiments
from sameluck.service.tokens import SESSION, Tokens

GRACE_SECONDS = 3  # for requests that are being answered when the service is told to end
HEAD_SECONDS = (
    15  # after which, at most twice, a connection on which no request has begun is closed
)
TICKS_PER_SECOND = 10  # of uvicorn


class Server(uvicorn.Server):
    """A server that closes connections whose request never begins; the time of one that has begun is `Guard`'s.

    If it runs in the main thread, the process is its own: loaded experiments are then exempt from the garbage
    collector.
    """

    _stalled: frozenset[Any] = frozenset()

    def __init__(self, config: uvicorn.Config, experiments: LoadedExperiments) -> None:
        super().__init__(config)
        self._experiments = experiments
        self._exempt_loads = -1  # of experiments

    async def on_tick(self, counter: int) -> bool:
        if counter % (HEAD_SECONDS * TICKS_PER_SECOND) == 0:
            self.close_stalled()
        if counter % TICKS_PER_SECOND == 0 and _is_main_thread():
            self.exempt_loaded()
        return await super().on_tick(counter)

    def exempt_loaded(self) -> None:
        """If an experiment was loaded since this was called before, exempt all objects from the garbage collector.

        Policies and the packages that compile them are some 200,000 objects that stay. The collector would look at
        all of them every few thousand requests, for 0.1 to 0.2 seconds in which nobody is answered.
        """
        if self._experiments.loads != self._exempt_loads:
            self._exempt_loads = self._experiments.loads
            gc.unfreeze()  # experiments that were deleted since are garbage
            gc.collect()
            gc.freeze()

    def close_stalled(self) -> None:
        """Close the connections that wait for a request as they did when this was called before."""
        waiting = frozenset(filter(_waits_for_request, self.server_state.connections))
        for connection in self._stalled & waiting:
            connection.transport.close()
        self._stalled = waiting


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _waits_for_request(connection: Any) -> bool:
    """Whether a connection is new or has sent a part of a head; one that is kept alive has a timer of uvicorn."""
    kept_alive = connection.timeout_keep_alive_task is not None
    answered = connection.cycle is None or connection.cycle.response_complete
    return answered and not kept_alive


class ServiceProcess:
    """The service of a store at an address.

    Args:
        store: The store; it is closed when the service ends.
        address: Where it listens; `Invalid` if that is no loopback address and the store has no token.
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
        elif all(token.revoked_at for token in tokens.every()):
            raise Invalid(
                f"--host {address.host} can be called from other machines, and there is no token; create one: "
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
        login = sessions.create_link(self.token) if self.token else "/login"
        self.dashboard = self.url + login  # where a browser begins; the link works once

        config = uvicorn.Config(
            self._app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        self.server = Server(config, self._app.state.service.experiments)

    def run(self) -> None:
        """Serve until SIGTERM or Ctrl-C."""
        self.server.run(sockets=[self._listener])
