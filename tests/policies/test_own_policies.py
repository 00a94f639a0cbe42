"""A user's policy that cannot be run is refused with a message that names its line."""

import re
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core import errors

import sameluck as sl

# Under this design `simulate` and `trace` run the same compiled loop: one compilation for both.
ONE_LOOP = sl.TimeCoupled()


def a_float(policy, tally, period, noise):
    return 1.7


def not_a_number(policy, tally, period, noise):
    return float("nan")


def a_new_array(policy, tally, period, noise):
    return int(np.argmax(tally.means + 1.0))


def a_slip(policy, tally, period, noise):
    return tally.puls[0]


def nothing(policy, tally, period, noise):
    return None


def _helper(period):
    return 0


def a_helper(policy, tally, period, noise):
    return _helper(period)


def a_text(policy, tally, period, noise):
    return hash("abc") % 2 * 0


def beyond_the_end(policy, tally, period, noise):
    return tally.pulls[10] * 0


def writes_to_the_tally(policy, tally, period, noise):
    tally.pulls[0] = 99
    return 0


def uses_global_randomness(policy, tally, period, noise):
    return np.random.randint(0, 3)  # noqa: NPY002 what a newcomer would write


def other_names(p, t, n, rng):
    return 0


BAD = {
    a_float: "not a whole number",
    not_a_number: "not a whole number",
    a_new_array: "makes a new array",
    a_slip: "Unknown attribute 'puls' of the tally",
    nothing: "not a whole number",
    a_helper: "it uses _helper, a Python function: decorate it with numba.njit",
    a_text: r"it makes a new array, list or text \(line \d+\)",
    beyond_the_end: r"reads tally\.pulls\[10\], but the indices are 0 to 2 \(line \d+\)",
    writes_to_the_tally: r"it writes to tally\.pulls, which it must not change: only tally\.memory",
    uses_global_randomness: r"it uses numpy\.random, which differs from run to run: take random numbers from noise",
    other_names: r"must take \(policy, tally, period, noise\), got \(p, t, n, rng\)",
}


class Coloured(errors._DummyColorScheme):
    """Numba's colours, which it uses where colorama is installed."""

    def code(self, text):
        return f"\x1b[31m\x1b[1m{text}\x1b[0m"

    errmsg = filename = indicate = highlight = code

    def reset(self, text):
        return text


def play(body) -> None:
    class Mine(NamedTuple):
        size: float = 1.0

    sl.selects(Mine)(body)
    settings = {"arms": 3, "horizon": 40, "replications": 2, "design": ONE_LOOP}
    experiment = sl.Experiment(policies={"mine": Mine()}, **settings)
    sl.simulate(experiment, "bernoulli(0.5, 0.4, 0.3)")
    sl.trace(experiment, "bernoulli(0.5, 0.4, 0.3)", guard=True)


@pytest.mark.slow
@pytest.mark.parametrize("body", BAD, ids=lambda body: body.__name__)
def test_a_body_that_cannot_be_run_is_refused_with_a_message(body, monkeypatch):
    with pytest.raises(sl.Invalid, match=BAD[body]) as refused:
        play(body)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500
    monkeypatch.setattr(errors, "_termcolor_inst", Coloured())
    with pytest.raises(sl.Invalid) as coloured:
        play(body)
    assert str(coloured.value) == str(refused.value)


def test_a_colour_in_a_message_of_numba(monkeypatch):
    """Numba writes the colours that the test above strips."""
    monkeypatch.setattr(errors, "_termcolor_inst", Coloured())
    with pytest.raises(errors.TypingError, match=re.escape("\x1b[31m\x1b[1m")):
        numba.njit(a_helper)(None, None, 1, None)


@pytest.mark.parametrize("policy_class", [sl.UCB1, sl.Uniform, sl.Always])
def test_a_policy_of_sameluck_cannot_be_given_another_body(policy_class):
    """Its machine code may lie in the cache of every later process."""
    with pytest.raises(sl.Invalid, match=f"{policy_class.__name__} is a class of sameluck"):
        sl.selects(policy_class)(a_float)


def first_arm(policy, tally, period, noise):
    return 0


def second_arm(policy, tally, period, noise):
    return 1


def arms_played(policy_class) -> set[int]:
    settings = {"arms": 3, "horizon": 5, "replications": 2, "design": ONE_LOOP}
    experiment = sl.Experiment(policies={"mine": policy_class()}, **settings)
    compiled = sl.simulate(experiment, "bernoulli(0.5, 0.4, 0.3)").pulls[:, 0, 0]
    traced = sl.trace(experiment, "bernoulli(0.5, 0.4, 0.3)", guard=True)["mine"].arms
    return {*np.flatnonzero(compiled.sum(axis=0)).tolist(), *traced.tolist()}


def make_mine():
    class Mine(NamedTuple):
        size: float = 1.0

    return Mine


@pytest.mark.slow
def test_a_new_body_counts_from_then_on():
    """As when a cell of a notebook is run again."""
    mine = make_mine()
    sl.selects(mine)(first_arm)
    assert arms_played(mine) == {0}
    sl.selects(mine)(second_arm)
    assert arms_played(mine) == {1}


@pytest.mark.slow
def test_a_class_defined_anew_under_the_same_name_is_another():
    old, new = make_mine(), make_mine()
    sl.selects(old)(first_arm)
    assert arms_played(old) == {0}
    sl.selects(new)(second_arm)
    assert arms_played(new) == {1}


def test_names_and_kinds_that_would_mislead_are_refused():
    class UCB1(NamedTuple):
        alpha: float = 1.0

    class Plain:
        pass

    with pytest.raises(sl.Invalid, match="sameluck has a policy called UCB1"):
        sl.selects(UCB1)(a_float)
    for policy_class in (Plain, 3, sl.UCB1(2.0)):
        with pytest.raises(sl.Invalid, match="make it a NamedTuple"):
            sl.selects(policy_class)(a_float)


@pytest.mark.slow
def test_a_policy_of_ones_own_may_prepare_tables():
    class Rota(NamedTuple):
        length: int = 2

        def prepare(self, arms, horizon):
            turns = np.arange(horizon + 1) // self.length % arms
            return _Turns(turns)

    class _Turns(NamedTuple):
        turns: np.ndarray

    @sl.selects(_Turns)
    def by_turns(policy, tally, period, noise):
        return policy.turns[period]

    settings = {"arms": 3, "horizon": 12, "replications": 2}
    experiment = sl.Experiment(policies={"rota": Rota(3), "ucb": sl.UCB1()}, **settings)
    arms = sl.trace(experiment, sl.Bernoulli([0.5] * 3))["rota"].arms
    assert arms.tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 0, 1]
    assert sl.Experiment.from_json(experiment.to_json()) == experiment


@pytest.mark.parametrize("returned", ["many", np.ones(2), 1.5, -1, None], ids=str)
def test_a_memory_that_is_no_count_is_refused(returned):
    class Keeper(NamedTuple):
        def memory(self, arms):
            return returned

    sl.selects(Keeper)(first_arm)
    experiment = sl.Experiment(policies={"it": Keeper()}, arms=2, horizon=4, replications=2)
    message = r"Keeper\.memory\(2\) must be a whole number from 0 to 100,000,000, got "
    with pytest.raises(sl.Invalid, match=message + re.escape(repr(returned))):
        sl.simulate(experiment, sl.Bernoulli((0.5, 0.5)))


def test_tables_that_are_none_are_refused():
    class NoTables(NamedTuple):
        def prepare(self, arms, horizon):
            return None

    sl.selects(NoTables)(first_arm)
    experiment = sl.Experiment(policies={"it": NoTables()}, arms=2, horizon=4, replications=2)
    with pytest.raises(sl.Invalid, match=r"NoTables\.prepare must return a NamedTuple.*got None"):
        sl.simulate(experiment, sl.Bernoulli((0.5, 0.5)))


def test_a_forgotten_class_or_decorator_is_named_with_the_remedy():
    class Forgotten(NamedTuple):
        size: int = 1

    def chooses(policy, tally, period, noise):
        return 0

    for decorator in (sl.selects, sl.draws):
        remedy = rf"write @sl\.{decorator.__name__}\(MyClass\) above chooses"
        with pytest.raises(sl.Invalid, match=remedy):
            decorator(chooses)
    remedy = r"its class has no select function: write @sameluck\.selects\(Forgotten\) above your function$"
    with pytest.raises(sl.Invalid, match=remedy):
        sl.Experiment(policies={"mine": Forgotten()}, arms=2, horizon=10)
