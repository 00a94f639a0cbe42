"""Twenty policies by a metric of which less is better: what a person sees."""

import re

import pytest

import sameluck as sl
from sameluck.reporting import tables
from sameluck.reporting.effect_tables import page_table

POLICIES = {f"ucb({k / 10:g})": sl.UCB1(k / 10) for k in range(1, 21)}


@pytest.fixture(scope="module")
def by_regret():
    experiment = sl.Experiment(policies=POLICIES, horizon=100, replications=20, seed=3)
    return sl.compare(
        sl.simulate(experiment, sl.Bernoulli((0.7, 0.5, 0.2))), metric="regret", best=True
    )


@pytest.mark.slow
def test_the_answer_is_short_and_names_the_best(by_regret):
    best, answer = re.match(r"(.*?:.*?)\. (.*?, at 95%)", by_regret.verdict).groups()
    assert re.fullmatch(
        r"\d+ of 20 policies may be the best by mean pseudo-regret at 95% \(one-sided\): .*", best
    )
    assert re.match(r"\d+ of 19 policies ha(s|ve) a (higher|lower) pseudo-regret than ucb", answer)
    assert len(by_regret.verdict.split()) < 100


def test_table_board_and_figure_have_the_lowest_regret_first(by_regret):
    effects = {effect.policy: effect.effect for effect in by_regret.effects}
    order = sorted(effects, key=lambda name: effects[name])

    assert [row[0] for row in page_table(by_regret)[1]] == order
    (axes,) = by_regret.plot().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == order
    board = by_regret.to_html().partition("board")[2]
    names = re.findall(r'class="l name">([^<]*)', board)
    assert [name.strip() for name in names if name.strip() != "ucb(0.1)"] == order


def test_it_fits_a_narrow_terminal(by_regret, monkeypatch):
    monkeypatch.setattr(tables, "terminal_width", lambda: 60)

    assert max(map(len, str(by_regret).splitlines())) <= 60


def test_a_table_that_is_wider_than_a_phone_shows_that_it_goes_on(by_regret):
    page = by_regret.to_html()

    assert "<h1>20 policies</h1>" in page
    assert re.search(r"\.scroll\{[^}]*right/12px", page)
