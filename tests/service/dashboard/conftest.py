"""A browser without script, and what a page says."""

import re
from html import unescape

import pytest

from sameluck.service.dashboard.pages import experiment_list


class Browser:
    """A browser without script: a session, and forms with its key."""

    def __init__(self, served, token=None):
        self.http, self.cookie = served.http, ""
        answer = self.post("/login", token=token or served.all)
        assert answer.status_code == 303, answer.text
        self.cookie = answer.headers["set-cookie"].partition(";")[0]

    def get(self, path):
        return self.http.get(path, headers={"Cookie": self.cookie})

    def post(self, path, **fields):
        return self.http.post(path, data=fields, headers={"Cookie": self.cookie})

    def send(self, path, **fields):
        key = re.search(r'name="form_key" value="([^"]+)"', self.get("/").text)[1]
        return self.post(path, form_key=key, **fields)


@pytest.fixture(autouse=True)
def _wait_for_rows(monkeypatch):
    """Show the list when all its rows are computed, however slow the machine is."""
    monkeypatch.setattr(experiment_list, "WAIT_SECONDS", 30.0)


@pytest.fixture
def log_in(served):
    """A browser that is logged in, with every scope or with the token that is given."""
    return lambda token=None: Browser(served, token)


@pytest.fixture
def text_of():
    """Function that returns the text of a page."""
    return lambda answer: " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())
