"""A policy or an environment of sameluck is one file: everything else finds it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sameluck

pytestmark = pytest.mark.slow

POLICY = '''
"""`LastArm`: the arm with the highest index, but at first each arm once."""

from __future__ import annotations

from typing import NamedTuple

from sameluck.policies.base import Tally, selects
from sameluck.randomness.streams import Key


class LastArm(NamedTuple):
    """Play each arm once in index order, then the last arm for ever."""


@selects(LastArm)
def _last(policy: LastArm, tally: Tally, period: int, noise: Key) -> int:
    return min(period, tally.pulls.size) - 1
'''

ENVIRONMENT = '''
"""`Fixed`: every reward of an arm is its mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sameluck.environments.base import Environment, draws
from sameluck.randomness.streams import Bits


class _Parameters(NamedTuple):
    means: Sequence[float]


class Fixed(_Parameters, Environment):
    """Every reward of an arm is its mean: rewards without noise."""

    __slots__ = ()
    sample = "fixed(1, 2)"


@draws(Fixed)
def _mean(parameters: Fixed, row: int, arm: int, bits: Bits) -> float:
    return parameters.means[arm]
'''

USE = """
import json, sys, tempfile
import sameluck as sl
from sameluck.compilation import machine_code
from sameluck.policies.base import is_randomised

experiment = sl.Experiment(
    policies={"new": "last_arm", "object": sl.LastArm(), "batched": "batched(last_arm, size=3)"},
    arms=2, horizon=4, replications=2,
)
runs = sl.simulate(experiment, "fixed(1, 2)")
with tempfile.NamedTemporaryFile(suffix=".npz") as file:
    runs.save(file.name)
    kept = sl.Runs.load(file.name)
with sl.open("sqlite://", clock=sl.VirtualClock()) as store:
    live = store.start("new", experiment)
    sl.rehearse(live, sl.Fixed([1.0, 2.0]))
    lived = live.runs().rewards[:, :, 0].tolist()
names = {path.name for path in machine_code.compiled_sources()}
print(json.dumps({
    "rewards": runs.rewards[:, :, 0].tolist(),
    "live": lived,
    "kept": kept.environment == sl.Fixed((1.0, 2.0)),
    "star": [name in sl.__all__ for name in ("LastArm", "Fixed")],
    "sources": sorted(names & {"last_arm.py", "fixed.py"}),
    "randomised": is_randomised(sl.LastArm(), 2),
    "guarded": sl.trace(experiment, "fixed(1, 2)", guard=True)["new"].rewards.tolist(),
}))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The variables of a process that runs a copy of the package with two files more."""
    folder = tmp_path_factory.mktemp("copy")
    package = folder / "sameluck"
    shutil.copytree(Path(sameluck.__file__).parent, package)
    (package / "policies" / "last_arm.py").write_text(POLICY)
    (package / "environments" / "fixed.py").write_text(ENVIRONMENT)
    return {**os.environ, "PYTHONPATH": str(folder), "SAMELUCK_CACHE_DIR": str(folder / "cache")}


def ask(environment, *arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


def test_python_finds_a_policy_and_an_environment_of_one_file_each(environment):
    assert json.loads(ask(environment, "-c", USE)) == {
        "rewards": [[7.0, 7.0, 7.0]] * 2,
        "live": [[7.0, 7.0, 7.0]] * 2,
        "kept": True,
        "star": [True, True],
        "sources": ["fixed.py", "last_arm.py"],
        "randomised": False,
        "guarded": [1.0, 2.0, 2.0, 2.0],
    }


def test_the_command_line_finds_them(environment):
    assert "last_arm" in ask(environment, "-m", "sameluck", "policies")
    assert "fixed(1, 2)" in ask(environment, "-m", "sameluck", "environments")


def test_the_tests_find_them(environment):
    """The contract that every policy and environment is put through."""
    tests = Path(__file__).parent
    chosen = [str(tests / "policies" / "test_policies.py"), str(tests / "environments")]
    found = ask(
        environment,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "last_arm or LastArm or fixed",
        *chosen,
    )
    assert int(found.split(" passed")[0].split()[-1]) > 5


def test_machine_code_of_a_new_environment_is_kept(environment):
    def kept():
        code = "import sameluck as sl; sl.simulate(sl.Experiment(policies={'a': 'last_arm'}, arms=2, horizon=4, "
        ask(environment, "-c", code + "replications=2), 'fixed(1, 2)')")
        files = Path(environment["SAMELUCK_CACHE_DIR"]).rglob("*.machinecode")
        return {path: path.stat().st_ino for path in files}  # one that is written anew has another

    first = kept()
    assert first
    assert kept() == first


PLAIN = """
from typing import NamedTuple

from sameluck.environments.base import Environment, draws
from sameluck.policies.base import selects

class {name}(NamedTuple):
    means: float
"""
SELECTS = """
@selects({name})
def _first(policy, tally, period, noise):
    return 0
"""
DRAWS = """
@draws({name})
def _mean(parameters, row, arm, bits):
    return parameters.means[arm]
"""
BASE = """
class Based({name}, Environment):
    pass
"""
IMPORT = ["-c", "import sameluck"]
NO_SELECT_BODY = (
    "wrong.Tables has no select function; register one with sameluck.selects, or start its name"
)
NO_ENVIRONMENT = (
    "sameluck.environments.wrong.{} is not complete: an environment has the base class Environment and a draw "
    "function registered with sameluck.draws; add what is missing, or start its name with an underscore"
)


@pytest.mark.parametrize(
    ("folder", "name", "text", "command", "message"),
    [
        ("policies", "Tables", PLAIN, IMPORT, NO_SELECT_BODY),
        (
            "policies",
            "Tables",
            PLAIN + SELECTS,
            ["-m", "sameluck", "policies"],
            "start its name with an underscore",
        ),
        ("policies", "UCB1", PLAIN, IMPORT, "both define ucb1; rename one of them"),
        ("policies", "Runs", PLAIN + SELECTS, IMPORT, "would hide sameluck.Runs; rename it"),
        ("environments", "Plain", PLAIN, IMPORT, NO_ENVIRONMENT.format("Plain")),
        ("environments", "Plain", PLAIN + DRAWS, IMPORT, NO_ENVIRONMENT.format("Plain")),
        ("environments", "_Plain", PLAIN + BASE, IMPORT, NO_ENVIRONMENT.format("Based")),
    ],
)
def test_a_class_that_is_not_complete_or_has_the_name_of_another_is_refused(
    environment, folder, name, text, command, message
):
    wrong = Path(environment["PYTHONPATH"]) / "sameluck" / folder / "wrong.py"
    wrong.write_text(text.format(name=name))
    try:
        with pytest.raises(subprocess.CalledProcessError) as refused:
            ask(environment, *command)
    finally:
        wrong.unlink()
    assert message in refused.value.stderr
