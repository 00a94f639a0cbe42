"""Dashboards that are open while an operator switches: `sameluck serve` in a process, its visitors in this one."""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections import Counter
from typing import NamedTuple

import httpx

NAME, ARM = "bench", "3"
REFRESH_SECONDS = 2.0
LOOKS = ("diagnostics", "results", "replications", "export?format=csv", "export?format=parquet")


class Watched(NamedTuple):
    """Seconds of each switch and of each look, and the looks' statuses."""

    switches: dict[str, list[float]]
    pages: list[tuple[float, float]]  # when it was asked for, and its seconds
    statuses: Counter


async def _timed(calls, call):
    begin = time.perf_counter()
    response = await call
    calls.append(time.perf_counter() - begin)
    assert response.status_code == 200, response.text


async def _look(client, path, watched, began):
    while True:
        begin = time.perf_counter()
        async with client.stream("GET", path, headers={"X-Refresh": "1"}) as response:
            async for _ in response.aiter_raw():
                pass
        if path.startswith("/experiments"):
            watched.pages.append((begin - began, time.perf_counter() - begin))
        watched.statuses[path.partition("?")[0].rpartition("/")[2], response.status_code] += 1
        await asyncio.sleep(REFRESH_SECONDS)


async def _watch(started, tabs, seconds):
    watched = Watched({"disable": [], "status": [], "enable": [], "pause": []}, [], Counter())
    path, headers = f"/v1/experiments/{NAME}", {"Authorization": f"Bearer {started['token']}"}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=started["url"], headers=headers, timeout=120, limits=limits
    ) as client:
        while True:  # until the ledger is loaded
            with contextlib.suppress(httpx.TransportError):
                await client.get("/healthz")
                break
            await asyncio.sleep(0.1)
        await client.post("/login", data={"token": started["token"]})
        paths = [f"/experiments/{NAME}"] * tabs + [f"{path}/{look}" for look in LOOKS]
        began = time.perf_counter()
        looks = [asyncio.create_task(_look(client, look, watched, began)) for look in paths]
        await asyncio.sleep(0.3)
        # On a slow machine for longer, until every tab has its page.
        while time.perf_counter() < began + seconds or len(watched.pages) < tabs:
            assert time.perf_counter() < began + 20 * seconds
            calls = watched.switches
            await _timed(calls["disable"], client.post(f"{path}/arms/{ARM}/disable"))
            await _timed(calls["status"], client.get(path))
            await _timed(calls["enable"], client.post(f"{path}/arms/{ARM}/enable"))
            await _timed(calls["pause"], client.post(f"{path}/pause"))
            await asyncio.sleep(0.1)
        for look in looks:
            look.cancel()
        await asyncio.wait(looks)
        failed = [look for look in looks if not look.cancelled()]
        assert not failed, failed[0].exception()
    return watched


def watch(url, *, tabs, seconds):
    """Serve a store, open dashboards and other looks at its experiment, and switch for some seconds."""
    command = [sys.executable, "-m", "sameluck", "serve", "--json", "--port", "0", "--db", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            started = json.loads("".join(process.stdout.readline() for _ in range(6)))
            return asyncio.run(_watch(started, tabs, seconds))
        finally:
            process.terminate()
