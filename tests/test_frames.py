"""Every result has a text form, a form for notebooks, and goes to pandas, polars, Arrow and xarray."""

import inspect
import json

import matplotlib.figure
import numpy as np
import pytest

import sameluck as sl
from sameluck import inference
from sameluck.frames import SHOWN_RECORDS, Frames

HOSTILE = ("<script>alert(1)</script>", 'b & "c" </td>')
BANDIT = sl.Bernoulli((0.7, 0.3))
KINDS = Frames.__subclasses__()


@pytest.fixture(scope="module")
def results():
    """One of each kind."""
    experiment = sl.Experiment(
        policies=dict(zip(HOSTILE, (sl.UCB1(), sl.EpsilonGreedy()), strict=True)),
        arms=["<i>", "&"],
        horizon=60,
        replications=20,
    )
    runs = sl.simulate(experiment, BANDIT, checkpoints=[30, 60])
    race = {"arms": 2, "horizon": 60, "tolerance": 50.0}
    made = [
        runs,
        sl.trace(experiment, BANDIT),
        sl.compare(runs),
        sl.plan(experiment, runs, effect=5.0),
        sl.race(dict(experiment.policies), BANDIT, **race),
        sl.designs(experiment, BANDIT, designs=("replay", "naive")),
        sl.twin(runs, replications=200, draws=20, draw_replications=20),
    ]
    return {type(one): one for one in made}


@pytest.mark.slow
def test_every_kind_of_result_is_tried(results):
    """By discovery: those there are, and those that a public function returns."""
    returned = {
        inspect.signature(value).return_annotation
        for value in (*vars(sl).values(), *vars(inference).values())
        if inspect.isfunction(value)
    }
    records = {"Coverage", "VarianceSplit"}  # NamedTuples
    public = {name for name in returned if name in sl.__all__}
    assert {*KINDS} == {*results}
    assert {kind.__name__ for kind in KINDS} == public - records - {"Environment"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_text_and_notebook(results, kind):
    """What a notebook shows has the names, as text and not as markup."""
    one = results[kind]
    shown = one._repr_html_()

    assert len(str(one)) > 20
    assert repr(one) == str(one)
    assert "<table>" in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "<script" not in shown
    assert "</td> " not in shown.replace("</td><td>", "")
    assert "<i>" not in shown


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_frames_and_datasets(results, kind):
    """The records, in every form; the columns that tell them apart are the axes of the Dataset."""
    one = results[kind]
    records = one.to_dicts()

    json.dumps(records)
    assert one.to_polars().columns == list(records[0])
    assert one.to_arrow().num_rows == len(records) == len(one.to_pandas())
    dataset = one.to_xarray()
    assert set(one._index) <= set(dataset.sizes)


def test_whole_numbers_before_infinity_are_floats():
    """In every kind of frame, as where one variance ratio has no bound."""

    class Counts(Frames):
        def to_dicts(self):
            return [{"needed": 3}, {"needed": float("inf")}]

    columns = [Counts().to_pandas(), Counts().to_polars(), Counts().to_arrow().to_pydict()]
    assert [list(one["needed"]) for one in columns] == [[3.0, float("inf")]] * 3


def test_the_dataset_of_runs_has_their_arrays(results):
    """By the names of their axes."""
    runs = results[sl.Runs]
    dataset = runs.to_xarray()

    assert dict(dataset.sizes) == {"replication": 20, "policy": 2, "checkpoint": 2, "arm": 2}
    np.testing.assert_array_equal(dataset.rewards, runs.rewards)
    last = dataset.pulls.sel(checkpoint=60, policy=HOSTILE[1], arm="&")
    np.testing.assert_array_equal(last, runs.pulls[:, 1, 1, 1])
    assert sl.Experiment.from_json(dataset.attrs["experiment"]) == runs.experiment
    assert dataset.attrs["environment"] == "bernoulli(0.7, 0.3)"


def test_a_dataset_of_records(results):
    """Of a trace by policy and period."""
    dataset = results[sl.Trace].to_xarray()
    arms = dataset.arm.sel(policy=HOSTILE[0])
    np.testing.assert_array_equal(arms, results[sl.Trace][HOSTILE[0]].arms)


def test_a_notebook_shows_the_first_records_of_many(results):
    shown = results[sl.Trace]._repr_html_()
    assert shown.count("<tr>") == 1 + SHOWN_RECORDS
    assert f"{SHOWN_RECORDS} of 120 records" in shown


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if hasattr(kind, "plot")], ids=lambda kind: kind.__name__
)
def test_a_figure_is_drawn_on_given_axes(results, kind):
    """Beside others; those of a twin are a figure of several panels."""
    figure = matplotlib.figure.Figure()
    left, right = figure.subplots(1, 2)
    if kind is sl.Twin:
        assert len(results[kind].plot().axes) == 3
        return
    assert results[kind].plot(ax=right) is figure
    assert right.get_xlabel()
    assert not left.get_xlabel()
    with pytest.raises(sl.Invalid, match="ax must be the Axes of a matplotlib figure, got 3"):
        results[kind].plot(ax=3)
