"""Dashboard in a real browser: an experiment from its start to its end, pictures, accessibility.

Every message in the console fails a test: violations of the content security policy are among them. The pictures are
kept in `build/screenshots`.
"""

import itertools
import os
import random
import shutil
import signal
import struct
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from urllib.parse import urlencode
from uuid import uuid4

import pytest

import sameluck as sl

sync_api = pytest.importorskip("playwright.sync_api")
sync_api.expect.set_options(timeout=30_000)  # a loop may be compiled first

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
PICTURES, DOCS = ROOT / "build" / "screenshots", ROOT / "docs"
CHROMIUM = shutil.which("chromium")
AXE = (HERE / "axe.min.js").read_text()
README = {"x": 0, "y": 0, "width": 1280, "height": 1250}
MEANS = {"checklist": 0.8, "video": 0.3}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="install Debian's package chromium"),
]


@pytest.fixture(scope="module")
def playwright():
    with sync_api.sync_playwright() as playwright:
        yield playwright


@contextmanager
def launched(playwright):
    """A browser. It is killed if it does not end: Chromium does not always close what it has opened."""
    mark = f"--sameluck-test={uuid4()}"
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", mark])
    try:
        yield browser
    finally:
        timer = Timer(20, kill, [mark])
        timer.start()
        browser.close()
        timer.cancel()


def kill(mark):
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


@pytest.fixture
def chromium(playwright):
    with launched(playwright) as browser:
        yield browser


@pytest.fixture(scope="module")
def session(playwright, server):
    """State of a browser that has followed the login link."""
    with launched(playwright) as browser:
        context = browser.new_context()
        page = context.new_page()
        page.goto(server.process.dashboard)
        assert page.get_by_role("heading", name="Experiments").is_visible()
        return context.storage_state()


@contextmanager
def opened(chromium, session, server, path, **options):
    """A page whose console has to stay empty."""
    context = chromium.new_context(
        storage_state=session, base_url=server.process.url, reduced_motion="reduce", **options
    )
    page, messages = context.new_page(), []
    page.set_default_timeout(30_000)
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(path)
    yield page
    assert messages == []
    page.goto("about:blank")  # it asks the server no more


def log_in(page, server):
    """A session of its own."""
    page.get_by_label("Token").fill(server.process.token)
    page.get_by_role("button", name="Log in").click()


def play(live, until):
    """Users until a number of replications is complete."""
    number, chance = sum(live.status().answers.values()), random.Random(7)
    while live.status().complete < until:
        assert number < 100_000
        answers = live.assign_many([f"user-{number + index}" for index in range(20)])
        number += 20
        enrolled = [answer for answer in answers if answer.id]
        live.reward_many(
            [(answer.id, chance.random() < MEANS.get(answer.arm, 0.2)) for answer in enrolled]
        )


def serious(page):
    """Return the serious violations that axe finds."""
    page.evaluate(AXE)
    report = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (violation["id"], [node["html"][:200] for node in violation["nodes"]])
        for violation in report["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


FORM = {
    "name": "onboarding-hints",
    "arms": "video, checklist, <b>tour</b>",
    "policy1_name": "greedy",
    "policy1": "epsilon_greedy(epsilon=0.9)",
    "policy2_name": "ucb",
    "policy2": "ucb1",
    "horizon": "60",
    "replications": "14",
}


def test_an_experiment_from_its_start_to_its_end(chromium, server):
    with opened(chromium, None, server, "/login") as page:
        assert serious(page) == []
        log_in(page, server)
        page.get_by_role("link", name="New experiment").click()
        for field, value in FORM.items():
            page.locator(f"#{field}").fill(value)
        sync_api.expect(page.locator("#plan")).to_contain_text(
            "fewer than the naive design", timeout=60_000
        )
        assert page.locator("#name").input_value() == "onboarding-hints"
        assert serious(page) == []
        page.get_by_role("button", name="Create").click()
        sync_api.expect(page.locator(".notice")).to_contain_text("enrols no users")
        live = server.store.load("onboarding-hints")
        assert live.status().status == "paused"
        page.get_by_role("button", name="Start").click()
        sync_api.expect(page.locator(".notice")).to_have_text("Running.")
        assert live.status().status == "running"
        verdict = page.locator(".say")
        assert verdict.inner_text() == "It is too early for a result."

        page.locator("#question summary").click()
        page.locator("#reason").fill("half a sentence")
        page.evaluate("window.kept = true; window.scrollTo(0, 400)")
        play(live, 10)
        sync_api.expect(verdict).to_contain_text("ucb earned")  # the page updates itself
        effect = sl.compare(live.runs()).effects[0]
        assert effect.low > 0
        assert f"{effect.effect:.1f} more" in verdict.inner_text()
        assert page.evaluate("window.kept")  # it was not loaded again
        assert page.evaluate("window.scrollY") >= 400  # what is in view stays there
        assert page.locator("#reason").input_value() == "half a sentence"
        assert page.locator("#question").get_attribute("open") is not None
        assert page.locator("#announcement").inner_text().startswith("ucb earned")

        page.locator("#replication").select_option("0")
        sync_api.expect(page.locator("#legend .sum")).to_contain_text("instead of 120")
        page.locator("#period").fill("30")
        sync_api.expect(page.locator("#legend .sum")).to_contain_text("instead of 60")

        page.get_by_role("link", name="Preview").click()
        page.get_by_label("Name").fill("late")
        page.get_by_label("Policy").fill("ucb1(alpha=3)")
        page.get_by_role("button", name="Preview").click()
        assert "late" not in live.experiment.policies
        assert "Periods replayed without a user" in page.locator("#preview").inner_text()
        page.get_by_role("button", name="Add late").click()
        sync_api.expect(page.get_by_role("status")).to_have_text("late was added.")
        page.get_by_role("link", name="late against greedy").click()
        assert "policy=late" in page.url

        page.locator("#arm").select_option("<b>tour</b>")
        page.locator("#reason").fill("it is broken")
        page.get_by_role("button", name="Disable").click()
        sync_api.expect(page.get_by_role("status")).to_contain_text("<b>tour</b> is disabled")
        assert live.status().disabled == ("<b>tour</b>",)

        page.locator("#confirmation").fill("onboarding-hints")
        page.get_by_role("button", name="Stop at once").click()
        sync_api.expect(page.get_by_role("status")).to_contain_text("Stopped.")
        assert live.status().status == "stopped"
        page.get_by_role("button", name="Log out").click()
        assert page.url.endswith("/login")


@pytest.fixture(scope="module")
def watched(server):
    """An experiment in the middle, for pictures."""
    experiment = sl.Experiment(
        policies={"ucb": "ucb1", "thompson": "thompson_bernoulli"},
        arms=["checklist", "video", "tour"],
        horizon=200,
        replications=20,
        seed=3,
    )
    live = server.store.start(
        "pricing-page", experiment, options=sl.LiveOptions(reward=sl.Reward(min=0, max=1))
    )
    play(live, 12)
    return live


@pytest.fixture(scope="module")
def crowded(server):
    """Twelve policies with names that want to be markup or have no place to break, and arms with long names."""
    policies = {f"<b>{alpha:g}</b>": f"ucb1(alpha={alpha})" for alpha in range(1, 12)}
    experiment = sl.Experiment(
        policies={**policies, "without" * 12: "ucb1(alpha=12)"},
        arms=["checklist", "<b>tour</b>", "an-arm-" + "with-a-name-that-does-not-break" * 2],
        horizon=30,
        replications=8,
    )
    live = server.store.start(
        "<i>crowded", experiment, options=sl.LiveOptions(reward=sl.Reward(min=0, max=1))
    )
    play(live, 8)
    return live


def playground(**changes):
    return "/playground?" + urlencode({"a": "ucb1", "b": "epsilon_greedy", **changes})


PAGES = {
    "experiments": "/",
    "new": "/new",
    "new-refused": "/new?guess=1",
    "experiment": "/experiments/pricing-page",
    "experiment-crowded": "/experiments/%3Ci%3Ecrowded",
    "challenger": "/experiments/pricing-page/challenger?policy_name=late&policy=ucb1(alpha%3D3)",
    "playground": playground(),
    "playground-many": playground(more="\n".join(f"ucb1(alpha={k})" for k in (0.5, 1, 3, 9))),
}
CHECKED = {(390, "light"), (1280, "dark")}


def look_at(page, name):
    """Pictures of a page at both widths in both schemes; it fits them, and axe finds nothing serious."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for width, scheme in itertools.product((390, 1280), ("light", "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        page.screenshot(path=PICTURES / f"{name}-{width}-{scheme}.png", full_page=True)
        if (width, scheme) in CHECKED:
            assert serious(page) == [], name


def test_pictures_and_accessibility(chromium, session, server, watched, crowded):
    with opened(chromium, session, server, "/login") as page:
        for name, path in PAGES.items():
            page.goto(path)
            page.locator("[data-again]").wait_for(state="detached")
            look_at(page, name)


def test_reports_fit_a_phone(chromium, server, tmp_path):
    policies = {"<b>1</b>": "ucb1(alpha=1)", "a-name-" + "that-does-not-break" * 3: "ucb1(alpha=9)"}
    two = sl.Experiment(policies=policies, arms=3, horizon=200, replications=12, seed=1)
    many = two.replace(
        policies={**policies, **{f"<i>{k}": f"ucb1(alpha={k})" for k in range(2, 9)}}
    )
    for name, experiment, request in [
        ("report", two, {}),
        ("report-many", many, {"pairs": "best", "best": True}),
    ]:
        runs = sl.simulate(experiment, "bernoulli(0.7, 0.5, 0.3)", checkpoints=[50, 100, 200])
        sl.compare(runs, **request).to_html(tmp_path / f"{name}.html")
        with opened(chromium, None, server, f"file://{tmp_path}/{name}.html") as page:
            look_at(page, name)


def test_no_table_of_the_demo_is_cut_off_at_1000_pixels(chromium, server, tmp_path):
    policies = {"ucb1(alpha=2.5)": sl.UCB1(2.5), "ucb1(alpha=3)": sl.UCB1(3.0)}
    demo = sl.Experiment(policies=policies, arms=5, horizon=10_000, replications=10, seed=7)
    comparison = sl.designs(demo, "bernoulli(0.9, 0.7, 0.5, 0.3, 0.1)", designs=("naive", "replay"))
    comparison.to_html(tmp_path / "demo.html")
    wide = {"viewport": {"width": 1000, "height": 900}}
    cut = "[...document.querySelectorAll('.scroll')].map(box => box.scrollWidth - box.clientWidth)"
    with opened(chromium, None, server, f"file://{tmp_path}/demo.html", **wide) as page:
        assert {*page.evaluate(cut)} == {0}


def test_the_picture_of_the_readme(chromium, session, server, watched):
    """`make pictures` copies it to docs/dashboard.png."""
    options = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"}
    PICTURES.mkdir(parents=True, exist_ok=True)
    with opened(chromium, session, server, PAGES["experiment"], **options) as page:
        page.screenshot(path=PICTURES / "dashboard.png", full_page=True, clip=README)
    sizes = [size_of(folder / "dashboard.png") for folder in (PICTURES, DOCS)]
    assert sizes == [(README["width"], README["height"])] * 2


def size_of(picture):
    """Width and height of a PNG."""
    return struct.unpack(">II", picture.read_bytes()[16:24])


def test_the_playground_answers_while_it_is_changed(chromium, session, server):
    with opened(chromium, session, server, playground(horizon="300")) as page:
        answer = page.locator("#answer")
        sync_api.expect(answer).to_contain_text("more than ucb1 over 300 periods")
        page.evaluate("window.kept = true")
        page.locator("[name=b][value='uniform']").check(force=True)
        sync_api.expect(answer).to_contain_text("ucb1 earned")
        page.locator("[name=a][value='thompson_bernoulli']").check(force=True)
        page.locator("[name=a][value='uniform']").check(force=True)
        other = page.locator("[name=b]:checked")
        sync_api.expect(other).to_have_value("thompson_bernoulli")  # they have changed places
        sync_api.expect(answer).to_contain_text("thompson_bernoulli earned")
        page.locator("#mean1").focus()
        page.keyboard.press("End")
        sync_api.expect(page.locator("output[for=mean1]")).to_have_text("0.99")
        sync_api.expect(page.locator("#command")).to_contain_text("bernoulli(0.99, 0.5, 0.3)")
        assert page.evaluate("window.kept")
        assert page.evaluate("document.activeElement.id") == "mean1"
        page.get_by_role("link", name="Start a live experiment").click()
        assert page.locator("#guess").input_value() == "0.99, 0.5, 0.3"


def test_the_first_page_is_small(chromium, server, watched):
    with opened(chromium, None, server, "/login") as page:
        log_in(page, server)
        sizes = []
        page.on(
            "requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"])
        )
        page.goto("/experiments/pricing-page", wait_until="networkidle")
        assert len(sizes) >= 1
        assert 10_000 < sum(sizes) < 300_000
