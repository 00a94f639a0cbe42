"""The line of an error in a user's function."""

import numpy as np

from sameluck.compilation.function_errors import locate_error


def line_of(function):
    with open(__file__) as file:
        lines = file.read().splitlines()
    first = function.__code__.co_firstlineno
    return next(n for n in range(first, len(lines)) if "# the line" in lines[n - 1])


def adds_arrays(policy, tally, period, noise):
    rank = period
    scores = tally.means + np.log(rank)  # the line
    return int(np.argmax(scores))


def test_the_line_of_an_error_is_the_function_s_own():
    """Numba names a line in two ways, and lines of sameluck's files too; one of these has the same name."""
    message = (
        f'lowering "x" at {__file__} ({line_of(adds_arrays)})\n'
        'File "src/sameluck/other/test_function_errors.py", line 7:\n'
    )
    where, _ = locate_error(adds_arrays, RuntimeError(message))
    assert where == f"line {line_of(adds_arrays)}"
