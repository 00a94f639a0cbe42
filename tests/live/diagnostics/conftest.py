"""Stores with a clock of their own."""

import pytest

import sameluck as sl

START = 1_700_000_000.0


@pytest.fixture
def store():
    with sl.open("sqlite://", clock=sl.VirtualClock(START)) as opened:
        yield opened


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def any_store(request, tmp_path):
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'live.db'}?synchronous=normal"
    else:
        url = request.getfixturevalue("postgres_url")
    with sl.open(url, clock=sl.VirtualClock(START)) as opened:
        yield opened
