"""`sl.Client` and `sl.AsyncClient` on a real server: the methods of the embedded object, and without the server."""

import asyncio
import contextlib
import gc
import inspect
import json
import os
import socket
import threading
import time
import warnings
from decimal import Decimal

import httpx
import numpy as np
import pytest

import sameluck as sl
from sameluck.client import AsyncRemoteExperiment, RemoteExperiment

EXPERIMENT = sl.Experiment(
    policies={"ucb": "ucb1(alpha=2)", "greedy": "epsilon_greedy(epsilon=0.2)"},
    arms=["red", "50/50"],
    horizon=4,
    replications=3,
)
LIVE = {"reward": {"min": 0, "max": 1}, "fallback": "50/50"}


def play(live):
    for number in range(200):
        answer = live.assign(f"user-{number}")
        if not answer.enrolled:
            return answer
        assert live.reward(answer.id, float(answer.arm == "red")).applied
    raise AssertionError("it does not end")


@pytest.mark.slow
def test_an_experiment_over_http_is_that_of_the_store(server, tmp_path):
    with server.client() as client:
        live = client.start("socks", EXPERIMENT, options=LIVE)
        assert client.start("socks", EXPERIMENT, options=LIVE).experiment == EXPERIMENT
        assert play(live) == (None, "50/50", False, "NOT_RUNNING")
        ours = server.store.peek("socks")
        assert live.status()._replace(answers={}) == ours.status()._replace(answers={})
        assert live.runs([2, 4]).rewards.tolist() == ours.runs([2, 4]).rewards.tolist()
        assert sl.compare(live.runs()).verdict == sl.compare(ours.runs()).verdict
        assert live.results(best=True)["verdict"] == sl.compare(ours.runs(), best=True).verdict
        assert live.trace(1).to_dicts() == ours.trace(1).to_dicts()
        assert live.history() == ours.history()
        assert live.replications() == ours.replications()
        assert [check.name for check in live.diagnostics()] == [
            check.name for check in ours.diagnostics()
        ]
        live.export(tmp_path / "theirs.csv")
        ours.export(tmp_path / "ours.csv")
        assert (tmp_path / "theirs.csv").read_text() == (tmp_path / "ours.csv").read_text()
        assert live.preview_policy("new", sl.UCB1(1.0)) == ours.preview_policy("new", sl.UCB1(1.0))
        assert live.add_policy("new", "ucb1(alpha=1)").policy == "new"
        assert list(live.refresh().policies) == ["ucb", "greedy", "new"]
        assert "socks" in client.names()


@pytest.mark.slow
def test_errors_are_those_of_the_embedded_calls(server):
    with server.client() as client:
        live = client.start("errors", EXPERIMENT, options=LIVE)
        id = live.assign("u").id
        assert live.describe(id).status == "assigned"
        assert live.reward(id, 1.0) == (True, False, 1.0)
        assert live.reward(id, 1.0) == (False, True, 1.0)
        assert live.reward(None, 1) == (False, False, 1.0)
        with pytest.raises(sl.Conflict) as conflict:
            live.reward(id, 0.0)
        assert conflict.value.code == "reward_conflict"
        with pytest.raises(sl.Invalid, match="<= 1"):
            live.reward(id, 7)
        with pytest.raises(sl.Unknown):
            live.reward("asg_1", 1)
        with pytest.raises(sl.Unknown):
            client.load("nobody")
        with pytest.raises(sl.Conflict):
            client.start("errors", EXPERIMENT.replace(seed=1), options=LIVE)
        with pytest.raises(sl.Invalid):
            live.disable_arm("50/50")
        live.disable_arm("50/50", fallback="red", reason="broken")
        assert live.status().disabled == ("50/50",)
        live.enable_arm("50/50")
        live.pause("lunch")
        live.resume()
        assert live.extend_windows(5).awaited == 0
        live.stop(drain=False)
        assert live.assign("new").arm == "red"
        assert {change.actor for change in live.history()} == {"sameluck serve"}


def test_lists_have_an_answer_for_each_item(server):
    with server.client() as client:
        live = client.start("lists", EXPERIMENT, options=LIVE)
        one, bad, two, again = live.assign_many(["a", "", "b", "a"])
        assert isinstance(bad, sl.Invalid)
        assert (again.id, again.reason) == (one.id, "STICKY")
        answers = live.reward_many([(one.id, 1), (None, 1), (one.id, 0), (two.id, 0)])
        assert [isinstance(answer, sl.Conflict) for answer in answers] == [
            False,
            False,
            True,
            False,
        ]
        assert [answers[n].applied for n in (0, 1, 3)] == [True, False, True]


@pytest.mark.slow
def test_a_window_ends_while_nobody_calls(server):
    live = server.store.start("overdue", EXPERIMENT, options={"reward": {"window_seconds": 0.2}})
    with server.client() as client:
        assert client.load("overdue").assign("u").enrolled
    until = time.monotonic() + 30
    while live.status().defaulted == 0:
        assert time.monotonic() < until
        time.sleep(0.1)


def test_coroutines_have_the_same_methods(server):
    async def main():
        url, token = server.process.url, server.process.token
        async with sl.AsyncClient(url, token=token, timeout=5.0) as client:
            live = await client.start("async", EXPERIMENT, options=LIVE)
            answers = await asyncio.gather(*(live.assign(unit) for unit in range(5)))
            ids = [answer.id for answer in answers if answer.enrolled]
            receipts = await asyncio.gather(*(live.reward(id, 1) for id in ids))
            assert all(receipt.applied for receipt in receipts)
            assert (await live.status()).settled == len(ids)
            assert isinstance((await live.trace()), sl.Trace)
            assert "async" in await client.names()
            loaded = await client.load("async")
            assert loaded.experiment == EXPERIMENT
            with pytest.raises(sl.Unknown):
                await client.load("nobody")

    asyncio.run(main())


# Of the server, or local.
MORE = {"verify", "twin", "tick", "void_units", "fallback_arm", "fallback_assignment"}


def test_the_clients_have_the_methods_of_the_embedded_object():
    def methods(remote_class):
        return {name for name, _ in inspect.getmembers(remote_class) if not name.startswith("_")}

    remote = methods(RemoteExperiment)
    assert methods(sl.LiveExperiment) - MORE <= remote
    assert methods(AsyncRemoteExperiment) == remote


class Flaky(httpx.BaseTransport):
    """Passes requests on; some answers are lost, some are refusals."""

    def __init__(self, faults):
        self.inner, self.faults, self.sent = httpx.HTTPTransport(), list(faults), []

    def close(self):
        self.inner.close()

    def handle_request(self, request):
        fault = self.faults.pop(0) if self.faults else None
        self.sent.append(request.url.path.rsplit("/", 1)[-1])
        if fault == "away":
            raise httpx.ConnectError("refused")
        if isinstance(fault, int):
            return httpx.Response(fault, content=b"<html>")
        response = self.inner.handle_request(request)
        if fault == "lost":
            response.read()
            response.close()
            raise httpx.ReadError("connection reset")
        return response


@pytest.mark.slow
def test_a_call_is_repeated_until_it_is_answered_and_counts_once(server):
    with server.client() as client:
        client.start("flaky", EXPERIMENT, options=LIVE)
    faults = Flaky(["lost", 503, "lost", None, "away", 429, "lost"])
    with server.client(transport=faults, timeout=20.0) as client:
        live = client.load("flaky", fallback="red")
        answer = live.assign("u")
        assert (answer.enrolled, answer.reason) == (True, "STICKY")  # the first answer was lost
        assert live.reward(answer.id, 1) == (False, True, 1.0)  # likewise
        assert faults.sent == ["assignments"] * 4 + ["reward"] * 4
        assert (live.status().users, live.status().settled) == (1, 1)


def test_a_call_that_counts_twice_is_not_repeated(server):
    with server.client() as client:
        client.start("once", EXPERIMENT, options=LIVE)
    faults = Flaky(["away", "lost"])
    with server.client(transport=faults, timeout=20.0) as client:
        live = client.load("once", fallback="red")
        with pytest.raises(sl.Unavailable):
            live.extend_windows(60)
        assert faults.sent == ["windows", "windows"]  # not received, then perhaps received


@contextlib.contextmanager
def losing_answers(server, name):
    """An experiment by a client whose next three answers are lost, and the faults."""
    with server.client() as client:
        client.start(name, EXPERIMENT, options=LIVE)
    faults = Flaky(["lost"] * 3)
    with server.client(transport=faults, timeout=0.2) as client:
        yield client.load(name, fallback="red"), faults


@pytest.mark.slow
def test_a_unit_whose_answer_was_lost_does_not_count(server):
    with losing_answers(server, "lost") as (live, faults):
        assert live.assign("u") == (None, "red", False, "UNAVAILABLE")
        faults.faults.clear()
        other = live.assign("v")
        assert other.enrolled
        status = live.status()
        assert (status.waiting, status.voided) == (1, 1)
        assert live.assign("u").reason == "ASSIGNED"


def test_a_lost_answer_is_remembered_when_the_later_attempts_are_refused(server):
    """A service that is killed between its commit and its answer refuses connections until it runs again."""
    with server.client() as client:
        started = client.start("killed", EXPERIMENT, options=LIVE)
        faulty = Flaky([503, "lost", *["away"] * 20])
        with server.client(transport=faulty, timeout=2.0) as other:
            live = other.load(started.name, fallback="red")
            assert live.assign("u").reason == "UNAVAILABLE"
            assert started.status().waiting == 1
            faulty.faults.clear()
            assert live.assign("v").enrolled
            assert (started.status().waiting, started.status().voided) == (1, 1)


def test_a_client_voids_lost_answers_when_it_is_closed(server):
    with server.client() as client:
        started = client.start("closing", EXPERIMENT, options=LIVE)
        # Later attempts are refused: one that the timeout ends could arrive after the void.
        faulty = Flaky(["lost", *["away"] * 20])
        with server.client(transport=faulty, timeout=1.0) as other:
            assert other.load("closing", fallback="red").assign("u").reason == "UNAVAILABLE"
            faulty.faults.clear()
        assert (started.status().waiting, started.status().voided) == (0, 1)


def test_a_unit_whose_call_was_not_sent_is_not_voided(server):
    """It was enrolled by another client; here the assignments of others could not be voided before its call."""
    with server.client() as client:
        started = client.start("unsent", EXPERIMENT, options=LIVE)
        seen = started.assign("w")
        faulty = Flaky(["lost"] * 9)
        with server.client(transport=faulty, timeout=0.2) as other:
            live = other.load("unsent", fallback="red")
            assert live.assign("u").reason == "UNAVAILABLE"
            faulty.faults = ["lost"] * 9
            assert live.assign("w").reason == live.assign_many(["w"])[0].reason == "UNAVAILABLE"
            faulty.faults.clear()
        assert (started.status().waiting, started.status().voided) == (1, 1)
        assert started.reward(seen.id, 1.0).applied


def test_concurrent_calls_of_a_unit_void_what_nobody_saw(server):
    with server.client() as client:
        connection = client.start("races", EXPERIMENT, options=LIVE)._coroutines._connection
        # Lost for one caller, then answered to another: the unit has seen its arm.
        connection.add_undelivered("races", ["u"])
        assert connection.add_delivered("races", "u")
        assert connection.take_undelivered("races") == []
        # Answered while it is being voided: nobody may see the arm, and it is voided once more.
        connection.add_undelivered("races", ["v"])
        assert connection.take_undelivered("races") == ["v"]
        assert not connection.add_delivered("races", "v")
        connection.end_voiding("races", ["v"], voided=True)
        assert connection.take_undelivered("races") == ["v"]
        connection.end_voiding("races", ["v"], voided=False)
        assert connection.take_undelivered("races") == ["v"]
        connection.end_voiding("races", ["v"], voided=True)


def test_a_returning_unit_whose_answer_was_lost_still_counts(server):
    with server.client() as client:
        client.start("returning", EXPERIMENT, options=LIVE)
    faults = Flaky([])
    with server.client(transport=faults, timeout=0.2) as client:
        live = client.load("returning", fallback="red")
        first = live.assign("u")
        many = live.assign_many(["v"])[0]
        faults.faults = ["lost"] * 9
        assert live.assign("u").reason == live.assign("v").reason == "UNAVAILABLE"
        faults.faults.clear()
        live.assign("w")
        assert live.reward(first.id, 1.0).applied
        assert live.reward(many.id, 1.0).applied
        assert live.status().voided == 0


@pytest.mark.slow
def test_without_a_service_the_unit_gets_the_fallback_arm_in_time():
    with sl.Client("http://127.0.0.1:9", token="sl_x", timeout=0.2) as client:
        live = client.load("socks", fallback="red")
        began = time.monotonic()
        for unit in range(50):
            assert live.assign(unit) == (None, "red", False, "UNAVAILABLE")
        assert time.monotonic() - began < 60
        with pytest.raises(sl.Unavailable):
            live.assign("u", strict=True)
        assert live.assign_many(["a", "b"])[1].arm == "red"
        assert live.reward(None, 1.0).applied is False
        with pytest.raises(sl.Unavailable, match="does not answer"):
            live.status()


def test_what_is_no_address_is_refused():
    for url in ("localhost:8321", "ftp://x", 5):
        with pytest.raises(sl.Invalid):
            sl.Client(url)
    with pytest.raises(sl.Invalid):
        sl.Client("http://localhost", timeout=0)


def test_a_wrong_token_is_reported_and_users_get_the_fallback_arm(server):
    with sl.Client(server.process.url, token="sl_wrong") as client:
        with pytest.raises(sl.Misconfigured, match="valid token"):
            client.names()
        assert client.load("socks", fallback="red").assign("u").reason == "UNAVAILABLE"


NOT_SAMELUCK = {
    "a page": httpx.Response(200, html="<html>hello</html>"),
    "nothing": httpx.Response(204),
    "another record": httpx.Response(200, json={"status": "ok"}),
    "a list": httpx.Response(200, json=[]),
    "a redirect": httpx.Response(301, headers={"Location": "https://localhost/"}),
}


@pytest.mark.parametrize("answer", NOT_SAMELUCK.values(), ids=NOT_SAMELUCK)
def test_what_is_no_answer_of_the_service_acknowledges_nothing(answer):
    transport = httpx.MockTransport(lambda _: answer)
    with sl.Client("http://localhost", token="sl_x", transport=transport) as client:
        live = client.load("socks", fallback="red")
        assert live.assign("u") == (None, "red", False, "UNAVAILABLE")
        live.assign_many(["u"])
    for call in (
        lambda live: live.pause(),
        lambda live: live.disable_arm("red", fallback="blue"),
        lambda live: live.stop(drain=False),
        lambda live: live.reward("asg_1", 1.0),
        lambda live: live.reward_many([("asg_1", 1.0)]),
        lambda live: live.status(),
        lambda live: live.refresh(),
    ):
        client = sl.Client("http://localhost", token="sl_x", transport=transport)
        with client, pytest.raises(sl.Unavailable):
            call(client.load("socks", fallback="red"))


@pytest.mark.slow
def test_a_disabled_fallback_arm_is_not_shown_while_the_service_is_away(server):
    class Unplugged(httpx.HTTPTransport):
        is_away = False

        def handle_request(self, request):
            if self.is_away:
                raise httpx.ConnectError("unplugged", request=request)
            return super().handle_request(request)

    transport = Unplugged()
    with server.client(transport=transport) as client:
        live = client.start("broken", EXPERIMENT, options=LIVE)
        live.disable_arm("50/50", fallback="red", reason="broken")
        loaded = client.load("broken")
        transport.is_away = True
        for remote in (live, loaded):
            assert remote.assign("u") == (None, "red", False, "UNAVAILABLE")


def test_an_answer_that_does_not_end_is_given_up():
    class Slow(httpx.SyncByteStream):
        def __iter__(self):
            while True:
                time.sleep(0.05)
                yield b" "

    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=Slow()))
    with sl.Client("http://localhost", timeout=0.2, transport=transport) as client:
        began = time.monotonic()
        assert client.load("socks", fallback="red").assign("u").reason == "UNAVAILABLE"
        assert time.monotonic() - began < 60


class Unread(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Content of an answer that must not be read."""

    def __iter__(self):
        raise AssertionError("it was read")

    __aiter__ = __iter__


def test_a_compressed_answer_is_not_read():
    """A short one may become very long, which takes longer than the call has."""

    def compressed(request):
        assert request.headers["Accept-Encoding"] == "identity"
        return httpx.Response(200, headers={"Content-Encoding": "GZIP"}, stream=Unread())

    async def main():
        async with sl.AsyncClient("http://localhost", transport=transport) as client:
            return await (await client.load("socks", fallback="red")).assign("u")

    transport = httpx.MockTransport(compressed)
    with sl.Client("http://localhost", transport=transport) as client:
        assert client.load("socks", fallback="red").assign("u").reason == "UNAVAILABLE"
    assert asyncio.run(main()).reason == "UNAVAILABLE"


@pytest.mark.slow
def test_an_answer_whose_head_does_not_end_is_given_up():
    """A byte every 50 ms, on a kept connection too: each read alone is in time."""
    sent = []

    def trickle(connection):
        with connection, contextlib.suppress(OSError):
            connection.recv(4_096)
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            connection.recv(4_096)
            for letter in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200:
                sent.append(connection.send(bytes([letter])))
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with sl.Client(url, token="sl_x", timeout=0.3) as client:
            live = client.load("socks", fallback="red")
            serving = threading.Thread(target=lambda: trickle(listening.accept()[0]))
            serving.start()
            with pytest.raises(sl.Unknown):
                live.assign("u")
            assert live.assign("u").reason == "UNAVAILABLE"
            assert 0 < len(sent) < 200, "the answer came first"
        serving.join()


@pytest.mark.parametrize("answer", NOT_SAMELUCK.values(), ids=NOT_SAMELUCK)
def test_only_a_file_of_the_service_is_saved(answer, tmp_path):
    transport = httpx.MockTransport(lambda _: answer)
    for name in ("ledger.csv", "ledger.jsonl", "ledger.ndjson", "ledger.parquet"):
        path = tmp_path / name
        path.write_text("before")
        with sl.Client("http://localhost", token="sl_x", transport=transport) as client:
            live = client.load("socks", fallback="red")
            with pytest.raises(sl.Unavailable) as error:
                live.export(path)
            if answer.headers.get("content-type", "").startswith("text/html"):
                assert "text/html in place of" in str(error.value)
            with pytest.raises(sl.Unavailable):
                live.runs()
        assert path.read_text() == "before"


def test_what_is_no_unit_or_no_reward_is_refused_as_by_the_embedded_object(server):
    with sl.open("sqlite://") as store, server.client() as client:
        ours = store.start("input", EXPERIMENT, options=LIVE)
        live = client.start("input", EXPERIMENT, options=LIVE)
        bad = [None, 1.5, float("nan"), True, b"x", [1], "", "\ud800", "x" * 1_001, 10**1_000]
        for experiment in (ours, live):
            for unit in bad:
                with pytest.raises(sl.Invalid):
                    experiment.assign(unit)
            *errors, good = experiment.assign_many([*bad, "u"])
            assert {type(error) for error in errors} == {sl.Invalid}
            values = [float("nan"), None, "1", 1j, 10**400, Decimal("NaN")]
            for value in values:
                with pytest.raises(sl.Invalid):
                    experiment.reward(good.id, value)
            pairs = [*((good.id, value) for value in values), ("\ud800", 1.0), 5, (None, 1.0)]
            answers = experiment.reward_many([*pairs, (good.id, np.float32(1))])
            classes = [type(answer) for answer in answers]
            assert classes[:-2] == [sl.Invalid] * 6 + [sl.Unknown, sl.Invalid]
            assert answers[-1].applied


@pytest.mark.slow
def test_names_are_parts_of_a_path(server):
    with server.client() as client:
        live = client.start(
            "dots", EXPERIMENT.replace(arms=["..", "red"]), options={"fallback": "red"}
        )
        live.disable_arm("..", reason="broken")
        assert live.status().disabled == ("..",)
        for arm in (5, None, "\ud800", b"red"):
            with pytest.raises(sl.Invalid):
                live.disable_arm(arm)
            with pytest.raises(sl.Unknown):
                client.load(arm)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own(server):
    with server.client() as client:
        live = client.start("forked", EXPERIMENT.replace(horizon=100), options=LIVE)
        id = live.assign("before").id  # now a connection is open
        reader, writer = os.pipe()
        children = [os.fork() for _ in range(2)]  # the second forks too: three children
        mine = {live.describe(id).id for _ in range(30)}
        if 0 in children:
            os.write(writer, b"+" if mine == {id} else b"-")
            os._exit(0)
        for child in children:
            os.waitpid(child, 0)
        assert mine == {id}
        os.close(writer)
        with os.fdopen(reader, "rb") as answers:
            assert answers.read() == b"+" * 3


def test_a_client_may_be_used_in_one_event_loop_after_another(server):
    with server.client() as client:
        client.start("loops", EXPERIMENT, options=LIVE)
    url, token = server.process.url, server.process.token
    client = sl.AsyncClient(url, token=token, timeout=5.0)

    async def main():
        return (await (await client.load("loops")).assign("u")).enrolled

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ResourceWarning
        )  # a loop is closed while connections are open
        assert asyncio.run(main())
        assert asyncio.run(main())
        asyncio.run(client.close())
        client = None
        gc.collect()


def test_a_closed_client_says_so(server):
    client = server.client()
    live = client.start("closed", EXPERIMENT, options=LIVE)
    client.close()
    client.close()
    for call in (client.names, live.status, lambda: live.assign("u")):
        with pytest.raises(sl.Closed, match="the client is closed"):
            call()

    async def main():
        client = sl.AsyncClient(server.process.url, token=server.process.token)
        await client.names()
        await client.close()
        with pytest.raises(sl.Closed):
            await client.names()

    asyncio.run(main())


class Interrupted(httpx.BaseTransport):
    """Passes requests on; the first answer is lost because of Ctrl-C."""

    def __init__(self):
        self.inner, self.sent = httpx.HTTPTransport(), []

    def handle_request(self, request):
        self.sent.append(request.url.path.rsplit("/", 1)[-1])
        response = self.inner.handle_request(request)
        if len(self.sent) == 1:
            response.close()
            raise KeyboardInterrupt
        return response

    def close(self):
        self.inner.close()


def test_a_unit_that_was_interrupted_by_ctrl_c_does_not_count(server):
    with server.client() as client:
        client.start("interrupted", EXPERIMENT, options=LIVE)
    transport = Interrupted()
    with server.client(transport=transport) as client:
        live = client.load("interrupted", fallback="red")
        with pytest.raises(KeyboardInterrupt):
            live.assign("u")
        assert live.assign("v").enrolled
        assert transport.sent == ["assignments", "void", "assignments"]
        assert (live.status().waiting, live.status().voided) == (1, 1)


def test_a_unit_whose_task_was_cancelled_does_not_count():
    sent = []

    async def answer(request):
        sent.append((request.url.path.rsplit("/", 1)[-1], json.loads(request.content)))
        if len(sent) < 3:  # the unit's task and the next unit's task are cancelled
            await asyncio.sleep(60)
        if sent[-1][0] == "void":
            return httpx.Response(204)
        answer = {"id": "asg_1", "arm": "red", "enrolled": True, "reason": "ASSIGNED"}
        return httpx.Response(201, json=answer)

    async def main():
        transport = httpx.MockTransport(answer)
        async with sl.AsyncClient("http://service", timeout=60, transport=transport) as client:
            live = await client.load("socks", fallback="red")
            for unit in "uv":
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(live.assign(unit), 0.05)
            assert (await live.assign("w")).enrolled

    asyncio.run(main())
    assert [name for name, _ in sent] == ["assignments", "void", "void", "assignments"]
    assert sent[2][1]["units"] == ["u"]  # again, since the first void was cancelled; v was not sent


def test_an_invalid_unit_whose_answer_was_lost_is_forgotten(server):
    with losing_answers(server, "unhashable") as (live, faults):
        assert live.assign_many([["a list"], "", "u"])[2].reason == "UNAVAILABLE"
        faults.faults.clear()
        assert live.assign("v").enrolled
        assert "void" in faults.sent


@pytest.mark.parametrize(
    ("content", "call"),
    [
        (b"[" * 100_000, lambda live: live.status()),
        (b'{"answers": []}', lambda live: live.assign_many(["u"], strict=True)),
        (b'{"answers": []}', lambda live: live.reward_many([("asg_1", 1.0)])),
    ],
    ids=["nested", "assignments", "rewards"],
)
@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_that_does_not_fit_its_call_is_no_answer(status, content, call):
    headers = {"Content-Type": "application/json"}
    transport = httpx.MockTransport(
        lambda _: httpx.Response(status, content=content, headers=headers)
    )
    with sl.Client("http://service", transport=transport) as client, pytest.raises(sl.Unavailable):
        call(client.load("socks", fallback="red"))
