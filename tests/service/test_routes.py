"""Routes, called as an application calls them."""

import csv
import io
import json
import re
import threading
import time

import pytest

import sameluck as sl
from sameluck.service import prometheus
from sameluck.service.limits import Limits


def play(served, name="socks", start=0):
    """Users until the experiment ends; returns how many."""
    for number in range(start, start + 200):
        answer = served.assign(f"user-{number}", name).json()
        if not answer["enrolled"]:
            return number
        served.reward(answer["id"], float(answer["arm"] == "red"))
    raise AssertionError("it does not end")


def codes(answer):
    return answer.status_code, answer.json()["code"]


def test_an_experiment_from_creation_to_results(served):
    created = served.start(start=False)
    assert (created["status"]["status"], created["experiment"]["seed"]) == ("paused", 0)
    assert served.assign("early").json() == {
        "id": None,
        "arm": "red",
        "enrolled": False,
        "reason": "NOT_RUNNING",
    }
    assert served.http.post("/v1/experiments/socks/start").json()["status"] == "running"
    first = served.assign("user-0")
    assert (first.status_code, first.json()["reason"]) == (201, "ASSIGNED")
    assert first.json().keys() == {
        "id",
        "arm",
        "enrolled",
        "reason",
    }  # neither policy nor replication
    again = served.assign("user-0")
    assert (again.status_code, again.json()["reason"]) == (200, "STICKY")
    assert again.json()["id"] == first.json()["id"]
    play(served)
    results = served.http.get(
        "/v1/experiments/socks/results", params={"checkpoints": [2, 4]}
    ).json()
    assert results["status"]["status"] == "complete"
    assert [effect["checkpoint"] for effect in results["effects"]] == [2, 4]
    expected = sl.compare(served.store.peek("socks").runs([2, 4]))
    assert results["verdict"] == expected.verdict
    assert results["effects"][1]["effect"] == expected.effects[1].effect


def test_results_are_computed_once_for_all_who_ask(served, monkeypatch):
    served.start()
    play(served)
    path = "/v1/experiments/socks/results"
    first = served.http.get(path).json()
    monkeypatch.setattr("sameluck.service.looks.compare", None)
    assert served.http.get(path).json() == first
    assert served.http.get(path, params={"level": 0.9}).status_code == 500  # it would be computed
    monkeypatch.undo()
    other = served.http.get(path, params={"level": 0.9}).json()
    assert other["effects"] != first["effects"]
    more = served.http.get(path, params={"checkpoints": [2, 4]}).json()
    assert len(more["effects"]) == 2


def test_results_say_what_is_missing(served):
    served.start()
    results = served.http.get("/v1/experiments/socks/results").json()
    assert results["effects"] == []
    assert results["verdict"] == "0 replications have reached 4 periods; a comparison needs 2."
    for level in ("2", "nan"):  # whether or not there is anything to compare
        answer = served.http.get("/v1/experiments/socks/results", params={"level": level})
        assert codes(answer) == (422, "invalid")
    play(served)
    assert codes(served.http.get("/v1/experiments/socks/results?level=2")) == (422, "invalid")
    assert codes(served.http.get("/v1/experiments/socks/results?levle=0.9")) == (422, "invalid")


def test_creating_it_again_is_safe_and_another_one_of_its_name_is_not(served):
    served.start()
    again = served.http.post("/v1/experiments", json=served.socks)
    assert (again.status_code, again.headers["location"]) == (200, "/v1/experiments/socks")
    other = served.http.post("/v1/experiments", json={**served.socks, "seed": 8})
    assert codes(other) == (409, "name_taken")
    assert [
        status["name"] for status in served.http.get("/v1/experiments").json()["experiments"]
    ] == ["socks"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"policies": {"a": "__import__('os').system('true')"}},
        {"policies": {"a": "external(name=os.system)"}},
        {"policies": {}},
        {"policies": {"a": {"py/object": "os.system"}}},
        {"arms": 1},
        {"arms": 1_001},
        {"arms": ["a", "a"]},
        {"horizon": 1_000_001},
        {"horizon": True},
        {"replications": 100_001},
        {"policies": {str(n): "uniform" for n in range(21)}},
        {"name": "a/b"},
        {"name": ".."},
        {"name": "a\nb"},
        {"name": " "},
        {"name": "\u202epihs-eerf"},
        {"name": "a" * 201},
        {"name": ""},
        {"control": "nobody"},
        {"design": "time_coupled"},
        {"seed": -1},
        {"live": {"fallback": "green"}},
        {"live": {"window": 5}},
        {"live": {"reward": {"min": 1, "max": 0}}},
        {"live": {"reward": 5}},
    ],
    ids=str,
)
def test_an_experiment_that_is_not_valid_is_not_created(served, change):
    assert codes(served.http.post("/v1/experiments", json={**served.socks, **change})) == (
        422,
        "invalid",
    )
    assert served.store.names() == []


def test_rewards_first_again_other_late_and_unknown(served):
    served.start()
    id = served.assign("u").json()["id"]
    assert served.reward(id, True).json() == {"applied": True, "duplicate": False, "value": 1.0}
    assert served.reward(id, 1).json() == {"applied": False, "duplicate": True, "value": 1.0}
    assert codes(served.reward(id, 0.0)) == (409, "reward_conflict")
    assert codes(served.reward("asg_1", 1)) == (404, "unknown")
    for value in (2, -0.5, "1", None):
        assert codes(served.reward(id, value)) == (422, "invalid")
    assert "a valid number" in served.reward(id, "1").json()["detail"]
    for text in ("NaN", "Infinity", "1e999", "9" * 400):
        answer = served.http.post(
            f"/v1/assignments/{id}/reward",
            content=f'{{"value": {text}}}',
            headers={"Content-Type": "application/json"},
        )
        assert codes(answer) == (422, "invalid")


def test_exposure_and_void(served):
    served.start(live={"exposure": "explicit"})
    id = served.assign("u").json()["id"]
    path = f"/v1/assignments/{id}"
    assert served.http.get(path).json()["status"] == "assigned"
    for _ in range(2):
        assert served.http.post(f"{path}/exposure").status_code == 204
    assert codes(served.http.post(f"{path}/void")) == (409, "already_exposed")
    assert served.http.get(path).json()["status"] == "exposed"
    other = f"/v1/assignments/{served.assign('v').json()['id']}"
    for _ in range(2):
        assert served.http.post(f"{other}/void").status_code == 204
    assert codes(served.http.post(f"{other}/exposure")) == (409, "assignment_voided")


def test_lists_have_an_answer_or_a_problem_for_each_item(served):
    served.start()
    served.start(name="shoes")
    units = ["a", "", "b", 7, None, "a"]
    answers = served.http.post(
        "/v1/experiments/socks/assignments/batch", json={"units": units}
    ).json()["answers"]
    assert [answer.get("code") for answer in answers] == [
        None,
        "invalid",
        None,
        None,
        "invalid",
        None,
    ]
    assert answers[5]["id"] == answers[0]["id"]
    shoe = served.assign("a", "shoes").json()["id"]
    ids = [answers[0]["id"], shoe, answers[0]["id"], "nobody", shoe]
    rewards = [{"id": id, "value": value} for id, value in zip(ids, (1, 0, 0, 1, 0), strict=True)]
    got = served.http.post("/v1/rewards/batch", json={"rewards": rewards}).json()["answers"]
    assert [receipt.get("code") for receipt in got] == [
        None,
        None,
        "reward_conflict",
        "unknown",
        None,
    ]
    assert (got[1]["applied"], got[4]["duplicate"]) == (True, True)


@pytest.mark.parametrize("by_service", [True, False])
def test_the_rewards_of_a_deleted_experiment_do_not_keep_others_from_counting(served, by_service):
    """The service or another process has deleted the experiment."""
    served.start()
    served.start(name="shoes")
    ids = [served.assign("a", name).json()["id"] for name in ("socks", "shoes")]
    served.store.load("socks").stop(drain=False)
    if by_service:
        assert served.http.delete("/v1/experiments/socks").status_code == 204
    else:
        served.store.delete("socks")
    rewards = [{"id": id, "value": 1} for id in ids]
    got = served.http.post("/v1/rewards/batch", json={"rewards": rewards}).json()["answers"]
    assert [receipt.get("code") for receipt in got] == ["unknown", None]
    assert got[1]["applied"]


def test_the_experiment_of_an_assignment_is_found_by_a_new_process_too(serve, tmp_path):
    url = f"sqlite:///{tmp_path / 'a.db'}?synchronous=normal"
    first = serve(url)
    first.start()
    id = first.assign("u").json()["id"]
    first.store.close()
    second = serve(url, names=False)
    assert second.reward(id, 1).json()["applied"]
    assert second.assign("u").json()["reason"] == "STICKY"


def test_changes_are_in_the_history_with_the_name_of_the_token(served):
    served.start()
    path = "/v1/experiments/socks"

    def change(what, body=None):
        answer = served.http.post(f"{path}/{what}", json=body, headers=served.as_("manage"))
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    assert change("pause", {"reason": "lunch"})["status"] == "paused"
    assert codes(served.http.post(f"{path}/start")) == (409, "invalid_transition")
    assert change("resume")["status"] == "running"
    assert change("arms/50%2F50/disable", {"reason": "broken"})["disabled"] == ["50/50"]
    assert codes(served.http.post(f"{path}/arms/red/disable")) == (422, "invalid")
    assert change("arms/50%2F50/enable")["disabled"] == []
    policy = {"name": "new", "policy": "ucb1(alpha=1)"}
    assert change("policies", policy)["policy"] == "new"
    assert codes(served.http.post(f"{path}/policies", json=policy)) == (422, "invalid")
    change("windows", {"seconds": 60})
    assert change("stop", {"after_replications": 3})["stop_after"] == 3
    assert change("stop", {"drain": False, "reason": "enough"})["status"] == "stopped"
    assert codes(served.http.post(f"{path}/pause")) == (409, "invalid_transition")
    changes = served.http.get(f"{path}/history").json()["changes"]
    assert changes[0]["actor"] == "everything"
    assert {change["actor"] for change in changes[1:]} == {"manage"}
    assert [change["what"] for change in changes] == [
        "started",
        "paused",
        "resumed",
        "arm disabled",
        "arm enabled",
        "policy added",
        "windows extended",
        "draining",
        "stopped",
    ]
    assert (changes[1]["reason"], changes[3]["subject"]) == ("lunch", "50/50")


def test_a_preview_of_a_policy_changes_nothing(served):
    served.start()
    policy = {"name": "new", "policy": "ucb1(alpha=1)"}
    preview = served.http.post("/v1/experiments/socks/policies/preview", json=policy).json()
    assert preview["replications"] == 3
    assert "new has replayed 0 periods" in preview["sentence"]
    assert list(served.store.peek("socks").experiment.policies) == ["ucb", "greedy"]
    for text in ("no_policy", "ucb1(alpha=-1)", "external(os)", "ucb1(" * 100):
        bad = {"name": "x", "policy": text}
        assert codes(served.http.post("/v1/experiments/socks/policies/preview", json=bad)) == (
            422,
            "invalid",
        )


def test_what_analysts_read_is_what_python_returns(served, tmp_path):
    served.start()
    play(served)
    live, path = served.store.peek("socks"), "/v1/experiments/socks"
    runs = live.runs()
    rows = served.http.get(f"{path}/replications").json()["replications"]
    assert [list(row["rewards"].values()) for row in rows] == runs.rewards[:, :, -1].tolist()
    assert [row["settled"] for row in rows] == runs.interactions[:, -1].tolist()
    trace = served.http.get(f"{path}/trace", params={"replication": 1}).json()
    assert trace["periods"] == live.trace(1).to_dicts()
    assert codes(served.http.get(f"{path}/trace?replication=3")) == (422, "invalid")
    checks = served.http.get(f"{path}/diagnostics").json()["checks"]
    assert [check["name"] for check in checks] == [check.name for check in live.diagnostics()]
    file = tmp_path / "runs.npz"
    file.write_bytes(served.http.get(f"{path}/runs").content)
    assert sl.Runs.load(file).rewards.tolist() == runs.rewards.tolist()


def test_exports_are_safe_to_open_and_leave_no_file(served, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    served.start(arms=["=HYPERLINK(1)", "red"], name='"; rm')
    ids = [served.assign(f"u{n}", '"; rm').json()["id"] for n in range(3)]
    served.reward(ids[0], 1)
    path = "/v1/experiments/%22%3B%20rm/export"
    table = served.http.get(path)
    assert table.headers["content-type"].startswith("text/csv")
    assert table.headers["content-disposition"].startswith("attachment; filename*=utf-8''%22%3B")
    arms = {row["arm"] for row in csv.DictReader(io.StringIO(table.text))}
    assert arms <= {"'=HYPERLINK(1)", "red"}
    lines = served.http.get(path, params={"format": "jsonl", "what": "rewards"}).text.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["experiment", "reward"]
    assert served.http.get(path, params={"format": "parquet"}).content[:4] == b"PAR1"
    assert codes(served.http.get(path, params={"format": "pickle"})) == (422, "invalid")
    assert list(tmp_path.iterdir()) == []


def test_metrics_count_requests_and_users(served):
    served.start()
    served.assign("u")
    served.http.get("/nothing/of/this")
    served.http.request("BREW", "/healthz")
    text = served.http.get("/metrics").text
    route = 'method="POST",route="/v1/experiments/{name}/assignments"'
    assert f'sameluck_responses_total{{{route},status="201"}} 1.0' in text
    assert 'sameluck_experiment_users{experiment="socks"} 1.0' in text
    assert "/nothing" not in text
    assert "BREW" not in text


def test_metrics_have_statuses_rewards_and_errors(served, caplog):
    served.start()
    served.reward(served.assign("u").json()["id"], 1.0)
    served.reward(served.assign("v").json()["id"], 7.0)
    text = served.http.get("/metrics").text
    assert 'sameluck_experiment_status{experiment="socks",status="running"} 1.0' in text
    assert "sameluck_database_up 1.0" in text
    assert 'sameluck_errors_total{code="invalid"} 1.0' in text
    (rewarded,) = re.findall(
        r'last_reward_timestamp_seconds{experiment="socks"} (\S+)', text, re.MULTILINE
    )
    assert abs(time.time() - float(rewarded)) < 60
    assert served.http.get("/readyz").json() == {"status": "ok"}
    served.store.peek("socks").open_replications.fail("a policy disagrees")
    for _ in range(2):
        text = served.http.get("/metrics").text
        assert 'sameluck_experiment_status{experiment="socks",status="failed"} 1.0' in text
    ready = served.http.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "degraded"})
    lines = [line for line in caplog.messages if "is failed" in line]
    assert lines == ["sameluck: experiment 'socks' is failed (was running): a policy disagrees"]


def test_metrics_of_many_experiments_are_short_and_each_is_returned_on_request(served, monkeypatch):
    monkeypatch.setattr(prometheus, "MAX_COUNTED", 2)
    for number in range(4):
        served.start(name=f"socks {number}")
    served.reward(served.assign("u", "socks 0").json()["id"], 1.0)
    served.http.post("/v1/experiments/socks%203/stop", json={"drain": False})
    text = served.http.get("/metrics").text
    assert re.findall(r'experiment_users{experiment="(.*)"}', text) == ["socks 1", "socks 2"]
    assert re.findall(r'experiment_status{experiment="socks (.)"', text) == ["0", "1", "2"]
    assert 'sameluck_experiments{status="running"} 3.0' in text
    assert 'sameluck_experiments{status="stopped"} 1.0' in text
    assert "sameluck_experiments_left_out 1.0" in text
    assert "last_reward_timestamp_seconds{" not in text
    names = {"experiment": ["socks 0", "socks 3"]}
    text = served.http.get("/metrics", params=names).text
    assert re.findall(r'experiment_users{experiment="(.*)"} (.*)', text) == [
        ("socks 0", "1.0"),
        ("socks 3", "0.0"),
    ]
    assert 'sameluck_experiment_status{experiment="socks 3",status="stopped"} 1.0' in text
    assert 'last_reward_timestamp_seconds{experiment="socks 0"}' in text
    assert "sameluck_responses" not in text, "two jobs of Prometheus would count requests twice"
    unknown = served.http.get("/metrics", params={"experiment": ["socks 0", "hats"]})
    assert codes(unknown) == (404, "unknown")
    assert "hats" in unknown.json()["detail"]


def test_limits_are_those_of_the_service(serve):
    served = serve(limits=Limits(items=2, requests_per_second=2.0, policies=2))
    served.start()
    long = served.http.post("/v1/experiments/socks/assignments/batch", json={"units": [1, 2, 3]})
    assert codes(long) == (422, "invalid")
    more = {"name": "new", "policy": "uniform"}
    assert codes(served.http.post("/v1/experiments/socks/policies", json=more)) == (422, "invalid")
    answers = [served.http.get("/v1/experiments") for _ in range(4)]
    assert codes(answers[-1]) == (429, "too_many_requests")
    assert answers[-1].headers["retry-after"] == "1"
    assert served.http.get("/v1/experiments", headers=served.as_("read")).status_code == 200


def test_a_store_that_is_away_gives_the_fallback_arm_and_503(served):
    served.start()
    id = served.assign("u").json()["id"]
    served.store.close()
    assert codes(served.http.get("/readyz")) == (503, "unavailable")
    answer = served.reward(id, 1)
    assert codes(answer) == (503, "closed")
    assert answer.headers["retry-after"] == "1"


def test_a_request_that_takes_too_long_is_given_up(serve, monkeypatch):
    served = serve(limits=Limits(seconds=0.05))
    release = threading.Event()
    monkeypatch.setattr(served.store, "statuses", lambda: release.wait(5) and [])
    assert codes(served.http.get("/v1/experiments")) == (503, "timed_out")
    release.set()


def test_an_experiment_that_has_ended_can_be_deleted(served):
    served.start()
    id = served.assign("ann").json()["id"]
    path = "/v1/experiments/socks"
    assert codes(served.http.delete(path)) == (409, "invalid_transition")
    assert served.http.post(f"{path}/stop", json={"drain": False}).status_code == 200
    assert served.http.delete(path, params={"reason": "tidy"}).status_code == 204
    assert codes(served.http.delete(path)) == (404, "unknown")
    assert codes(served.assign("ann")) == (404, "unknown")
    assert codes(served.reward(id, 1)) == (404, "unknown")
    assert (served.store.history()[-1].actor, served.store.history()[-1].reason) == (
        "everything",
        "tidy",
    )
    served.start()
    assert served.assign("ann").json()["reason"] == "ASSIGNED"


def test_open_replications_are_limited_since_users_wait_while_they_begin(served):
    many = {**served.socks, "replications": 2_000, "live": {"open_replications": 1_001}}
    answer = served.http.post("/v1/experiments", json=many)
    assert codes(answer) == (422, "invalid")
    assert "open_replications" in answer.json()["detail"]


def test_no_request_is_sent_to_another_address(served):
    assert codes(served.http.get("/v1/experiments/")) == (404, "no_such_route")


@pytest.mark.slow
def test_every_call_finds_an_experiment_that_another_process_has_replaced(served):
    for call in (
        lambda assignment: served.reward(assignment, 1),
        lambda assignment: served.http.post(
            "/v1/rewards/batch", json={"rewards": [{"id": assignment, "value": 1}]}
        ),
        lambda assignment: served.http.get(f"/v1/assignments/{assignment}"),
        lambda assignment: served.http.post(f"/v1/assignments/{assignment}/exposure"),
        lambda assignment: served.http.post(f"/v1/assignments/{assignment}/void"),
        lambda _: served.http.post("/v1/experiments/socks/arms/50%2F50/disable"),
        lambda _: served.http.post("/v1/experiments/socks/stop", json={"drain": False}),
    ):
        served.start()
        served.assign("u")
        served.store.load("socks").stop(drain=False)
        served.store.delete("socks")  # as another process does: the service is not told
        experiment = {name: served.socks[name] for name in ("policies", "arms", "horizon")}
        experiment = sl.Experiment(**experiment, replications=3)
        other = served.store.start("socks", experiment, options=served.socks["live"])
        answer = call(other.assign("v").id)
        assert answer.status_code < 300, answer.text
        assert "unknown" not in answer.text
        other.stop(drain=False)
        assert served.http.delete("/v1/experiments/socks").status_code == 204


@pytest.mark.slow
def test_users_get_the_fallback_arm_in_time_while_an_experiment_is_loaded(serve, monkeypatch):
    served = serve(timeout=0.1)
    experiment = sl.Experiment(policies=served.socks["policies"], arms=2, horizon=2, replications=1)
    served.store.start("large", experiment, options={"fallback": 1})
    load, may_load, loads = served.store.load, threading.Event(), []

    def slow(name, **options):
        loads.append(name)
        assert may_load.wait(60)
        return load(name, **options)

    monkeypatch.setattr(served.store, "load", slow)
    fallback = {"id": None, "arm": "1", "enrolled": False, "reason": "UNAVAILABLE"}
    began = time.monotonic()
    assert served.assign("ann", "large").json() == fallback
    batch = {"units": ["ann", "bob"]}
    many = served.http.post("/v1/experiments/large/assignments/batch", json=batch)
    assert many.json() == {"answers": [fallback, fallback]}
    may_load.set()
    while served.assign("ann", "large").json() == fallback:
        assert time.monotonic() - began < 60
    assert served.assign("ann", "large").json()["reason"] == "STICKY"
    assert loads == ["large"]


def test_what_is_voided_is_voided_where_another_process_has_replaced_the_experiment(url, serve):
    served = serve(url)
    experiment = {name: served.socks[name] for name in ("policies", "arms", "horizon")}
    experiment = sl.Experiment(**experiment, replications=3)
    of_units = "/v1/experiments/socks/assignments/void"
    for call in (
        lambda assignment: served.http.post(f"/v1/assignments/{assignment}/void"),
        lambda _: served.http.post(of_units, json={"units": ["v"]}),
    ):
        served.start()
        served.assign("v")
        served.store.load("socks").stop(drain=False)
        served.store.delete("socks")  # as another process does: the service is not told
        other = served.store.start("socks", experiment, options={"exposure": "explicit"})
        id = other.assign("v").id
        assert call(id).status_code == 204
        assert other.describe(id).status == "voided"
        other.stop(drain=False)
        served.store.delete("socks")
    assert codes(served.http.post(of_units, json={"units": ["v"]})) == (404, "unknown")
    assert codes(served.http.post(f"/v1/assignments/{id}/void")) == (404, "unknown")


def test_an_experiment_that_another_process_has_replaced_is_loaded_anew(served, monkeypatch):
    monkeypatch.setattr("sameluck.service.loaded_experiments.RECHECK_SECONDS", 0.0)
    served.start()
    served.assign("ann")
    definition = served.store.peek("socks").experiment
    for what in ("status", "assign"):
        served.store.peek("socks").stop(drain=False)
        served.store.delete("socks")
        served.store.start("socks", definition)
        if what == "status":
            shown = served.http.get("/v1/experiments/socks").json()
            assert shown["status"]["users"] == 0
        assert served.assign("ann").json()["reason"] == "ASSIGNED"
    served.store.peek("socks").stop(drain=False)
    served.store.delete("socks")
    assert codes(served.assign("bob")) == (404, "unknown")


def test_a_unit_can_be_erased(served):
    served.start()
    id = served.assign("ann").json()["id"]
    served.reward(id, 1)
    erase = {"unit": "ann", "reason": "request"}
    path = "/v1/experiments/socks/erase"
    assert served.http.post(path, json=erase).json() == {"assignments": 1}
    assert served.http.post(path, json=erase).json() == {"assignments": 0}
    assert codes(served.http.get(f"/v1/assignments/{id}")) == (404, "unknown")
    assert served.store.peek("socks").status().settled == 1
    forget = "/v1/experiments/socks/forget-units"
    assert codes(served.http.post(forget)) == (409, "invalid_transition")
    served.http.post("/v1/experiments/socks/stop", json={"drain": False})
    assert served.http.post(forget, json={"reason": "over"}).json()["status"] == "stopped"
    assert served.store.history()[-1].what == "units forgotten"
