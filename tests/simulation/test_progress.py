"""`progress=True` prints whole lines, which terminals, notebooks and logs show alike."""

import io
import sys

import pytest

import sameluck as sl
from sameluck.cli.output import progress_bar
from sameluck.simulation import simulate as simulate_module

EXPERIMENT = sl.Experiment(policies={"a": sl.UCB1()}, arms=2, horizon=9, replications=40)


class Stream(io.StringIO):
    """The standard error of a notebook: not a terminal."""

    def isatty(self):
        return False


def test_a_line_for_every_tenth(monkeypatch):
    """None twice, none in the first second; no control characters but the ends of lines."""
    stream, now = Stream(), iter([0.0, 0.5, 2.0, 2.1, 4.0, 8.0])
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(simulate_module.time, "monotonic", lambda: next(now))
    told = simulate_module.PrintedProgress()
    for done in (10, 20, 21, 50, 100):
        told(done, 100)

    assert stream.getvalue().splitlines() == [
        "sameluck: 20%, about 8 s left",
        "sameluck: 50%, about 4 s left",
        "sameluck: 100%, done in 8 s",
    ]
    assert stream.getvalue().replace("\n", "").isprintable()


def test_a_race_tells_who_is_left(monkeypatch, capsys):
    """A line for every tenth and every policy that was dropped, at most one a second."""
    now = iter([0.0, 0.5, 2.0, 2.5, 2.8, 6.0])
    monkeypatch.setattr(simulate_module.time, "monotonic", lambda: next(now))
    told = simulate_module.PrintedRace(1_000)
    for replications, names in ((30, "abc"), (60, "abc"), (90, "abc"), (120, "ab"), (150, "a")):
        told(replications, tuple(names))

    assert capsys.readouterr().err.splitlines() == [
        "sameluck: 60 of at most 1,000 replications, 3 policies left",
        "sameluck: 150 of at most 1,000 replications, 1 policy left",
    ]


def test_a_race_takes_true_and_false(monkeypatch, capsys):
    monkeypatch.setattr(simulate_module, "_SILENT_SECONDS", 0.0)
    policies, asked = (
        {"a": sl.UCB1(), "b": sl.UCB1(3.0)},
        {"tolerance": 9, "failures": 1, "horizon": 9},
    )
    sl.race(policies, "bernoulli(0.7, 0.3)", progress=False, **asked)
    assert not capsys.readouterr().err
    sl.race(policies, "bernoulli(0.7, 0.3)", progress=True, **asked)
    assert "2 policies left" in capsys.readouterr().err


def test_simulate_takes_true_false_or_a_function(monkeypatch, capsys):
    monkeypatch.setattr(simulate_module, "_SILENT_SECONDS", 0.0)
    calls = []
    for told in (True, False, None, lambda done, total: calls.append((done, total))):
        sl.simulate(EXPERIMENT, "bernoulli(0.7, 0.3)", progress=told)

    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "100%" in line] == [lines[-1]]
    assert calls[-1] == (40, 40)
    with pytest.raises(sl.Invalid, match="progress must be a function, got 1"):
        sl.simulate(EXPERIMENT, "bernoulli(0.7, 0.3)", progress=1)


def test_the_bar_of_the_command_line_is_for_terminals(monkeypatch):
    """In a notebook, a log or a pipe nothing of it is printed."""
    stream = Stream()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("sameluck.cli.output.time.monotonic", iter([0.0, *range(9, 20)]).__next__)
    with progress_bar("simulating") as advance:
        for done in range(5):
            advance(done, 5)
    assert stream.getvalue() == ""
