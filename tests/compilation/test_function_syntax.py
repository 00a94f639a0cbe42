"""A user's function that cannot be compiled, never ends or prints is refused before it runs, with its line."""

import numba
import numpy as np
import pytest

from sameluck.compilation.function_errors import Misuse, locate_error
from sameluck.compilation.function_syntax import check_calls, check_syntax


def list_comprehension(policy, tally, period, noise):
    best = max([tally.means[arm] for arm in range(tally.pulls.size)])  # the line
    return 0 if best > 0.5 else 1


def dict_comprehension(policy, tally, period, noise):
    means = {arm: tally.means[arm] for arm in range(3)}  # the line
    return int(means[0])


def generator_expression(policy, tally, period, noise):
    return sum(1 for arm in range(3) if tally.means[arm] > 0)  # the line


def lambda_as_argument(policy, tally, period, noise):
    return max(range(3), key=lambda arm: tally.means[arm])  # the line


def generator(policy, tally, period, noise):
    yield 0  # the line


def new_list(policy, tally, period, noise):
    scores = [tally.means[0], tally.means[1]]  # the line
    return 0 if scores[0] > scores[1] else 1


def text(policy, tally, period, noise):
    label = f"{period}"  # the line
    return len(label)


def endless(policy, tally, period, noise):
    while True:  # the line
        pass


def endless_but_for_an_inner_loop(policy, tally, period, noise):
    count = 0
    while 1:  # the line
        for arm in range(3):
            if arm > 1:
                break
        count += 1
    return count


SYNTAX = {
    list_comprehension: "it uses a list comprehension: write a for loop",
    dict_comprehension: "it uses a dict comprehension: write a for loop",
    generator_expression: "it uses a generator expression: write a for loop",
    lambda_as_argument: "it passes a lambda to max: write a for loop",
    generator: "it yields values: return one arm's index",
    new_list: "it makes a list: write a tuple, as in (1, 2), or use tally.memory",
    text: "it makes a text: use numbers",
    endless: "its loop never ends: it has no break and no return",
    endless_but_for_an_inner_loop: "its loop never ends: it has no break and no return",
}


@pytest.mark.parametrize("function", SYNTAX, ids=lambda function: function.__name__)
def test_syntax_that_cannot_be_compiled_is_named_with_its_line(function):
    with pytest.raises(Misuse) as refused:
        check_syntax(function)
    assert str(refused.value) == SYNTAX[function]
    assert refused.value.line == line_of(function)


def line_of(function):
    with open(__file__) as file:
        lines = file.read().splitlines()
    first = function.__code__.co_firstlineno
    return next(n for n in range(first, len(lines)) if "# the line" in lines[n - 1])


def fine(policy, tally, period, noise):
    def score(arm):
        return tally.means[arm]

    [low, high] = (0, 1)
    while True:
        if period in [1, 2]:
            break
        for arm in [low, high]:
            if score(arm) > 0:
                return arm
        period -= 1
    return 0


def test_syntax_that_can_be_compiled_is_accepted():
    check_syntax(fine)
    check_calls(fine)


def prints(policy, tally, period, noise):
    print(period)
    return 0


def opens(policy, tally, period, noise):
    with open("log.txt", "a"):
        return 0


@numba.njit
def printing_helper(number):
    print(number)
    return 0


def test_functions_with_side_effects_are_refused():
    with pytest.raises(Misuse, match=r"^it calls print in every period .*sl\.trace"):
        check_calls(prints)
    with pytest.raises(Misuse, match=r"^it calls open, which cannot be compiled"):
        check_calls(opens)
    with pytest.raises(Misuse, match=r"^it calls f, which calls print"):
        check_calls(printing_helper.py_func, "it calls f, which")


def adds_arrays(policy, tally, period, noise):
    rank = period
    scores = tally.means + np.log(rank)  # the line
    return int(np.argmax(scores))


def test_the_line_of_an_error_is_the_function_s_own():
    """Numba names a line in two ways, and lines of sameluck's files too; one of these has the same name."""
    message = (
        f'lowering "x" at {__file__} ({line_of(adds_arrays)})\n'
        'File "src/sameluck/other/test_function_syntax.py", line 7:\n'
    )
    where, _ = locate_error(adds_arrays, RuntimeError(message))
    assert where == f"line {line_of(adds_arrays)}"
