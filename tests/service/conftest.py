"""A service in this process, called without a network."""

import asyncio
import threading
from contextlib import contextmanager
from functools import partialmethod

import httpx
import pytest

import sameluck as sl
from sameluck.service.addresses import Address
from sameluck.service.api_tokens import SCOPES, Tokens
from sameluck.service.app import create_app
from sameluck.service.process import ServiceProcess

SOCKS = {
    "name": "socks",
    "policies": {"ucb": "ucb1(alpha=2)", "greedy": "epsilon_greedy(epsilon=0.2)"},
    "arms": ["red", "50/50"],
    "horizon": 4,
    "replications": 3,
    "live": {"reward": {"min": 0, "max": 1}},
    "start": True,
}


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


class Http:
    """Calls an application, one request after the other, in an event loop of its own."""

    def __init__(self, app, headers):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self.loop = asyncio.new_event_loop()
        self.client = httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers
        )

    def request(self, method, path, **options):
        return self.loop.run_until_complete(self.client.request(method, path, **options))

    get, post = partialmethod(request, "GET"), partialmethod(request, "POST")
    delete = partialmethod(request, "DELETE")

    def close(self):
        self.loop.run_until_complete(self.client.aclose())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


class Served:
    """A service, a token for each scope, and a caller with all of them."""

    socks = SOCKS

    def __init__(self, store, *, names=True, tokens=None, **options):
        self.store, self.tokens = store, tokens or Tokens(store.database)
        self.secrets = {scope: self.tokens.create(scope, [scope]) for scope in SCOPES if names}
        self.all = self.tokens.create_session("everything")
        self.app = create_app(store, tokens=self.tokens, **options)
        self.http = Http(self.app, bearer(self.all))

    def as_(self, scope):
        return bearer(self.secrets[scope])

    def start(self, **changes):
        answer = self.http.post("/v1/experiments", json={**SOCKS, **changes})
        assert answer.status_code == 201, answer.text
        return answer.json()

    def assign(self, unit, name="socks"):
        return self.http.post(f"/v1/experiments/{name}/assignments", json={"unit": unit})

    def reward(self, id, value):
        return self.http.post(f"/v1/assignments/{id}/reward", json={"value": value})


@contextmanager
def serving():
    """A function that serves a store of its own."""
    opened = []

    def served(url="sqlite://", *, timeout=5.0, **options):
        opened.append(Served(sl.open(url, timeout=timeout), **options))
        return opened[-1]

    yield served
    for one in opened:
        one.http.close()
        one.store.close()


@pytest.fixture
def serve():
    with serving() as serve:
        yield serve


@pytest.fixture
def served(serve):
    return serve()


@pytest.fixture(scope="module")
def shared():
    """A service with one experiment, for tests that leave it as it is."""
    with serving() as serve:
        served = serve()
        served.start()
        yield served


class Server:
    """A service in a thread of this process."""

    socks = SOCKS

    def __init__(self, store):
        address = Address("127.0.0.1", 0)
        self.store, self.process = store, ServiceProcess(store, address, address.bind())
        self.thread = threading.Thread(target=self.process.run)
        self.thread.start()

    def client(self, **options):
        return sl.Client(self.process.url, token=self.process.token, **{"timeout": 5.0, **options})

    def http(self):
        headers = {"Authorization": f"Bearer {self.process.token}"}
        return httpx.Client(base_url=self.process.url, headers=headers)

    def stop(self):
        self.process.server.should_exit = True
        self.thread.join()


@pytest.fixture(scope="module")
def server():
    """A service that listens."""
    server = Server(sl.open("sqlite://", timeout=5.0))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def listening():
    """A function that serves a store at an address until the test ends."""
    servers = []

    def listening(store):
        servers.append(Server(store))
        return servers[-1]

    yield listening
    for server in servers:
        server.stop()
