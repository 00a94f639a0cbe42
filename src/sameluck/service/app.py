"""`create_app`: the service as an ASGI application, for `sameluck serve` or any other server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from importlib.metadata import version

from anyio import to_thread
from fastapi import FastAPI

from sameluck.live.options import Makers
from sameluck.live.store import Store
from sameluck.service.access import Rates, Service
from sameluck.service.api_tokens import Tokens
from sameluck.service.dashboard.pages import add_dashboard
from sameluck.service.guard import Guard
from sameluck.service.limits import Limits
from sameluck.service.loaded_experiments import LoadedExperiments
from sameluck.service.problems import add_problem_documents
from sameluck.service.prometheus import Measured, Metrics, watch_states
from sameluck.service.routes import add_routes

LOAD_SECONDS = 2.0  # that the start waits until all experiments are loaded
SWITCH_SECONDS = 0.0005  # that a thread keeps the interpreter while others wait


def create_app(
    store: Store,
    *,
    tokens: Tokens | None = None,
    makers: Makers | None = None,
    hosts: Iterable[str] | None = None,
    limits: Limits = Limits(),  # noqa: B008 it is immutable
    background: Callable[[LoadedExperiments], Coroutine[None, None, None]] | None = None,
) -> FastAPI:
    """Return the service of a store.

    Args:
        store: The store; it is closed when the application is shut down.
        tokens: The tokens that may call it; the tokens in the store's database if not given.
        makers: For `External` policies: name -> function of a seed that returns the policy.
        hosts: Accepted names of a Host header, without the port; the names of the loopback address if not given.
        limits: The largest requests and experiments that it accepts.
        background: A coroutine that runs as long as the service, such as the traffic of a demonstration.
    """
    experiments = LoadedExperiments(store, makers)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # A kill switch takes the interpreter some fifty times. Each time it may wait this long for a thread that
        # computes a look: 25 ms in all, instead of a quarter of a second with Python's 5 ms.
        interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        # Long ledgers are loaded while the service answers: operators' switches and names need no ledger.
        loading = asyncio.create_task(to_thread.run_sync(experiments.load_active))
        await asyncio.wait([loading], timeout=LOAD_SECONDS)
        if loading.done():
            loading.result()  # raises if the database is unavailable
        # Retrieved, or asyncio would log a later failure; requests load experiments too, and report it.
        loading.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        tasks = [
            loading,
            asyncio.create_task(experiments.expire_each_second()),
            asyncio.create_task(watch_states(experiments, app.state.metrics)),
        ]
        if background is not None:
            tasks.append(asyncio.create_task(background(experiments)))
        yield
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await experiments.close()
        sys.setswitchinterval(interval)

    app = FastAPI(
        title="sameluck",
        description="Live experiments that compare bandit policies on one ledger of rewards.",
        version=version("sameluck"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would go to http, also behind a proxy with https
    )
    rates = Rates(limits.requests_per_second)
    app.state.service = Service(experiments, tokens or Tokens(store.database), limits, rates)
    app.state.metrics = Metrics()
    add_routes(app)
    add_dashboard(app)
    add_problem_documents(app)
    # The middleware that is added last sees a request first: refused requests are not counted.
    app.add_middleware(Measured, metrics=app.state.metrics)
    app.add_middleware(Guard, hosts=hosts, limits=limits)
    return app
