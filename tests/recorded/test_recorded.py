"""This version reproduces recorded results bit for bit: every policy and environment, and version 0.1.0."""

import json
import shutil

import pytest

import sameluck as sl
from recorded import pairs, record
from sameluck.simulation.verification import difference_from_rerun

FACTS = json.loads((record.HERE / "facts.json").read_text(encoding="utf-8"))
DIGESTS = record.recorded()


def test_every_policy_and_environment_is_recorded():
    found = {key for keys in pairs.keys().values() for key in keys}
    expected = {key for keys in DIGESTS.values() for key in keys}

    how = "run `python tests/recorded/record.py`, and see in `git diff` that no other line changes"
    assert sorted(found - expected) == [], f"not recorded in {record.DIGESTS}: {how}"
    assert sorted(expected - found) == [], f"recorded, and no longer found: {how}"


@pytest.mark.slow
@pytest.mark.parametrize("environment", DIGESTS)
def test_same_bits_as_recorded(environment):
    assert record.differences(pairs.digests(environment), DIGESTS[environment]) == []


@pytest.fixture(scope="module")
def digests():
    return record.digests()


@pytest.mark.slow
@pytest.mark.parametrize("case", FACTS["digests"])
def test_same_bits_as_version_0_1(digests, case):
    assert digests[case] == FACTS["digests"][case]


def test_saved_runs_of_version_0_1_open():
    assert record.runs_facts(sl.Runs.load(record.HERE / "runs.npz")) == FACTS["runs"]


def test_saved_runs_of_version_0_1_are_verified_to_the_bit():
    """They hold an array of the policies' random choices, which is no longer read."""
    runs = sl.Runs.load(record.HERE / "runs.npz")

    assert runs.totals is not None
    assert difference_from_rerun(runs) is None


def test_a_database_of_version_0_1_opens_and_continues(tmp_path):
    path = shutil.copy(record.HERE / "live.db", tmp_path)
    sl.open(f"sqlite:///{path}").close()  # its schema is migrated; `database_facts` only reads
    facts = record.database_facts(path)
    facts["status"] = {name: facts["status"][name] for name in FACTS["database"]["status"]}
    assert facts == FACTS["database"]
    with sl.open(f"sqlite:///{path}") as store:
        assert store.load("colours").assign("somebody new").reason in ("ASSIGNED", "NO_OPEN_SLOT")
