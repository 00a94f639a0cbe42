"""Makers of other packages' bandits: what is the same for all packages, without any of them."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import sameluck as sl

ADAPTERS = {
    "river": sl.adapters.river,
    "mabwiser": sl.adapters.mabwiser,
    "SMPyBandits": sl.adapters.smpybandits,
    "bayesianbandits": sl.adapters.bayesianbandits,
}


def make(seed):
    raise AssertionError(seed)


@pytest.mark.parametrize("package", ADAPTERS)
def test_a_missing_package_is_reported_with_the_line_that_installs_it(package):
    def import_and_make(seed):
        raise ModuleNotFoundError(f"No module named {package!r}", name=f"{package}.bandit")

    experiment = sl.Experiment(
        policies={"it": sl.External("it")}, arms=2, horizon=5, replications=2
    )
    makers = {"it": ADAPTERS[package](import_and_make)}
    with pytest.raises(
        sl.Missing, match=f"^{package} is not installed; run: pip install {package}$"
    ):
        sl.simulate(experiment, "bernoulli(0.5, 0.4)", makers=makers)


def test_another_missing_module_is_the_makers_failure():
    def import_and_make(seed):
        raise ModuleNotFoundError("No module named 'mine'", name="mine")

    experiment = sl.Experiment(
        policies={"it": sl.External("it")}, arms=2, horizon=5, replications=2
    )
    makers = {"it": sl.adapters.river(import_and_make)}
    with pytest.raises(sl.Unplayable, match="its maker failed: ModuleNotFoundError"):
        sl.simulate(experiment, "bernoulli(0.5, 0.4)", makers=makers)


@pytest.mark.parametrize("package", ADAPTERS)
def test_it_takes_a_function(package):
    name = package.lower()
    with pytest.raises(sl.Invalid, match=rf"sl.adapters.{name} takes a function .* got 3; write"):
        ADAPTERS[package](3)


@pytest.mark.parametrize("package", ADAPTERS)
def test_it_can_be_sent_to_other_processes(package):
    maker = ADAPTERS[package](make)
    assert pickle.loads(pickle.dumps(maker)) == maker


def test_it_declares_the_version_of_the_function(monkeypatch):
    assert sl.adapters.river(make).version is None
    monkeypatch.setattr(make, "version", "2", raising=False)
    assert sl.adapters.river(make).version == "2"


def test_a_seed_that_is_too_large_for_the_maker_has_a_remedy():
    policies = {"old": sl.External("old")}
    experiment = sl.Experiment(policies=policies, arms=2, horizon=5, replications=1)
    remedy = r"the seed is below 2\*\*64: use numpy\.random\.default_rng\(seed\), or seed % 2\*\*32"
    with pytest.raises(sl.Unplayable, match=remedy):
        sl.simulate(experiment, "bernoulli(0.5, 0.4)", makers={"old": np.random.RandomState})


IMPORTS = """
import sys
import sameluck
print(sameluck.adapters.dask.on.__name__)
sys.modules["openfeature"] = None
try:
    import sameluck.adapters.openfeature
except sameluck.Missing as error:
    print(error)
"""


def test_adapters_need_no_import_of_their_own_and_name_their_extra():
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "on",
        "openfeature is not installed; run: pip install 'sameluck[openfeature]'",
    ]
