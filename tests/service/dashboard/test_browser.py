"""The dashboard in a real browser: an experiment from its start to its end, pictures, accessibility.

Every message in the console fails a test: violations of the content security policy are among them. The pictures are
kept in `build/screenshots`.
"""

import random
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

import sameluck as sl

sync_api = pytest.importorskip("playwright.sync_api")

HERE = Path(__file__).parent
PICTURES = HERE.parent.parent.parent / "build" / "screenshots"
CHROMIUM = shutil.which("chromium")
AXE = (HERE / "axe.min.js").read_text()
README = {"x": 0, "y": 0, "width": 1280, "height": 1250}
MEANS = {"checklist": 0.8, "video": 0.3, "tour": 0.2, "<b>tour</b>": 0.2}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="install Debian's package chromium"),
]


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def session(chromium, server):
    """The state of a browser that has followed the link of the service."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(server.serving.dashboard)
    assert page.get_by_role("heading", name="Experiments").is_visible()
    state = context.storage_state()
    context.close()
    return state


@contextmanager
def opened(chromium, session, server, path, **options):
    """A page whose console has to stay empty."""
    context = chromium.new_context(
        storage_state=session, base_url=server.serving.url, reduced_motion="reduce", **options
    )
    page, messages = context.new_page(), []
    page.set_default_timeout(15_000)
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(path)
    try:
        yield page
        assert messages == []
    finally:
        context.close()


def play(live, until):
    """Users until a number of replications is complete."""
    number, chance = sum(live.status().answers.values()), random.Random(7)
    while live.status().complete < until:
        assert number < 100_000
        answers = live.assign_many([f"user-{number + place}" for place in range(20)])
        number += 20
        enrolled = [one for one in answers if one.id]
        live.reward_many([(one.id, chance.random() < MEANS[one.arm]) for one in enrolled])


def serious(page):
    """What axe finds that is serious."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (one["id"], [node["html"][:200] for node in one["nodes"]])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
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


def test_an_experiment_from_its_start_to_its_end(chromium, session, server):
    with opened(chromium, session, server, "/") as page:
        page.get_by_role("link", name="New experiment").click()
        for field, value in FORM.items():
            page.locator(f"#{field}").fill(value)
        sync_api.expect(page.locator("#plan")).to_contain_text(
            "fewer than the naive design", timeout=60_000
        )
        assert page.locator("#name").input_value() == "onboarding-hints"
        assert serious(page) == []
        page.get_by_role("button", name="Create").click()
        sync_api.expect(page.locator(".notice")).to_contain_text("enrols nobody")
        live = server.store.load("onboarding-hints")
        assert live.status().status == "paused"
        page.get_by_role("button", name="Start").click()
        sync_api.expect(page.locator(".notice")).to_have_text("It runs.")
        assert live.status().status == "running"
        verdict = page.locator(".say")
        assert verdict.inner_text() == "Nothing can be said yet."

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

        page.get_by_role("link", name="Preview one").click()
        page.get_by_label("Name").fill("late")
        page.get_by_label("Policy").fill("ucb1(alpha=3)")
        page.get_by_role("button", name="Preview").click()
        assert "late" not in live.experiment.policies
        assert "Periods it replays without a user" in page.locator("#preview").inner_text()
        page.get_by_role("button", name="Add late").click()
        sync_api.expect(page.get_by_role("status")).to_have_text("late is a challenger now.")
        page.get_by_role("link", name="late against greedy").click()
        assert "policy=late" in page.url

        page.locator("#arm").select_option("<b>tour</b>")
        page.locator("#reason").fill("it is broken")
        page.get_by_role("button", name="Disable").click()
        sync_api.expect(page.get_by_role("status")).to_contain_text("Nobody is shown <b>tour</b>")
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
        "pricing-page", experiment, live=sl.Live(reward=sl.Reward(min=0, max=1))
    )
    play(live, 12)
    return live


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pictures_and_accessibility(chromium, server, watched, width, scheme):
    session = {"cookies": [], "origins": []}
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    PICTURES.mkdir(parents=True, exist_ok=True)
    with opened(chromium, session, server, "/login", **options) as page:
        assert serious(page) == []
        page.get_by_label("Token").fill(server.serving.token)
        page.get_by_role("button", name="Log in").click()
        pages = {
            "experiments": "/",
            "new": "/new",
            "experiment": "/experiments/pricing-page",
            "challenger": "/experiments/pricing-page/challenger?policy_name=late&policy=ucb1(alpha%3D3)",
        }
        for name, path in pages.items():
            page.goto(path)
            assert serious(page) == [], name
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            page.screenshot(path=PICTURES / f"{name}-{width}-{scheme}.png", full_page=True)
        if (width, scheme) == (1280, "light"):  # the picture of the README, as docs/dashboard.png
            page.goto(pages["experiment"])
            page.screenshot(path=PICTURES / "dashboard.png", full_page=True, clip=README)


def test_the_first_page_is_small(chromium, server, watched):
    with opened(chromium, None, server, "/login") as page:
        page.get_by_label("Token").fill(server.serving.token)
        page.get_by_role("button", name="Log in").click()
        sizes = []
        page.on(
            "requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"])
        )
        page.goto("/experiments/pricing-page", wait_until="networkidle")
        assert len(sizes) >= 1
        assert 10_000 < sum(sizes) < 300_000
