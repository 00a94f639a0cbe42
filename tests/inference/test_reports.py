"""Reports: their numbers are those of the comparison, their command prints it again, and they need no matplotlib."""

import json
import re
import shlex
import sys
from functools import cache
from html import unescape

import pytest

import sameluck as sl
from nonempty import nonempty
from sameluck import cli
from sameluck.files import made_with
from sameluck.inference import simultaneous
from sameluck.reporting.commands import compare_command, designs_command
from sameluck.reporting.sentences import about_other_seeds

BERNOULLI = "bernoulli(0.7, 0.3)"
TWO = sl.Experiment(
    policies={"steady": sl.UCB1(1.0), "ucb1(alpha=5)": sl.UCB1(5.0)},
    arms=2,
    horizon=200,
    replications=10,
    seed=3,
)
THREE = TWO.replace(policies={**TWO.policies, "<i>greedy": sl.EpsilonGreedy(0.9)})


def text_of(page):
    body = page.split("</style>")[1]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


@pytest.fixture(autouse=True)
def without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_two_policies_have_an_answer_a_curve_and_each_replication():
    runs = sl.simulate(TWO, BERNOULLI, checkpoints=[50, 100, 200])
    result = sl.compare(runs.at([200]), level=0.99)
    (effect,) = result.effects
    assert effect.high < 0
    page = result.to_html(curve=sl.compare(runs, level=0.99))
    text = text_of(page)
    assert "Decided at 99%" in text
    assert f"steady earned {-effect.effect:.1f} more than ucb1(alpha=5) over 200 periods." in text
    assert f"The 99% interval runs from {-effect.high:.1f} to {-effect.low:.1f} more." in text
    assert f"Users per replication {effect.interactions:,.0f} instead of 400" in text
    assert about_other_seeds(result)[0] in text
    rewards = runs.rewards[:, :, -1]
    ahead = int((rewards[:, 1] > rewards[:, 0]).sum())
    assert f"ucb1(alpha=5) was ahead in {ahead} of 10." in text
    assert page.count("<circle") == 10
    assert all(caution in text for caution in result.cautions)
    assert compare_command(result) in text
    made = made_with()
    assert f"Made with sameluck {sl.__version__} on {made['date']}." in text
    for fact in (f"sameluck {sl.__version__}", f"date {made['date']}", "checkpoints 200", "t, 99%"):
        assert fact in text.split("Reproduce this")[1]


def test_what_is_not_decided_is_not_coloured_as_decided():
    same = TWO.replace(policies={"a": sl.UCB1(1.0), "b": sl.UCB1(1.001)})
    page = sl.compare(sl.simulate(same, BERNOULLI)).to_html()
    assert "Not decided" in text_of(page)
    assert 'class="card answer"' in page


def test_many_policies_have_a_leader_board():
    result = sl.compare(sl.simulate(THREE, BERNOULLI), pairs="best", best=True)
    assert [standing.policy for standing in result.standings if standing.may_be_best] == ["steady"]
    page = result.to_html()
    assert "steady is the best of 3 policies by mean reward at 95% (one-sided)." in text_of(page)
    assert "2 of 3 ruled out at 95%" in text_of(page)
    assert "<i>" not in page
    ranked = re.findall(r'class="l name">([^< ]*)', page)
    rewards = {policy.policy: policy.reward for policy in result.policies}
    assert [unescape(name) for name in ranked] == sorted(rewards, key=rewards.get, reverse=True)


def test_many_policies_against_the_control_are_counted():
    result = sl.compare(sl.simulate(THREE, BERNOULLI), control="ucb1(alpha=5)")
    effects = {effect.policy: effect for effect in result.effects}
    assert effects["steady"].low > 0 > effects["<i>greedy"].high
    text = text_of(result.to_html())
    more, less = (abs(effects[name].effect) for name in ("steady", "<i>greedy"))
    first = (
        f"1 of 2 policies earned more than ucb1(alpha=5) over 200 periods (steady by {more:.2f}), 1 earned less "
        f"(<i>greedy by {less:.2f}), at 95%."
    )
    assert first in text
    assert first in result.verdict


OUTCOMES = {
    "none": {"a": sl.UCB1(1.0), "b": sl.UCB1(1.02), "c": sl.UCB1(1.04)},
    "some": {"a": sl.UCB1(1.0), "b": sl.UCB1(1.02), "c": sl.Uniform()},
    "all": {"a": sl.UCB1(1.0), "b": sl.EpsilonGreedy(0.6), "c": sl.Uniform()},
    "constant": {"a": sl.Always(0), "b": sl.Always(1), "c": sl.Always(2)},
    "two": {"a": sl.UCB1(1.0), "b": sl.Uniform()},
    "two equal": {"a": sl.UCB1(1.0), "b": sl.UCB1(1.02)},
}


@cache
def runs_of(outcome):
    arms = sl.Bernoulli((1.0, 0.0, 0.0)) if outcome == "constant" else sl.Bernoulli((0.8, 0.4, 0.3))
    experiment = TWO.replace(policies=OUTCOMES[outcome], arms=3, horizon=100, replications=40)
    return sl.simulate(experiment, arms)


def headline_of(page):
    return text_of("</style>" + re.search(r'<h2 id="answer".*?</h2>', page, re.DOTALL)[0])


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("pairs", ["control", "all", "best"])
@pytest.mark.parametrize("metric", ["reward", "regret", "best_arm_share", "quantile(0.1)"])
def test_the_headline_claims_what_the_text_claims(metric, pairs, outcome, monkeypatch):
    """Compare them over metrics, pairs and outcomes; the best policy is named only where all are compared with it."""
    monkeypatch.setattr(simultaneous, "ROTATIONS", 2_500)
    runs = runs_of(outcome)
    for best in nonempty((False, True) if metric != "quantile(0.1)" else (False,)):
        result = sl.compare(runs, metric=metric, pairs=pairs, best=best, check=False)
        page = result.to_html()
        headline, effects = headline_of(page), result.last_effects
        differ = sum(effect.shows_difference for effect in effects)
        if metric == "reward" and outcome == "two" and not best:
            assert re.fullmatch(r"a earned \d+\.?\d* more than b over 100 periods\.", headline)
            assert f"{effects[0].policy} earned" in result.verdict
            assert (effects[0].effect < 0) == ("less than" in result.verdict)
        else:
            assert result.verdict.startswith(headline)
        if best:
            candidates = [row.policy for row in result.standings if row.may_be_best]
            assert (" is the best of " in headline) == (len(candidates) == 1)
        elif pairs == "control":
            assert not re.search(r"\bbest of|\bmost\b|highest|lowest|leads", headline)
        if differ == 0 and not best and outcome != "constant":
            assert "no difference" in headline.lower() or "no interval yet" in headline
        assert ("chip win" in page.split("card answer")[1].split("</p>")[0]) == (
            differ > 0 if not best else len(candidates) < len(result.runs.policies)
        )


def test_a_long_table_is_folded_and_its_chart_has_the_bands_of_the_figure():
    runs = sl.simulate(THREE, BERNOULLI, checkpoints=[50, 100, 150, 200])
    page = sl.compare(runs, metric="regret", check=False).to_html()
    card = page.partition("Pseudo-regret of each policy")[2].split("</section>")[0]
    assert "Every policy and horizon" in card
    assert card.index("<details") < card.index("<table")
    assert card.count('class="m-band"') == 1
    assert card.count('class="m-ghost"') == 2
    short = sl.compare(runs.at([200]), metric="regret", check=False).to_html()
    assert "Every policy and horizon" not in short


def test_designs_are_drawn_with_the_naive_design_as_measured():
    found = sl.designs(TWO, BERNOULLI, designs=("naive", "replay"), checkpoints=[100, 200])
    page = found.to_html()
    naive = found.results["naive"].effects[-1]
    assert f"{naive.low:.1f}".replace("-", "\N{MINUS SIGN}") in text_of(page)
    assert page.count("<circle") == 20
    assert designs_command(found.results["replay"]) in text_of(page)


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"level": 0.9, "interval": "anytime"},
        {"pairs": "best", "best": True},
        {"control": "ucb1(alpha=5)", "simultaneous": "both"},
    ],
)
def test_the_command_prints_the_same_numbers(request_, capsys):
    three = TWO.replace(policies={**TWO.policies, "odd name": sl.EpsilonGreedy(0.9)})
    runs = sl.simulate(three.replace(design="time_coupled"), BERNOULLI, checkpoints=[50, 200])
    result = sl.compare(runs, **request_)
    program, *words = shlex.split(compare_command(result))
    assert program == "sameluck"
    assert cli.run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["effects"] == json.loads(json.dumps(result.to_dicts()))
    assert found["verdict"] == result.verdict


def test_there_is_no_command_for_what_a_command_cannot_say():
    runs = sl.simulate(TWO, BERNOULLI)
    assert compare_command(sl.compare(runs))
    assert not compare_command(sl.compare(runs.part(5, 10)))
    odd = TWO.replace(policies={"a=b": sl.UCB1(), "b": sl.UCB1(3.0)})
    assert not compare_command(sl.compare(sl.simulate(odd, BERNOULLI)))


def test_a_finding_is_also_relative_to_the_controls_reward():
    """Only where both policies earned a positive reward, and not for a median."""
    experiment = sl.Experiment(
        policies={"ucb": sl.UCB1(0.5), "uniform": sl.Uniform()}, horizon=200, replications=20
    )
    result = sl.compare(sl.simulate(experiment, sl.Bernoulli((0.7, 0.2))))
    (effect,) = result.last_effects
    low, high = (100 * -end / effect.control_reward for end in (effect.high, effect.low))
    assert f" less, {low:.2g}% to {high:.2g}%)." in result.verdict
    below = sl.compare(sl.simulate(experiment, sl.Gaussian((-1.0, -3.0))))
    assert "less)." in below.verdict
