"""Twenty policies, a narrow terminal and a phone: what a person sees."""

import re

import pytest

import sameluck as sl
from sameluck.reporting import tables

POLICIES = {f"ucb({k / 10:g})": sl.UCB1(k / 10) for k in range(1, 21)}


@pytest.fixture(scope="module")
def runs():
    experiment = sl.Experiment(policies=POLICIES, horizon=100, replications=20, seed=3)
    return sl.simulate(experiment, sl.Bernoulli((0.7, 0.5, 0.2)))


@pytest.fixture(scope="module")
def result(runs):
    return sl.compare(runs)


def test_the_answer_is_short_and_says_which_is_best(result):
    best = max(result.policies, key=lambda one: one.reward)

    assert re.match(
        r"\d+ of 19 policies earned more than ucb\(0.1\), \d+ earned less\.", result.verdict
    )
    assert f"{best.policy} has the highest reward." in result.verdict
    assert len(result.verdict) < 1_000
    assert result.verdict.count("ucb(0.1)") <= 4


def test_the_table_has_the_best_policy_first(result):
    rows = [line.split()[0] for line in str(result).splitlines()[3:22]]

    effects = {one.policy: one.effect for one in result.effects}
    assert rows == sorted(effects, key=lambda name: -effects[name])
    assert [one.policy for one in result.effects] == list(POLICIES)[
        1:
    ]  # the records keep their order
    regret = sl.compare(result.runs, metric="regret")
    shown = [line.split()[0] for line in str(regret).partition("policy ")[2].splitlines()[1:20]]
    assert shown[0] == min(regret.effects, key=lambda one: one.effect).policy


def test_there_is_one_caution_of_a_kind_however_many_policies(result):
    kinds = [re.sub(r"ucb\([^)]*\)|[\d,.]+", "", one)[:20] for one in result.cautions]

    assert len(kinds) == len(set(kinds)) <= 4
    assert all(len(one) < 500 for one in result.cautions)


@pytest.mark.parametrize("width", [60, 80])
def test_nothing_is_wider_than_the_terminal(result, width, monkeypatch):
    monkeypatch.setattr(tables, "terminal_width", lambda: width)
    for metric in ("reward", "regret", "quantile(0.5)"):
        lines = str(sl.compare(result.runs, metric=metric)).splitlines()
        assert max(map(len, lines)) <= width
        assert any(line.startswith("Not shown: variance v naive") for line in lines)
    everything = sl.compare(result.runs, pairs="all")
    assert "control" in str(everything).splitlines()[3]  # it says which pair a row is


def test_elsewhere_a_table_is_whole(result):
    assert "variance v naive" in str(result)
    assert "Not shown" not in str(result)
    assert tables.terminal_width() == tables.UNLIMITED  # the output of a test is no terminal


def test_the_figure_is_sorted_in_one_colour_with_short_names(result):
    figure = result.plot()
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]

    effects = {one.policy: one.effect for one in result.effects}
    assert names == sorted(effects, key=lambda name: -effects[name])
    assert len({line.get_color() for line in axes.lines[:-1]}) == 1
    assert "each minus ucb(0.1)" in axes.get_xlabel()


def test_the_figure_of_all_pairs_fits_a_page(result):
    figure = sl.compare(result.runs, pairs="all").plot()
    (axes,) = figure.axes

    assert len(axes.get_yticks()) == 60
    assert "60 of 190 pairs, the largest differences" in axes.get_title(loc="left")
    assert figure.get_size_inches()[1] < 18


def test_the_page_names_no_policy_in_its_title_and_scrolls_its_tables(result):
    page = result.to_html()

    assert "<h1>20 policies</h1>" in page
    for table in re.findall(r".{60}<table>", page):
        assert 'class="scroll"' in table or "aria-label" in table
