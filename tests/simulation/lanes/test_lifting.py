"""A lifted body does in each lane what the scalar body does, or is refused."""

import linecache
import math

import numpy as np
import pytest
from numba import njit

from sameluck.compilation.decorators import branch_hint, load_compiler
from sameluck.randomness.samplers import beta_odds, discrete, normal, uniform
from sameluck.randomness.streams import again

load_compiler()

# They need the compiler.
from sameluck.simulation.lanes.arithmetic import as_float, splat  # noqa: E402
from sameluck.simulation.lanes.indexing import load, store  # noqa: E402
from sameluck.simulation.lanes.lane_types import LANES  # noqa: E402
from sameluck.simulation.lanes.lifting import CannotLift, lifted  # noqa: E402

TABLE = np.linspace(-1.0, 1.0, 40)


def divergent_return(x, n, bits):
    if x > 0.5:
        return n
    if x < -0.5:
        return -n
    return 2 * n


def return_in_loop(x, n, bits):
    for place in range(4):
        if TABLE[place] > x:
            return place
    return n


def nested_branches(x, n, bits):
    best, highest = 0, -math.inf
    for k in range(5):
        score = x * k - k * k * 0.1
        if score > highest:
            branch_hint()
            best, highest = k, score
        elif k > 2:
            if n > 3:
                best += 10
            else:
                best = n
    return best


def new_names_in_branches(x, n, bits):
    total = 0.0
    for k in range(3):
        if x > 0.1 * k:
            step = x / 3
            gain = step * k
        else:
            gain = -1.0
        total += gain
    return total


def uniform_condition(x, n, bits):
    size = TABLE.size
    if size > 100:
        return TABLE[size + 5]
    return TABLE[n] if x > 0 else TABLE[-1 - n]


def conditions(x, n, bits):
    inside = x > -0.3 and x < 0.3 and not n > 6
    return 1.0 if inside or n > 5 else 0.0


def arithmetic(x, n, bits):
    y = max(x, 0.25) + min(n, 3) - abs(x) + math.sqrt(n)
    return -y / (n + 1) + float(n) * int(3 * x)


def lane_by_lane(x, n, bits):
    return math.log(n + 1.5) + math.exp(x) if x > 0 else math.log(2.0)


def samplers(x, n, bits):
    return (
        normal(bits) + uniform(again(bits, 1)) + beta_odds(again(bits, 2), 0.7 + n, 0.3, 1.2, 0.4)
    )


CUMULATIVE = np.array([0.2, 0.5, 1.0])


def discrete_draw(x, n, bits):
    return discrete(bits, CUMULATIVE) if x > 0 else n


BODIES = [
    divergent_return,
    return_in_loop,
    nested_branches,
    new_names_in_branches,
    uniform_condition,
    conditions,
    arithmetic,
    lane_by_lane,
    samplers,
    discrete_draw,
]


def in_lanes(body, x, n, bits):
    """What a lifted body returns in each lane."""
    function = lifted(body)

    @njit(error_model="numpy", _nrt=False)
    def run(x, n, bits, out):
        store(out, 0, as_float(splat(function(True, load(x, 0), load(n, 0), load(bits, 0)))))

    out = np.empty(LANES)
    run(x, n, bits, out)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_a_lifted_body_is_the_scalar_body_in_each_lane(body):
    rng = np.random.default_rng(11)
    x, n = rng.uniform(-1, 1, LANES), rng.integers(0, 9, LANES)
    bits = rng.integers(0, 2**64, LANES, dtype=np.uint64)
    scalar = njit(error_model="numpy")(body)

    expected = [float(scalar(*one)) for one in zip(x, n, bits, strict=True)]

    np.testing.assert_array_equal(in_lanes(body, x, n, bits), expected)


def endless(x, n, bits):
    while x < n:
        x += 1
    return x


def ends_early(x, n, bits):
    for k in range(9):
        if k > n:
            break
    return k


def value_in_one_branch(x, n, bits):
    for k in range(3):
        if x > 0.1 * k:
            seen = k
    return seen


def chained(x, n, bits):
    return 0.0 < x < 1.0


def keywords(x, n, bits):
    return round(x, ndigits=2)


@pytest.mark.parametrize("body", [endless, ends_early, value_in_one_branch, chained, keywords])
def test_what_lanes_cannot_do_is_refused(body):
    with pytest.raises(CannotLift, match="line"):
        lifted(body)


@pytest.mark.slow
def test_an_index_out_of_range_is_an_error_in_lanes_too():
    def reads(x, n, bits):
        return TABLE[n]

    def reads_where_it_may(x, n, bits):
        if n < 40:
            return TABLE[n]
        return 0.0

    n = np.arange(LANES)
    n[5] = 40
    for body in (reads, reads_where_it_may):  # the scalar loop runs the second one
        with pytest.raises(IndexError):
            in_lanes(body, np.zeros(LANES), n, np.zeros(LANES, np.uint64))


def test_a_source_that_is_not_what_was_loaded_is_refused():
    text = "def body(x, n, bits):\n    return x + {}\n"
    space = {}
    exec(compile(text.format(1), "<edited>", "exec"), space)
    linecache.cache["<edited>"] = (0, None, text.format(2).splitlines(True), "<edited>")

    with pytest.raises(CannotLift, match="changed"):
        lifted(space["body"])
    with pytest.raises(CannotLift, match="not available"):
        lifted(eval("lambda x, n, bits: x"))
