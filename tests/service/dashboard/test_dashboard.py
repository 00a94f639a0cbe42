"""Pages without script: sessions, forms, contents, hostile names."""

import re
import threading
import time
from html import unescape
from types import SimpleNamespace
from urllib.parse import quote

import pytest

import sameluck as sl
from sameluck.live.databases.rows import EntryRow
from sameluck.live.experiment import LiveExperiment
from sameluck.service.dashboard import findings, overview
from sameluck.service.dashboard.pages import experiment_list
from sameluck.service.dashboard.visitors import COOKIE

HOSTILE = '<script>alert("1")</script>'


def play(live, until=None):
    """Users until a number of replications is complete; the second arm pays."""
    number = 0
    while live.status().complete < (until or live.experiment.replications):
        assert number < 10_000
        number += 1
        assignment = live.assign(f"user-{number}")
        if assignment.id:
            arm = live.experiment.arm_names.index(assignment.arm)
            live.reward(assignment.id, float(arm == 1 or number % 5 == 0))


@pytest.fixture
def browser(served, log_in):
    served.start(
        horizon=20,
        replications=12,
        policies={"greedy": "epsilon_greedy(epsilon=0.9)", "ucb": "ucb1"},
    )
    return log_in()


def test_a_page_needs_a_session(served):
    served.start()
    for path in ("/", "/playground", "/experiments/socks", "/experiments/none"):
        answer = served.http.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        assert served.http.get(path, headers={"Cookie": f"{COOKIE}=x"}).status_code == 303
    refused = served.http.post("/login", data={"token": "sl_" + "0" * 64})
    assert refused.status_code == 401
    assert "not valid" in refused.text
    assert "set-cookie" not in refused.headers
    assert served.http.post("/login", data={"token": served.secrets["serve"]}).status_code == 403


def test_a_link_logs_in_once(served):
    link = served.app.state.sessions.create_link(served.all)
    first, second = served.http.get(link), served.http.get(link)
    assert (first.status_code, second.status_code) == (303, 401)
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "set-cookie" not in second.headers


def test_a_session_ends_with_logout_and_with_its_token(served, log_in):
    token = served.tokens.create("analyst", ["read", "manage"])
    browser = log_in(token)
    assert browser.get("/").status_code == 200
    served.tokens.revoke("analyst")
    assert browser.get("/").status_code == 303
    other = log_in()
    assert other.post("/logout").status_code == 403
    assert other.send("/logout").status_code == 303
    assert other.get("/").status_code == 303


@pytest.mark.slow
def test_every_page_forbids_what_it_does_not_need(browser):
    for path in (
        "/",
        "/login",
        "/new",
        "/playground",
        "/experiments/socks",
        "/experiments/socks/challenger",
        "/experiments/none",
    ):
        answer = browser.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"\sstyle=|\son\w+=|<style|<script(?! src=)", answer.text)
        assert len(answer.content) < 300_000


def test_a_change_needs_the_key_of_its_session_and_the_scope(served, browser, log_in):
    assert browser.post("/experiments/socks/pause").status_code == 403
    reader = log_in(served.secrets["read"])
    assert reader.send("/experiments/socks/pause").status_code == 403
    assert served.store.peek("socks").status().status == "running"
    foreign = {"Cookie": browser.cookie, "Origin": "http://evil.example"}
    assert served.http.post("/experiments/socks/pause", headers=foreign).status_code == 403
    assert browser.send("/experiments/socks/pause").status_code == 303
    page = browser.get("/experiments/socks")
    assert "Paused." in page.text
    assert "Paused." not in browser.get("/experiments/socks").text
    assert browser.send("/experiments/socks/resume", reason="again").status_code == 303
    change = served.store.peek("socks").history()[-1]
    assert (change.what, change.actor, change.reason) == ("resumed", "everything", "again")


def test_the_controls_do_what_they_say(served, browser):
    live = served.store.peek("socks")
    assert browser.send("/experiments/socks/arms", arm="50/50", reason="broken").status_code == 303
    assert live.status().disabled == ("50/50",)
    assert "50/50 is disabled" in browser.get("/experiments/socks").text
    browser.send("/experiments/socks/arms", arm="none")
    assert "Nothing was changed: " in browser.get("/experiments/socks").text
    browser.send("/experiments/socks/arms/enable", arm="50/50")
    assert live.status().disabled == ()
    browser.send("/experiments/socks/stop", confirmation="sock")
    assert live.status().status == "running"
    assert "type the name" in browser.get("/experiments/socks").text
    browser.send("/experiments/socks/stop", confirmation="socks")
    assert live.status().status == "stopped"


@pytest.mark.slow
def test_the_verdict_is_that_of_compare_on_the_way_and_at_the_end(served, browser, text_of):
    live = served.store.load("socks")
    assert "It is too early for a result." in text_of(browser.get("/experiments/socks"))
    play(live, until=10)
    served.app.state.overviews.forget("socks")
    page = text_of(browser.get("/experiments/socks"))
    effect = sl.compare(live.runs()).effects[0]
    assert effect.low > 0
    assert f"ucb earned {effect.effect:.1f} more than greedy over 20 periods." in page
    shares = [f"{100 * bound / effect.control_reward:.2g}%" for bound in (effect.low, effect.high)]
    more = (
        f"{effect.low:.1f} to {effect.high:.1f} more, {' to '.join(shares)} of what greedy earned"
    )
    assert f"The 95% interval runs from {more}." in page
    assert "valid at every look" in page
    assert "10 of 12 replications used" in page
    assert "you may stop now" in page
    assert "ucb leads" in browser.get("/").text
    play(live)
    served.app.state.overviews.forget("socks")
    page = text_of(browser.get("/experiments/socks"))
    final = sl.compare(live.runs()).effects[0]
    assert f"The 95% interval runs from {final.low:.2f} to {final.high:.2f} more, " in page
    assert "the planned interval" in page


@pytest.mark.slow
def test_a_challenger_is_previewed_then_added_and_compared_on_its_own_replications(
    served, browser, text_of
):
    live = served.store.load("socks")
    play(live, until=6)
    form = {"policy_name": "late", "policy": "ucb1(alpha=3)"}
    page = browser.get("/experiments/socks/challenger?policy_name=late&policy=ucb1(alpha=3)")
    joining = live.preview_policy("late", "ucb1(alpha=3)")
    assert f"{joining.replayed:,}" in page.text
    assert "late" not in live.experiment.policies
    wrong = browser.get("/experiments/socks/challenger?policy_name=late&policy=ucb9")
    assert wrong.status_code == 422
    assert "ucb9" in wrong.text
    assert browser.send("/experiments/socks/challenger", **form).status_code == 303
    page = text_of(browser.get("/experiments/socks"))
    assert "late was added." in page
    assert "late against greedy" in page
    assert "The intervals of all challengers hold simultaneously at 95%." in page
    browser.send("/experiments/socks/policies/remove", policy="greedy")
    assert "Nothing was changed: " in browser.get("/experiments/socks").text
    browser.send("/experiments/socks/policies/remove", policy="late", reason="tuned")
    change = live.history()[-1]
    assert (change.what, change.subject, change.reason) == ("policy removed", "late", "tuned")
    page = browser.get("/experiments/socks")
    assert page.status_code == 200
    assert "late against greedy" not in text_of(page)


def test_hostile_names_show_as_text(served, log_in):
    served.start(
        name=HOSTILE.replace("/", ""),
        policies={HOSTILE: "ucb1", '"><img src=x>': "epsilon_greedy(epsilon=0.2)"},
        arms=[HOSTILE, "' onload=alert(1) x='"],
    )
    name = HOSTILE.replace("/", "")
    play(served.store.load(name))
    browser = log_in()
    path = "/experiments/" + quote(name, safe="")
    for page in (browser.get("/"), browser.get(path), browser.get(path + "/challenger")):
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "<img" not in page.text
        assert "alert(" in unescape(page.text)


def test_the_stacks_are_those_of_the_trace(served, browser, text_of):
    live = served.store.load("socks")
    play(live, until=2)
    trace = live.trace(1)
    page = text_of(browser.get("/experiments/socks?replication=1"))
    pulls = sum(trajectory.arms.size for trajectory in trace.values())
    assert f"{trace.interactions} users instead of {pulls}" in page
    page = text_of(browser.get("/experiments/socks?replication=1&period=1"))
    assert "users instead of 2" in page
    assert browser.get("/experiments/socks?replication=x").status_code == 422


def test_rewards_that_are_awaited_are_dashed(served, browser, text_of):
    live = served.store.load("socks")
    play(live, until=1)
    live.assign("somebody")
    trace = live.trace(1)
    assert 1 <= len(trace.outstanding) <= 2  # each policy waits for one entry, or both for the same
    assert live.trace(0).outstanding == ()
    page = browser.get("/experiments/socks?replication=1")
    squares = re.findall(r'class="awaited" d="([^"]*)"', page.text.split('id="legend"')[0])
    assert sum(path.count("M") for path in squares) == len(trace.outstanding)
    assert re.search("rewards? (is|are) awaited", text_of(page))
    settled = text_of(browser.get("/experiments/socks?replication=0"))
    assert not re.search("rewards? (is|are) awaited", settled)


def test_a_failed_experiment_is_repaired_after_a_preview(served, browser, text_of):
    live = served.store.load("socks")
    play(live, until=1)
    database, key = served.store.database, {"experiment": live.id}
    rows = database.read(lambda t: t.fetch_all(EntryRow, "all_outstanding", **key))
    database.write(lambda t: t.execute("release", **key, **rows[0]._asdict()))
    assert str(live.repair()) in text_of(browser.get("/experiments/socks/repair"))
    assert browser.send("/experiments/socks/repair", reason="lost rows").status_code == 303
    assert "Repaired." in browser.get("/experiments/socks").text
    assert live.history()[-1].what == "ledger repaired"


def test_the_list_has_filters(served, browser, text_of):
    served.start(name="hats")
    served.store.load("hats").stop(drain=False)
    page = text_of(browser.get("/"))
    assert "All 2 Active 1 Need attention 0 Ended 1" in page
    assert page.count("no interval yet") == 1  # the ended experiment will not get one
    assert page.count("too few replications") == 1
    rows = {show: names(browser.get(f"/?show={show}")) for show in ("going", "look", "ended", "x")}
    assert rows == {"going": ["socks"], "look": [], "ended": ["hats"], "x": ["socks", "hats"]}


def names(page):
    return re.findall(r'class="l name"><a href="[^"]*">([^<]*)', page.text)


@pytest.mark.slow
def test_many_challengers_are_on_a_board(served, log_in, text_of):
    policies = {f"ucb <{k}>": f"epsilon_greedy(epsilon={k / 6})" for k in range(1, 6)}
    served.start(horizon=20, replications=8, policies=policies)
    live = served.store.load("socks")
    play(live)
    page = log_in().get("/experiments/socks")
    board = re.search(r'<table class="board">.*?</table>', page.text, re.DOTALL)[0]
    effects_by_policy = {effect.policy: effect.effect for effect in sl.compare(live.runs()).effects}
    ranked = re.findall(r'class="l name">(?:<a href="([^"]*)">)?([^<]*)', board)
    effects = [effects_by_policy.get(unescape(name), 0.0) for _, name in ranked]
    assert len(effects) == 5
    assert effects == sorted(effects, reverse=True)
    assert [unescape(name) for link, name in ranked if not link] == ["ucb <1>"]
    link = next(unescape(link) for link, name in ranked if name == "ucb &lt;3&gt;")
    assert "ucb <3> minus ucb <1>" in text_of(log_in().get(link))
    assert "Of 4 challengers" in text_of(log_in().get("/"))


def test_an_unchanged_page_is_not_sent_again(browser, served):
    first = browser.get("/experiments/socks")
    headers = {"Cookie": browser.cookie, "If-None-Match": first.headers["etag"]}
    again = served.http.get("/experiments/socks", headers=headers)
    assert (again.status_code, again.content) == (304, b"")


def test_an_unknown_experiment_or_file_is_a_page(browser):
    answer = browser.get("/experiments/none")
    assert answer.status_code == 404
    assert "no experiment" in answer.text
    assert browser.get("/static/none.js").status_code == 404
    assert "data-part" in browser.get("/static/dashboard.js").text


def test_a_new_experiment_is_created_by_the_form_and_waits_for_its_start(served, browser, text_of):
    form = {"name": "hats", "arms": "tall, flat", "guess": "0.5, 0.4", "horizon": "30"}
    assert browser.post("/new", **form).status_code == 403
    for field, value, problem in [
        ("horizon", "many", "must be a whole number"),
        ("replications", "1000000", "at most 100,000"),
        ("policy2", "ucb9", "ucb9"),
        ("policy2_name", "control", "have the same name"),
        ("name", "a/b", "without a slash"),
        ("name", "", "name"),
    ]:
        refused = browser.send("/new", **{**form, field: value})
        assert refused.status_code == 422
        assert problem in text_of(refused)
    assert served.store.names() == ["socks"]
    created = browser.send("/new", **form)
    assert (created.status_code, created.headers["location"]) == (303, "/experiments/hats")
    live = served.store.peek("hats")
    assert live.status().status == "paused"
    assert live.experiment.arm_names == ("tall", "flat")
    assert list(live.experiment.policies) == ["control", "challenger"]
    assert "Start" in browser.get("/experiments/hats").text


def test_a_preview_says_what_is_wrong_and_simulates_little(browser, text_of):
    assert "fill in the form" in browser.get("/new").text
    assert "guess the mean reward of each of the 3 arms" in text_of(browser.get("/new?guess=0.5"))
    assert "at most 5,000,000 periods" in text_of(browser.get("/new?horizon=1000000"))


def test_the_list_shows_names_at_once_and_rows_as_they_are_computed(
    served, log_in, monkeypatch, text_of
):
    monkeypatch.setattr(experiment_list, "WAIT_SECONDS", 0.05)
    served.start()
    may_end, diagnostics = threading.Event(), LiveExperiment.diagnostics

    def slow(live, **options):
        assert may_end.wait(30)
        return diagnostics(live, **options)

    monkeypatch.setattr(LiveExperiment, "diagnostics", slow)
    browser = log_in()
    answer = browser.get("/")
    assert "socks" in text_of(answer)
    assert "The results are being computed." in text_of(answer)
    assert "Need attention 0" in text_of(answer)
    assert "data-again" in answer.text
    may_end.set()
    monkeypatch.setattr(experiment_list, "WAIT_SECONDS", 30.0)
    answer = browser.get("/")
    assert "No result yet" in text_of(answer)
    assert "data-again" not in answer.text


def test_the_list_looks_again_only_at_experiments_that_changed(served, log_in, monkeypatch):
    for number in range(3):
        served.start(name=f"socks {number}")
    browser, looks = log_in(), []
    browser.get("/")
    make = overview._overview
    monkeypatch.setattr(
        overview, "_overview", lambda live, *others: looks.append(live.name) or make(live, *others)
    )
    monkeypatch.setattr(overview, "FRESH_SECONDS", 0.0)
    assert browser.get("/").status_code == 200
    assert looks == []
    served.assign("ann", "socks 1")
    served.http.post("/v1/experiments/socks%202/stop", json={"drain": False})
    assert "ended" in browser.get("/").text
    assert sorted(looks) == ["socks 1", "socks 2"]


def test_the_list_checks_the_health_of_experiments_once_a_minute_and_a_page_more_often(
    served, log_in, monkeypatch
):
    served.start()
    browser, checks, now = log_in(), [], time.monotonic()
    diagnostics = LiveExperiment.diagnostics
    monkeypatch.setattr(
        LiveExperiment, "diagnostics", lambda live: checks.append(live) or diagnostics(live)
    )

    def checked_after(path, seconds):
        before = len(checks)
        monkeypatch.setattr(overview, "time", SimpleNamespace(monotonic=lambda: now + seconds))
        assert browser.get(path).status_code == 200
        return len(checks) - before

    assert checked_after("/", 0) == 1
    served.assign("ann")
    assert checked_after("/", 20) == 0, "a changed status needs no check"
    assert checked_after("/experiments/socks", 40) == 1
    assert checked_after("/", 70) == 0, "the page has checked"
    assert checked_after("/", 101) == 1, "nothing has changed for a minute"


@pytest.mark.parametrize(("cells", "count"), [(20, 40), (4_000, 25), (20_000, 10)])
def test_experiments_with_many_arms_and_policies_have_fewer_checkpoints(cells, count):
    checkpoints = findings.checkpoints_of(1_000, cells)
    assert (len(checkpoints), checkpoints[-1]) == (count, 1_000)
