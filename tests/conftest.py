"""One Hypothesis profile, the order of the tests, and a PostgreSQL server for the tests that ask for one.

No deadline (the first use of a loop compiles it); the same cases every time.
"""

import itertools

import hypothesis
import psycopg
import pytest
import server

from sameluck.policies.base import POLICIES

hypothesis.settings.register_profile(
    "sameluck", deadline=None, derandomize=True, database=None, max_examples=50
)
hypothesis.settings.load_profile("sameluck")


def pytest_collection_modifyitems(items):
    """One worker runs all cases of a function, or of a group that shares a fixture; slow functions begin first.

    The cases of a function share what is compiled; a slow function that begins last keeps one worker waiting.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.name.partition("[")[0]))
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture
def own_policies():
    """A test that registers policies of its own leaves the list of policies as it found it."""
    before = dict(POLICIES)
    yield
    POLICIES.clear()
    POLICIES.update(before)


NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_server():
    with server.running() as started:
        yield started


@pytest.fixture
def postgres_url(new_postgres_url):
    """The URL of an empty database."""
    return new_postgres_url()


@pytest.fixture
def new_postgres_url(postgres_server):
    """A function that makes an empty database and gives its URL; they go when the test ends."""
    names = []
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:

        def new():
            names.append(f"test_{next(NUMBERS)}")
            connection.execute(f"CREATE DATABASE {names[-1]} TEMPLATE template0")
            return postgres_server.url(names[-1])

        yield new
        for name in names:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
