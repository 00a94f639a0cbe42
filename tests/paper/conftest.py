"""One run of the whole command with few replications, shared by the tests of its files."""

import contextlib
import io
import json

import pytest

from sameluck import cli
from sameluck.files import locked

REPLICATIONS = 300


class Report:
    """Outcome of one run of `sameluck paper`."""

    def __init__(self, folder):
        self.folder = folder
        self.code, self.out = json.loads((folder / "outcome.json").read_text())
        self.results = json.loads((folder / "results.json").read_text())
        self.parts = self.results["parts"]


def make(folder):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = cli.run(["paper", "--replications", str(REPLICATIONS), "--out", str(folder)])
    (folder / "outcome.json").write_text(json.dumps([code, out.getvalue()]))


@pytest.fixture(scope="session")
def report(tmp_path_factory, request):
    """Made by the first worker that needs it."""
    folder = tmp_path_factory.getbasetemp()
    if hasattr(
        request.config, "workerinput"
    ):  # of pytest-xdist: a folder inside that of the session
        folder = folder.parent
    with locked(folder / "paper.lock"):
        if not (folder / "paper" / "outcome.json").exists():
            make(folder / "paper")
    return Report(folder / "paper")


def pytest_collection_modifyitems(items):
    """Make the report once; it takes several seconds."""
    for item in items:
        if "report" in item.fixturenames:
            item.add_marker(pytest.mark.slow)
