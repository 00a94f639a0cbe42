"""One file knows the intervals: a method that is added there is offered everywhere, and no other file names one."""

import ast
from pathlib import Path

import numpy as np
import pytest

import sameluck as sl
from sameluck.inference import interval_methods
from sameluck.inference.interval_methods import INTERVALS, IntervalMethod
from sameluck.intervals import Interval

SOURCE = Path(sl.__file__).parent
EXPERIMENT = sl.Experiment(
    policies={"ucb": "ucb1", "random": "uniform", "greedy": "epsilon_greedy"},
    arms=2,
    horizon=40,
    replications=20,
)


class Extremes(IntervalMethod):
    """From the smallest to the largest difference."""

    name = "extremes"

    def interval(self, values, level):
        low, high = float(values.min()), float(values.max())
        return Interval(low, high, 1.0 if low <= 0 <= high else 1 - level)


def test_a_method_that_is_registered_works_everywhere(monkeypatch):
    monkeypatch.setitem(INTERVALS, "extremes", Extremes())
    runs = sl.simulate(EXPERIMENT, "bernoulli(0.9, 0.1)", checkpoints=[20, 40])
    result = sl.compare(runs, interval="extremes", simultaneous="none")
    for effect in result.effects:
        first, second = (runs.policies.index(name) for name in (effect.policy, effect.control))
        index = runs.checkpoints.tolist().index(effect.checkpoint)
        differences = runs.rewards[:, first, index] - runs.rewards[:, second, index]
        assert (effect.low, effect.high) == (differences.min(), differences.max())
        assert effect.effect == pytest.approx(differences.mean())
    assert "95% extremes interval" in str(result).replace("\n", " ")
    assert "extremes" in result.to_html()
    assert sl.compare(runs, interval="extremes", best=True).standings

    with pytest.raises(sl.Invalid, match=r"known: .*, extremes"):
        sl.compare(runs, interval="none")
    with pytest.raises(sl.Invalid, match='peek=True takes interval="t" or "anytime"'):
        sl.coverage(EXPERIMENT, "bernoulli(0.9, 0.1)", interval="extremes", peek=True)
    counted = sl.coverage(
        EXPERIMENT, "bernoulli(0.9, 0.1)", interval="extremes", experiments=10, level=0.9
    )
    assert counted.covered == 1


def test_an_interim_look_gets_a_caution_unless_the_method_is_valid_at_every_look(monkeypatch):
    runs = sl.simulate(EXPERIMENT, "bernoulli(0.9, 0.1)")
    interim = sl.Runs(
        EXPERIMENT.replace(replications=40),
        runs.checkpoints,
        runs.rewards,
        runs.pulls,
        runs.interactions,
    )
    for valid in (False, True):
        method = Extremes()
        method.valid_at_every_look = valid
        monkeypatch.setitem(INTERVALS, "extremes", method)
        cautions = sl.compare(interim, interval="extremes").cautions
        assert any("the extremes interval" in caution for caution in cautions) == (not valid)


def names_in_comparisons(path):
    """The interval names that a module compares with something."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            for operand in ast.walk(node):
                if isinstance(operand, ast.Constant) and operand.value in INTERVALS:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno} {operand.value}"


def test_no_module_compares_the_name_of_an_interval():
    found = [name for path in SOURCE.glob("**/*.py") for name in names_in_comparisons(path)]
    assert found == []
    probe = ast.parse('interval == "anytime"')
    assert any(isinstance(node, ast.Compare) for node in ast.walk(probe))


@pytest.mark.parametrize("name", sorted(INTERVALS))
def test_a_method_has_what_its_attributes_promise(name):
    method = INTERVALS[name]
    assert method.name == name
    columns = np.random.default_rng(1).normal(1, 2, (30, 3))
    if method.copies_arms:
        return
    for column, interval in zip(columns.T, method.intervals(columns, 0.9), strict=True):
        alone = method.interval(column, 0.9)
        assert interval == pytest.approx(alone, rel=1e-12)
        assert alone.low <= method.centre(column) <= alone.high
    if method.has_joint_intervals:
        joint = method.joint_intervals(columns, 0.9)
        alone = method.intervals(columns, 0.9)
        assert all(a.low <= b.low for a, b in zip(joint, alone, strict=True))
        assert len(method.p_values(columns)) == 3
    if method.has_half_widths_at_looks:
        half = method.half_widths_at_looks(columns.T, 0.9)
        low = [method.interval(column, 0.9).low for column in columns.T]
        assert columns.mean(axis=0) - half[:, -1] == pytest.approx(low)
    assert method.one_sided_half_widths(columns, 0.9).shape == (3,)


def test_the_default_is_valid_at_the_look_it_is_for():
    assert INTERVALS[interval_methods.default_interval(interim=True)].valid_at_every_look
    assert INTERVALS[interval_methods.default_interval(interim=False)].is_default
    assert [method.name for method in INTERVALS.values() if method.is_default] == ["t"]
