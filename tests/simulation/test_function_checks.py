"""`simulate` and `trace` check a user's functions in plain Python before machine code runs."""

import random
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FunctionType
from typing import NamedTuple

import numba
import numpy as np
import pytest

import sameluck as sl
from budget import SEED
from sameluck.errors import SameluckError
from sameluck.randomness import again, at, exponential, gamma, normal, poisson, uniform
from sameluck.simulation import function_checks

THRESHOLD = 20
CONSTANTS = np.zeros(3)
BERNOULLI = sl.Bernoulli((0.5, 0.4, 0.3))


def experiment_of(policy, **changes):
    settings = {"arms": 3, "horizon": 60, "replications": 5, "seed": SEED, **changes}
    return sl.Experiment(policies={"mine": policy}, **settings)


def policy_of(function, memory=0):
    class Mine(NamedTuple):
        size: int = 3

        def memory(self, arms):
            return memory

    sl.selects(Mine)(function)
    return Mine()


def reads_noise_twice(policy, tally, period, noise):
    return 0 if uniform(at(noise, period, 1)) < uniform(at(noise, period, 1)) else 1


def uses_numpy_random(policy, tally, period, noise):
    return np.random.randint(0, 3)  # noqa: NPY002


def uses_random(policy, tally, period, noise):
    return int(random.random() * 3)


def uses_the_clock(policy, tally, period, noise):
    return int(time.time()) % 3


def reads_beyond(policy, tally, period, noise):
    return 0 if tally.means[tally.means.size] > 0 else 1


def reads_before(policy, tally, period, noise):
    return 0 if tally.pulls[tally.last_arm - 1] > 0 else 1


def divides_whole_numbers(policy, tally, period, noise):
    return 1 // tally.memory.size


def divides(policy, tally, period, noise):
    return 0 if 1.0 / tally.pulls[2] > 1.0 else 1


def divides_zero_by_zero(policy, tally, period, noise):
    return 0 if tally.totals[2] / tally.pulls[2] > 0.5 else 1


def takes_a_root(policy, tally, period, noise):
    return int(np.sqrt(tally.means[0] - 2.0))


def adds_arrays(policy, tally, period, noise):
    return int(np.argmax(tally.means + tally.totals))


def comprehends(policy, tally, period, noise):
    return max([arm % 2 for arm in range(3)])


def sums_a_generator(policy, tally, period, noise):
    return 0 * sum(1 for arm in range(3) if tally.means[arm] > 0)


def passes_a_lambda(policy, tally, period, noise):
    return max((0, 1, 2), key=lambda arm: tally.means[arm])


def yields(policy, tally, period, noise):
    yield 0


def makes_a_list(policy, tally, period, noise):
    scores = [tally.means[0], tally.means[1]]
    return 0 if scores[0] > scores[1] else 1


def makes_a_text(policy, tally, period, noise):
    label = f"{period}"
    return 0 * len(label)


def takes_the_maximum(policy, tally, period, noise):
    return 0 if tally.means.max() > 0.5 else 1


def returns_nothing_later(policy, tally, period, noise):  # noqa: RET503 a slip
    if period < 1_000:
        return 0


def writes_to_a_constant_later(policy, tally, period, noise):
    if period > 1_000:
        CONSTANTS[0] = 1.0
    return 0


def prints(policy, tally, period, noise):
    print("period", period)
    return 0


def opens(policy, tally, period, noise):
    with open("log.txt", "a"):
        return 0


@numba.njit
def printing_helper(number):
    print(number)
    return 0


def calls_a_printing_helper(policy, tally, period, noise):
    return printing_helper(period)


def writes_without_memory(policy, tally, period, noise):
    tally.memory[0] = 1.0
    return 0


def writes_to_totals(policy, tally, period, noise):
    tally.totals[0] += 1.0
    return 0


def misspells(policy, tally, period, noise):
    return tallly.last_arm  # noqa: F821


def misspells_later(policy, tally, period, noise):
    return 0 if period < 1_000 else tallly.last_arm  # noqa: F821


def misspells_a_global(policy, tally, period, noise):
    return 0 if period < TRESHOLD else 1  # noqa: F821


@numba.njit
def noisy_helper(number):
    return np.random.rand() < number  # noqa: NPY002


def calls_a_noisy_helper(policy, tally, period, noise):
    return int(noisy_helper(0.5))


def imports(policy, tally, period, noise):
    import random as other

    return other.randint(0, 1)


def changes_a_global(policy, tally, period, noise):
    global THRESHOLD  # noqa: PLW0603
    THRESHOLD += 1
    return THRESHOLD % 2


def draws_twice_from_its_noise(policy, tally, period, noise):
    bits = at(noise, period, 0)
    return 0 if uniform(bits) < 0.5 and normal(bits) < 1 else 1


def takes_noise_for_bits(policy, tally, period, noise):
    return 0 if uniform(noise) < 0.5 else 1


def misspells_a_field(policy, tally, period, noise):
    return tally.last_rm


def plays_beyond(policy, tally, period, noise):
    return policy.size if period == 5 else 0


def returns_a_truth(policy, tally, period, noise):
    return tally.means[0] > 0.5


REFUSED = {
    reads_noise_twice: r"period 1, slot 1 was read twice.*another slot.*\(line \d+\)",
    uses_numpy_random: r"it uses numpy\.random, .*: take random numbers from noise.*\(line \d+\)",
    uses_random: r"it uses random, which differs from run to run.*\(line \d+\)",
    uses_the_clock: r"it uses time, which differs from run to run.*\(line \d+\)",
    reads_beyond: r"it reads tally\.means\[3\], but the indices are 0 to 2 \(line \d+\)",
    reads_before: r"it reads tally\.pulls\[-1\], but the indices are 0 to 2 \(line \d+\)",
    divides_whole_numbers: r"it divides by zero: test for 0 first \(line \d+\)",
    divides: r"it divides by zero: pulls is 0 for an arm that was not played yet; .*\(line \d+\)",
    divides_zero_by_zero: r"it divides by zero: pulls is 0 for an arm that was not played yet; .*\(line \d+\)",
    takes_a_root: r"it takes a root of a negative number \(line \d+\)",
    adds_arrays: r"it makes a new array: write a loop over the arms \(line \d+\)",
    prints: r"it calls print in every period .* sl\.trace\(\.\.\.\); .*\(line \d+\)",
    opens: r"it calls open, which cannot be compiled \(line \d+\)",
    calls_a_printing_helper: r"it calls printing_helper, which calls print in every period .*\(line \d+\)",
    writes_without_memory: r"writes tally\.memory\[0\].*no memory: .* memory\(self, arms\) \(line \d+\)",
    writes_to_totals: r"writes to tally\.totals, which it must not change.*\(line \d+\)",
    misspells: r"name 'tallly' is not defined \(did you mean 'tally'\?.*\(line \d+\)",
    misspells_a_global: r"name 'TRESHOLD' is not defined \(did you mean 'THRESHOLD'\?\) \(line \d+\)",
    calls_a_noisy_helper: r"it calls noisy_helper, which uses numpy\.random, .* from noise.*\(line \d+\)",
    draws_twice_from_its_noise: r"uniform and normal draw from the same random bits.*\(line \d+\)",
    takes_noise_for_bits: r"noise is not a number: read random bits from it, as in uniform\(at\(noise",
    misspells_a_field: r"Unknown attribute 'last_rm' of the tally \(did you mean 'last_arm'\?.*\(line \d+\)",
    plays_beyond: r"an arm outside 0\.\.2 in period 5 of replication 0",
    returns_a_truth: r"what it returns, .*, is not a whole number: return an arm's index",
}


NEW = r"it makes a new array, list or text"
REFUSED_OTHERWISE = {
    comprehends: NEW + r" \(line {1}\)",
    sums_a_generator: r"The use of yield in a closure is unsupported\. \(line {1}\)",
    passes_a_lambda: r"Cannot capture the non-constant value .* 'tally' .*\(line {1}\)",
    yields: r"what it returns, <generator .*, is not a whole number: .* \(line {0}\)",
    makes_a_list: NEW + r" \(line {1}\)",
    makes_a_text: NEW + r" \(line {1}\)",
    takes_the_maximum: r"min\(\) and max\(\) of an array cannot be compiled here: .* \(line {1}\)",
    returns_nothing_later: r"what it returns is not a whole number \(line {0}\)",
    writes_to_a_constant_later: r"Cannot modify readonly array .*\(line {2}\)",
    misspells_later: r"'tallly'.*\(line {0}\)",
    imports: "gives different arms when it is run again",
    changes_a_global: r"STORE_GLOBAL.*\(line {2}\)",
}


@pytest.mark.slow
@pytest.mark.parametrize("function", REFUSED_OTHERWISE, ids=lambda one: one.__name__)
def test_a_function_is_refused_when_it_is_run_again_or_compiled(function):
    first = function.__code__.co_firstlineno
    message = r"policy 'mine' .*" + REFUSED_OTHERWISE[function].format(first, first + 1, first + 2)
    with pytest.raises(sl.Invalid, match=message):
        sl.simulate(experiment_of(policy_of(function)), BERNOULLI)


@pytest.fixture
def machine_code_is_not_run(monkeypatch):
    def run(*_):
        raise AssertionError("machine code was run")

    monkeypatch.setattr("sameluck.simulation.runners.compiled_runner.run_all", run)


@pytest.mark.slow
@pytest.mark.usefixtures("machine_code_is_not_run")
@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
@pytest.mark.parametrize("batched", [False, True], ids=["alone", "batched"])
@pytest.mark.parametrize("play", [sl.simulate, sl.trace])
def test_a_function_is_refused_before_machine_code_runs(function, batched, play):
    """The name of the policy, the line and what to do, whether the policy is batched or not."""
    policy = sl.Batched(policy_of(function), 2) if batched else policy_of(function)
    with pytest.raises(SameluckError, match=REFUSED[function]) as refused:
        play(experiment_of(policy), BERNOULLI)
    assert "policy 'mine'" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 350


def reads_the_row(parameters, row, arm, bits):
    return parameters.means[row]


def writes_to_its_law(parameters, row, arm, bits):
    parameters.means[arm] += 1.0
    return parameters.means[arm]


def draws_from_numpy(parameters, row, arm, bits):
    return np.random.rand()  # noqa: NPY002


def draws_twice(parameters, row, arm, bits):
    return parameters.means[arm] * exponential(bits) if uniform(bits) < 0.1 else 0.0


def draws_what_a_sampler_used(parameters, row, arm, bits):
    return poisson(bits, 20.0) * uniform(again(bits, 1))


def not_finite(parameters, row, arm, bits):
    return parameters.means[arm] / (row - row)


def neither_0_nor_1(parameters, row, arm, bits):
    return parameters.means[arm]


REFUSED_DRAWS = {
    reads_the_row: r"it reads parameters\.means\[4\], but the indices are 0 to 2",
    writes_to_its_law: r"it writes to parameters\.means, which it must not change \(line",
    draws_from_numpy: r"it uses numpy\.random, .*: take random numbers from bits, as in uniform\(bits\)",
    draws_twice: r"uniform and exponential draw from the same random bits.* again\(bits, 1\).*\(line",
    draws_what_a_sampler_used: r"poisson and uniform draw from the same random bits",
    not_finite: "it divides by zero",
    neither_0_nor_1: "it returns 0.5, but `binary` is True: only 0 and 1 are",
}


@pytest.mark.usefixtures("machine_code_is_not_run")
@pytest.mark.parametrize("function", REFUSED_DRAWS, ids=lambda function: function.__name__)
def test_a_draw_function_is_refused_before_machine_code_runs(function):
    class Mine(NamedTuple):
        means: Sequence[float]

        @property
        def binary(self):
            return function is neither_0_nor_1

    sl.draws(Mine)(function)
    message = r"environment Mine cannot be run: .*" + REFUSED_DRAWS[function]
    with pytest.raises(sl.Invalid, match=message):
        sl.simulate(experiment_of(sl.UCB1()), Mine((0.5, 0.4, 0.3)))


def test_draws_from_bits_of_their_own_are_accepted(monkeypatch):
    """Also as `again` of those that another sampler drew from, if it does not use them."""

    class Revenue(NamedTuple):
        means: Sequence[float]

    @sl.draws(Revenue)
    def _(parameters, row, arm, bits):
        buys = uniform(again(bits, 1)) < 0.1
        amount = parameters.means[arm] * gamma(again(bits, 2), 2.0) + 0.0 * uniform(bits)
        return amount if buys else 0.0

    monkeypatch.setattr(function_checks, "SECONDS", 60.0)
    (probe,) = function_checks.probe_functions(experiment_of(sl.UCB1()), Revenue((0.5, 0.4, 0.3)))
    assert probe.results[0].checkpoints.size == 60


def test_a_changed_constant_of_a_compiled_helper_is_refused():
    """Numba keeps the number that the helper was compiled with."""
    helper = numba.njit(FunctionType(reads_a_global.__code__, {"THRESHOLD": 20}))
    experiment = experiment_of(policy_of(lambda policy, tally, period, noise: helper(period)))
    function_checks.probe_functions(experiment, BERNOULLI)
    helper.py_func.__globals__["THRESHOLD"] = 30
    for _ in range(2):
        with pytest.raises(
            sl.Invalid, match=r"before the global 'THRESHOLD' changed: define reads_a_global"
        ):
            function_checks.probe_functions(experiment, BERNOULLI)


def reads_a_global(period):
    return 0 if period < THRESHOLD else 1


@pytest.mark.usefixtures("machine_code_is_not_run")
def test_a_function_that_changes_from_run_to_run_is_refused():
    """Here by a global object, which neither its name nor one run gives away."""

    def alternates(policy, tally, period, noise):
        return next(numbers) % 2

    numbers = iter(range(10_000_000_000))
    next(numbers)
    with pytest.raises(
        sl.Invalid, match=r"policy 'mine' gives different arms when it is run again"
    ):
        sl.simulate(experiment_of(policy_of(alternates), horizon=61), BERNOULLI)


def overflows(policy, tally, period, noise):
    return 1 if policy.size * 4_611_686_018_427_387_904 * period > 0 else 0


@pytest.mark.slow
def test_a_function_that_differs_compiled_is_refused():
    with pytest.raises(
        sl.Invalid, match=r"different arms compiled and in plain Python, first in period 1:"
    ):
        sl.simulate(experiment_of(policy_of(overflows)), BERNOULLI)


WRITES_LATER = """
from typing import NamedTuple
import sameluck as sl

class Mine(NamedTuple):
    def memory(self, arms):
        return 3

@sl.selects(Mine)
def _(policy, tally, period, noise):
    if period > 5_000:
        tally.memory[period * 1_000_000] = 1.0
    return 0

experiment = sl.Experiment(policies={"mine": Mine()}, arms=2, horizon=6_000, replications=2)
for check in (True, False):
    try:
        sl.simulate(experiment, sl.Bernoulli((0.5, 0.5)), check=check)
    except sl.Invalid as error:
        print(error)
"""


@pytest.mark.slow
def test_a_wrong_index_never_ends_the_process():
    """Long after the periods that are checked, and without the check: compiled functions of a user check indices."""
    ended = subprocess.run(
        [sys.executable, "-c", WRITES_LATER], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert len(lines) == 2
    assert all("an index is out of range" in line and "guard=True" in line for line in lines)


def slow(policy, tally, period, noise):
    best = 0
    for arm in range(tally.pulls.size):
        if uniform(at(noise, period, arm)) * (tally.means[arm] + 1) > 0.999:
            best = arm
    return best


def test_a_check_ends_in_time_and_is_made_once():
    """Ten thousand arms take minutes in plain Python; the time limit is tested generously."""
    experiment = experiment_of(policy_of(slow), arms=10_000, horizon=1_000)
    environment = sl.Bernoulli((0.5,) * 10_000)
    started = time.perf_counter()
    (probe,) = function_checks.probe_functions(experiment, environment)
    assert time.perf_counter() - started < 60.0
    probe._replace(results=()).compare(recorded=False)
    assert function_checks.probe_functions(experiment, environment) == []
    assert len(function_checks.probe_functions(experiment.replace(horizon=999), environment)) == 1


def test_a_check_with_a_slow_policy_of_sameluck_ends_in_time():
    """What was run until then is compared with compiled code."""

    class Constant(NamedTuple):
        means: Sequence[float]

    sl.draws(Constant)(lambda parameters, row, arm, bits: 1.0)
    experiment = experiment_of(sl.ThompsonGaussian(), arms=100, horizon=1_000)
    (probe,) = function_checks.probe_functions(experiment, Constant((1.0,) * 100))
    assert 0 < probe.results[0].checkpoints.size < 250


def test_what_sameluck_ships_is_not_checked():
    policies = {"ucb": sl.UCB1(), "batched": sl.Batched(sl.ThompsonBernoulli(), 5)}
    experiment = sl.Experiment(policies=policies, arms=3, horizon=60, replications=5)
    assert function_checks.probe_functions(experiment, BERNOULLI) == []


def test_a_live_experiment_checks_its_policies_when_it_starts():
    with sl.open("sqlite://") as store:
        with pytest.raises(sl.Invalid, match=r"policy 'mine' .* it divides by zero"):
            store.start("own", experiment_of(policy_of(divides)))
        assert store.names() == []


@pytest.mark.slow
def test_the_check_can_be_skipped():
    policy = policy_of(divides)
    assert sl.simulate(experiment_of(policy), BERNOULLI, check=False).pulls.sum() == 60 * 5
    with pytest.raises(sl.Invalid, match="divides by zero"):
        sl.simulate(experiment_of(policy), BERNOULLI)
    with pytest.raises(sl.Invalid, match="check must be True or False"):
        sl.simulate(experiment_of(policy), BERNOULLI, check=1)


@pytest.mark.slow
def test_print_works_where_the_check_is_skipped(capfd):
    """It used to wait for the GIL for ever, after the text and before the number."""
    sl.simulate(experiment_of(policy_of(prints), horizon=2), BERNOULLI, check=False, workers=1)
    assert capfd.readouterr().out == "period 1\nperiod 2\n" * 5
