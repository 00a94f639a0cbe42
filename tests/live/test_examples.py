"""The applications of examples/, each under a real server: users over HTTP, and their rewards in the ledger."""

import http.client
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import sameluck as sl

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
GUNICORN = ["gunicorn", "--bind", "127.0.0.1:0", "--threads", "4"]
PREFORKED = [*GUNICORN, "--preload", "--workers", "2", "flask_app:app"]
DJANGO = [*GUNICORN, "--workers", "1", "django_app:application"]
UVICORN = ["uvicorn", "--port", "0", "fastapi_app:app"]


@contextmanager
def served(command, url):
    """The host and port of an application, until it has ended by SIGTERM."""
    environment = {**os.environ, "SHOP_DB": url, "SHOP_TIMEOUT": "30"}
    environment.setdefault("PYTHONPATH", str(Path(sl.__file__).parent.parent))
    server = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=EXAMPLES,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        lines = []
        for line in server.stderr:
            lines.append(line)
            if found := re.search(r"(?:Listening at:|running on) http://(127\.0\.0\.1:\d+)", line):
                break
        else:
            pytest.fail("".join(lines))
        yield found[1]
        server.terminate()
        _, rest = server.communicate(timeout=30)
        assert server.returncode in (0, -15), rest
        assert "Traceback" not in rest
    finally:
        server.kill()
        server.wait()
        server.stderr.close()


def post(address, path):
    with closing(http.client.HTTPConnection(address, timeout=30)) as connection:
        connection.request("POST", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "kind"),
    [(PREFORKED, "postgres"), (DJANGO, "sqlite"), (UVICORN, "sqlite")],
    ids=["flask, gunicorn --preload", "django, gunicorn", "fastapi, uvicorn"],
)
def test_users_of_an_application(command, kind, request):
    url = request.getfixturevalue(f"{kind}_url")
    with served(command, url) as address, ThreadPoolExecutor(4) as threads:
        visits = list(threads.map(lambda n: post(address, f"/visits/user-{n % 6}"), range(12)))
        assert {status for status, _ in visits} == {200}
        shown = {(answer["id"], answer["arm"]) for _, answer in visits}
        assert len(shown) == 6  # one assignment for each unit, although it came twice
        calls = [f"/purchases/{id}/1.0" for id, _ in shown] * 2
        answers = list(threads.map(lambda path: post(address, path), calls))
        assert sorted(answer["duplicate"] for _, answer in answers) == [False] * 6 + [True] * 6
        first = calls[0].removesuffix("1.0")
        assert post(address, f"{first}0.0") == (409, {"error": "reward_conflict"})
        assert post(address, "/purchases/asg_1/1.0") == (409, {"error": "unknown"})
    with sl.open(url, read_only=True) as store:
        live = store.peek("socks")
        assert live.status().settled == 6
        assert {(id, live.describe(id).arm) for id, _ in shown} == shown
        assert {live.describe(id).value for id, _ in shown} == {1.0}
