"""`simulate(keep=...)`: what is complete outlives an interruption, and the same call continues from it."""

import os
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest

import sameluck as sl
from sameluck.simulation import kept_runs
from sameluck.simulation.kept_runs import KeptRuns
from sameluck.simulation.tasks import Work

ARMS = sl.Bernoulli((0.7, 0.3))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.npz"


def experiment_of(replications=100, **changes):
    values = {"policies": {"it": sl.Uniform(), "first": sl.Always(0)}, "arms": 2, "horizon": 20}
    return sl.Experiment(**{**values, "replications": replications, **changes})


def interrupt_after(parts, first=lambda: None):
    """A progress function that presses Ctrl-C when it is told of another part than the first ones."""
    told = []

    def progress(done, total):
        told.append((done, total))
        if done > parts:
            first()
            raise KeyboardInterrupt

    return progress, told


def assert_same(one, other):
    for name in ("rewards", "pulls", "interactions", "checkpoints"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.experiment == other.experiment


def test_ctrl_c_keeps_complete_replications_and_the_same_call_continues(path):
    """32 replications of two policies are the first part; progress goes on counting after an interruption."""
    experiment = experiment_of()
    progress, told = interrupt_after(64)
    with pytest.raises(KeyboardInterrupt) as caught:
        sl.simulate(experiment, ARMS, checkpoints=[5, 20], keep=path, progress=progress)
    (note,) = caught.value.__notes__
    assert note.startswith("32 of 100 replications are kept in ")
    assert "run the same again to continue" in note
    assert sl.Runs.load(path).replications == 32
    assert told[-1][1] == 200

    seen = []
    runs = sl.simulate(
        experiment, ARMS, checkpoints=[5, 20], keep=path, progress=lambda *one: seen.append(one)
    )
    assert seen[0][0] > 64
    assert seen[-1] == (200, 200)
    assert_same(runs, sl.simulate(experiment, ARMS, checkpoints=[5, 20]))
    assert_same(sl.Runs.load(path), runs)
    assert runs.seconds is None  # what the first call took is not known


def test_an_interruption_before_anything_is_complete_leaves_no_file(path):
    progress, _ = interrupt_after(0)
    with pytest.raises(KeyboardInterrupt) as caught:
        sl.simulate(experiment_of(), ARMS, keep=path, progress=progress)
    assert not hasattr(caught.value, "__notes__")
    assert not path.exists()


def test_more_replications_later_and_fewer(path):
    assert sl.simulate(experiment_of(40), ARMS, keep=path).seconds > 0
    started = []
    more = sl.simulate(
        experiment_of(60), ARMS, keep=path, progress=lambda *one: started.append(one)
    )
    assert started[0][0] > 80
    assert_same(more, sl.simulate(experiment_of(60), ARMS))
    assert_same(
        sl.simulate(experiment_of(10), ARMS, keep=path), sl.simulate(experiment_of(10), ARMS)
    )
    assert sl.Runs.load(path).replications == 60  # they are not lost


def test_some_of_the_replications(path):
    some = range(20, 90)
    runs = sl.simulate(experiment_of(), ARMS, replications=some, keep=path)
    assert (runs.first, runs.replications, runs.totals is None) == (20, 70, False)
    assert_same(runs, sl.simulate(experiment_of(), ARMS, replications=some))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"experiment": experiment_of(seed=3)}, "they differ in seed"),
        ({"environment": sl.Bernoulli((0.7, 0.4))}, "they differ in environment"),
        ({"checkpoints": [5]}, "they differ in checkpoints"),
        ({"replications": range(2, 9)}, "replication 2 should follow"),
    ],
)
def test_a_file_of_other_runs_is_refused_and_stays(path, options, message):
    sl.simulate(experiment_of(), ARMS, keep=path)
    before = path.read_bytes()
    first = (options.pop("experiment", experiment_of()), options.pop("environment", ARMS))
    with pytest.raises(sl.Invalid, match=f"holds other runs .*{message}.*name another file"):
        sl.simulate(*first, keep=path, **options)
    assert path.read_bytes() == before


def test_runs_of_another_version_of_ones_own_policy_are_refused(path):
    """The text form is the same; the last replication that is kept is run again."""
    policies = {"theirs": sl.External("theirs")}
    first, second = ({"theirs": lambda _, arm=arm: lambda *_: arm} for arm in (0, 1))
    sl.simulate(experiment_of(3, policies=policies), ARMS, makers=first, keep=path)
    with pytest.raises(sl.Invalid, match="replication 2 differs when it is run again"):
        sl.simulate(experiment_of(5, policies=policies), ARMS, makers=second, keep=path)


def test_an_object_that_fails_keeps_what_is_complete(path):
    """Parts of objects begin with one replication, because a period of theirs may take long."""
    made = []

    def make(seed):
        made.append(seed)
        if len(made) > 12:
            raise ValueError("out of luck")
        return lambda arms, rewards: 0

    experiment = experiment_of(40, policies={"theirs": sl.External("theirs")})
    with pytest.raises(sl.Unplayable, match="out of luck") as caught:
        sl.simulate(experiment, ARMS, makers={"theirs": make}, keep=path, workers=1)
    kept = sl.Runs.load(path).replications
    assert 1 <= kept < 12
    assert f"{kept} of 40 replications are kept" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("runs.csv", r"Runs\.save writes .npz"),
        (3, r"Runs\.save needs the path"),
        ("no/x", "no folder"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused_before_the_work(name, message):
    with pytest.raises(sl.Invalid, match=message):
        sl.simulate(experiment_of(10**9), ARMS, replications=range(10**6), keep=name)


def kept_after(path, first=lambda: None):
    """The note of a call that is interrupted after 32 replications, when something else has happened first."""
    with pytest.raises(KeyboardInterrupt) as caught:
        sl.simulate(experiment_of(), ARMS, keep=path, progress=interrupt_after(64, first)[0])
    return getattr(caught.value, "__notes__", [""])[0]


def test_ctrl_c_again_while_the_file_is_written(path, monkeypatch):
    save = sl.Runs.save

    def impatient(runs, where):
        os.kill(os.getpid(), signal.SIGINT)
        save(runs, where)

    monkeypatch.setattr(sl.Runs, "save", impatient)
    kept_after(path)
    assert sl.Runs.load(path).replications == 32


def test_the_file_is_written_now_and_then_in_case_the_process_is_killed(path, monkeypatch):
    monkeypatch.setattr(kept_runs, "_PAUSE", 0.0)
    monkeypatch.setattr(kept_runs, "_PAUSE_PER_WRITE", 0)
    seen = []

    def look(*_):
        seen.append(sl.Runs.load(path).replications if path.exists() else 0)

    runs = sl.simulate(experiment_of(300), ARMS, keep=path, progress=look)
    assert seen[0] == 0
    assert len({*seen}) > 2
    assert_same(runs, sl.simulate(experiment_of(300), ARMS))
    assert_same(sl.Runs.load(path), runs)


def test_more_of_these_runs_by_another_process_stay(path):
    whole = sl.simulate(experiment_of(), ARMS)
    assert kept_after(path, lambda: whole.save(path)).startswith("100 of 100 replications")
    assert_same(sl.Runs.load(path), whole)


def test_other_runs_by_another_process_stay_and_these_have_another_file(path):
    other = sl.simulate(experiment_of(seed=9), ARMS)
    note = kept_after(path, lambda: other.save(path))
    assert_same(sl.Runs.load(path), other)
    (beside,) = {*path.parent.glob("runs-*.npz")}
    assert f"32 of 100 replications are kept in {str(beside)!r}" in note
    assert_same(sl.simulate(experiment_of(), ARMS, keep=beside), sl.simulate(experiment_of(), ARMS))


def test_a_file_that_is_removed_meanwhile_is_written_again(path):
    kept_after(path)
    sl.simulate(experiment_of(), ARMS, keep=path, progress=lambda *_: path.unlink(missing_ok=True))
    assert sl.Runs.load(path).replications == 100


def test_runs_that_cannot_be_written_in_the_end_are_returned(path, caplog):
    folder = path.parent / "gone"
    folder.mkdir()
    note = kept_after(folder / "runs.npz", lambda: shutil.rmtree(folder))
    assert note.startswith("complete replications are not kept: cannot write")
    folder.mkdir()
    runs = sl.simulate(
        experiment_of(),
        ARMS,
        keep=folder / "runs.npz",
        progress=lambda *_: shutil.rmtree(folder, ignore_errors=True),
    )
    assert_same(runs, sl.simulate(experiment_of(), ARMS))
    assert "the runs are in memory only" in caplog.text


def test_a_file_of_another_version_without_totals_is_extended(path):
    replace(sl.simulate(experiment_of(20), ARMS), totals=None).save(path)
    extended = sl.simulate(experiment_of(30), ARMS, keep=path)
    assert extended.totals is None
    assert_same(extended, sl.simulate(experiment_of(30), ARMS))


@pytest.mark.parametrize(
    ("horizon", "workers", "first"), [(20, 2, 32), (10**8, 2, 2), (10**8, 9, 9)]
)
def test_parts_of_long_replications_are_small_but_occupy_all_workers(path, horizon, workers, first):
    """As far as it is known before; then parts that take long are halved."""
    experiment = experiment_of(horizon=horizon)
    work = Work(experiment, ARMS, np.array([horizon]), range(100))
    asked = []

    def run(replications, progress):
        asked.append(len(replications))
        short = sl.simulate(experiment_of(), ARMS, replications=replications)
        return sl.Runs(
            experiment,
            work.checkpoints,
            *short_arrays(short),
            ARMS,
            replications.start,
            seconds=9.0,
        )

    def short_arrays(runs):
        return runs.rewards, runs.pulls, runs.interactions

    kept = KeptRuns(path, work, workers)
    kept.complete(run, kept.saved(run), None)
    assert asked[0] == first
    assert min(asked[:-1]) == workers


def was_extended(runs):
    cautions = sl.compare(runs, check=False).cautions
    return any("and then extended" in caution for caution in cautions)


def test_kept_runs_that_were_compared_and_then_extended_are_noticed(path):
    """As by `Runs.concat`: the file keeps the looks, so another process notices them too."""
    first = sl.simulate(experiment_of(10), ARMS, checkpoints=[5, 20], keep=path)
    assert not was_extended(first.at([20]))
    assert sl.Runs.load(path).looks == {10}
    assert_same(sl.Runs.load(path), first)
    longer = sl.simulate(experiment_of(20), ARMS, checkpoints=[5, 20], keep=path)
    assert was_extended(longer)
    assert sl.Runs.load(path).looks == {10, 20}
    again = sl.simulate(experiment_of(20), ARMS, checkpoints=[5, 20], keep=path)
    assert was_extended(again)
    assert not was_extended(sl.simulate(experiment_of(20), ARMS, checkpoints=[5, 20]))


def test_kept_runs_that_were_not_compared_may_be_extended(path):
    sl.simulate(experiment_of(10), ARMS, keep=path)
    assert not was_extended(sl.simulate(experiment_of(20), ARMS, keep=path))


def test_a_look_leaves_a_file_alone_that_has_changed_or_gone(path):
    first = sl.simulate(experiment_of(10), ARMS, keep=path)
    longer = sl.simulate(experiment_of(20), ARMS, keep=path)
    content = path.read_bytes()
    sl.compare(first, check=False)
    sl.compare(longer.part(0, 5), check=False)
    assert path.read_bytes() == content
    path.unlink()
    sl.compare(longer, check=False)
    assert not path.exists()
    assert longer.looks == {20}
