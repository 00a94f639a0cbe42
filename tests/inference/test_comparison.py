"""What a person reads: tables, sentences, figures, pages."""

import json
import sys

import matplotlib.figure
import matplotlib.text
import numpy as np
import pandas as pd
import pytest

import sameluck as sl
from sameluck import text_forms
from sameluck.reporting.effect_tables import page_table
from sameluck.wording import amount, probability, times

POLICIES = {"steady": sl.UCB1(2.5), "eager": sl.UCB1(3.0)}
BERNOULLI = sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1))


def comparison(**changes: object) -> sl.Comparison:
    settings = {"policies": POLICIES, "arms": 5, "horizon": 2_000, "replications": 10, "seed": 7}
    experiment = sl.Experiment(**{**settings, **changes})
    return sl.compare(sl.simulate(experiment, BERNOULLI, checkpoints=[100, 2_000]), level=0.99)


def test_the_printed_result_is_a_table_and_a_sentence_to_act_on():
    text = str(comparison())
    lines = text.splitlines()

    assert lines[0].startswith(
        "replay design on bernoulli(0.9, 0.7, 0.5, 0.3, 0.1), 10 replications"
    )
    assert lines[2].split()[:4] == ["policy", "control", "horizon", "effect"]
    assert "99% interval" in lines[2]
    assert lines[4].split()[:3] == ["eager", "steady", "2,000"]
    sentence = " ".join(lines[6:])
    assert sentence.startswith("eager earned")
    assert "less than steady over 2,000 periods (99% interval" in sentence
    assert sentence.endswith("users per replication instead of 4,000.")
    assert max(map(len, lines)) <= 120


def test_an_undecided_comparison_says_so():
    verdict = comparison(design="naive").verdict
    assert "No difference between eager and steady is shown over 2,000 periods" in verdict
    assert "contains 0" in verdict
    assert verdict.endswith("The naive design needs 4,000 users per replication.")


def test_equal_policies_earn_exactly_the_same_and_cost_one():
    result = comparison(policies={"one": sl.UCB1(), "other": sl.UCB1()})
    assert "earned exactly the same" in result.verdict
    assert "needs 2,000 users per replication instead of 4,000" in result.verdict
    assert "none left" in str(result)


def test_records_are_plain_and_go_to_pandas():
    result = comparison()
    records = result.to_dicts()

    assert [record["checkpoint"] for record in records] == [100, 2_000]
    json.dumps(records)
    assert result.to_polars()["effect"].to_list() == [effect.effect for effect in result.effects]
    frame = result.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == list(sl.Effect._fields)
    assert frame.effect.tolist() == [effect.effect for effect in result.effects]


@pytest.mark.slow
def test_the_figure_is_written_by_the_ending_and_the_same_each_time(tmp_path):
    result = comparison()
    for ending in ("svg", "pdf", "png"):
        assert isinstance(result.plot(tmp_path / f"a.{ending}"), matplotlib.figure.Figure)
        result.plot(tmp_path / f"b.{ending}")
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()
    with pytest.raises(sl.Invalid, match="its ending must be"):
        result.plot(tmp_path / "a.jpeg")
    with pytest.raises(sl.Invalid, match="no folder"):
        result.plot(tmp_path / "nowhere" / "a.svg")


def test_the_page_is_self_contained_and_escapes_names(tmp_path):
    result = comparison(policies={"<script>alert(1)</script>": sl.UCB1(), "b & c": sl.UCB1(3.0)})
    page = result.to_html(tmp_path / "page.html")

    assert (tmp_path / "page.html").read_text() == page
    assert "<script" not in page
    assert "b &amp; c" in page
    assert page.count('class="plot') == 1
    for fetched in ("src=", "@import", "url(http", 'href="http'):
        assert fetched not in page
    with pytest.raises(sl.Invalid, match="no folder"):
        result.to_html(tmp_path / "nowhere" / "page.html")


def test_policies_on_their_own_and_who_may_be_best():
    result = sl.compare(comparison().runs, best=True)

    last = {policy.policy: policy for policy in result.policies if policy.checkpoint == 2_000}
    assert set(last) == {"steady", "eager"}
    assert sum(last["steady"].pulls) == pytest.approx(2_000)
    assert last["steady"].best_arm_share == pytest.approx(last["steady"].pulls[0] / 2_000)
    gaps = (0.0, 0.2, 0.4, 0.6, 0.8)
    regret = sum(gap * pulls for gap, pulls in zip(gaps, last["steady"].pulls, strict=True))
    assert last["steady"].regret == pytest.approx(regret)
    assert [standing.policy for standing in result.standings if standing.may_be_best] == ["steady"]
    assert result.verdict.startswith(
        "steady is the best of 2 policies by mean reward at 95% (one-sided)."
    )


def test_the_table_goes_to_latex_with_its_special_characters():
    text = comparison(policies={"a_1 & 50%": sl.UCB1(), "b": sl.UCB1(3.0)}).to_latex()
    assert text.startswith("\\begin{tabular}{lrrrrrrr}\n\\toprule\n")
    assert r"a\_1 \& 50\%" in text


def test_a_notebook_shows_the_table_and_the_sentence():
    shown = comparison()._repr_html_()
    assert "<table>" in shown
    assert "eager earned" in shown


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.00"), (-30.104, "-30.10"), (0.0123, "0.012"), (163.26, "163.3"), (12345.6, "12,346")],
)
def test_amounts_have_the_digits_a_reader_wants(value, text):
    assert amount(value) == text


def test_small_and_large_ratios_read_well():
    assert probability(0.0) == "< 1e-15"
    assert probability(0.0312) == "0.031"
    assert times(118.7, 20.04, 3_000.0) == "119x less (20 to 3,000)"
    assert times(18.94, 4.32, 83.1) == "18.9x less (4.3 to 83.1)"
    assert times(0.5, 0.25, 2.0) == "2x more (0.5 to 4)"
    assert times(0.5, 0.0, float("inf")) == "2x more (0 to no bound)"
    assert times(3.0, 0.0, float("inf")) == "3x less (0 to no bound)"
    assert times(float("inf"), float("inf"), float("inf")) == "none left"
    assert times(float("nan"), float("nan"), float("nan")) == "-"


def live_like(runs, complete):
    """The first replications of a live experiment, as its `runs()` returns them."""
    return sl.Runs(
        runs.experiment,
        runs.checkpoints,
        runs.rewards[:complete],
        runs.pulls[:complete],
        runs.interactions[:complete],
    )


EXPERIMENT = sl.Experiment(
    policies={"ucb": sl.UCB1(), "greedy": sl.EpsilonGreedy()},
    arms=2,
    horizon=50,
    replications=12,
    seed=3,
)


def test_an_interim_comparison_has_the_anytime_interval():
    runs = sl.simulate(EXPERIMENT, sl.Bernoulli([0.6, 0.4]))
    early = sl.compare(live_like(runs, 11))
    assert early.request.interval == "anytime"
    assert sl.compare(live_like(runs, 12)).request.interval == "t"
    assert sl.compare(runs).request.interval == "t"


def test_an_interim_t_interval_gives_a_caution():
    runs = sl.simulate(EXPERIMENT, sl.Bernoulli([0.6, 0.4]))
    caution = sl.compare(live_like(runs, 11), interval="t").cautions[0]
    assert "11 of 12 planned" in caution
    assert "anytime" in caution
    assert not any("planned" in caution for caution in sl.compare(live_like(runs, 11)).cautions)
    assert not any("planned" in caution for caution in sl.compare(live_like(runs, 12)).cautions)


@pytest.mark.parametrize("complete", [0, 1])
def test_too_few_replications_are_refused_with_a_remedy(complete):
    runs = live_like(sl.simulate(EXPERIMENT, sl.Bernoulli([0.6, 0.4])), complete)
    assert repr(runs).startswith("Runs(")
    with pytest.raises(sl.Invalid, match=rf"{complete} of 12 replications are complete.*Wait"):
        sl.compare(runs)


def test_an_interval_without_bounds_is_a_sentence():
    runs = sl.simulate(EXPERIMENT, sl.Bernoulli([0.6, 0.4]))
    result = sl.compare(live_like(runs, 3))
    assert "no bound to no bound" in str(result)
    assert result.verdict.startswith("3 replications: no interval yet; the first comes at 7.")
    for count in (6, 7):
        effect = sl.compare(live_like(runs, count)).effects[0]
        assert effect.has_interval == (count == 7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policies", "checkpoints", "simultaneous", "scope"),
    [
        (2, 1, None, ""),
        (2, 1, "none", ""),
        (3, 1, None, " (simultaneous)"),
        (3, 1, "both", " (simultaneous)"),
        (3, 1, "none", " (each alone)"),
        (3, 1, "checkpoints", " (over horizons, each alone)"),
        (2, 2, None, " (pointwise)"),
        (2, 2, "none", " (pointwise)"),
        (2, 2, "checkpoints", " (simultaneous)"),
        (2, 2, "both", " (simultaneous)"),
        (3, 2, None, " (over pairs, pointwise)"),
        (3, 2, "checkpoints", " (over horizons, each alone)"),
        (3, 2, "both", " (simultaneous)"),
        (3, 2, "none", " (each alone)"),
    ],
)
def test_the_table_and_the_figure_say_what_the_intervals_hold_for(
    policies, checkpoints, simultaneous, scope, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")  # of a wide terminal: headers are not broken
    names = ["ucb", "greedy", "random"][:policies]
    field = dict(zip(names, [sl.UCB1(), sl.EpsilonGreedy(), sl.Uniform()], strict=False))
    experiment = EXPERIMENT.replace(policies=field)
    runs = sl.simulate(experiment, sl.Bernoulli([0.6, 0.4]), checkpoints=[25, 50][-checkpoints:])
    result = sl.compare(runs, simultaneous=simultaneous)
    assert page_table(result)[0][4] == f"95% interval{scope}"
    assert f"95% interval{scope}" in str(result)
    legend = result.plot().axes[0].get_legend_handles_labels()[1]
    texts = [*legend, *(text.get_text() for text in result.plot().findobj(matplotlib.text.Text))]
    assert any(f"95% interval{scope}" in text for text in texts)


def test_variance_ratios_are_printed_with_their_interval():
    result = comparison()
    for effect in result.effects:
        assert times(effect.variance_ratio, effect.ratio_low, effect.ratio_high) in str(result)
        assert effect.ratio_low < effect.variance_ratio < effect.ratio_high
    assert " less (" in str(result)


HUGE = sl.Empirical((tuple(k / 7 for k in range(1_000_000)), (0.5, 1.0)))


def huge_runs():
    experiment = sl.Experiment(
        policies={"a": sl.Always(0), "b": sl.Always(1)}, arms=2, horizon=1, replications=3
    )
    rewards = np.array([[0.1, 0.5], [0.2, 1.0], [0.4, 0.5]])[:, :, None]
    pulls = np.tile(np.eye(2, dtype=np.int64)[None, :, None, :], (3, 1, 1, 1))
    users = np.full((3, 1), 2)
    return sl.Runs(experiment, np.array([1]), rewards, pulls, users, HUGE)


def test_compare_writes_no_text(monkeypatch):
    runs = huge_runs()
    monkeypatch.setattr(text_forms, "write", None)
    monkeypatch.setattr(sl.Runs, "__repr__", None)
    monkeypatch.setattr(sl.Empirical, "means", None)
    assert sl.compare(runs, best=True).effects[0].control == "a"


def test_the_title_writes_only_the_beginning_of_a_long_environment(monkeypatch):
    """As if all of it were written: the same 60 characters, from fewer than 100 numbers of a million."""
    result, count, write_value = sl.compare(huge_runs()), [], text_forms._write_value
    monkeypatch.setattr(
        text_forms, "_write_value", lambda value: count.append(0) or write_value(value)
    )
    whole = "empirical([0, 0.14285714285714285, 0.2857142857142857, 0.42857142857142855, ..."
    assert f"replay design on {whole[:57]}..., 3 replications of 1 period" in result.title
    assert len(count) < 100


@pytest.mark.parametrize("arms", [2, 16, 17, 18, 19, 100])
def test_a_title_is_cut_exactly_where_the_whole_text_form_would_be(arms):
    environment = sl.Bernoulli((0.0,) * arms)
    experiment = sl.Experiment(
        policies={"a": sl.Always(0), "b": sl.Uniform()}, arms=arms, horizon=1, replications=2
    )
    result = sl.compare(sl.simulate(experiment, environment))
    text = text_forms.write(environment)
    expected = text if len(text) <= 60 else f"{text[:57]}..."
    assert f"replay design on {expected}, 2 replications" in result.title


def calls_of(function):
    """The source files of sameluck whose functions are called, with their names."""
    called = set()

    def note(frame, event, _):
        file = frame.f_code.co_filename
        if event == "call" and "/sameluck/" in file:
            called.add((file.rpartition("/sameluck/")[2], frame.f_code.co_name))

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize(
    "options",
    [{}, {"best": True}, {"metric": "regret"}, {"interval": "twin"}, {"adjust": "means"}],
    ids=str,
)
def test_printing_reads_what_compare_computed(options):
    """No random number is drawn, nothing is simulated, no interval is computed again."""
    experiment = EXPERIMENT.replace(replications=20)
    runs = sl.simulate(experiment, sl.Bernoulli([0.6, 0.4]), checkpoints=[25, 50])
    result = sl.compare(runs, **options)
    shows = (result.__str__, result.__repr__, result._repr_html_, result.to_latex, result.to_dicts)
    for show in shows:
        called = calls_of(show)
        assert called
        folders = ("randomness/", "simulation/", "inference/twins/", "intervals.py")
        computed = [
            call
            for call in called
            if call[0].startswith(folders) or call[1] in ("draw", "measured")
        ]
        assert computed == []
    page = calls_of(result.to_html)
    computing = ("randomness/", "simulation/", "intervals.py", "inference/adjustments.py")
    assert not any(file.startswith(computing) for file, _ in page)


def test_the_latex_table_is_the_printed_table():
    """Of many policies it has a row per policy, at the last checkpoint, as the text has."""
    policies = {f"a{number}": sl.UCB1(1.0 + number) for number in range(12)}
    experiment = sl.Experiment(policies=policies, arms=2, horizon=40, replications=5)
    runs = sl.simulate(experiment, "bernoulli(0.7, 0.3)", checkpoints=[10, 20, 40])
    latex = sl.compare(runs).to_latex()
    assert latex.count(r"\\") == 1 + 11
