"""One run of the whole command with few replications, shared by the tests of its files."""

import contextlib
import io
import json

import pytest

from sameluck import cli

REPLICATIONS = 300


class Report:
    """The outcome of one run of `sameluck paper`."""

    def __init__(self, folder):
        self.folder = folder
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.code = cli.run(
                ["paper", "--replications", str(REPLICATIONS), "--out", str(folder)]
            )
        self.out, self.err = out.getvalue(), err.getvalue()
        self.results = json.loads((folder / "results.json").read_text())
        self.parts = self.results["parts"]


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    return Report(tmp_path_factory.mktemp("paper") / "report")


def pytest_collection_modifyitems(items):
    """The report takes several seconds to make."""
    for item in items:
        if "report" in item.fixturenames:
            item.add_marker(pytest.mark.slow)
