"""The disk cache is used, and never runs yesterday's code."""

import importlib
import inspect
import os
import shutil
import subprocess
import sys
import threading
from collections import namedtuple
from pathlib import Path

import pytest

import sameluck
from sameluck.compilation.decorators import announcing, called, compiled, inlined

pytestmark = pytest.mark.slow

PLAY = """
import gc
import sys
import sameluck as sl
for policy in sys.argv[1:]:
    experiment = sl.Experiment(policies={"it": policy}, arms=2, horizon=50, replications=2, seed=3)
    print(sl.simulate(experiment, sl.Bernoulli((0.0, 1.0)), workers=1).rewards[:, 0, 0].tolist())
assert gc.isenabled() and "scipy.linalg" not in sys.modules
"""
POLICIES = ("always(1)", "uniform", "batched(always(1), size=2)")

OWN = {
    "mine": """
from typing import NamedTuple
import sameluck as sl
from mine_helpers import other

class Mine(NamedTuple):
    pass

@sl.selects(Mine)
def mine(policy, tally, period, noise):
    return other(0)

class Certain(NamedTuple):
    means: tuple

@sl.draws(Certain)
def certain(parameters, row, arm, bits):
    return parameters.means[arm]
""",
    "mine_helpers": """
from numba import njit

ARMS = 2

@njit
def other(arm):
    return (arm + 1) % ARMS
""",
}

PLAY_OWN = """
import sameluck as sl
from mine import Certain, Mine
policies = {"mine": Mine(), "late": sl.Batched(Mine(), 3)}
experiment = sl.Experiment(policies=policies, arms=2, horizon=50, replications=1)
print(sl.simulate(experiment, Certain((0.0, 1.0)), workers=1).rewards.tolist())
"""

# An edit of one source that changes what a compiled loop in *another* file does, and a policy that shows it.
EDITS = {
    "policies/simple.py": (
        "always(1)",
        lambda text: text.replace("    return policy.arm\n", "    return 0\n"),
    ),
    "policies/batched.py": (
        "batched(always(1), size=2)",
        lambda text: text.replace("return select(policy.inner,", "return 0 * select(policy.inner,"),
    ),
    "randomness/streams.py": (
        "uniform",
        lambda text: text.replace("0x9E3779B97F4A7C15", "0x9E3779B97F4A7C17"),
    ),
    "randomness/samplers.py": (
        "uniform",
        lambda text: text + "\n\n@inlined\ndef uniform(bits):\n    return 0.25\n",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the package that tests may edit (and put back), with a cache of its own."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(Path(sameluck.__file__).parent, folder / "src" / "sameluck")
    return folder


@pytest.fixture(scope="module")
def before(folder):
    """What each policy earns before anything is edited; its loops are in the cache from then on."""
    return dict(zip(POLICIES, run(PLAY, folder, *POLICIES).splitlines(), strict=True))


def run(script, folder, *arguments, errors=False):
    """What a script prints, or prints on standard error, in a new process that sees the copy only."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "src"),
        "SAMELUCK_CACHE_DIR": str(folder / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr if errors else done.stdout


def stored(folder):
    """The compiled files in the cache; one that is written anew has another number."""
    return {path: path.stat().st_ino for path in (folder / "cache").rglob("*.machinecode")}


def test_a_second_process_compiles_nothing(folder, before):
    """The loops of the first process are on disk; the second writes none and gives the same result."""
    written = stored(folder)

    again = run(PLAY, folder, *POLICIES)

    assert written
    assert stored(folder) == written
    assert again.splitlines() == list(before.values())


@pytest.mark.parametrize("source", EDITS)
def test_an_edited_source_is_compiled_anew(folder, before, source):
    """Numba itself watches the loop's own file only; an edited callee in another file must not run stale."""
    file = folder / "src" / "sameluck" / source
    text = file.read_text()
    policy, edit = EDITS[source]
    assert edit(text) != text

    file.write_text(edit(text))
    try:
        after = run(PLAY, folder, policy)
    finally:
        file.write_text(text)

    assert after.splitlines() != [before[policy]]


def test_a_users_functions_are_compiled_in_each_process(folder):
    """Nothing of them is kept on disk; an edited constant of a helper in another file is noticed."""
    for name, source in OWN.items():
        (folder / "src" / f"{name}.py").write_text(source)
    before = stored(folder)

    first = run(PLAY_OWN, folder)
    helpers = folder / "src" / "mine_helpers.py"
    helpers.write_text(OWN["mine_helpers"].replace("ARMS = 2", "ARMS = 1"))

    assert first == "[[[50.0], [50.0]]]\n"
    assert stored(folder) == before
    assert run(PLAY_OWN, folder) == "[[[0.0], [0.0]]]\n"


def test_only_what_is_compiled_is_announced():
    """Not what is loaded or called again, however long that takes; not what another thread compiles."""
    said = []
    own = namedtuple("own", "number")  # nothing is kept on disk
    loop, other = (compiled(lambda own: own.number + 1) for _ in range(2))

    with announcing(lambda: said.append("first")):
        loop(own(1))
        loop(own(1.5))
    with announcing(lambda: said.append("again")):
        loop(own(2))
        thread = threading.Thread(target=other, args=(own(1),))
        thread.start()
        thread.join()

    assert said == ["first"]


def test_a_function_is_compiled_once_whatever_calls_it():
    """Numba would compile it for the loop, for a function that is inlined and for one that is called."""
    own = namedtuple("own", "number")  # nothing is kept on disk
    next_number = inlined(lambda number: number + 1)
    inside = inlined(lambda number: 2 * next_number(number))
    apart = called(lambda number: 3 * next_number(number))

    def loop(own):
        return next_number(own.number) + inside(own.number) + apart(own.number)

    after = compiled(loop)(own(1))

    inlining = importlib.import_module("sameluck.compilation.inlining")
    functions = [key[0] for key in inlining._compiled]
    assert after == 12
    assert functions.count(inspect.unwrap(next_number)) == 1


def test_a_second_process_announces_nothing(folder, before):
    """Machine code is loaded, which is not compiling."""
    assert before
    assert run(PLAY, folder, *POLICIES, errors=True) == ""


def test_a_cache_that_cannot_be_written_is_not_needed(folder, tmp_path):
    """The cache's folder is a file here: everything works, only slower."""
    (tmp_path / "cache").write_text("in the way")
    (tmp_path / "src").symlink_to(folder / "src")

    assert run(PLAY, tmp_path, "always(1)") == "[50.0, 50.0]\n"
