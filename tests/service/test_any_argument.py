"""Any value for any argument of the clients: what is refused is an error of sameluck and has changed nothing."""

import inspect
from itertools import count, product

import httpx
import pytest
from tables import reading

import sameluck as sl
from hostile import VALUES, arguments_of, methods, needed

EXPERIMENT = sl.Experiment(
    policies={"ucb": "ucb1(alpha=2)", "greedy": "epsilon_greedy"}, arms=2, horizon=3, replications=2
)
LEDGER = ("experiment", "replication", "entry", "assignment", "reward_event", "change")
NEW = {"start", "add_policy", "preview_policy"}  # they take a name that is not in use
INTERNAL = "send"  # takes what the other methods make


def given(folder, name, id):
    """A value for every argument that some method needs."""
    return {
        "arm": "0",
        "experiment": EXPERIMENT,
        "id": id,
        "name": name,
        "pairs": [(id, 1.0)],
        "path": folder / "file.csv",
        "policy": "ucb1(alpha=3)",
        "seconds": 60.0,
        "unit": "ann",
        "units": ["ann"],
        "url": "http://localhost",
        "value": 1.0,
    }


async def outcome(call, arguments):
    """Whether a call is refused, by an error of sameluck, or accepted; otherwise the error that it raises."""
    try:
        made = call(**arguments)
        if inspect.isawaitable(made):
            await made
    except sl.SameluckError as error:
        return "refused" if len(str(error)) < 2_000 else f"{len(str(error)):,} characters"
    except Exception as error:
        return repr(error)
    return "accepted"


def assert_known(outcomes):
    unexpected = {
        key: outcome for key, outcome in outcomes.items() if outcome not in ("refused", "accepted")
    }
    assert unexpected == {}


@pytest.mark.slow
def test_coroutines(serve, tmp_path):
    url = f"sqlite:///{tmp_path / 'a.db'}?synchronous=normal"
    served, outcomes, names = serve(url), {}, count()

    async def outcomes_of_all(rows):
        transport = httpx.ASGITransport(served.app)
        client = sl.AsyncClient("http://localhost", token=served.all, transport=transport)
        for sample in (client, await client.start("sample", EXPERIMENT)):
            for method in set(methods(sample)) - {INTERNAL}:
                live = await client.start(f"trial {next(names)}", EXPERIMENT)
                call = getattr(client if sample is client else live, method)
                usual = needed(call, given(tmp_path, live.name, (await live.assign("ann")).id))
                if "name" in usual and (method in NEW or sample is not client):
                    usual["name"] = "new" if method in NEW else "greedy"
                before = rows(LEDGER)
                for argument, value in product(arguments_of(call), VALUES):
                    done = await outcome(call, {**usual, argument: VALUES[value]})
                    outcomes[call.__qualname__, argument, value] = done
                    before = rows(LEDGER) if done == "accepted" else before
                assert rows(LEDGER) == before, method
        await client.close()

    with reading(url) as rows:
        served.http.loop.run_until_complete(outcomes_of_all(rows))
    assert all(served.store.load(name).verify() for name in served.store.names())
    assert len(outcomes) > 40 * len(VALUES)
    assert_known(outcomes)


@pytest.mark.slow
def test_threads(tmp_path, served):
    """Both clients send the same calls; this tests what happens before a call is sent."""
    problem = {"code": "unknown", "detail": "not here", "status": 404}
    transport = httpx.MockTransport(lambda _: httpx.Response(404, json=problem))
    client = sl.Client("http://localhost", token="sl_x", transport=transport)
    live, outcomes = client.load("trial", fallback="0"), {}
    calls = [getattr(target, name) for target in (client, live) for name in methods(target)]
    for call in (sl.Client, sl.AsyncClient, *(call for call in calls if call.__name__ != INTERNAL)):
        usual = needed(call, given(tmp_path, "trial", "asg_1"))
        for argument, value in product(arguments_of(call), VALUES):
            made = outcome(call, {**usual, argument: VALUES[value]})
            done = served.http.loop.run_until_complete(made)
            outcomes[call.__qualname__, argument, value] = done
    assert len(outcomes) > 40 * len(VALUES)
    assert_known(outcomes)
