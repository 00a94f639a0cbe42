"""Any value for any argument of any public call: what is refused is an error of sameluck and has changed nothing."""

import asyncio
import inspect
from itertools import count, product

import pytest
from tables import reading

import sameluck as sl
from hostile import OF_DATABASES, VALUES, arguments_of, methods, needed
from sameluck import live as surface

EXPERIMENT = sl.Experiment(
    policies={"ucb": "ucb1(alpha=2)", "greedy": "epsilon_greedy"}, arms=2, horizon=3, replications=2
)
LEDGER = ("experiment", "replication", "entry", "assignment", "reward_event", "change")
LOG = [{"arm": "ab"[n % 2], "reward": float(n % 3)} for n in range(12)]
NEW = {"start", "import_log", "add_policy", "preview_policy"}  # they take a name that is not in use
RECORDS = {
    "Check",
    "Imported",
    "LedgerChanges",
}  # that calls return; those that are tuples are known
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # a log without replications, say


def given(folder, live, id):
    """A value for every argument that some call needs."""
    return {
        "arm": "arm",
        "backup": folder / "backup.db",
        "database": live.open_replications.database,
        "environment": [0.1, 0.2],
        "experiment": EXPERIMENT,
        "id": id,
        "ids": [id],
        "live": live,
        "name": live.name,
        "older_than": 1.0,
        "pairs": [(id, 1.0)],
        "path": folder / "file.csv",
        "policies": EXPERIMENT.policies,
        "policy": "ucb1(alpha=3)",
        "reward": "reward",
        "seconds": 60.0,
        "source": LOG,
        "unit": "ann",
        "units": ["ann"],
        "url": f"sqlite:///{folder / 'new.db'}",
        "value": 1.0,
        "values": {},
    }


async def outcome(call, arguments):
    """Whether a call is refused, by an error of sameluck, or accepted; otherwise the error that it raises."""
    try:
        made = call(**arguments)
        made = await made if inspect.isawaitable(made) else made
    except sl.SameluckError as error:
        return "refused" if len(str(error)) < 2_000 else f"{len(str(error)):,} characters"
    except Exception as error:
        return repr(error)
    if isinstance(made, sl.Store) and call is sl.open:
        made.close()
    elif isinstance(made, sl.AsyncStore):
        await made.close()
    return "accepted"


def assert_known(outcomes):
    names = {key: call for key, call in outcomes.items() if call not in ("refused", "accepted")}
    assert names == {}


@pytest.fixture(scope="module")
def runner():
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.mark.slow
def test_functions_and_options(tmp_path, monkeypatch, runner):
    monkeypatch.chdir(tmp_path)
    public = {name: getattr(surface, name) for name in (*surface.__all__, "open")}
    calls = {
        name: one
        for name, one in public.items()
        if inspect.isfunction(one) or not issubclass(one, tuple)
    }
    for name in ("LiveExperiment", "AsyncLiveExperiment", "AsyncStore"):
        del calls[name]
    assert {"open", "restore", "rehearse", "LiveOptions", "Reward", "Store"} < calls.keys()
    more = (sl.LiveOptions.from_dict, sl.Traffic.from_dict, sl.VirtualClock().advance)
    outcomes, names = {}, count()
    url = f"sqlite:///{tmp_path / 'a.db'}?synchronous=normal"
    with sl.open(url, clock=sl.VirtualClock()) as store:
        store.backup(tmp_path / "backup.db")
        for call in (*calls.values(), *more):
            done = "accepted"
            for argument, value in product(arguments_of(call), VALUES):
                if done == "accepted":  # a rehearsal has ended the experiment
                    live = store.start(f"trial {next(names)}", EXPERIMENT)
                arguments = needed(call, given(tmp_path, live, None)) | {argument: VALUES[value]}
                done = runner(outcome(call, arguments))
                outcomes[call.__qualname__, argument, value] = done
                (tmp_path / "new.db").unlink(missing_ok=True)
    assert len(outcomes) > 500
    assert_known(outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [sl.Store, sl.LiveExperiment])
def test_methods(url, tmp_path, kind, runner):
    outcomes, names = {}, count()
    values = VALUES if url.startswith("sqlite") else OF_DATABASES
    with sl.open(url, clock=sl.VirtualClock(1.7e9)) as store, reading(url) as rows:
        sample = store if kind is sl.Store else store.start("sample", EXPERIMENT)
        for method in methods(sample):
            live = store.start(f"trial {next(names)}", EXPERIMENT)
            call = getattr(store if kind is sl.Store else live, method)
            usual = needed(call, given(tmp_path, live, live.assign("ann").id))
            if "name" in usual and (method in NEW or kind is sl.LiveExperiment):
                usual["name"] = "new" if method in NEW else "greedy"
            before = rows(LEDGER)
            for argument, value in product(arguments_of(call), values):
                done = runner(outcome(call, {**usual, argument: VALUES[value]}))
                outcomes[call.__qualname__, argument, value] = done
                before = rows(LEDGER) if done == "accepted" else before
            assert rows(LEDGER) == before, method
        assert all(store.load(name).verify() for name in store.names())
    assert len(outcomes) >= 30 * len(values)
    assert_known(outcomes)


def test_coroutines_that_are_not_those_of_threads(tmp_path, runner):
    """The other methods are called in a thread as they are."""

    async def outcomes_of_all():
        outcomes = {}
        async with sl.open_async("sqlite://", clock=sl.VirtualClock(1.7e9)) as store:
            live = await store.start("trial", EXPERIMENT)
            usual = given(tmp_path, live.synchronous, (await live.assign("ann")).id)
            own = [one for one in methods(live) if not hasattr(getattr(live, one), "__wrapped__")]
            assert own == ["assign", "reward"]
            for name in own:
                call = getattr(live, name)
                for argument, value in product(arguments_of(call), VALUES):
                    arguments = needed(call, usual) | {argument: VALUES[value]}
                    outcomes[name, argument, value] = await outcome(call, arguments)
        return outcomes

    assert_known(runner(outcomes_of_all()))
