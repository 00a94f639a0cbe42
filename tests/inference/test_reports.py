"""Reports: their numbers are those of the comparison, their command prints it again, and they need no matplotlib."""

import json
import re
import shlex
import sys
from html import unescape

import pytest

import sameluck as sl
from sameluck import cli
from sameluck.files import made_with
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
