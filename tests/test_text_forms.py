"""The text form: what is written is read back, and bad text gives one clear message, whatever it is."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cases
import sameluck as sl
from distributions import DISTRIBUTIONS
from nonempty import nonempty
from sameluck import text_forms
from sameluck.design import DESIGNS
from sameluck.environments.base import ENVIRONMENTS
from sameluck.grammar import _Reader
from sameluck.policies.base import POLICIES
from sameluck.policies.registry import as_policy

REGISTRIES = {"policy": POLICIES, "environment": ENVIRONMENTS, "design": DESIGNS}
EVERYTHING = [
    *(("policy", policy) for policy in cases.ALL_POLICIES),
    *(("environment", environment) for environment in [*cases.all_environments(3), *DISTRIBUTIONS]),
    *(("design", design) for design in cases.ALL_DESIGNS),
]
IDS = [cases.name(value) for _, value in EVERYTHING]


@pytest.mark.slow
@pytest.mark.parametrize(("what", "value"), EVERYTHING, ids=IDS)
def test_what_is_written_is_read_back(what, value):
    """`parse(write(x))` is x, of the same class, with numbers equal to the last bit."""
    text = text_forms.write(value)
    found = text_forms.normal_form(text_forms.parse(text, REGISTRIES[what], what))

    assert type(found) is type(value)
    assert found == text_forms.normal_form(value)
    assert text_forms.write(found) == text


@pytest.mark.parametrize("what", REGISTRIES)
def test_every_kind_has_an_example_that_parses(what):
    """Messages and listings show it, so it must work when pasted."""
    for kind in nonempty(cases.ours(REGISTRIES[what])):
        assert type(text_forms.parse(text_forms.example(kind), REGISTRIES[what], what)) is kind


class Numbers(NamedTuple):
    each: Sequence[float]
    other: float | Sequence[float] = 1.0


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_numbers_survive_to_the_last_bit(numbers):
    """Whatever finite number, the smallest and the largest too."""
    written = Numbers(tuple(numbers), tuple(map(abs, numbers)))

    found = text_forms.parse(text_forms.write(written), {"numbers": Numbers}, "object")

    assert text_forms.normal_form(found) == written


@given(st.lists(st.floats(-1e300, 1e300) | st.integers(-(10**38), 10**38), min_size=1, max_size=5))
@example([0, -1, 2.5, 10**31, 10**30, -1e-300])
def test_a_list_of_numbers_is_one_token_read_as_one_by_one(numbers):
    """Of a million values, which are read one by one if a comma follows the last; with at most 31 digits."""
    text = f"numbers({numbers!r}, {numbers!r:.{len(repr(numbers)) - 1}},], other=1)"
    once, by_one = text_forms.parse(text, {"numbers": Numbers}, "object").each
    assert list(map(repr, once)) == list(map(repr, by_one)) == list(map(repr, numbers))
    if all(abs(number) < 10**31 for number in numbers if isinstance(number, int)):
        assert _Reader(text, "object").tokens[2] == ("numbers", repr(numbers))


def test_equal_numbers_have_one_text_form():
    """Otherwise an experiment that was saved would have another digest."""
    assert (
        text_forms.write(Numbers((-0.0, 1.0), -0.0))
        == text_forms.write(Numbers((0, 1), 0))
        == "numbers(0, 1, other=0)"
    )


@pytest.mark.slow
@given(st.text(min_size=1, max_size=30).filter(lambda text: text.isprintable()))
def test_texts_survive(name):
    """Any printable text."""
    policy = sl.External(name)

    assert text_forms.parse(text_forms.write(policy), POLICIES, "policy") == policy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ucb1", sl.UCB1()),
        ("ucb1()", sl.UCB1()),
        ("  UCB-1 ( 2.5 ) ", sl.UCB1(2.5)),
        ("ucb1(alpha=3,)", sl.UCB1(3)),
        ("ucb1(.5)", sl.UCB1(0.5)),
        ("ucb1(+1e-3)", sl.UCB1(0.001)),
        ("Thompson_Bernoulli(1, b=2)", sl.ThompsonBernoulli(1, 2)),
        ("thompsonbernoulli(first_plays=1)", sl.ThompsonBernoulli(first_plays=1)),
        ("epsilon-greedy(0.2, others)", sl.EpsilonGreedy(0.2, "others")),
        ('epsilon_greedy(0.2, "others")', sl.EpsilonGreedy(0.2, "others")),
        ("ucb_delta(delta=None)", sl.UCBDelta(delta=None)),
        ("always(1_0)", sl.Always(10)),
        ("batched(ucb1(alpha=2.0), 10)", sl.Batched(sl.UCB1(2), 10)),
        ("Batched( UCB-1, size=10 )", sl.Batched(sl.UCB1(), 10)),
        ("batched(size=3, policy=always(1),)", sl.Batched(sl.Always(1), 3)),
        ('batched("ucb1(2)", 3)', sl.Batched(sl.UCB1(2), 3)),
        ("batched(uniform(), 3)", sl.Batched(sl.Uniform(), 3)),
    ],
)
def test_ways_to_write_a_policy(text, expected):
    """Case, `-`, `_`, spaces, names or places of parameters, a comma too many: all are fine."""
    assert text_forms.parse(text, POLICIES, "policy") == expected


def test_means_may_be_listed_one_after_another():
    """`bernoulli(0.9, 0.7)` and `bernoulli([0.9, 0.7])`-like forms by name mean the same."""
    spread = text_forms.parse("gaussian(1, 0.5, sd=[1, 2])", ENVIRONMENTS, "environment")
    named = text_forms.parse("gaussian(means=[1, 0.5], sd=[1, 2])", ENVIRONMENTS, "environment")

    assert text_forms.normal_form(spread) == text_forms.normal_form(named)
    assert text_forms.normal_form(spread) == sl.Gaussian((1.0, 0.5), (1.0, 2.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("", "ends too early"),
        ("ucb9", "did you mean 'ucb1'"),
        ("ucb1(", "ends too early"),
        ("ucb1(2", "ends too early"),
        ("ucb1(2))", "has text after its end"),
        ("ucb1(2) ucb1(3)", "has text after its end"),
        ("ucb1(2 3)", "expected ')'"),
        ("ucb1(2, 3)", "has 2 values; ucb1 takes 1"),
        ("ucb1(2, alpha=3)", "gives alpha twice"),
        ("ucb1(alpha=2, alpha=3)", "gives alpha twice"),
        ("ucb1(alfa=2)", "did you mean 'alpha'"),
        ("thompson_bernoulli(a=1, 2)", "without a name follows"),
        ("always", "lacks arm"),
        ("ucb1(=2)", "expected a value"),
        ("ucb1(alpha=)", "expected a value"),
        ("ucb1(2.5.1)", "cannot read"),
        ("ucb1(__import__)", "cannot read"),
        ("2(ucb1)", "expected a word"),
        ("ucb1([[[[[[[[[[1]]]]]]]]]])", "nested too deeply"),
        ('ucb1("\\x")', "not a valid text"),
        ("ucb1(" + "9" * 100 + ")", "has too many digits"),
        ("ucb1(1_)", "1_"),
        ("ucb1(1__0)", "1__0"),
        ("ucb1(1_.5)", "1_.5"),
        ("u" * 50_000_001, "characters"),
        ("batched", "lacks policy, size; for example batched(ucb1(alpha=2), size=10)"),
        ("batched(ucb1)", "lacks size"),
        ("batched(ucb1(2)", "ends too early"),
        ("batched(ucb1(2), 3))", "has text after its end"),
        ("batched(ucb1(2) 3)", "expected ')'"),
        ("batched(ucb1(2, 3), 4)", "has 2 values; ucb1 takes 1"),
        ("batched(ucb1(alfa=2), 4)", "did you mean 'alpha'"),
        ("batched(ucb9, 4)", "unknown policy 'ucb9'; did you mean 'ucb1'"),
        ("batched(ucb9(2), 4)", "unknown policy 'ucb9'; did you mean 'ucb1'"),
        ("batched(bernoulli(0.5), 4)", "unknown policy 'bernoulli'"),
        ("batched(always, 4)", "lacks arm"),
        ("batched(ucb1, uniform())", "size of batched takes numbers or words, not uniform(...)"),
        ("ucb1(ucb1(2))", "alpha of ucb1 takes numbers or words, not ucb1(...)"),
        ("ucb1([ucb1(2)])", "expected ']'"),
        ("batched(" * 9 + "ucb1" + ", 2)" * 9, "nested too deeply"),
        ("batched(" * 100_000, "nested too deeply"),
    ],
)
def test_bad_text_gets_a_message(text, fragment):
    """Each mistake is named; nothing but `Invalid` is raised."""
    with pytest.raises(sl.Invalid) as refused:
        text_forms.parse(text, POLICIES, "policy")
    assert fragment in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_environment_holds_no_other_object():
    with pytest.raises(sl.Invalid, match="means of bernoulli takes numbers or words, not ucb1"):
        text_forms.parse("bernoulli(0.5, ucb1(2))", ENVIRONMENTS, "environment")


def test_only_text_is_parsed():
    """Something that is not text says what is needed."""
    with pytest.raises(sl.Invalid, match="must be text"):
        text_forms.parse(3, POLICIES, "policy")


PIECES = st.sampled_from(
    ["ucb1", "bernoulli", "replay", "always", "batched(", "alpha", "means", "(", ")", "[", "]", ",", "=", " ",
     "-", "_", ".", "1", "0.5", "1_", "1e9", "e", "none", "true", '"', "\\", '"x"',
     "\N{ARABIC-INDIC DIGIT THREE}", "\ud800"]
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", REGISTRIES)
@given(text=st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join)))
@example(text="ucb1(1_)")
@example(text="always(1__0)")
@example(text='ucb1("\ud800")')
@example(text="batched(uniform(), 3)")
@example(text="batched(batched(always(1), 2), none)")
@example(text='batched("ucb1(", 3)')
def test_no_text_raises_anything_but_invalid(what, text):
    """Fuzz: any text is read or refused with `Invalid`; what is read can be written and read again."""
    try:
        value = text_forms.parse(text, REGISTRIES[what], what)
    except sl.Invalid:
        return
    assert text_forms.parse(text_forms.write(value), REGISTRIES[what], what) == value


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.floats(), max_size=3),
)


def refusal(call):
    """The message of `Invalid`, or nothing; any other error is a failure."""
    try:
        call()
    except sl.Invalid as refused:
        return str(refused)
    return ""


@pytest.mark.slow
@given(st.sampled_from(cases.POLICY_CLASSES), st.lists(ANYTHING, max_size=4))
def test_no_parameters_of_a_policy_raise_anything_but_invalid(kind, values):
    """A policy built with any values is taken or refused with `Invalid`, and nothing else."""
    settings = {"arms": 3, "horizon": 5, "replications": 1}
    try:
        refused = refusal(lambda: sl.Experiment(policies={"it": kind(*values)}, **settings))
    except TypeError:
        return  # more values than parameters: Python's own refusal

    assert "\n" not in refused


@pytest.mark.slow
@given(st.sampled_from(cases.ENVIRONMENT_CLASSES), st.lists(ANYTHING, max_size=3))
def test_no_parameters_of_an_environment_raise_anything_but_invalid(kind, values):
    """An environment built with any values is taken or refused with `Invalid`, and nothing else."""
    experiment = sl.Experiment(policies={"it": sl.Uniform()}, arms=3, horizon=5, replications=1)
    try:
        refused = refusal(lambda: sl.trace(experiment, kind(*values)))
    except TypeError:
        return  # more values than parameters, or fewer
    assert "\n" not in refused


def test_a_short_text_form_is_cut_within_a_list_of_probabilities():
    row = (0.01,) * 100
    text = text_forms.write_short(sl.Categorical((row, row)), 60)
    assert len(text) == 60
    assert text.startswith("categorical([0.01, 0.01, ")
    assert text.endswith("...")


NOT_COVERED = {
    "contexts": ["neural_ucb", "exp4", "kernel_ucb", "tree_bootstrap"],
    "best-arm identification": ["successive_halving", "lucb", "track_and_stop"],
    "slates and rankings": ["slate_ucb", "cascade_ucb", "top_k"],
    "budgets": ["knapsack", "budgeted_ucb"],
    "duelling bandits": ["dueling", "duelling_thompson", "rucb"],
    "infinitely many arms": ["gp_ucb"],
}


@pytest.mark.parametrize("problem", NOT_COVERED)
def test_policies_of_problems_that_are_not_covered_point_to_the_page(problem):
    for name in nonempty(NOT_COVERED[problem]):
        with pytest.raises(sl.Invalid, match=rf"does not cover .*{problem}.*docs/limits\.md"):
            as_policy(name, 2)


def test_no_policy_or_environment_is_taken_for_one_that_is_not_covered():
    for name in nonempty((*POLICIES, *ENVIRONMENTS)):
        assert "limits.md" not in text_forms._remedy(name, {})


def test_a_family_is_listed():
    thompson = [name for name in POLICIES if "thompson" in name]
    with pytest.raises(sl.Invalid) as refused:
        as_policy("thompson", 2)
    assert len(thompson) > 3
    assert all(name in str(refused.value) for name in thompson)
