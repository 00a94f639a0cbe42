"""docs/service.md: its code blocks run in order against a server, and its lists match the code."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import sameluck as sl
from sameluck.service.api_tokens import SCOPES
from sameluck.service.app import create_app
from sameluck.service.problems import STATUSES

PAGE = (Path(__file__).parent.parent.parent / "docs" / "service.md").read_text()
BLOCKS = re.findall(r"^```(bash|javascript|python)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
RUN = {
    "bash": ["bash", "-euo", "pipefail", "-c"],
    "javascript": ["node", "--input-type=module", "-e"],
}


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("node"), reason="the example in JavaScript needs node")
def test_the_examples_run_in_their_order(server, monkeypatch, capsys):
    monkeypatch.setenv("SAMELUCK_URL", server.process.url)
    monkeypatch.setenv("SAMELUCK_TOKEN", server.process.token)
    assert {language for language, _ in BLOCKS} == {"bash", "javascript", "python"}
    names: dict[str, object] = {"__name__": "docs"}
    for language, block in BLOCKS:
        if language == "python":
            exec(compile(block, "docs/service.md", "exec"), names)
            continue
        done = subprocess.run([*RUN[language], block], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout
    with server.client() as client:  # which counts the answers that are not written yet, too
        status = client.load("socks").status()
    assert status.status == "complete"
    assert status.answers["ASSIGNED"] == status.settled
    assert server.store.peek("shoes").status().settled == 1


def test_every_route_is_listed_with_its_scope():
    with sl.open("sqlite://") as store:
        document = create_app(store).openapi()
    listed = re.findall(r"^\| `(\w+ /\S+)` \| (\w*) +\| \S.* \|$", PAGE, re.MULTILINE)
    routes = {
        f"{method.upper()} {path}": (operation.get("security") or [{"token": [""]}])[0]["token"][0]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    assert dict(listed) == routes


def test_every_code_and_scope_is_explained():
    table = PAGE.split("## Errors")[1].split("## Tokens")[0]
    codes = set(re.findall(r"`(\w+)`", table))
    assert {error_class.code for error_class in STATUSES} - {
        "conflict",
        "interrupted",
        "address_reused",
    } <= codes
    conflicts = re.findall(r"`(\w+)`", sl.Conflict.__doc__.split("reason:")[1])
    assert set(conflicts) <= codes
    source = Path(sl.__file__).parent / "service"
    refusals = [
        code
        for path in source.rglob("*.py")
        for code in re.findall(r'(?:Refused|problem)\(\s*\d+, "(\w+)"', path.read_text())
    ]
    assert len(refusals) >= 8
    assert set(refusals) <= codes
    assert all(f"`{scope}`" in PAGE for scope in SCOPES)
