"""Machine code on disk: a damaged file is compiled anew, and loops with users' classes are not kept."""

from typing import NamedTuple

import pytest

from sameluck.compilation import machine_code
from sameluck.compilation.decorators import Loop
from sameluck.policies.base import select, selects
from sameluck.policies.simple import Always


class Mine(NamedTuple):
    arm: int = 1


@selects(Mine)
def play_mine(policy, tally, period, noise):
    return policy.arm


def choose(policy):
    return select(policy, policy, 1, policy)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setattr(machine_code, "cache_directory", lambda: tmp_path)
    return tmp_path


def stored(cache):
    return list(cache.rglob("*.machinecode"))


@pytest.mark.slow
def test_a_damaged_file_is_written_anew(cache):
    assert Loop(choose)(Always(1)) == 1
    (file,) = stored(cache)
    content = file.read_bytes()
    for damaged in (b"", content[:1000], content[:-1000] + b"\0" * 1000):
        file.write_bytes(damaged)
        assert Loop(choose)(Always(1)) == 1
        assert machine_code._checksum(file.read_bytes()[32:]) == file.read_bytes()[:32]


@pytest.mark.slow
def test_a_users_class_is_compiled_in_each_process(cache):
    assert Loop(choose)(Mine(1)) == 1
    assert stored(cache) == []


def test_a_private_folder_is_removed_when_the_process_ends(monkeypatch):
    at_the_end = []
    monkeypatch.setattr(
        machine_code.atexit, "register", lambda *call, **named: at_the_end.append((call, named))
    )
    folder = machine_code._private_folder()
    (folder / "file").write_text("")
    ((remove, *what), named), *_ = at_the_end
    remove(*what, **named)
    assert not folder.exists()
