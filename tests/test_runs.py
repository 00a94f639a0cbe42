"""`Runs`: shapes agree, parts join, files are whole or not there, and a bad file is refused."""

import dataclasses
import gc
import json
import zipfile
from itertools import pairwise

import numpy as np
import pytest

import sameluck as sl
from nonempty import nonempty
from sameluck.simulation.rewards import observed_rewards

EXPERIMENT = sl.Experiment(
    policies={'a "quoted"': "ucb1", "\N{SAUROPOD}": "uniform"},
    arms=["x", "y"],
    horizon=40,
    replications=6,
)


@pytest.fixture(scope="module")
def runs():
    """Six replications at three checkpoints."""
    return sl.simulate(EXPERIMENT, "bernoulli(0.7, 0.3)", checkpoints=[1, 20, 40])


@pytest.fixture(autouse=True)
def no_file_is_left_open():
    """A file left open is a warning, and so an error, in the test that left it and not in another one."""
    gc.freeze()  # what is older than the test need not be searched
    yield
    gc.collect()
    gc.unfreeze()


def part(runs, first, last):
    """Some of the replications."""
    names = ("rewards", "pulls", "totals", "interactions")
    arrays = {name: getattr(runs, name)[first:last] for name in names}
    return dataclasses.replace(runs, **arrays, first=first)


def assert_equal(one, other):
    """Equal in everything."""
    assert one.experiment == other.experiment
    assert one.environment == other.environment
    assert (one.first, one.notes) == (other.first, other.notes)
    for name in ("checkpoints", "rewards", "pulls", "interactions"):
        ours, theirs = getattr(one, name), getattr(other, name)
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


def test_what_runs_hold(runs):
    """Axes are replication, policy, checkpoint, arm; counts are whole; the environment is known by its text."""
    assert runs.rewards.shape == (6, 2, 3)
    assert runs.pulls.shape == (6, 2, 3, 2)
    assert runs.interactions.shape == (6, 3)
    assert runs.rewards.dtype == np.float64
    assert runs.pulls.dtype == runs.interactions.dtype == runs.checkpoints.dtype == np.int64
    assert runs.policies == ('a "quoted"', "\N{SAUROPOD}")
    assert runs.replications == 6
    assert runs.environment == sl.Bernoulli((0.7, 0.3))
    np.testing.assert_array_equal(runs.replayed, 2 * runs.checkpoints - runs.interactions)
    users = f"{runs.interactions[:, 2].mean():,.2f} interactions per replication"
    checkpoints = f"3 checkpoints up to {runs.checkpoints[2]:,}"
    names = ", ".join(runs.policies)
    assert repr(runs) == f"Runs(6 replications of {names}; {checkpoints}; {users})"


def test_runs_are_frozen(runs):
    """The arrays cannot be changed."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        runs.rewards = runs.rewards * 2


@pytest.mark.parametrize("name", ["runs.npz", "no suffix", "\N{SAUROPOD} 'x' \"y\".npz", "x" * 200])
def test_what_is_saved_is_loaded(runs, tmp_path, name):
    """Equal to the bit, under any file name, as text or as a path; an existing file is replaced."""
    path = tmp_path / name
    path.write_text("in the way")

    runs.save(str(path))

    assert_equal(sl.Runs.load(path), runs)
    assert_equal(sl.Runs.load(str(path)), runs)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_file_holds_no_pickle(runs, tmp_path):
    """Arrays and JSON only, so loading a stranger's file runs nothing."""
    runs.save(tmp_path / "runs.npz")

    with np.load(tmp_path / "runs.npz", allow_pickle=False) as data:
        arrays = ["checkpoints", "interactions", "pulls", "rewards", "totals"]
        assert sorted(data.files) == ["about", *arrays]
        assert json.loads(data["about"].item())["experiment"] == EXPERIMENT.to_dict()


def test_notes_are_saved_and_joined(runs, tmp_path):
    """What a live experiment says about its runs holds for the file too: arms that moved, for example."""
    noted = [dataclasses.replace(part(runs, 0, 3), notes=("moved", "waits"))]
    noted[0].save(tmp_path / "noted.npz")
    assert_equal(sl.Runs.load(tmp_path / "noted.npz"), noted[0])
    noted.append(dataclasses.replace(part(runs, 3, 6), notes=("disabled", "moved")))
    assert sl.Runs.concat(noted).notes == ("moved", "waits", "disabled")


def test_a_file_of_many_values_holds_one_byte_per_character(runs, tmp_path):
    """Files that held four are read too."""
    runs.save(tmp_path / "runs.npz")
    with np.load(tmp_path / "runs.npz") as data:
        arrays = {name: data[name] for name in data.files}
    assert arrays["about"].nbytes == len(arrays["about"].item())
    arrays["about"] = np.array(arrays["about"].item().decode())
    np.savez(tmp_path / "earlier.npz", **arrays)
    assert_equal(sl.Runs.load(tmp_path / "earlier.npz"), runs)


@pytest.mark.parametrize("cuts", [[0, 3, 6], [0, 1, 2, 6], [0, 6], [0, 0, 6]])
def test_parts_join_to_the_whole(runs, cuts):
    """`concat` puts replications one after another, however they were cut."""
    parts = [part(runs, *ends) for ends in pairwise(cuts)]

    assert_equal(sl.Runs.concat(parts), runs)


def test_joining_is_associative(runs):
    """(a + b) + c = a + (b + c)."""
    a, b, c = (part(runs, first, first + 2) for first in (0, 2, 4))

    left = sl.Runs.concat([sl.Runs.concat([a, b]), c])
    right = sl.Runs.concat([a, sl.Runs.concat([b, c])])

    assert_equal(left, right)


def test_only_parts_of_one_experiment_join(runs):
    """Another seed, environment or other checkpoints are another experiment."""
    environment = "bernoulli(0.7, 0.3)"
    others = {
        "seed": sl.simulate(EXPERIMENT.replace(seed=9), environment, checkpoints=[1, 20, 40]),
        "environment": sl.simulate(EXPERIMENT, "bernoulli(0.7, 0.2)", checkpoints=[1, 20, 40]),
        "checkpoints": sl.simulate(EXPERIMENT, environment, checkpoints=[1, 21, 40]),
    }

    for name, other in others.items():
        with pytest.raises(sl.Invalid, match=f"different experiments: they differ in {name}$"):
            sl.Runs.concat([runs, other])
    for nothing in ([], [runs, 3]):
        with pytest.raises(sl.Invalid, match="at least one part, each of them Runs"):
            sl.Runs.concat(nothing)
    assert sl.Runs.concat(iter([runs])).replications == runs.replications


@pytest.mark.parametrize("order", [[(3, 6), (0, 3)], [(0, 3), (0, 3)], [(0, 2), (4, 6)]])
def test_replications_join_in_order_each_once(runs, order):
    """A part too early, twice or missing is refused: it would count a replication twice or hide one."""
    with pytest.raises(sl.Invalid, match="should follow"):
        sl.Runs.concat([part(runs, *ends) for ends in order])


def test_a_part_is_saved_as_a_part(runs, tmp_path):
    """The number of its first replication is in the file."""
    last = part(runs, 4, 6)
    last.save(tmp_path / "last.npz")

    assert_equal(sl.Runs.concat([part(runs, 0, 4), sl.Runs.load(tmp_path / "last.npz")]), runs)


@pytest.mark.parametrize("field", ["rewards", "pulls", "interactions", "checkpoints"])
def test_arrays_that_do_not_agree_are_refused(runs, field):
    """One row or column less in one of them."""
    with pytest.raises(sl.Invalid, match="do not agree"):
        dataclasses.replace(runs, **{field: getattr(runs, field)[1:]})


# --- files that are not what they should be ---------------------------------------------------------------------


def refused(path):
    """The message with which a file is refused."""
    with pytest.raises(sl.Invalid) as error:
        sl.Runs.load(path)
    return str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    """The message names it."""
    assert "no file" in refused(tmp_path / "nothing.npz")
    assert "nothing.npz" in refused(tmp_path / "nothing.npz")


def test_a_folder_is_no_file(tmp_path):
    """Refused like any other thing that `save` did not write."""
    assert "not a file that Runs.save wrote" in refused(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"x", b"PK\x03\x04", b"PK\x03\x04" + bytes(500), b"{}", b"\x93NUMPY\x01\x00"]
)
def test_other_content_is_refused(tmp_path, content):
    """An empty file, text, the beginning of a zip file, the beginning of an array."""
    (tmp_path / "file").write_bytes(content)

    assert "not a file that Runs.save wrote" in refused(tmp_path / "file")


def test_other_arrays_are_refused(tmp_path):
    """A single array, an archive of other arrays, and one with pickled objects, which are never unpickled."""
    np.save(tmp_path / "one.npy", np.zeros(3))
    np.savez(tmp_path / "other.npz", about=np.array("{}"), x=np.zeros(3))
    np.savez(tmp_path / "pickled.npz", about=np.array([{}], dtype=object))

    for name in ("one.npy", "other.npz", "pickled.npz"):
        assert "not a file that Runs.save wrote" in refused(tmp_path / name)
    (tmp_path / "text.npz").write_text("hello")
    assert refused(tmp_path / "text.npz").endswith("it is not a complete .npz archive")
    np.savez(tmp_path / "bare.npz", x=np.zeros(3))
    assert refused(tmp_path / "bare.npz").endswith("it lacks 'about'")


@pytest.mark.slow
def test_a_broken_file_is_refused_or_read_rightly(runs, tmp_path):
    """Every single byte changed, one after another: the same runs (a byte that is not used) or `Invalid`, never
    another error or other numbers."""
    runs.save(tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    broken = tmp_path / "broken"

    for place in nonempty(range(len(whole))):
        broken.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            found = sl.Runs.load(broken)
        except sl.Invalid:
            continue
        assert_equal(found, runs)


def test_a_truncated_file_is_refused(runs, tmp_path):
    """Whatever length is left of it."""
    runs.save(tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()

    for length in nonempty(range(0, len(whole), 37)):
        (tmp_path / "cut").write_bytes(whole[:length])
        assert "not a file that Runs.save wrote" in refused(tmp_path / "cut")


def test_a_file_whose_experiment_is_wrong_is_refused(runs, tmp_path):
    """An archive in good order with an experiment that cannot be, or with arrays for another one."""
    runs.save(tmp_path / "good.npz")
    with np.load(tmp_path / "good.npz") as data:
        arrays = {name: data[name] for name in data.files}
    about = json.loads(arrays["about"].item())
    about["experiment"]["horizon"] = -1
    np.savez(tmp_path / "horizon.npz", **{**arrays, "about": np.array(json.dumps(about))})
    np.savez(tmp_path / "shape.npz", **{**arrays, "rewards": arrays["rewards"][:, :, 1:]})

    assert "horizon" in refused(tmp_path / "horizon.npz")
    assert "do not agree" in refused(tmp_path / "shape.npz")


def test_an_archive_with_a_password_is_refused(runs, tmp_path):
    """A zip entry marked as encrypted is not ours."""
    runs.save(tmp_path / "good.npz")
    content = bytearray((tmp_path / "good.npz").read_bytes())
    with zipfile.ZipFile(tmp_path / "good.npz") as archive:
        start = archive.start_dir
    content[start + 8] |= 1  # the flags of the first entry in the archive's directory
    (tmp_path / "locked.npz").write_bytes(content)

    assert "not a file that Runs.save wrote" in refused(tmp_path / "locked.npz")


# --- places that cannot be written ------------------------------------------------------------------------------


def bad_places(folder):
    """Paths that cannot be written, for different reasons."""
    (folder / "file").write_text("a file")
    (folder / "folder").mkdir()
    return {
        "missing folder": folder / "no" / "such" / "runs.npz",
        "a folder": folder / "folder",
        "inside a file": folder / "file" / "runs.npz",
        "too long a name": folder / ("x" * 300),
        "no name": "",
        "impossible name": folder / "zero\0byte",
    }


@pytest.mark.parametrize(
    "reason",
    [
        "missing folder",
        "a folder",
        "inside a file",
        "too long a name",
        "no name",
        "impossible name",
    ],
)
def test_a_place_that_cannot_be_written_leaves_nothing(runs, tmp_path, reason, monkeypatch):
    """`Invalid` that names the place, and no half-written file beside it."""
    monkeypatch.chdir(tmp_path)
    place = bad_places(tmp_path)[reason]
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(sl.Invalid, match="cannot write"):
        runs.save(place)

    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_text() == "a file"


def test_a_name_of_the_longest_length_can_be_written(runs, tmp_path):
    """255 bytes are allowed by the file system; the draft beside it must not need more."""
    path = tmp_path / ("x" * 255)

    runs.save(path)

    assert_equal(sl.Runs.load(path), runs)


@pytest.mark.parametrize("path", [None, 3, b"runs.npz"])
def test_a_path_that_is_no_path_is_refused(runs, path):
    with pytest.raises(sl.Invalid, match=f"needs the path of a file, such as .*got {path!r}"):
        runs.save(path)


@pytest.mark.parametrize("name", ["runs.csv", "runs.npz.gz", "runs.parquet"])
def test_a_suffix_that_is_not_written_is_refused(runs, tmp_path, name):
    with pytest.raises(sl.Invalid, match=r"Runs\.save writes \.npz files, not \.\w+ .*to_pandas"):
        runs.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_more_replications_join_those_there_are(runs):
    """The experiment of the whole is that with more replications; equal to all of them in one call."""
    more = EXPERIMENT.replace(replications=9)
    options = {"environment": "bernoulli(0.7, 0.3)", "checkpoints": [1, 20, 40]}
    rest = sl.simulate(more, replications=range(6, 9), **options)

    assert_equal(sl.Runs.concat([runs, rest]), sl.simulate(more, **options))


def test_runs_as_tables(runs):
    """A row for each replication, policy and checkpoint, the same in every library."""
    records = runs.to_dicts()
    frame = runs.to_pandas()

    assert len(records) == 6 * 2 * 3
    assert records[7] == {
        "replication": 1,
        "policy": 'a "quoted"',
        "checkpoint": 20,
        "reward": runs.rewards[1, 0, 1],
        "interactions": runs.interactions[1, 1],
        "pulls_x": runs.pulls[1, 0, 1, 0],
        "pulls_y": runs.pulls[1, 0, 1, 1],
    }
    assert frame.to_dict("records") == records
    assert runs.to_polars().to_dicts() == records
    assert runs.to_arrow().to_pylist() == records


def test_results_and_traces_as_tables(runs):
    trace, comparison = sl.trace(EXPERIMENT, "bernoulli(0.7, 0.3)"), sl.compare(runs)

    for one in (trace, comparison):
        assert one.to_pandas().to_dict("records") == one.to_dicts()
        assert one.to_arrow().to_pylist() == one.to_dicts()
    assert all(
        hasattr(kind, "to_polars") for kind in (sl.Race, sl.Plan, sl.Twin, sl.DesignComparison)
    )


def test_an_old_file_survives_a_failed_save(runs, tmp_path, monkeypatch):
    """The disk is full while writing: the old content is still there, and no draft beside it."""
    path = tmp_path / "runs.npz"
    runs.save(path)
    old = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(sl.Invalid, match="No space left"):
        runs.save(path)

    assert path.read_bytes() == old
    assert [file.name for file in tmp_path.iterdir()] == ["runs.npz"]


def test_some_checkpoints_of_runs_are_what_those_alone_would_be():
    """`at` picks checkpoints; what is not there is refused."""
    experiment = sl.Experiment(
        policies={"a": "ucb1", "b": "uniform"}, arms=2, horizon=30, replications=3
    )
    whole = sl.simulate(experiment, "bernoulli(0.7, 0.3)", checkpoints=[5, 10, 30])
    some = whole.at([30, 5])
    alone = sl.simulate(experiment, "bernoulli(0.7, 0.3)", checkpoints=[5, 30])
    for name in ("checkpoints", "rewards", "pulls", "interactions", "totals"):
        assert np.array_equal(getattr(some, name), getattr(alone, name))
    for missing in ([7], [5, 6], []):
        with pytest.raises(sl.Invalid, match="these runs report at"):
            whole.at(missing)


def test_one_checkpoint_is_enough_and_none_is_refused(runs):
    assert runs.at([20]).checkpoints.tolist() == [20]
    for checkpoints in ([], [20, 30]):
        with pytest.raises(sl.Invalid, match="these runs report at"):
            runs.at(checkpoints)


class _Pickled:
    def __reduce__(self):
        return pytest.fail, ("a file was unpickled",)


def test_a_file_with_a_pickle_is_refused_and_not_unpickled(runs, tmp_path):
    """Unpickling runs whatever the file says; NumPy refuses, and so do we."""
    path = tmp_path / "runs.npz"
    runs.save(path)
    with np.load(path) as data:
        arrays = dict(data)
    np.savez(path, **{**arrays, "rewards": np.array([_Pickled()], dtype=object)})
    with pytest.raises(
        sl.Invalid, match=r"is not a file that Runs\.save wrote: Object arrays cannot"
    ):
        sl.Runs.load(path)


def test_a_part_has_the_replications_that_follow_its_start():
    experiment = sl.Experiment(
        policies={"a": sl.UCB1(), "b": sl.Uniform()}, arms=2, horizon=9, replications=12
    )
    bandit = sl.Bernoulli([0.4, 0.6])
    whole = sl.simulate(experiment, bandit, checkpoints=[4, 9], replications=range(2, 12))
    part = whole.part(3, 4)
    again = sl.simulate(experiment, bandit, checkpoints=[4, 9], replications=range(5, 9))

    assert part.first == again.first == 5
    assert part.experiment == again.experiment
    for name in ("checkpoints", "rewards", "pulls", "interactions", "totals"):
        assert np.array_equal(getattr(part, name), getattr(again, name))


@pytest.fixture(scope="module")
def observed(runs):
    """The same runs with the rewards of their users, as a live experiment has them."""
    return dataclasses.replace(runs, observed=observed_rewards(runs))


def test_observed_rewards_are_saved_and_joined(observed, tmp_path):
    observed.save(tmp_path / "runs.npz")
    loaded = sl.Runs.load(tmp_path / "runs.npz")

    assert loaded.observed.tolist() == observed.observed.tolist()
    parts = [observed.part(start, 2) for start in (0, 2, 4)]
    assert sl.Runs.concat(parts).observed.tolist() == observed.observed.tolist()
    assert observed.part(6, 2).observed.size == 0


def test_observed_rewards_of_an_earlier_checkpoint(observed):
    """The beginning of each stack: what a shorter experiment would have read."""
    shorter = observed.at([20])
    simulated = sl.simulate(EXPERIMENT.replace(horizon=20), "bernoulli(0.7, 0.3)")

    assert shorter.observed.tolist() == observed_rewards(simulated).tolist()
    assert observed.at([20, 40]).observed.tolist() == observed.observed.tolist()


def test_observed_rewards_must_be_as_many_as_users(observed):
    with pytest.raises(sl.Invalid, match="do not agree"):
        dataclasses.replace(observed, observed=observed.observed[1:])


def test_runs_that_were_compared_and_then_extended_are_noticed(tmp_path):
    """By `concat`, by files and at other checkpoints; not without a look, nor by an interval for every look."""
    policies = {"a": sl.UCB1(), "b": sl.EpsilonGreedy()}
    experiment = sl.Experiment(policies=policies, arms=2, horizon=20, replications=30)
    whole = sl.simulate(experiment, "bernoulli(0.6, 0.5)", checkpoints=[10, 20])
    caution = (
        "These runs were compared at 10 replications and then extended: this interval is valid only at a number of "
        'replications that did not depend on earlier results. interval="anytime" is valid at every look.'
    )

    def parts():
        return [whole.part(start, 10) for start in (0, 10, 20)]

    def said(runs, **arguments):
        return caution in sl.compare(runs, check=False, **arguments).cautions

    first, *more = parts()
    assert not said(sl.Runs.concat([first, *more]))
    assert not said(first)
    assert not said(first)
    assert said(sl.Runs.concat([first, *more]))
    assert not said(sl.Runs.concat([first, *more]), interval="anytime")
    at, *more = parts()
    sl.compare(at.at([20]), check=False)
    path = tmp_path / "runs.npz"
    at.save(path)
    assert said(sl.Runs.concat([sl.Runs.load(path), *more]))
    later, last = parts()[1:]
    sl.compare(later, check=False)
    assert said(sl.Runs.concat([later, last]))
    extended = sl.Runs.concat([first, more[0]])
    sl.compare(extended, check=False)
    both = sl.compare(sl.Runs.concat([extended, more[1]]), check=False).cautions
    assert any("compared at 10, 20 replications" in text for text in both)
