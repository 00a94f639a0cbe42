"""Looks: shared between viewers, limited in number, and never in the way of an operator."""

import asyncio
import runpy
import sys
import threading
from pathlib import Path

import dashboards
import pytest

import sameluck as sl
from sameluck.errors import Invalid, Missing
from sameluck.live.experiment import LiveExperiment
from sameluck.service import looks
from sameluck.service.looks import Looks, Streams

ROOT = Path(__file__).parents[2]
SECONDS = 30  # until a test that hangs fails


class Work:
    """Work that begins, waits until it may end, and counts how often it was made."""

    def __init__(self, result=None):
        self.result, self.made = result, 0
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, *_arguments, **_options):
        self.made += 1
        self.begun.set()
        assert self.may_end.wait(SECONDS)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


async def begun(work):
    assert await asyncio.to_thread(work.begun.wait, SECONDS)


async def turns():
    for _ in range(5):
        await asyncio.sleep(0)


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


def test_viewers_join_a_look_that_has_not_begun_and_never_one_that_has():
    async def scenario():
        looks, first, second = Looks(2), Work("first"), Work("second")
        early = asyncio.create_task(looks.make("page", first))
        await begun(first)
        later = [asyncio.create_task(looks.make("page", second)) for _ in range(20)]
        await turns()
        assert not second.begun.is_set(), "the same look is made once at a time"
        first.may_end.set()
        second.may_end.set()
        assert await early == "first"
        assert await asyncio.gather(*later) == ["second"] * 20
        assert (first.made, second.made) == (1, 1)

    run(scenario)


def test_looks_are_limited_in_number():
    async def scenario():
        looks, works = Looks(2), [Work(number) for number in range(3)]
        viewers = [asyncio.create_task(looks.make(work.result, work)) for work in works]
        await begun(works[0])
        await begun(works[1])
        await turns()
        assert not works[2].begun.is_set()
        for work in works:
            work.may_end.set()
        assert await asyncio.gather(*viewers) == [0, 1, 2]

    run(scenario)


def test_a_viewer_who_leaves_does_not_end_the_look_of_others():
    async def scenario():
        looks, work = Looks(1), Work("seen")
        leaving, staying = (asyncio.create_task(looks.make("page", work)) for _ in range(2))
        await begun(work)
        leaving.cancel()
        work.may_end.set()
        assert await staying == "seen"

    run(scenario)


def test_every_viewer_gets_the_error_and_the_next_look_is_made_again():
    async def scenario():
        looks, work = Looks(1), Work(Invalid("no such checkpoint"))
        work.may_end.set()
        viewers = [looks.make("page", work) for _ in range(3)]
        errors = await asyncio.gather(*viewers, return_exceptions=True)
        assert [str(error) for error in errors] == ["no such checkpoint"] * 3
        assert await looks.make("page", lambda: "seen") == "seen"

    run(scenario)


class Endless:
    """File without an end, and the error that ended it."""

    def __init__(self):
        self.pieces, self.ended = 0, threading.Event()

    def __call__(self, *arguments, **_options):
        try:
            while True:
                arguments[-1].write(b"x" * looks.PIECE_BYTES)
                self.pieces += 1
        except BrokenPipeError:
            self.ended.set()
            raise


def test_a_stream_waits_for_its_reader_and_ends_when_the_reader_leaves():
    async def scenario():
        streams, write = Streams(1), Endless()
        stream = await streams.begin(write)
        pieces = aiter(stream)
        for _ in range(20):
            assert await anext(pieces) == b"x" * looks.PIECE_BYTES
        await asyncio.sleep(0.1)
        assert write.pieces <= 20 + looks.MAX_PIECES + 2
        stream.leave()
        assert await asyncio.to_thread(write.ended.wait, SECONDS)
        # The thread is free again.
        short = await streams.begin(lambda file: file.write(b"end"))
        assert [piece async for piece in short] == [b"end"]

    run(scenario)


def test_a_stream_whose_reader_stalls_ends(monkeypatch):
    monkeypatch.setattr(looks, "STALLED_SECONDS", 0.05)

    async def scenario():
        write = Endless()
        _reader = await Streams(1).begin(write)
        assert await asyncio.to_thread(write.ended.wait, SECONDS)

    run(scenario)


def test_an_error_of_a_stream_reaches_its_reader():
    def write(file):
        file.write(b"x" * 2 * looks.PIECE_BYTES)
        raise Invalid("later")

    def fail(_file):
        raise Invalid("at once")

    async def scenario():
        with pytest.raises(Invalid, match="at once"):
            await Streams(1).begin(fail)
        with pytest.raises(Invalid, match="later"):
            [piece async for piece in await Streams(1).begin(write)]

    run(scenario)


def test_an_export_that_nobody_waits_for_any_more_does_not_begin():
    async def scenario():
        streams, first, second = Streams(1), Endless(), Endless()
        stream = await streams.begin(first)
        waiting = asyncio.create_task(streams.begin(second))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait([waiting])
        stream.leave()
        assert await asyncio.to_thread(first.ended.wait, SECONDS)
        await asyncio.sleep(0.05)
        assert second.pieces == 0

    run(scenario)


def test_an_export_ends_when_its_client_goes(server, monkeypatch):
    write = Endless()
    monkeypatch.setattr("sameluck.service.routes.results.write_export", write)
    with server.http() as http:
        http.post("/v1/experiments", json={**server.socks, "name": "exported"})
        with http.stream("GET", "/v1/experiments/exported/export") as response:
            assert response.status_code == 200
            next(response.iter_raw())
    assert write.ended.wait(SECONDS)


def test_an_export_that_cannot_begin_is_a_problem(served, monkeypatch):
    def write(*_arguments, **_options):
        raise Missing("needs pyarrow")

    monkeypatch.setattr("sameluck.service.routes.results.write_export", write)
    served.start()
    assert served.http.get("/v1/experiments/socks/export").status_code == 501


@pytest.mark.parametrize("hindrance", ["diagnostics", "runs", "add_policy"])
def test_operators_wait_for_no_look_and_for_no_long_change(served, monkeypatch, hindrance):
    """Every thread for looks and for long changes is busy, and more of both wait."""
    served.start()
    work = Work()
    monkeypatch.setattr(LiveExperiment, hindrance, work)
    path = "/v1/experiments/socks"
    policy = {"name": "new", "policy": "ucb1"}
    hindering = {
        "diagnostics": [("GET", f"{path}/diagnostics?silence_is_zero={flag}") for flag in (0, 1)],
        "runs": [("GET", f"{path}/results?level=0.{digit}") for digit in range(5, 10)],
        "add_policy": [("POST", f"{path}/policies")] * 8,
    }[hindrance]

    async def scenario():
        client = served.http.client
        busy = [asyncio.create_task(client.request(*call, json=policy)) for call in hindering]
        await begun(work)
        await asyncio.sleep(0.1)
        for call in (f"{path}/arms/red/disable", f"{path}/pause", f"{path}/stop"):
            body = {"fallback": "50/50"} if "arms" in call else {}
            answer = await client.post(call, json=body)
            assert answer.status_code == 200, answer.text
        assert (await client.get(path)).json()["status"]["disabled"] == ["red"]
        assert len((await client.get(f"{path}/history")).json()["changes"]) == 4
        assert (await client.get("/v1/experiments")).status_code == 200
        assert (await client.get("/metrics")).status_code == 200
        assert not any(task.done() for task in busy)
        for task in busy:
            task.cancel()
        work.may_end.set()
        await asyncio.wait(busy)

    served.http.loop.run_until_complete(asyncio.wait_for(scenario(), SECONDS))


def test_a_switch_does_not_wait_until_its_experiment_is_loaded(serve, tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/shop.db"
    before = serve(url)
    before.start()
    before.store.close()
    work = Work()
    monkeypatch.setattr("sameluck.live.store.verify_or_fail", work)
    served = serve(url, names=False)

    async def scenario():
        client = served.http.client
        results = asyncio.create_task(client.get("/v1/experiments/socks/results"))
        await begun(work)
        answer = await client.post("/v1/experiments/socks/stop", json={"drain": False})
        assert answer.json()["status"] == "stopped"
        assert not results.done()
        work.may_end.set()
        assert (await results).json()["status"]["status"] == "stopped"
        assert (await client.get("/v1/experiments/nobody")).status_code == 404

    served.http.loop.run_until_complete(asyncio.wait_for(scenario(), SECONDS))


def test_threads_that_compute_give_the_interpreter_away_often(served):
    async def scenario():
        before = sys.getswitchinterval()
        async with served.app.router.lifespan_context(served.app):
            assert sys.getswitchinterval() <= 0.001
        assert sys.getswitchinterval() == before

    served.http.loop.run_until_complete(asyncio.wait_for(scenario(), SECONDS))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_operators_and_viewers_are_answered_under_twenty_dashboards(kind, request, tmp_path):
    """How long a switch takes then is measured by benchmarks/live.py."""
    ledgers = runpy.run_path(str(ROOT / "benchmarks" / "ledgers.py"))
    means = [0.05 * (arm + 1) for arm in range(10)]
    experiment = sl.Experiment(
        policies={"old": "ucb1(alpha=2)", "new": "ucb1(alpha=1)"},
        arms=10,
        horizon=1_000,
        replications=400,
        seed=7,
    )
    target = tmp_path / "shop.db"
    url = f"sqlite:///{target}"
    if kind == "postgres":
        target = url = request.getfixturevalue("postgres_url")
    with sl.open(url) as store:
        store.start(dashboards.NAME, experiment, options=sl.LiveOptions(open_replications=16))
    made = ledgers["make"](experiment, [1_000] * 100 + [500] * 16, means)
    assert ledgers[f"fill_{kind}"](target, 2, made) > 100_000
    watched = dashboards.watch(url, tabs=20, seconds=12)
    # On a busy machine a look may take longer than a request has, which the service says with 503; a switch may not.
    assert {status for _, status in watched.statuses} <= {200, 503}
    assert watched.statuses["bench", 200] >= 20
    assert all(watched.switches.values())
