"""The public list, the exception tree, the layers and what an import costs."""

import re
import subprocess
import sys

import pytest

import sameluck as sl
from sameluck import errors


def test_the_public_list_is_sorted_complete_and_importable():
    public = {name for name in vars(sl) if not name.startswith("_")}
    modules = {name for name in public if type(vars(sl)[name]).__name__ == "module"}
    assert set(sl.__all__) == public - modules
    assert sl.__all__ == sorted(
        sl.__all__, key=lambda name: (not name.isupper() and name != "UCB1", name)
    )


def test_every_public_name_says_what_it_is_for():
    silent = [name for name in sl.__all__ if not (getattr(sl, name).__doc__ or "").strip()]
    assert silent == []


def test_the_exception_tree_drawn_in_the_module_is_the_one_in_the_code():
    drawn = dict(
        re.findall(r"^ *(\w+) .*?(?:exit code (\d))?$", errors.__doc__ or "", re.MULTILINE)
    )
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.SameluckError)
    ]
    for kind in kinds:
        assert kind.__name__ in errors.__doc__
        if code := drawn.get(kind.__name__):
            assert kind.exit_code == int(code)
    assert issubclass(sl.Invalid, ValueError)
    assert issubclass(sl.Missing, ImportError)


@pytest.mark.parametrize(
    "heavy", ["click", "rich", "matplotlib", "pandas", "dask", "distributed", "scipy.stats"]
)
def test_importing_sameluck_loads_nothing_heavy(heavy):
    code = f"import sys, sameluck; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("missing", "extra", "call"),
    [
        ("matplotlib", "plots", "sl.compare(runs).plot()"),
        ("pandas", "data", "sl.compare(runs).to_pandas()"),
        (
            "distributed",
            "dask",
            "__import__('sameluck.adapters.dask').adapters.dask.connect('tcp://x')",
        ),
    ],
)
def test_what_is_not_installed_is_asked_for_by_the_line_that_helps(missing, extra, call):
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


def test_the_command_without_its_extra_says_what_to_install():
    code = "import sys; sys.modules['click'] = None; from sameluck.__main__ import main; sys.exit(main())"
    shown = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )
    assert shown.returncode == 2
    assert shown.stderr == "the sameluck command needs: pip install 'sameluck[cli]'\n"
