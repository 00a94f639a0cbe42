"""Policies over HTTP: removed, continued with the server's code, and a ledger that is repaired."""

import pytest
from contract.versions import NEW, OLD

import sameluck as sl
from sameluck.live.databases.rows import EntryRow

EXTERNAL = {"policies": {"ucb": "ucb1(alpha=2)", "own": "external(name=own)"}, "arms": 3}


def codes(answer):
    return answer.status_code, answer.json()["code"]


def last_change(served):
    change = served.http.get("/v1/experiments/socks/history").json()["changes"][-1]
    return change["what"], change["subject"], change["actor"], change["reason"]


def test_a_policy_can_be_removed_but_not_the_control(served):
    served.start()
    path = "/v1/experiments/socks/policies"
    removed = served.http.delete(
        f"{path}/greedy", params={"reason": "poor"}, headers=served.as_("manage")
    )
    assert removed.status_code == 200
    assert (removed.json()["replications"], removed.json()["applied"]) == (3, True)
    shown = served.http.get("/v1/experiments/socks").json()
    assert list(shown["experiment"]["policies"]) == ["ucb"]
    assert last_change(served) == ("policy removed", "greedy", "manage", "poor")
    for name in ("ucb", "greedy", "no/body"):
        assert codes(served.http.delete(f"{path}/{name}")) == (422, "invalid")


def test_policies_and_experiments_with_contexts_are_refused(served):
    served.start()
    challenger = {"name": "tree", "policy": "per_level(ucb1)"}
    for path in ("policies", "policies/preview"):
        answer = served.http.post(f"/v1/experiments/socks/{path}", json=challenger)
        assert codes(answer) == (422, "invalid")
        assert "policy 'tree' uses contexts" in answer.text
    policies = {"tree": "lin_ucb", "ucb": "ucb1"}
    other = {**served.socks, "name": "other", "policies": policies}
    answer = served.http.post("/v1/experiments", json=other)
    assert codes(answer) == (422, "invalid")
    assert "policy 'tree' uses contexts" in answer.text


def test_an_experiment_continues_with_the_code_of_the_server(serve, tmp_path):
    url = f"sqlite:///{tmp_path / 'a.db'}?synchronous=normal"
    first = serve(url, makers=OLD)
    first.start(**EXTERNAL)
    for unit in range(4):
        first.reward(first.assign(unit).json()["id"], 1.0)
    first.store.close()
    served = serve(url, names=False, makers=NEW)
    assert served.assign("ann").json()["reason"] == "DIVERGED"
    path, own = "/v1/experiments/socks/policies/code", {"policies": ["own"]}
    shown = served.http.post(f"{path}/preview", json=own).json()
    assert (shown["replications"], shown["applied"]) == (3, False)
    assert served.assign("bob").json()["reason"] == "DIVERGED"
    done = served.http.post(path, json={**own, "reason": "a bug"}).json()
    assert done["differences"] == shown["differences"]
    assert done["applied"]
    assert last_change(served) == ("policy code replaced", "own", "everything", "a bug")
    assert served.assign("eve").json()["reason"] == "ASSIGNED"
    assert codes(served.http.post(path, json=own)) == (409, "invalid_transition")
    assert codes(served.http.post(path, json={"policies": ["nobody"]})) == (422, "invalid")
    assert codes(served.http.post(path, json={"policies": []})) == (422, "invalid")


def test_a_ledger_is_repaired(server):
    """Repair a missing entry and an unneeded entry, by the client and by embedded calls."""
    experiment = sl.Experiment(
        policies={"ucb": "ucb1(alpha=2)", "greedy": "epsilon_greedy(epsilon=0.2)"},
        arms=2,
        horizon=4,
        replications=3,
    )
    with server.client() as client:
        live = client.start("torn", experiment)
        database, ours = server.store.database, server.store.peek("torn")
        rows = database.read(lambda t: t.fetch_all(EntryRow, "all_outstanding", experiment=ours.id))
        entry = {"experiment": ours.id, **rows[0]._asdict()}
        database.write(lambda t: t.execute("release", **entry))
        database.write(lambda t: t.execute("want", **entry | {"position": 7}))
        shown = live.repair()
        assert shown == ours.repair()
        assert shown.differences[0] == sl.LedgerDifference(rows[0].replication, 1, 1, 1)
        assert live.repair(confirm=True, reason="edited by hand").applied
        assert not live.repair().differences
        assert str(live.history()[-1]).endswith(
            "torn: ledger repaired 1 replication, by sameluck serve: edited by hand"
        )
        with pytest.raises(sl.Conflict, match="run this in a process with the new code"):
            live.replace_policy_code("ucb")
        assert live.remove_policy("greedy", reason="poor") == (3, (), True)
        assert list(live.refresh().policies) == ["ucb"]
