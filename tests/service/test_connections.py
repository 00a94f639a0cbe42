"""Raw bytes to a listening server, which no client of sameluck sends."""

import json
import socket
import time
from urllib.parse import quote

import pytest

import sameluck as sl
from sameluck.service import process

SOCKS = sl.Experiment(
    policies={"ucb": "ucb1(alpha=2)", "greedy": "epsilon_greedy(epsilon=0.2)"},
    arms=2,
    horizon=4,
    replications=3,
)


@pytest.fixture(scope="module")
def wire(server):
    with server.client() as client:
        client.start("wire", SOCKS, options={"open_replications": 3})
    return server


def connected(server):
    host, port = server.process.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def post(server, body, *headers, host="localhost", path="wire/assignments"):
    """A request for an arm, in bytes."""
    head = [
        f"POST /v1/experiments/{path} HTTP/1.1",
        f"Host: {host}",
        f"Authorization: Bearer {server.process.token}",
        "Content-Type: application/json",
        *(headers or [f"Content-Length: {len(body)}"]),
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def exchanged(server, content):
    """Return the status codes until the server closes the connection."""
    with connected(server) as connection:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    return [int(response[:3]) for response in answer.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize(
    "headers",
    [
        ["Content-Length: 4", "Content-Length: 5"],
        ["Content-Length: -1"],
        ["Content-Length: +2"],
        ["Content-Length: 2", "Host: evil.example"],
        ["Transfer-Encoding: chunked, identity"],
    ],
    ids=str,
)
def test_a_request_of_two_meanings_is_refused(wire, headers):
    assert exchanged(wire, post(wire, b"{}{}", *headers))[0] in (400, 501)


def test_a_body_may_come_in_chunks(wire):
    body = b'{"unit": "chunky"}'
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    with connected(wire) as connection:
        connection.sendall(post(wire, chunks, "Transfer-Encoding: chunked"))
        assert connection.recv(12) in (b"HTTP/1.1 201", b"HTTP/1.1 200")


def test_requests_in_a_row_are_answered_in_their_order_and_checked_one_by_one(wire):
    units = [post(wire, json.dumps({"unit": n}).encode()) for n in range(3)]
    foreign = post(wire, b'{"unit": 3}', host="evil.example")
    with connected(wire) as connection:
        connection.sendall(b"".join([*units, foreign, units[0]]))
        answer = b""
        while answer.count(b"HTTP/1.1 ") < 5:
            answer += connection.recv(65_536)
    statuses = [int(response[:3]) for response in answer.split(b"HTTP/1.1 ")[1:]]
    assert [status in (200, 201) for status in statuses] == [True, True, True, False, True]
    assert statuses[3] == 403


def test_a_client_that_goes_while_it_sends_is_no_failure_of_the_server(wire, caplog):
    with connected(wire) as connection:
        connection.sendall(post(wire, b"{", "Content-Length: 100"))
    line = 'route="/v1/experiments/{name}/assignments",status="499"'
    until = time.monotonic() + 20
    with wire.http() as http:
        while line not in http.get("/metrics").text:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert 'status="500"' not in http.get("/metrics").text
    assert not caplog.records


@pytest.mark.parametrize(
    ("route", "body"),
    [("assignments", {"unit": "gone"}), ("assignments/batch", {"units": ["gone", "gone too"]})],
)
def test_a_unit_whose_client_has_gone_before_the_answer_is_not_enrolled(wire, route, body):
    """A request may be read long after its client gave up, while the service starts for instance."""
    name = f"left at {route}".replace("/", " ")
    count, until = len(body.get("units", ["gone"])), time.monotonic() + 20
    with wire.client() as client:
        live = client.start(name, SOCKS, options={"open_replications": 3})
        with connected(wire) as connection:
            path = f"{quote(name)}/{route}"
            connection.sendall(post(wire, json.dumps(body).encode(), path=path))
        while live.status().voided < count:
            assert time.monotonic() < until
            live.assign("somebody")  # a transaction
            time.sleep(0.02)
        assert live.assign("gone").reason == "ASSIGNED"


@pytest.mark.slow
def test_a_connection_on_which_no_request_begins_is_closed(wire, monkeypatch):
    monkeypatch.setattr(process, "HEAD_SECONDS", 0.2)
    with connected(wire) as silent, connected(wire) as slow, wire.http() as http:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        kept = http.get("/healthz").extensions["network_stream"]
        assert silent.recv(1) == slow.recv(1) == b""
        again = http.get("/healthz").extensions["network_stream"]
        assert again is kept  # the same connection: one that is between requests is not closed
