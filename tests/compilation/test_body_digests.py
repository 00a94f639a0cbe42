"""A user's bodies are named after all that their machine code depends on, or are not kept on disk."""

import ctypes
import functools
import importlib
import math
import sys
import time
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit, vectorize

from sameluck.compilation import machine_code
from sameluck.compilation.body_digests import compiled_bodies, has_digest, why_no_digest
from sameluck.compilation.decorators import Loop
from sameluck.environments.base import draw, draws, prepared_parameters
from sameluck.policies.base import Tally, as_compiled, fill_probabilities, select, selects
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import Key, at

SOURCES = {
    "own_mine": """
import enum
from typing import NamedTuple
import numpy as np
from numba import njit
import own_helpers
from own_helpers import bonus

SCALE = 2.0
TABLE = np.array([1.0, 2.0])

class Limits(NamedTuple):
    low: float
    high: float = 5.0

LIMITS = Limits(0.5, 3.0)

class Level(enum.IntEnum):
    FIRST = 1
    SECOND = 2

def adding(offset):
    @njit
    def add(x):
        return x + offset
    return add

shifted = adding(1.0)

class Mine(NamedTuple):
    first: float = 1.0
    second: float = 10.0

def body(policy, tally, period, noise):
    made = Limits(policy.first, 5.0)
    total = SCALE * bonus(period) + TABLE[1] + LIMITS.high + Level.SECOND.value + shifted(1.0)
    total += own_helpers.own_constants.STEP + np.floor(made.high) + 100.0 * policy.second
    return int(total)
""",
    "own_helpers": """
from numba import njit
import own_constants
from own_constants import deeper
FACTOR = 3.0

@njit
def bonus(period):
    return FACTOR * period + deeper(period)
""",
    "own_constants": """
from numba import njit
STEP = 7.0

@njit
def deeper(period):
    return 11.0 * period
""",
}
EDITS = {
    "body": ("own_mine", "100.0 *", "200.0 *"),
    "constant": ("own_mine", "SCALE = 2.0", "SCALE = 4.0"),
    "type of a constant": ("own_mine", "SCALE = 2.0", "SCALE = 2"),
    "contents of an array": ("own_mine", "array([1.0, 2.0])", "array([1.0, 9.0])"),
    "fields of a constant": ("own_mine", "Limits(0.5, 3.0)", "Limits(0.5, 4.0)"),
    "default of a class": ("own_mine", "high: float = 5.0", "high: float = 6.0"),
    "order of a class": (
        "own_mine",
        "low: float\n    high: float = 5.0",
        "high: float\n    low: float = 5.0",
    ),
    "enumeration": ("own_mine", "SECOND = 2", "SECOND = 3"),
    "closure": ("own_mine", "adding(1.0)", "adding(2.0)"),
    "helper in a closure": ("own_mine", "x + offset", "x - offset"),
    "helper's options": ("own_mine", "    @njit\n", "    @njit(error_model='numpy')\n"),
    "order of parameters": (
        "own_mine",
        "first: float = 1.0\n    second: float = 10.0",
        "second: float = 10.0\n    first: float = 1.0",
    ),
    "helper": ("own_helpers", "FACTOR * period +", "FACTOR * period -"),
    "constant of a helper": ("own_helpers", "FACTOR = 3.0", "FACTOR = 5.0"),
    "helper of a helper": ("own_constants", "11.0 *", "13.0 *"),
    "constant of a module of a module": ("own_constants", "STEP = 7.0", "STEP = 8.0"),
}
COMPILED_EDITS = ("contents of an array", "order of parameters", "helper of a helper")
EMPTY = np.zeros(0)
TALLY = Tally(np.zeros(2, np.int64), np.zeros(2), np.zeros(2), EMPTY, 0, 0.0)
ARGUMENTS = (TALLY, 3, Key(np.uint64(1), np.uint64(2)))


class Mine(NamedTuple):
    """A policy for bodies of these tests."""

    first: float = 1.0


class Unnamed(NamedTuple):
    """What it is compiled as without a digest."""

    first: float = 1.0


def choose(policy, tally, period, noise):
    return select(policy, tally, period, noise)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setattr(machine_code, "cache_directory", lambda: tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


@pytest.fixture
def own_modules(monkeypatch):
    """A function that imports the modules above after edits, as a new process would."""

    def load(edits=()):
        modules = {name: ModuleType(name) for name in SOURCES}
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        for name, module in reversed(modules.items()):
            source = SOURCES[name]
            for file, before, after in edits:
                assert file != name or before in source
                source = source.replace(before, after) if file == name else source
            exec(compile(source, f"<ipython-input-1-{name}>", "exec"), vars(module))
        return modules["own_mine"]

    return load


def played(module):
    """The arm that the module's body chooses in machine code of a new loop, and the same in plain Python."""
    selects(module.Mine)(module.body)
    compiled = Loop(choose)(as_compiled(module.Mine()), *ARGUMENTS)
    return compiled, module.body(module.Mine(), *ARGUMENTS)


def stored(cache):
    return {path: path.stat().st_ino for path in cache.rglob("*.machinecode")}


def class_of(body, kind=Mine):
    return compiled_bodies(kind, [body], otherwise=Unnamed).kind


@pytest.mark.slow
def test_machine_code_is_that_of_the_body_after_each_edit(cache, own_modules):
    """Unchanged bodies are loaded, whoever loaded them before; each edit gives another file and its own result."""
    first, plain = played(own_modules())
    files = stored(cache)

    assert first == plain
    assert played(own_modules()) == (plain, plain)
    assert stored(cache) == files
    retyped = (
        "own_mine",
        "second: float = 10.0",
        "second: int = 10",
    )  # the same name, another signature
    for count, edit in enumerate([retyped, *(EDITS[name] for name in COMPILED_EDITS)], 2):
        machine, plain = played(own_modules([edit]))
        assert machine == plain
        assert len(stored(cache)) == count
    assert played(own_modules()) == (first, first)


@pytest.mark.slow
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_changes_the_name_and_taking_it_back_restores_it(own_modules, edit):
    def name(*edits):
        module = own_modules(edits)
        return class_of(module.body, module.Mine).__name__

    assert name() == name()
    assert name(edit) != name()


def test_what_a_body_does_not_use_does_not_change_its_name(own_modules):
    """Another parameter's default, a comment, a line more: the same machine code."""
    edit = ("own_mine", "SCALE = 2.0", "# more\nUNUSED = 1\nSCALE = 2.0")
    default = ("own_mine", "second: float = 10.0", "second: float = 20.0")
    names = {class_of(own_modules([one]).body).__name__ for one in (edit, default)}

    assert names == {class_of(own_modules().body).__name__}


@pytest.mark.slow
def test_a_constant_changed_while_python_runs_is_noticed(cache, own_modules):
    """Rebound or changed in place, also that of a helper whose machine code has the former one; and back."""
    module = own_modules()
    helpers = sys.modules["own_helpers"]
    module.bonus(3)  # compiles it
    before = played(module)
    arms = {before[0]}
    for owner, name, value in [(module, "SCALE", 9.0), (helpers, "FACTOR", 8.0)]:
        former = getattr(owner, name)
        setattr(owner, name, value)
        machine = Loop(choose)(as_compiled(module.Mine()), *ARGUMENTS)
        arms.add(machine)
        setattr(owner, name, former)
    module.TABLE[1] += 1
    arms.add(Loop(choose)(as_compiled(module.Mine()), *ARGUMENTS))
    module.TABLE[1] -= 1

    assert arms == {before[0], before[0] + 7 * 42, before[0] + 30, before[0] + 1}
    assert played(module) == before


def returning(value):
    def body(policy, tally, period, noise):
        return value

    return body


def calling(function):
    def body(policy, tally, period, noise):
        return function(period)

    return body


def passes_a_module_on(policy, tally, period, noise):
    module = np
    return module.int64(1)


def uses_what_is_not_defined(policy, tally, period, noise):
    return nowhere  # noqa: F821


def uses_global_randomness(policy, tally, period, noise):
    return np.random.randint(2)  # noqa: NPY002


def uses_the_clock(policy, tally, period, noise):
    return int(time.time())


def imports(policy, tally, period, noise):
    import random

    return random.getrandbits(1)


def plain_helper(period):
    return period


@njit
def calls_itself(period):
    return 1 if period <= 1 else calls_itself(period - 1)


@njit(parallel=True)
def in_parallel(period):
    return period


@njit("int64(int64)")
def for_stated_types(period):
    return period


@vectorize
def elementwise(period):
    return period


class Child(Mine):
    """A class with a base class."""


@functools.wraps(plain_helper)
def wrapper(*arguments):
    return plain_helper(*arguments)


WITHOUT_DIGEST = {
    "a function of Python": (calling(plain_helper), "plain_helper"),
    "a decorated function": (calling(wrapper), "plain_helper"),
    "a lambda": (calling(lambda period: period), "<lambda>"),
    "a partial function": (calling(functools.partial(plain_helper)), "functools.partial"),
    "a pointer": (calling(ctypes.CFUNCTYPE(ctypes.c_int)()), "ctypes"),
    "a recursive helper": (calling(calls_itself), "calls_itself calls itself"),
    "a parallel helper": (calling(in_parallel), "'parallel': True"),
    "a helper of stated types": (calling(for_stated_types), "the types stated only"),
    "a ufunc of one's own": (calling(elementwise), "DUFunc"),
    "a helper with a plain helper": (calling(njit(calling(plain_helper))), "plain_helper"),
    "a list": (returning([1]), "builtins.list"),
    "an object": (returning(object()), "builtins.object"),
    "a class with a base class": (returning(Child()), "Child"),
    "a generator": (returning(np.random.default_rng(1)), "Generator"),
    "an array of objects": (returning(np.array([None])), "not of numbers"),
    "an array with gaps": (returning(np.zeros((4, 4))[::2, ::2]), "not contiguous"),
    "a large array": (returning(np.zeros(10**6)), "8000000 bytes"),
    "the bodies of other policies": (calling(select), "_select"),
    "the probabilities of other policies": (calling(fill_probabilities), "_fill_probabilities"),
    "the bodies of other environments": (calling(draw), "_draw"),
    "a module": (passes_a_module_on, "np is a module that is passed on"),
    "an undefined name": (uses_what_is_not_defined, "nowhere is not defined"),
    "global randomness": (uses_global_randomness, "RandomState"),
    "the clock": (uses_the_clock, "time"),
    "an import": (imports, "imports a module"),
}


@pytest.mark.parametrize(("body", "reason"), WITHOUT_DIGEST.values(), ids=WITHOUT_DIGEST)
def test_a_body_without_an_exact_digest_is_compiled_as_it_is(body, reason):
    own = compiled_bodies(Mine, [body], otherwise=Unnamed)

    assert own == (Unnamed, (body,))
    assert not has_digest(Unnamed)
    assert reason in why_no_digest(Unnamed)


def test_a_body_of_a_module_that_cannot_be_imported_has_no_digest():
    namespace = {"__name__": "nowhere_at_all"}
    exec("def body(policy, tally, period, noise):\n    return 1", namespace)

    assert class_of(namespace["body"]) is Unnamed


@pytest.mark.parametrize("number", [0, 1], ids=["select", "probabilities"])
def test_each_body_of_a_class_is_in_its_name(number):
    bodies = [returning(1), returning(2)]
    before = compiled_bodies(Mine, bodies, otherwise=Unnamed).kind
    bodies[number] = returning(3)

    assert compiled_bodies(Mine, bodies, otherwise=Unnamed).kind is not before
    assert class_of(bodies[number]) is not before


def test_the_name_of_a_law_is_that_of_its_draw_body():
    class Certain(NamedTuple):
        means: tuple = (1.0, 2.0)

    @draws(Certain)
    def reward(parameters, row, arm, bits):
        return parameters.means[arm]

    before = type(prepared_parameters(Certain(), 0, range(1), 2))
    draws(Certain)(lambda parameters, row, arm, bits: 2.0 * parameters.means[arm])

    assert has_digest(before)
    assert type(prepared_parameters(Certain(), 0, range(1), 2)) is not before
    draws(Certain)(reward)
    assert type(prepared_parameters(Certain(), 0, range(1), 2)) is before


def test_equal_bodies_of_two_modules_have_names_of_their_own(own_modules):
    """Machine code refers to the module that it was compiled from."""
    body = own_modules().body
    before = class_of(body).__name__
    body.__module__ = __name__

    assert class_of(body).__name__ != before


def test_constants_that_python_takes_for_equal_are_told_apart():
    zeros = [0, 0.0, -0.0, False, np.float32(0), np.int8(0), "0", b"0", (0,), None]
    arrays = [np.zeros(2), np.zeros((2, 1)), np.zeros((1, 2)), np.zeros(2, np.int64)]
    arrays += [np.zeros((2, 2)), np.zeros((2, 2), order="F")]

    names = {class_of(returning(value)).__name__ for value in zeros + arrays}

    assert len(names) == len(zeros) + len(arrays)


def test_a_body_that_uses_python_numpy_and_sameluck_has_a_digest():
    def body(policy, tally, period, noise):
        return int(abs(math.floor(np.log(uniform(at(noise, period, 0))))) > max(1, math.pi))

    assert has_digest(class_of(body))


@pytest.mark.slow
def test_a_damaged_file_is_written_anew(cache, own_modules):
    module = own_modules()
    expected = played(module)
    (file,) = stored(cache)
    content = file.read_bytes()
    for damaged in (b"", content[:1000], content[:-1000] + b"\0" * 1000):
        file.write_bytes(damaged)
        assert played(module) == expected
        assert machine_code._checksum(file.read_bytes()[32:]) == file.read_bytes()[:32]


@pytest.mark.slow
def test_without_a_folder_to_write_to_nothing_is_kept(cache, own_modules):
    (cache / "own").write_text("in the way")
    machine, plain = played(own_modules())

    assert machine == plain


def test_a_private_folder_is_removed_when_the_process_ends(monkeypatch):
    at_the_end = []
    monkeypatch.setattr(
        machine_code.atexit, "register", lambda *call, **named: at_the_end.append((call, named))
    )
    folder = machine_code._private_folder()
    (folder / "own").mkdir()
    ((remove, *what), named), *_ = at_the_end
    remove(*what, **named)
    assert not folder.exists()


def test_extensions_of_numba_have_no_digest(monkeypatch):
    """What the user has told Numba about a function of NumPy is in the machine code, but not in the body."""
    templates = importlib.import_module("numba.core.typing.templates")
    registry = templates.builtin_registry
    machine_code._check_extensions()
    monkeypatch.setattr(registry, "attributes", [*registry.attributes, Mine])

    with pytest.raises(machine_code.NotKept, match="extended by"):
        machine_code._check_extensions()


def test_the_least_recently_used_are_removed(monkeypatch, tmp_path):
    """Those of other versions of sameluck too; never those without a user's bodies."""
    folder = tmp_path / ("0" * 16)
    monkeypatch.setattr(machine_code, "cache_directory", lambda: folder)
    monkeypatch.setattr(machine_code, "_user_cache", lambda: tmp_path)
    monkeypatch.setattr(machine_code, "_MOST_BYTES", 250)
    files = [tmp_path / (digit * 16) / "own" / f"{digit}.machinecode" for digit in "012"]
    ours = folder / "run_all.machinecode"
    for age, file in enumerate([*files, ours]):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(100))
        machine_code.os.utime(file, (1000 - age, 1000 - age))

    machine_code._remove_least_recent()

    assert [file.exists() for file in [*files, ours]] == [True, True, False, True]
