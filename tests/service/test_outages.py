"""Outages of the database: answers during an outage, and recovery afterwards."""

import contextlib
import time
from pathlib import Path

import httpx
import pytest
from server import away

import sameluck as sl


@contextlib.contextmanager
def moved(url):
    """A SQLite store whose file has moved."""
    file = Path(url.removeprefix("sqlite:///").partition("?")[0])
    elsewhere = file.rename(file.with_suffix(".gone"))
    try:
        yield
    finally:
        elsewhere.rename(file)


@pytest.fixture
def gone(url, request):
    """Make the database unavailable."""
    if url.startswith("sqlite"):
        return lambda: moved(url)
    server = request.getfixturevalue("postgres_server")
    return lambda: away(server, url)


def until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_an_outage_costs_no_user_an_arm_and_no_acknowledged_reward(url, gone, listening):
    server = listening(sl.open(url, timeout=0.5))
    headers = {"Authorization": f"Bearer {server.process.token}"}
    with httpx.Client(base_url=server.process.url, headers=headers, timeout=20) as http:

        def assign(unit):
            answer = http.post("/v1/experiments/socks/assignments", json={"unit": unit})
            assert answer.is_success, answer.text
            return answer.json()

        def reward(id):
            return http.post(f"/v1/assignments/{id}/reward", json={"value": 1})

        assert http.post("/v1/experiments", json=server.socks).status_code == 201
        until(lambda: assign("ann")["enrolled"])
        until(lambda: assign("bob")["enrolled"])
        ann, bob = (assign(unit)["id"] for unit in ("ann", "bob"))
        assert reward(ann).status_code == 200
        assert "sameluck_database_up 1.0" in http.get("/metrics").text
        with gone():
            for unit in range(3):
                assert assign(unit) == {
                    "id": None,
                    "arm": "red",
                    "enrolled": False,
                    "reason": "UNAVAILABLE",
                }
            refused = reward(bob)
            assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
            assert refused.headers["retry-after"] == "1"
            until(lambda: http.get("/readyz").status_code == 503)
            assert str(Path(url).name) not in http.get("/readyz").text  # it needs no token
            assert http.get("/healthz").status_code == 200
            metrics = http.get("/metrics")
            assert metrics.status_code == 200
            assert "sameluck_database_up 0.0" in metrics.text
            assert 'sameluck_errors_total{code="unavailable"}' in metrics.text
            assert 'sameluck_experiment_status{experiment="socks",status="running"}' in metrics.text
        until(lambda: http.get("/readyz").status_code == 200)
        until(lambda: reward(bob).status_code == 200)
        until(lambda: assign("eve")["enrolled"])
        live = server.store.peek("socks")
        assert [live.describe(id).value for id in (ann, bob)] == [1.0, 1.0]
        assert live.verify() == 3
        with gone():
            assign("last")
            began = time.monotonic()
            server.stop()
            assert time.monotonic() - began < 60
