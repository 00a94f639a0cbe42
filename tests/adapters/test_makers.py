"""Makers of other packages' bandits: what is the same for all packages, without any of them."""

import pickle

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
