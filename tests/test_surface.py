"""Public names, exception tree, layers, and the cost of an import."""

import ast
import builtins
import pickle
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest

import sameluck as sl
from sameluck import adapters, errors, inference, live
from sameluck.reporting import plots


def test_the_public_list_is_complete_and_importable():
    imported = {
        name
        for module in (sl, inference, live)
        for name, value in vars(module).items()
        if not name.startswith("_")
        and str(getattr(value, "__module__", "")).startswith("sameluck.")
    }
    assert set(sl.__all__) == imported - {"open"}
    assert len(sl.__all__) == len(set(sl.__all__))
    assert set(dir(sl)) == {*sl.__all__, "adapters", "open", "Client", "AsyncClient", "__version__"}


def test_a_star_import_hides_no_builtin():
    names: dict[str, object] = {}
    exec("from sameluck import *", names)
    assert not {name for name in names if hasattr(builtins, name) and not name.startswith("__")}
    assert names["UCB1"] is sl.UCB1
    assert names["compare"] is sl.compare


def test_the_version_is_that_of_the_installed_package():
    assert sl.__version__ == version("sameluck")


def test_modules_are_found_by_their_short_names():
    assert sl.plots is plots
    assert sl.adapters is adapters
    with pytest.raises(AttributeError, match="module 'sameluck' has no attribute 'nothing'"):
        _ = sl.nothing


EXPERIMENT = sl.Experiment(
    policies={"a": "ucb1", "b": "uniform"}, arms=2, horizon=3, replications=2
)


def test_unknown_options_are_said_to_be_in_options():
    with sl.open("sqlite://") as store, pytest.raises(sl.Invalid, match="'sticky' in options"):
        store.start("name", EXPERIMENT, options={"sticky": 1})


def test_every_public_name_says_what_it_is_for():
    silent = [name for name in sl.__all__ if not (getattr(sl, name).__doc__ or "").strip()]
    assert silent == []


def test_the_exception_tree_drawn_in_the_module_is_the_one_in_the_code():
    drawn = dict(re.findall(r"^ *(\w+) .*exit code (\d+)$", errors.__doc__, re.MULTILINE))
    kinds = {
        kind.__name__: kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.SameluckError)
    }
    del kinds["SameluckError"]
    assert {name: int(code) for name, code in drawn.items()} == kinds
    assert issubclass(sl.Invalid, ValueError)
    assert issubclass(sl.Missing, ImportError)


def test_every_error_has_a_code_for_programs():
    assert (sl.Invalid.code, sl.TooLarge("x").code, errors.AddressReused.code) == (
        "invalid",
        "too_large",
        "address_reused",
    )
    conflict = sl.Conflict("another value", "reward_conflict")
    restored = pickle.loads(pickle.dumps(conflict))
    assert (str(restored), restored.code) == ("another value", "reward_conflict")


@pytest.mark.slow
def test_importing_sameluck_loads_nothing_heavy():
    heavy = [
        "numba",
        "scipy.special",
        "click",
        "rich",
        "jinja2",
        "matplotlib",
        "pandas",
        "distributed",
    ]
    code = f"import sys, sameluck; print([name for name in {heavy!r} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "extra", "call"),
    [
        ("matplotlib", "plots", "sl.compare(runs).plot()"),
        (
            "jinja2",
            "plots",
            "result = sl.compare(runs); str(result); result._repr_html_(); result.to_html()",
        ),
        ("pandas", "data", "sl.compare(runs).to_pandas()"),
        ("httpx", "client", "sl.Client"),
        ("gymnasium", "gymnasium", "sl.adapters.gymnasium('FrozenLake-v1')"),
        (
            "distributed",
            "dask",
            "__import__('sameluck.adapters.dask').adapters.dask.connect('tcp://x')",
        ),
    ],
)
def test_a_missing_dependency_is_reported_with_the_line_that_installs_it(missing, extra, call):
    code = f"""
import sys
sys.modules[{missing!r}] = None
import sameluck as sl
experiment = sl.Experiment(policies={{"a": "ucb1", "b": "uniform"}}, arms=2, horizon=5, replications=2)
runs = sl.simulate(experiment, "bernoulli(0.7, 0.3)")
try:
    {call}
except sl.Missing as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert f"pip install 'sameluck[{extra}]'" in shown.stdout


@pytest.mark.slow
def test_the_command_without_its_extra_says_what_to_install():
    code = "import sys; sys.modules['click'] = None; from sameluck.__main__ import main; sys.exit(main())"
    shown = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )
    assert shown.returncode == 2
    assert shown.stderr == "the sameluck command needs: pip install 'sameluck[cli]'\n"


SOURCE = Path(sl.__file__).parent.parent
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.glob("sameluck/**/*.py")
}


@cache
def nodes(path):
    """Return the syntax nodes of a module."""
    return list(ast.walk(ast.parse(path.read_text())))


@pytest.mark.slow
def test_few_annotations_are_any():
    found = [
        f"{name}:{node.lineno}"
        for name, path in MODULES.items()
        for node in nodes(path)
        if "Any" in (getattr(node, "id", None), getattr(node, "attr", None))
    ]
    assert any(
        place.startswith("sameluck.compilation.functions:") for place in found
    )  # it does count
    assert len(found) < 150, found
