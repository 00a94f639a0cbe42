"""Tables and paragraphs for terminals, pages and notebooks."""

import sys

import pytest

import sameluck as sl
from sameluck.reporting import plots, tables
from sameluck.reporting.plots import effect_curves

HEADER = ["policy", "horizon", "effect", "95% interval"]
ROWS = [["a", "1,000", "-3.5", "-4 to -3"], ["a long name", "1,000", "0.25", "0.1 to 0.4"]]


def test_a_table_wider_than_the_terminal_goes_on_below(monkeypatch):
    """No cell is lost, no line is too long, and the first column is there again."""
    monkeypatch.setenv("COLUMNS", "30")
    text = tables.text_table(HEADER, ROWS)
    first, second = text.split("\n\n")

    assert max(map(len, text.splitlines())) <= 30
    assert [line.split()[0] for line in second.splitlines()] == ["policy", "a", "a"]
    assert first.splitlines()[1].split() == ["a", "1,000", "-3.5"]
    assert second.splitlines()[2].endswith("0.1 to 0.4")
    monkeypatch.setenv("COLUMNS", "3")  # one column is always shown
    assert tables.text_table(HEADER, ROWS).count("\n\n") == 2
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr(sys, "__stdout__", None)
    assert tables.terminal_width() == sys.maxsize
    assert "\n\n" not in tables.text_table(HEADER, ROWS)


def test_what_tells_rows_apart_is_repeated_and_headers_are_broken(monkeypatch):
    """A bracket of a header is below it, in the part that has it."""
    monkeypatch.setenv("COLUMNS", "37")
    header, (short, long) = [*HEADER[:3], "95% interval (simultaneous)"], ROWS
    rows = [short, ["a policy of a long name", *long[1:]]]
    first, second = tables.text_table(header, rows, index=2).split("\n\n")

    assert first.splitlines()[0].split() == HEADER[:3]
    assert first.splitlines()[1].split() == ["a", "1,000", "-3.5"]
    assert second.splitlines()[:2] == [
        "policy        horizon    95% interval",
        " " * 23 + "(simultaneous)",
    ]
    assert second.splitlines()[3].split() == ["a", "pol..", "name", "1,000", "0.1", "to", "0.4"]
    assert max(map(len, [*first.splitlines(), *second.splitlines()])) <= 37


@pytest.fixture(scope="module")
def many():
    """Ten policies."""
    policies = {f"ucb {k}": sl.UCB1(alpha=k / 2) for k in range(10)}
    experiment = sl.Experiment(policies=policies, arms=2, horizon=200, replications=20)
    return sl.simulate(experiment, "bernoulli(0.7, 0.3)", checkpoints=[100, 200])


def test_many_policies_in_a_narrow_terminal(many, monkeypatch):
    """The answer in few sentences, the table in the order of the effects, at most 60 columns."""
    monkeypatch.setenv("COLUMNS", "60")
    result = sl.compare(many, pairs="best")
    text = str(result)
    rows = [line.split()[:2] for line in text.split("\n\n")[1].splitlines()[1:]]

    assert max(map(len, text.splitlines())) <= 60
    ranked = sorted(result.last_effects, key=lambda one: -one.effect)
    assert [" ".join(row) for row in rows if row[0] == "ucb"] == [one.policy for one in ranked]
    assert f"differences to {ranked[0].control} over 200 periods, the best" in " ".join(
        text.split()
    )
    summary = {
        policy.policy: policy.reward for policy in result.policies if policy.checkpoint == 200
    }
    best = max(summary, key=summary.get)
    last = ranked[-1]
    largest = f"{last.policy} by {-last.effect:.2f}"
    assert result.verdict.startswith(f"{best} earned most over 200 periods: more than {largest}, ")
    assert len(result.verdict.split()) < 100


def test_many_policies_are_drawn_in_order_and_one_colour(many):
    """At the last checkpoint; what all are compared with is named once."""
    (axes,) = sl.compare(many).plot().axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    effects = {effect.policy: effect.effect for effect in sl.compare(many.at([200])).effects}

    assert labels == sorted(effects, key=lambda name: -effects[name])
    assert "minus ucb 0" in axes.get_xlabel()
    assert {line.get_color() for line in axes.get_lines()[:-1]} == {plots.colour(0)}


def test_a_figure_of_all_pairs_has_a_limit(many):
    """45 pairs are drawn; of more than there is room for, the largest."""
    curves = effect_curves(sl.compare(many, pairs="all").effects)
    figure = plots.draw_effects(curves * 3, level=0.95, title="t")
    (axes,) = figure.axes

    assert len(axes.get_yticks()) == plots.MAX_BARS
    assert "the 60 largest of 135 differences" in axes.get_xlabel()
    assert figure.get_size_inches()[1] < 20
