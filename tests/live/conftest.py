"""A PostgreSQL server for the tests that ask for one, and an empty database for each of them."""

import itertools

import psycopg
import pytest
import server

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
