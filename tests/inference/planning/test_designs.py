"""The same comparison under several designs."""

import math

import matplotlib.text
import pytest
from scipy import stats

import sameluck as sl

BERNOULLI = sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1))
EXPERIMENT = sl.Experiment(
    policies={"steady": sl.UCB1(2.5), "eager": sl.UCB1(3.0)},
    arms=5,
    horizon=2_000,
    replications=10,
    seed=7,
)


def test_each_design_has_a_row_a_finding_and_its_users():
    result = sl.designs(EXPERIMENT, BERNOULLI, level=0.99)
    rows = {row.design: row for row in result.rows}

    assert list(rows) == ["naive", "time_coupled", "replay"]
    assert rows["naive"].variance_ratio == 1
    assert rows["naive"].sd > rows["time_coupled"].sd > rows["replay"].sd
    assert rows["replay"].replications_needed == 10
    reference = result.results["replay"].last_effects[0]
    ratios = (reference.variance_ratio, reference.ratio_low, reference.ratio_high)
    assert_users(rows["naive"], ratios, 4_000)
    ratio = (rows["time_coupled"].sd / rows["replay"].sd) ** 2
    factor = stats.f.isf(0.005, 9, 9)
    users = rows["time_coupled"].interactions
    assert_users(rows["time_coupled"], (ratio, ratio / factor, ratio * factor), users)
    assert rows["replay"].users_low == rows["replay"].users_needed == rows["replay"].users_high
    text = str(result)
    assert "steady wins" in text
    assert "The naive design would need about" in result.verdict
    low, high = rows["naive"].users_low, rows["naive"].users_high
    assert f"{rows['naive'].users_needed:,.0f} ({low:,.0f} to {high:,.0f})" in text
    assert f" users, between {low:,.0f} and {high:,.0f}) for" in result.verdict


def assert_users(row, ratios, users):
    """Check the users and their interval against the ratio of variances."""
    counts = [math.ceil(10 * ratio) for ratio in ratios]
    assert row.replications_needed == counts[0]
    assert (row.users_needed, row.users_low, row.users_high) == pytest.approx(
        [count * users for count in counts]
    )


def test_each_designs_effects_are_those_of_compare():
    result = sl.designs(EXPERIMENT, BERNOULLI, designs=["naive", "replay(share_noise=true)"])
    for name, design in (
        ("naive", sl.Naive()),
        ("replay(share_noise=true)", sl.Replay(share_noise=True)),
    ):
        alone = sl.compare(sl.simulate(EXPERIMENT.replace(design=design), BERNOULLI))
        assert result.results[name].effects == alone.effects


@pytest.mark.slow
def test_it_draws_and_writes_a_page(tmp_path):
    three = EXPERIMENT.replace(
        policies={**EXPERIMENT.policies, "random": sl.Uniform()}, horizon=200
    )
    result = sl.designs(three, BERNOULLI, checkpoints=[100, 200])
    labels = [
        text.get_text() for text in result.plot(tmp_path / "a.svg").axes[0].get_legend().get_texts()
    ]
    assert labels[0] == "naive: eager minus steady"
    assert len(labels) == 6
    texts = [text.get_text() for text in result.plot().findobj(matplotlib.text.Text)]
    assert any("95% interval (over pairs, pointwise)" in text for text in texts)
    assert "(simultaneous)" in str(result)
    assert "(simultaneous)" not in str(sl.designs(EXPERIMENT, BERNOULLI))
    page = result.to_html(tmp_path / "a.html")
    assert "time_coupled design" in page


def test_no_design_and_an_unknown_design_are_refused():
    with pytest.raises(sl.Invalid, match="at least one"):
        sl.designs(EXPERIMENT, BERNOULLI, designs=[])
    with pytest.raises(sl.Invalid, match="unknown design"):
        sl.designs(EXPERIMENT, BERNOULLI, designs=["shared"])
