"""The illustration, and the same figures for any replication."""

import pytest

import sameluck as sl
from sameluck.paper import illustration, published
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
    found = {one["name"]: one for one in report.parts["illustration"]["published"]}
    assert (found["real interactions"]["ours"], found["replayed rewards"]["ours"]) == (12, 8)
    assert found["rewards that are not the stack's"]["ours"] == 0
    assert all(one["meets"] for one in found.values())


def test_the_arrows_are_the_published_ones():
    """Period of the first policy -> period of the second, as printed."""
    arrows = {v.source[1]: v.period for v in plots.visits(illustration.trajectories()) if v.source}
    assert arrows == {1: 1, 2: 2, 3: 3, 6: 4, 4: 5, 5: 6, 9: 8, 7: 9}


def test_every_reward_of_the_illustration_is_in_the_printed_stacks():
    for visit in plots.visits(illustration.trajectories()):
        assert visit.reward == published.STACKS[visit.arm][visit.position]


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
