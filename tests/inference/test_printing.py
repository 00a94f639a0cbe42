"""Printing of all results reads them: nothing is drawn or simulated again."""

import sys

import pytest

import sameluck as sl

EXPERIMENT = sl.Experiment(
    policies={"ucb": sl.UCB1(2.0), "greedy": sl.EpsilonGreedy(0.1)},
    arms=2,
    horizon=50,
    replications=20,
)
BERNOULLI = sl.Bernoulli([0.6, 0.4])
COMPUTED = (
    "randomness/",
    "simulation/",
    "intervals.py",
    "inference/twins/simulations.py",
    "inference/twins/draws.py",
    "inference/twins/intervals.py",
    "inference/twins/bernoulli_confidence_set.py",
)


def plan():
    return sl.plan(EXPERIMENT, BERNOULLI, effect=3.0, pilot=20)


def race():
    options = {"tolerance": 9.0, "horizon": 50, "failures": 1, "min_replications": 5}
    return sl.race(EXPERIMENT.policies, BERNOULLI, **options)


def comparison():
    return sl.compare(sl.simulate(EXPERIMENT, BERNOULLI))


def designs():
    return sl.designs(EXPERIMENT, BERNOULLI)


def twin():
    runs = sl.simulate(EXPERIMENT, BERNOULLI)
    return sl.twin(runs, replications=200, draws=20, draw_replications=20)


def files_called(function):
    """Return the files of sameluck whose functions are called, and generators' draws."""
    called = set()

    def note(frame, event, argument):
        if event == "call" and "/sameluck/" in frame.f_code.co_filename:
            called.add(frame.f_code.co_filename.rpartition("/sameluck/")[2])
        if event == "c_call" and "Generator" in type(argument.__self__).__name__:
            called.add("randomness/")

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize("compute", [comparison, plan, race, designs, twin])
def test_printing_reads_what_was_computed(compute):
    result = compute()
    for show in (result.__str__, result.__repr__, result._repr_html_, result.to_dicts):
        called = files_called(show)

        assert called
        assert [file for file in called if file.startswith(COMPUTED)] == []
