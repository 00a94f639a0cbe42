"""The circuit breaker: what it logs."""

import contextlib

from sameluck.errors import Misconfigured, Unavailable
from sameluck.live.calls import timing
from sameluck.live.calls.timing import CircuitBreaker

AGAIN = "sameluck: the store answers again"


def calls(circuit, *errors):
    """Calls that raise these errors; None for one that succeeds."""
    for error in errors:
        with contextlib.suppress(Unavailable), timing.time_limit(None, circuit):
            if error is not None:
                raise error


def test_an_outage_is_logged_when_it_begins_and_when_it_ends(caplog, monkeypatch):
    monkeypatch.setattr(timing, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(timing, "QUIET_SECONDS", 0.0)
    circuit = CircuitBreaker()
    for _ in range(2):
        calls(circuit, None, *[Unavailable("away")] * 9, None, None)
    assert caplog.messages == ["sameluck: away", AGAIN] * 2


def test_a_store_that_answers_every_other_call_does_not_fill_the_log(caplog):
    calls(CircuitBreaker(), *[Unavailable("slow"), None] * 100)
    assert caplog.messages == ["sameluck: slow", AGAIN]


def test_what_does_not_end_by_itself_is_an_error_of_its_own(caplog):
    calls(CircuitBreaker(), Unavailable("away"), Misconfigured("password"))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "sameluck: away"),
        ("ERROR", "sameluck: password"),
    ]
