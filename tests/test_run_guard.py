"""A run fails if two tests share an id, or if a collected test did not run; in parallel too."""

import subprocess
import sys
from pathlib import Path

import pytest

THREE_TESTS = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_it(number):
    pass
"""
SHARED_ID = """
def pytest_collection_modifyitems(items):
    items.append(items[0])
"""
SKIPPED_SILENTLY = """
def pytest_runtest_protocol(item):
    return item.name == "test_it[1]" or None
"""
FAILING = """
def pytest_runtest_setup(item):
    assert item.name != "test_it[0]"
"""


def run(folder, conftest, *options):
    (folder / "test_three.py").write_text(THREE_TESTS)
    (folder / "conftest.py").write_text(conftest)
    quiet = ["-q", "-p", "no:cacheprovider", "-p", "xdist", "-p", "run_guard"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, *options, "test_three.py"],
        check=False,
        cwd=folder,
        env={
            "PYTHONPATH": str(Path(__file__).parent),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the other plugins take seconds to import
        },
        capture_output=True,
        text=True,
    )


PARALLEL = pytest.mark.parametrize(
    "options", [["-n0"], ["-n2", "--dist", "loadfile"]], ids=["serial", "parallel"]
)


@pytest.mark.slow
@PARALLEL
def test_a_run_of_all_tests_passes(tmp_path, options):
    done = run(tmp_path, "", *options)
    assert (done.returncode, "did not run" in done.stdout) == (0, False), done.stdout + done.stderr


@pytest.mark.slow
@PARALLEL
def test_tests_that_share_an_id_fail_the_run(tmp_path, options):
    done = run(tmp_path, SHARED_ID, *options)
    assert done.returncode == 1
    assert "test_three.py::test_it[0]: 2 tests share this id" in done.stdout


@pytest.mark.slow
def test_tests_that_share_an_id_fail_the_collection(tmp_path):
    assert run(tmp_path, SHARED_ID, "-n0", "--collect-only").returncode == 1


@pytest.mark.slow
@PARALLEL
def test_a_collected_test_that_does_not_run_fails_the_run(tmp_path, options):
    done = run(tmp_path, SKIPPED_SILENTLY, *options)
    assert done.returncode == 1
    assert "test_three.py::test_it[1]: collected, and did not run" in done.stdout


@pytest.mark.slow
@PARALLEL
def test_deselected_tests_need_not_run(tmp_path, options):
    assert run(tmp_path, "", *options, "-k", "0").returncode == 0


@pytest.mark.slow
def test_a_run_that_stops_at_a_failure_is_not_blamed_for_the_tests_after_it(tmp_path):
    done = run(tmp_path, FAILING, "-n0", "-x")
    assert (done.returncode, "did not run" in done.stdout) == (1, False)
