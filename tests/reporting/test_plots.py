"""Figures: the numbers that are drawn, and that the drawing says what they are."""

import pytest

import sameluck as sl
from sameluck.reporting import plots
from sameluck.reporting.plots import effect_curves

POLICIES = {"a": sl.UCB1(), "b": sl.UCB1(3.0), "c": sl.EpsilonGreedy()}


def effects(checkpoints):
    experiment = sl.Experiment(policies=POLICIES, arms=2, horizon=200, replications=5)
    return sl.compare(
        sl.simulate(experiment, "bernoulli(0.7, 0.3)", checkpoints=checkpoints)
    ).effects


def test_a_curve_holds_each_pairs_effects_in_order():
    records = effects([50, 100, 200])
    curves = effect_curves(records)

    assert [curve.label for curve in curves] == ["b minus a", "c minus a"]
    assert curves[0].checkpoints == (50, 100, 200)
    assert curves[1].effect == tuple(one.effect for one in records if one.policy == "c")
    assert curves[1].low == tuple(one.low for one in records if one.policy == "c")


def test_bands_over_horizons_and_bars_at_one():
    bands = plots.draw_effects(effect_curves(effects([50, 200])), level=0.95, title="t")
    (axes,) = bands.axes
    assert axes.get_xlabel() == "horizon (periods)"
    assert "95% interval" in axes.get_ylabel()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["b minus a", "c minus a"]

    bars = plots.draw_effects(effect_curves(effects([200])), level=0.999, title="t")
    (axes,) = bars.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b minus a", "c minus a"]
    assert axes.get_xlabel().endswith(", over 200 periods\nwith 99.9% interval")


@pytest.mark.slow
def test_svg_for_a_page_is_one_element_with_text_that_can_be_read():
    figure = plots.draw_effects(effect_curves(effects([50, 200])), level=0.95, title="<t>")
    svg = plots.to_svg(figure).strip()
    assert svg.startswith("<svg")
    assert svg.endswith("</svg>")
    assert "&lt;t&gt;" in svg


def test_a_figure_is_not_written_where_it_cannot_be(tmp_path):
    figure = plots.draw_effects(effect_curves(effects([200])), level=0.95, title="t")
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(sl.Invalid, match="cannot write"):
        plots.save(figure, tmp_path / "folder.svg")
