"""Hypothesis profile, order of the tests, workers, and a PostgreSQL server for the tests that need it."""

import gc
import os
import shutil
import signal
import tempfile
from collections import Counter

import hypothesis
import pytest
import server

from sameluck.environments.base import ENVIRONMENTS
from sameluck.live.calls import settings
from sameluck.policies.base import POLICIES

# A shell starts background jobs with Ctrl-C ignored, and so would be all programs that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Imported and collected objects are kept, so there is no garbage to look for until the first test.
gc.disable()

# No deadline, because the first use of a loop compiles it; the same cases every time.
hypothesis.settings.register_profile(
    "sameluck", deadline=None, derandomize=True, database=None, max_examples=30
)
hypothesis.settings.load_profile("sameluck")


def pytest_configure(config):
    """Keep temporary files in memory if there is room: SQLite waits for the disk in hundreds of tests."""
    if config.option.basetemp is None and server.place(fsync=False) == server.MEMORY:
        folder = tempfile.mkdtemp(prefix="sameluck-tests-", dir=server.MEMORY)
        config.option.basetemp = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_xdist_auto_num_workers():
    """Return one worker more than there are cores, because tests of servers and browsers wait."""
    return (os.cpu_count() or 1) + 1


# Files that wait for other programs most of the time.
LONGEST_FILES = ("test_browser.py", "test_postgres.py", "test_kill.py", "test_confluence.py")


def pytest_collection_finish():
    """Exclude loaded modules from garbage collection, which would take a tenth of the time."""
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    gc.enable()


def pytest_collection_modifyitems(items):
    """Run long files first: a long file that begins last would keep the other workers waiting.

    `make check` starts no server, so every test that needs a server is marked slow.
    """
    for item in items:
        if "postgres_server" in item.fixturenames:
            item.add_marker(pytest.mark.slow)
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (item.path.name not in LONGEST_FILES, -slow[item.path]))


@pytest.fixture(autouse=True)
def registries():
    """Remove the policies and environments that a test registers."""
    before = [(registry, dict(registry)) for registry in (POLICIES, ENVIRONMENTS)]
    yield
    for registry, classes in before:
        registry.clear()
        registry.update(classes)


@pytest.fixture(autouse=True)
def patience(request, monkeypatch):
    """Let `assign` wait for its policy on a busy machine, except in tests of the default deadline."""
    if not request.node.get_closest_marker("default_timeout"):
        monkeypatch.setattr(settings, "ASSIGN_SECONDS", 60.0)


@pytest.fixture(autouse=True)
def columns(monkeypatch):
    """Make text equally wide wherever the tests run."""
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="session")
def postgres_server():
    with server.running() as started:
        yield started


@pytest.fixture(scope="session")
def postgres_databases(postgres_server):
    with server.Databases(postgres_server) as databases:
        yield databases


@pytest.fixture
def postgres_url(postgres_databases):
    """Return the URL of a database with tables and without rows; it opens sooner than an empty database."""
    name = postgres_databases.take_with_tables()
    yield postgres_databases.server.url(name)
    postgres_databases.give_back_with_tables(name)


@pytest.fixture
def empty_postgres_url(new_postgres_url):
    """Return the URL of an empty database."""
    return new_postgres_url()


@pytest.fixture
def sqlite_url(tmp_path):
    """Return the URL of a database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'ledger.db'}?synchronous=normal"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def url(request):
    """Return the URL of a database without rows, for SQLite and PostgreSQL."""
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
def new_postgres_url(postgres_databases):
    """Return a function that returns the URL of an empty database; the test's end empties them."""
    names = []

    def new():
        names.append(postgres_databases.take())
        return postgres_databases.server.url(names[-1])

    yield new
    for name in names:
        postgres_databases.give_back(name)
