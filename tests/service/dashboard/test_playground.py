"""Playground: it shows what `compare` finds, and abandons simulations that no page requests."""

import asyncio
import json
import re
import shlex
import threading
from html import unescape
from urllib.parse import urlencode

import pytest

import sameluck as sl
from sameluck import cli
from sameluck.service.dashboard import playground_simulations as simulations
from sameluck.service.dashboard.playground_settings import Setting
from sameluck.service.dashboard.playground_simulations import Simulations
from sameluck.service.limits import Limits

CHOSEN = {
    "a": "ucb1(alpha=1)",
    "b": "epsilon_greedy(epsilon=0.5)",
    "arms": "2",
    "mean1": "0.8",
    "mean2": "0.3",
    "horizon": "100",
    "replications": "20",
}


EXPERIMENT = sl.Experiment(
    policies={name: name for name in ("ucb1(alpha=1)", "epsilon_greedy(epsilon=0.5)")},
    arms=2,
    horizon=100,
    replications=20,
    seed=7,
)


def path(**changes):
    return f"/playground?{urlencode({**CHOSEN, **changes})}"


def shown(browser, address):
    """Return the page with its answer, without script."""
    for _ in range(100):
        page = browser.get(address)
        assert page.status_code == 200
        if "http-equiv" not in page.text:
            return page
    raise AssertionError("no answer")


def command_of(page):
    return shlex.split(unescape(re.search(r'id="command">(.*?)</code>', page.text)[1]))


def test_it_shows_what_its_command_prints(log_in, text_of, capsys):
    page = shown(log_in(), path())
    program, *words = command_of(page)
    assert program == "sameluck"
    assert cli.run([*words, "--json"]) == 0
    (effect,) = json.loads(capsys.readouterr().out)["effects"]
    assert effect["high"] < 0  # the challenger explores half of the time
    text = text_of(page)
    assert (
        f"ucb1(alpha=1) earned {-effect['effect']:.1f} more than epsilon_greedy(epsilon=0.5)"
        in text
    )
    assert f"runs from {-effect['high']:.1f} to {-effect['low']:.1f} more" in text
    asked = 20 * effect["interactions"]
    assert f"{4_000 - asked:,.0f} users saved" in text
    naive = EXPERIMENT.replace(design="naive")
    (naive,) = sl.compare(sl.simulate(naive, "bernoulli(0.8, 0.3)")).effects
    assert f"naive design give {-naive.high:.1f} to {-naive.low:.1f}" in text


def test_from_three_policies_on_it_shows_a_leader_board(log_in, text_of):
    page = shown(log_in(), path(more="epsilon_greedy(epsilon=0.9)"))
    three = EXPERIMENT.replace(
        policies={**EXPERIMENT.policies, "worst": "epsilon_greedy(epsilon=0.9)"}
    )
    result = sl.compare(sl.simulate(three, "bernoulli(0.8, 0.3)"), pairs="best", best=True)
    assert [standing.policy for standing in result.standings if standing.may_be_best] == [
        "ucb1(alpha=1)"
    ]
    assert "ucb1(alpha=1) is the best of 3 policies by mean reward at 95%" in text_of(page)
    assert "2 of 3 ruled out at 95%" in text_of(page)
    assert "--pairs best --best" in text_of(page)
    rows = re.findall(r'<th scope="row" class="l name">([^< ]*)', page.text)
    assert rows == ["ucb1(alpha=1)", "epsilon_greedy(epsilon=0.5)", "epsilon_greedy(epsilon=0.9)"]


def test_it_leads_to_a_live_experiment_with_the_same_policies(served, log_in):
    page = shown(log_in(), path())
    start = unescape(re.search(r'href="(/new[^"]*)"', page.text)[1])
    form = log_in().get(start).text
    assert 'value="epsilon_greedy(epsilon=0.5)"' in form
    assert 'value="0.8, 0.3"' in form
    assert "/new?" not in shown(log_in(served.secrets["read"]), path()).text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"a": "<script>alert(1)</script>"}, "<script>alert(1)"),
        ({"a": "other", "a_other": "external(mine)"}, "external"),
        ({"a": "other", "a_other": "per_level(ucb1)"}, "PerLevel needs users with levels"),
        ({"b": "ucb1(alpha=1)"}, "is chosen twice"),
        ({"arms": "9"}, "choose 2 to 5 arms"),
        ({"mean1": "7"}, "Bernoulli.means"),
        ({"mean1": "nan"}, "nan"),
        ({"horizon": "many"}, "must be a whole number"),
        ({"replications": "1"}, "choose 2 to 1,000 replications"),
        ({"replications": "1001"}, "choose 2 to 1,000 replications"),
        ({"horizon": "1000000", "replications": "1000"}, "at most 100,000,000 periods"),
        ({"more": "\n".join(f"ucb1(alpha={k})" for k in range(2, 30))}, "at most 20"),
    ],
)
def test_it_says_what_is_wrong(log_in, text_of, changes, problem):
    page = shown(log_in(), path(**changes))
    assert problem in text_of(page)
    assert 'role="alert"' in page.text
    assert "<script>alert" not in page.text


@pytest.fixture
def held(monkeypatch):
    """A simulation that stops halfway until it is let go."""
    go, calls = threading.Event(), []

    def simulate(experiment, environment, *, progress, **options):
        calls.append(experiment.seed)
        progress(1, 2)
        assert go.wait(20)
        progress(2, 2)
        return sl.simulate(experiment, environment, **options)

    monkeypatch.setattr(simulations, "simulate", simulate)
    monkeypatch.setattr(simulations, "WAIT_SECONDS", 0.05)
    yield go, calls
    go.set()


def test_it_shows_how_far_it_is(held, log_in, text_of):
    page = log_in().get(path())
    assert "25% simulated" in text_of(page)
    assert "data-again" in page.text
    held[0].set()
    assert "earned" in text_of(shown(log_in(), path()))
    assert len(held[1]) == 2  # both designs once, whoever asks


@pytest.mark.slow
def test_what_nobody_waits_for_is_abandoned(held, monkeypatch):
    go, calls = held
    monkeypatch.setattr(simulations, "PATIENCE_SECONDS", 0.0)
    known = Simulations()

    async def ask(seed):
        setting = Setting.of({**CHOSEN, "seed": str(seed)})
        return await known.ask(setting.question(Limits()))

    async def ask_all():
        first = await ask(0)
        others = [await ask(seed) for seed in range(1, simulations.MAX_SIMULATIONS + 3)]
        go.set()
        while known._is_working:
            await asyncio.sleep(0.01)
        return [first, *others]

    asked = asyncio.run(ask_all())
    assert not any(simulation.has_ended for simulation in asked)
    assert all(simulation.is_abandoned for simulation in asked)
    assert calls == []  # the first one too had nobody waiting when it began
