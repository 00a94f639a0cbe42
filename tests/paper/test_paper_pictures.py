"""Illustration of the paper, and its figures for any replication."""

from collections import Counter

import pytest
from matplotlib.colors import to_rgba

import sameluck as sl
from nonempty import nonempty
from sameluck.paper import illustration, published
from sameluck.paper.algorithms import Users, algorithm_2
from sameluck.reporting import plots

POLICIES = {"ucb": sl.UCB1(), "thompson": sl.ThompsonBernoulli(), "greedy": sl.EpsilonGreedy()}


def own_trace(**changes):
    settings = {
        "policies": POLICIES,
        "arms": 3,
        "horizon": 12,
        "replications": 2,
        "seed": 3,
        **changes,
    }
    return sl.trace(sl.Experiment(**settings), sl.Bernoulli([0.6, 0.5, 0.4]), 1)


def test_the_illustration_has_12_interactions_and_8_replays(report):
    found = {match["name"]: match for match in report.parts["illustration"]["published"]}
    assert (found["real interactions"]["ours"], found["replayed rewards"]["ours"]) == (12, 8)
    assert found["rewards that are not the stack's"]["ours"] == 0
    assert all(match["meets"] for match in found.values())


def test_the_arrows_are_the_published_ones():
    """Period of the first policy -> period of the second, as printed."""
    arrows = {v.source[1]: v.period for v in plots.visits(illustration.trajectories()) if v.source}
    assert arrows == {1: 1, 2: 2, 3: 3, 6: 4, 4: 5, 5: 6, 9: 8, 7: 9}


def test_every_reward_of_the_illustration_is_in_the_printed_stacks():
    for visit in nonempty(plots.visits(illustration.trajectories())):
        assert visit.reward == published.STACKS[visit.arm][visit.position]


def test_the_stacks_of_one_policy_are_those_of_a_real_trace():
    traced, stacks = illustration.traced(), illustration.stacks()
    for visit in plots.visits(traced):
        assert visit.reward == stacks[visit.arm][visit.position]
    alone = {"ucb1": traced["ucb1"]}
    (axes,) = plots.draw_stacks(alone, arms=illustration.ARMS, unused=stacks).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["used", "not used"]
    shades = Counter(patch.get_facecolor() for patch in axes.patches)
    assert shades == {to_rgba(plots.SHADES[1]): 10, to_rgba("white"): 20}


def test_masked_entries_are_hatched_and_have_no_reward():
    stacks = illustration.stacks()
    (axes,) = plots.draw_stacks({}, unused=stacks, masked=illustration.MASKED).axes
    hatched = [patch.get_xy() for patch in axes.patches if patch.get_hatch()]
    assert hatched == [(position, 1) for position in range(3, 10)]
    rewards = [text.get_text() for text in axes.texts if text.get_text() in ("0", "1")]
    assert len(rewards) == 30 - 7


def test_the_known_entries_determine_the_answer_of_the_masked_figure():
    """Run again with every masked reward altered: whether arm 2 is pulled at most three times stays the same."""
    experiment, environment = illustration.TRACED, illustration.ENVIRONMENT
    users = Users(experiment, environment, 0, altered=illustration.MASKED)
    altered = algorithm_2(experiment, 0, users, [*experiment.policies])
    answers = {}
    for name, one in illustration.traced().items():
        answers[name] = int((one.arms == 1).sum()) <= 3
        assert (altered[name].arms.count(1) <= 3) == answers[name]
        assert ("(yes)" in illustration.masked_answer(one)) == answers[name]
    assert answers == {"ucb1": True, "thompson": False}


def test_visits_of_any_number_of_policies_lead_to_where_a_reward_was_seen_before():
    trace = own_trace()
    visits = plots.visits(trace)
    at = {(v.policy, v.period): v for v in visits}

    assert len(visits) == 36
    assert sum(v.source is None for v in visits) == trace.interactions
    for visit in visits:
        if visit.source is not None:
            source = at[visit.source]
            assert (source.arm, source.position, source.reward) == (
                visit.arm,
                visit.position,
                visit.reward,
            )
            assert list(POLICIES).index(source.policy) < list(POLICIES).index(visit.policy)


def test_under_naive_nothing_is_replayed():
    assert all(v.source is None for v in plots.visits(own_trace(design="naive")))


@pytest.mark.slow
@pytest.mark.parametrize("draw", [plots.draw_trajectories, plots.draw_stacks])
def test_a_picture_of_an_own_replication_names_what_it_shows(draw):
    svg = plots.to_svg(draw(own_trace(), arms=("red", "green", "blue"), title="Mine"))
    assert "Mine" in svg
    for name in POLICIES:
        assert name in svg
    assert "red" in svg


@pytest.mark.parametrize("draw", [plots.draw_trajectories, plots.draw_stacks])
def test_a_picture_that_would_not_be_readable_is_refused(draw):
    with pytest.raises(sl.Invalid, match="room for 60 columns"):
        draw(own_trace(horizon=1_000))


def test_lines_differ_without_colour():
    lines = [
        plots.Line(f"line {k}", (1, 10, 100), (k + 1.0, 2.0, 3.0), (0.1, 0.1, 0.1))
        for k in range(3)
    ]
    figure = plots.draw_lines(lines, title="t", quantity="q", logarithmic=True, limit=2.0)
    (axes,) = figure.axes
    drawn = [line for line in axes.get_lines() if line.get_label().startswith("line")]
    assert len({(line.get_linestyle(), line.get_marker()) for line in drawn}) == 3
    assert (axes.get_xscale(), axes.get_ylabel()) == ("log", "q")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "line 0",
        "line 1",
        "line 2",
        "limit 2",
    ]


@pytest.mark.slow
def test_a_figures_bytes_are_the_same_every_time():
    for ending in (".svg", ".pdf"):
        once, again = (plots.to_bytes(plots.draw_stacks(own_trace()), ending) for _ in range(2))
        assert once == again
