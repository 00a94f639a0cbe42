"""Branch hints are put where an argmax branches, change nothing else, and are left out where that is not possible."""

import logging
from typing import NamedTuple

import numpy as np
import pytest

import sameluck as sl
from sameluck.policies.base import Tally
from sameluck.policies.fast.branch_hints import with_branch_hints

SMALLEST = 0


def with_score(policy, tally, period, noise):
    best, highest = SMALLEST, -np.inf
    for arm in range(tally.pulls.size):
        score = policy.optimism if tally.pulls[arm] == 0 else tally.means[arm]
        if score > highest:
            best, highest = arm, score
    return best


def by_index(policy, tally, period, noise):
    best = 0
    for arm in range(1, tally.pulls.size):
        if tally.pulls[arm] > 0 and tally.means[best] < tally.means[arm]:
            best = arm
    return best


def maximum_alone(policy, tally, period, noise):
    highest = 0.0
    for arm in range(tally.pulls.size):
        if tally.means[arm] > highest:
            highest = tally.means[arm]
    return int(highest > 0.5)


def without_a_loop(policy, tally, period, noise):
    return 0 if tally.means[0] > tally.means[1] else 1


def tally_of(*means):
    values = np.array(means)
    return Tally(np.ones(values.size, np.int64), values, values, np.zeros(0), 0, 0.0)


def lines_of(function):
    """Return the body's lines; instructions that Python adds have None (for a closure, from 3.13 on)."""
    lines = {line for _, _, line in function.__code__.co_lines()}
    return lines - {None, function.__code__.co_firstlineno}


@pytest.mark.parametrize("body", [with_score, by_index])
def test_an_argmax_gets_a_hint_and_keeps_its_results_and_lines(body):
    hinted = with_branch_hints(body)

    assert hinted.__code__.co_freevars == ("_branch_hint",)
    assert hinted.__code__.co_filename == body.__code__.co_filename
    assert lines_of(hinted) == lines_of(body)
    assert hinted.__globals__ is body.__globals__
    for tally in (tally_of(0.1, 0.5, 0.5), tally_of(0.5, 0.1, -1.0)):
        assert hinted(None, tally, 4, None) == body(None, tally, 4, None)


@pytest.mark.parametrize("body", [maximum_alone, without_a_loop])
def test_other_branches_get_none(body):
    assert with_branch_hints(body) is body


def test_what_a_body_encloses_is_still_shared():
    least = 0

    def body(policy, tally, period, noise):
        best = least
        for arm in range(tally.pulls.size):
            if tally.means[arm] > tally.means[best]:
                best = arm
        return best

    hinted = with_branch_hints(body)
    least = 1

    assert hinted is not body
    assert hinted(None, tally_of(0.5, 0.5), 3, None) == 1


def test_a_body_without_source_is_compiled_as_it_is(caplog):
    namespace = {}
    exec("def body(policy, tally, period, noise):\n    return 0", namespace)

    with caplog.at_level(logging.DEBUG, "sameluck"):
        assert with_branch_hints(namespace["body"]) is namespace["body"]

    assert "body is compiled without branch hints: its source is not available" in caplog.text


@pytest.mark.slow
def test_a_body_with_a_hint_is_equal_to_plain_python_and_its_errors_have_their_lines():
    class Scored(NamedTuple):
        optimism: float = 1.0

    sl.selects(Scored)(with_score)
    experiment = sl.Experiment(policies={"mine": Scored()}, arms=3, horizon=300, replications=2)
    sl.trace(experiment, sl.Bernoulli((0.7, 0.5, 0.3)), guard=True)

    @sl.selects(Scored)
    def made_of_text(policy, tally, period, noise):
        best, highest = 0, -np.inf
        for arm in range(tally.pulls.size):
            if tally.means[arm] > highest:
                best, highest = arm, tally.means[arm]
        return "0" * best

    wrong = made_of_text.__code__.co_firstlineno
    with pytest.raises(sl.Invalid, match=r"policy 'mine' \(Scored\)") as error:
        sl.simulate(experiment, sl.Bernoulli((0.7, 0.5, 0.3)), check=False)
    line = int(str(error.value).split("(line ")[1].split(")")[0])
    assert wrong <= line <= wrong + 6
