"""Stores with a clock of their own."""

import pytest

import sameluck as sl

START = 1_700_000_000.0


@pytest.fixture
def store():
    with sl.open("sqlite://", clock=sl.VirtualClock(START)) as opened:
        yield opened


@pytest.fixture
def any_store(url):
    with sl.open(url, clock=sl.VirtualClock(START)) as opened:
        yield opened
