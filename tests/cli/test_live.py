"""Commands of `sameluck live`: every option, every invalid input, also beside a running server."""

import json
import os
import pty
import shlex
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import click
import numpy as np
import psycopg
import pytest

import sameluck as sl
from sameluck import cli
from sameluck.cli.command_list import COMMANDS as ALL_COMMANDS
from sameluck.cli.live import simulate_command as simulate
from sameluck.cli.live import store_options
from sameluck.errors import Interrupted
from sameluck.files import to_json

ROOT = Path(__file__).parents[2]
COMMANDS = [words.removeprefix("live ") for words in ALL_COMMANDS if words.startswith("live ")]
FILE = """
arms = ["red", "green", "blue"]
horizon = 6
replications = 3
seed = 7

[policies]
ucb = "ucb1(alpha=2)"
thompson = "thompson_bernoulli"

[live]
fallback = "red"
exposure = "{exposure}"

[live.reward]
min = 0
max = 1
window_seconds = 3600
"""


def run(capsys, *words):
    code = cli.run(["live", *map(str, words)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def answer(capsys, *words):
    """Return the JSON that a command prints."""
    code, out, err = run(capsys, *words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def answer_with_files(capsys, *words):
    """Return the JSON of a command that also writes files."""
    code, out, err = run(capsys, *words, "--json")
    assert (code, err.startswith("wrote ")) == (0, True)
    return json.loads(out)


@pytest.fixture
def url(tmp_path, monkeypatch):
    """An empty folder and the address of a database in it, which SAMELUCK_DB holds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAMELUCK_DB", "sqlite:///shop.db?synchronous=normal")
    return "sqlite:///shop.db?synchronous=normal"


@pytest.fixture
def shop(url, tmp_path, capsys):
    """A started experiment."""
    (tmp_path / "shop.toml").write_text(FILE.format(exposure="implicit"))
    assert run(capsys, "start", "shop.toml")[0] == 0
    return "shop"


def serve(url, users, name="shop"):
    """Users who buy every second time."""
    with sl.open(url) as store:
        live = store.peek(name)
        for user in range(users):
            assignment = live.assign(f"user {user}")
            live.reward(assignment.id, float(user % 2))
        live.status()


def test_the_group_alone_shows_its_commands(capsys):
    code, out, _ = run(capsys)
    assert code == 0
    assert all(name in out for name in COMMANDS)


def test_the_example_in_the_help_is_an_experiment(url, tmp_path, capsys):
    _, out, _ = run(capsys, "start", "--help")
    example = out.split("example:\n")[1].split("\nOptions:")[0]
    (tmp_path / "shop.toml").write_text(textwrap.dedent(example))
    started = answer(capsys, "start", "shop.toml")
    assert list(started["experiment"]["policies"]) == ["ucb", "thompson"]
    assert started["live"]["fallback"] == "red"
    assert started["live"]["reward"]["window_seconds"] == 3600


def test_a_start_says_what_follows_and_what_it_says_works(url, tmp_path, capsys):
    (tmp_path / "shop.toml").write_text(FILE.format(exposure="implicit"))
    code, out, err = run(capsys, "start", "shop.toml")
    assert (code, err) == (0, "")
    assert "started 'shop'" in out
    assert "ucb (control), thompson" in out

    assigning, rewarding, *reading = [
        line.split("  ")[1] for line in out.splitlines() if line.startswith("  sameluck live")
    ]
    assert "--db" not in assigning  # the variable says it
    _, out, _ = run(capsys, *shlex.split(assigning)[2:])
    id = next(line.split()[1] for line in out.splitlines() if line.startswith("assignment"))
    assert f"sameluck live reward shop {id} VALUE" in out
    words = rewarding.replace("ID", id).replace("VALUE", "1")
    assert run(capsys, *shlex.split(words)[2:]) == (0, f"1 counts for {id}\n", "")
    assert "reported for" in run(capsys, *shlex.split(words)[2:])[1]
    status, results, _ = (shlex.split(line)[2:] for line in reading)
    assert run(capsys, *status)[0] == 0
    code, _, err = run(capsys, *results)
    assert code == 2
    assert "a comparison needs the first 2; wait for rewards" in err


def test_serving_in_json(shop, url, capsys):
    first = answer(capsys, "assign", shop, "--unit", "alice")
    assert first["enrolled"]
    assert answer(capsys, "assign", shop, "--unit", "alice") == {**first, "reason": "STICKY"}
    assert answer(capsys, "reward", shop, first["id"], 1) == {
        "applied": True,
        "duplicate": False,
        "value": 1.0,
    }
    assert answer(capsys, "reward", shop, first["id"], 1)["duplicate"]
    assert answer(capsys, "tick", shop) == {"name": shop, "due": 0}
    status = answer(capsys, "status", shop)
    assert status["answers"] == {"ASSIGNED": 1, "STICKY": 1}  # counted, though each process is gone
    assert answer(capsys, "status") == [status]
    code, _, err = run(capsys, "reward", shop, first["id"], 0)
    assert (code, err.count("\n")) == (2, 1)
    assert "the first value counts" in err


def test_exposure_is_reported_and_an_assignment_can_be_voided(url, tmp_path, capsys):
    (tmp_path / "shop.toml").write_text(FILE.format(exposure="explicit"))
    assert run(capsys, "start", "shop.toml", "--name", "x y")[0] == 0
    _, out, _ = run(capsys, "assign", "x y", "--unit", 1)
    assert "once shown  sameluck live expose 'x y' asg_" in out
    first, second = (answer(capsys, "assign", "x y", "--unit", unit)["id"] for unit in (1, 2))

    assert answer(capsys, "expose", "x y", first)["status"] == "exposed"
    code, _, err = run(capsys, "void", "x y", first)
    assert code == 2
    assert "was exposed and cannot be voided" in err
    _, out, _ = run(capsys, "void", "x y", second)
    assert out.startswith(f"{second}: arm ")
    assert out.endswith("voided\n")
    assert "a reward counts until" in run(capsys, "expose", "x y", first)[1]


def test_a_user_the_experiment_has_no_use_for_gets_the_fallback(shop, capsys):
    assert run(capsys, "pause", shop, "--reason", "lunch")[1].startswith("shop: paused; users get")
    code, out, _ = run(capsys, "assign", shop, "--unit", "bob")
    assert code == 0
    assert "red (the fallback)" in out
    assert "not enrolled" in out
    status = run(capsys, "status", shop)[1]
    assert "(lunch)" in status
    assert "more users, once it is resumed" in status
    assert run(capsys, "resume", shop)[1] == "shop: running\n"


def test_stopping_finishes_open_replications_unless_now_is_given(shop, capsys):
    _, out, _ = run(capsys, "stop", shop)
    assert out.startswith("shop: draining; 3 replications are finished first; to stop at once: ")
    assert answer(capsys, "stop", shop, "--now")["status"] == "stopped"
    assert "wanted        no more users" in run(capsys, "status", shop)[1]
    code, _, err = run(capsys, "resume", shop)
    assert (code, err) == (2, "error: experiment 'shop' is stopped and cannot be resumed\n")


def test_stopping_after_replications_names_them(shop, capsys):
    _, out, _ = run(capsys, "stop", shop, "--after-replications", "3")
    assert out.startswith("shop: draining; 3 replications are finished first; to stop at once: ")
    assert "0 complete of 3 planned (stop after 3), 3 open" in run(capsys, "status", shop)[1]
    assert answer(capsys, "status", shop)["stop_after"] == 3
    code, _, err = run(capsys, "stop", shop, "--after-replications", "2")
    assert code == 2
    assert "3 have begun and are completed) must be a whole number from 3 to 3, got 2" in err
    code, _, err = run(capsys, "stop", shop, "--after-replications", "3", "--now")
    assert (code, err.endswith("--now stops at once; give one of them\n")) == (2, True)


def test_an_arm_is_disabled_and_enabled_with_a_line_in_the_history(shop, capsys, monkeypatch):
    monkeypatch.setenv("SAMELUCK_ACTOR", "ann on call")
    arm = answer(capsys, "assign", shop, "--unit", "1")["arm"]
    other = next(name for name in ("red", "green", "blue") if name != arm)
    words = ("disable-arm", shop, arm, "--fallback", other, "--reason", "broken")
    _, out, _ = run(capsys, *words)
    assert f"arm {arm}: " in out
    assert out.endswith(f"enable it again with: sameluck live enable-arm shop {arm}\n")
    assert answer(capsys, "assign", shop, "--unit", "1")["reason"] == "ARM_DISABLED"
    assert run(capsys, "enable-arm", shop, arm)[1] == "shop: no arm is disabled\n"
    _, out, _ = run(capsys, "history", shop)
    assert f"shop: arm disabled {arm}, by ann on call: broken\n" in out
    changes = [change["what"] for change in answer(capsys, "history")]
    assert changes == ["started", "arm disabled", "arm enabled"]


def test_what_is_removed_is_confirmed(shop, url, capsys, monkeypatch):
    assignment = answer(capsys, "assign", shop, "--unit", "ann")
    answer(capsys, "reward", shop, assignment["id"], 1)
    commands = {
        "erase": (shop, "--unit", "ann"),
        "forget-units": (shop,),
        "prune": ("--older-than-days", 0),
        "delete": (shop,),
    }
    for name, words in commands.items():
        code, out, err = run(capsys, name, *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "cannot be undone; confirm with --yes" in err
    assert answer(capsys, "erase", *commands["erase"], "--yes")["assignments"] == 1
    assert answer(capsys, "erase", "--unit", "ann", "--yes")["assignments"] == 0
    code, _, err = run(capsys, "delete", shop, "--yes")
    assert (code, "is running and cannot be deleted" in err) == (2, True)
    assert run(capsys, "stop", shop, "--now")[0] == 0
    assert run(capsys, "forget-units", shop, "--yes")[0] == 0
    assert answer(capsys, "prune", *commands["prune"], "--yes") == {"removed": 0}
    for days in (-1, "nan", 1e300):
        code, _, err = run(capsys, "prune", "--older-than-days", days, "--yes")
        assert (code, err.count("\n")) == (2, 1)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: False)
    code, out, err = run(capsys, "delete", shop)
    assert (code, out, err) == (2, "", "error: not confirmed; nothing was changed\n")
    monkeypatch.setattr(click, "confirm", lambda *_, **__: True)
    assert run(capsys, "delete", shop, "--reason", "over")[1] == "deleted 'shop'\n"
    assert answer(capsys, "history")[-1]["what"] == "deleted"


def test_windows_are_extended(shop, capsys):
    assert answer(capsys, "extend-windows", shop, 60) == {
        "awaited": 0,
        "reopened": 0,
        "accepted": 0,
        "kept": 0,
    }


def test_a_backup_is_restored(shop, url, capsys):
    serve(url, 5)
    assert run(capsys, "backup", "shop.backup")[1] == "1 experiment in shop.backup\n"
    words = ("restore", "shop.backup", "--db", "sqlite:///again.db")
    assert run(capsys, *words)[1] == "1 experiment in sqlite:///again.db\n"
    statuses = [
        answer(capsys, "status", shop, "--db", database) for database in (url, "sqlite:///again.db")
    ]
    assert statuses[0] == statuses[1]
    assert run(capsys, *words)[0] == 2


@pytest.mark.slow
def test_results_are_those_of_the_python_surface(shop, url, tmp_path, capsys):
    serve(url, 10)
    code, _, err = run(capsys, "results", shop)
    assert code == 2
    assert "--twin needs one only; for the results so far: --checkpoints " in err
    early = err.split("--checkpoints ")[1].strip()
    assert answer(capsys, "results", shop, "--checkpoints", early)["effects"][0][
        "checkpoint"
    ] == int(early)

    serve(url, 60)
    paths = {kind: tmp_path / f"out.{kind}" for kind in ("csv", "svg", "html", "npz")}
    flags = zip(("--csv", "--plot", "--report", "--save"), paths.values(), strict=True)
    words = [word for pair in flags for word in pair]
    code, out, err = run(capsys, "results", shop, "--checkpoints", "3,6", "--level", "0.9", *words)
    assert code == 0
    assert "90% interval" in out
    assert err.count("wrote ") == 4
    assert all(path.stat().st_size for path in paths.values())
    with sl.open(url, read_only=True) as store:
        expected = sl.compare(store.load(shop).runs([3, 6]), level=0.9)
    result = answer(capsys, "results", shop, "--checkpoints", "3,6", "--level", 0.9)
    assert result["effects"] == json.loads(to_json(expected.to_dicts()))
    assert result["verdict"] == expected.verdict


@pytest.mark.slow
def test_a_twin_needs_one_replication(url, tmp_path, capsys):
    """It is in the text, in JSON and in a report."""
    text = FILE.format(exposure="implicit").replace("replications = 3", "replications = 1")
    (tmp_path / "shop.toml").write_text(text)
    run(capsys, "start", "shop.toml")
    shop = "shop"
    with sl.open(url) as store:
        live = store.load(shop)
        while live.status().status == "running":
            assignment = live.assign(f"user {live.status().users}")
            live.reward(assignment.id, float(live.status().users % 2))
    assert run(capsys, "results", shop)[0] == 2
    code, out, _ = run(capsys, "results", shop, "--twin")
    assert code == 0
    assert "95% twin interval" in out
    assert "Twin of 1 replication" in out
    report = tmp_path / "twin.html"
    result = answer_with_files(capsys, "results", shop, "--twin", "--report", report)
    assert result["twin"]["replications"] == 1
    assert set(result["twin"]) >= {"effects", "failures", "stability", "withheld", "verdict"}
    assert "On a copy of the arms" in report.read_text()


def test_results_that_cannot_be_are_refused_for_what_is_wrong_with_them(
    shop, url, tmp_path, capsys
):
    assert (
        "--policies must name policies such as a,b, got ' '"
        in run(capsys, "results", shop, "--policies", " ")[2]
    )
    assert "level must be between 0 and 1" in run(capsys, "results", shop, "--level", 95)[2]
    assert "wait for rewards" in run(capsys, "results", shop)[2]
    assert "a twin needs the first; wait for rewards" in run(capsys, "results", shop, "--twin")[2]
    assert "have reached 1 period, " in run(capsys, "results", shop, "--checkpoints", 1)[2]
    run(capsys, "stop", shop, "--now")
    assert "needs the first 2; its status is stopped" in run(capsys, "results", shop)[2]

    single = FILE.format(exposure="implicit").replace("replications = 3", "replications = 1")
    (tmp_path / "single.toml").write_text(single)
    assert "1 replication of 6 periods" in run(capsys, "start", "single.toml")[1]
    assert "only one is planned" in run(capsys, "results", "single")[2]


@pytest.mark.slow
def test_a_figure_changes_no_number(shop, url, tmp_path, capsys):
    serve(url, 60)
    plain = run(capsys, "results", shop)[1]
    assert run(capsys, "results", shop, "--plot", tmp_path / "a.svg")[1] == plain


def unwrapped(text):
    return " ".join(text.split())


@pytest.mark.slow
def test_a_challenger_is_previewed_and_joins(shop, url, capsys):
    serve(url, 60)
    words = ("add-policy", shop, "ucb1(alpha=0.1)", "--as", "bold")
    before = answer(capsys, *words, "--preview")
    assert "nothing was changed" in unwrapped(run(capsys, *words, "--preview")[1])
    assert before == answer(capsys, *words)
    added = unwrapped(run(capsys, "add-policy", shop, "always(1)")[1])
    assert "It takes part in shop now." in added
    assert "has a policy 'bold' already" in run(capsys, *words)[2]
    serve(url, 200)
    both = ("--policies", "thompson,bold", "--control", "thompson")
    assert {effect["policy"] for effect in answer(capsys, "results", shop, *both)["effects"]} == {
        "bold"
    }
    preview = unwrapped(run(capsys, "add-policy", shop, "uniform", "--preview")[1])
    assert "at this moment it requests" in preview


def test_a_policy_is_removed_and_nothing_is_left_to_repair(shop, url, capsys):
    serve(url, 5)
    words = ("remove-policy", shop, "thompson", "--reason", "too slow")
    assert "thompson no longer takes part in shop." in run(capsys, *words)[1]
    assert "is the control" in run(capsys, "remove-policy", shop, "ucb")[2]
    *_, change = answer(capsys, "history", shop)
    assert (change["what"], change["subject"]) == ("policy removed", "thompson")
    assert answer(capsys, "repair", shop)["differences"] == []
    assert answer(capsys, "repair", shop, "--confirm")["applied"] is True
    assert "Nothing was changed" in run(capsys, "repair", shop)[1]
    code, _, err = run(capsys, "replace-policy-code", shop, "ucb")
    assert (code, "has the version of policy 'ucb'" in err) == (2, True)


def test_names_with_commas_can_be_chosen(shop, url, capsys):
    serve(url, 60)
    assert run(capsys, "add-policy", shop, "epsilon_greedy(epsilon=0.2, explore=others)")[0] == 0
    with sl.open(url) as store:
        live = store.peek(shop)
        *_, late = live.experiment.policies
    assert "," in late
    serve(url, 200)
    result = answer(capsys, "results", shop, "--policies", f"ucb,{late}")
    assert [(effect["policy"], effect["control"]) for effect in result["effects"]] == [
        (late, "ucb")
    ]


def test_a_trace_shows_every_period(shop, url, capsys):
    assert run(capsys, "trace", shop)[1].startswith("replication 0: 0 users for 0 periods")
    serve(url, 60)
    _, out, _ = run(capsys, "trace", shop, 1)
    assert out.splitlines()[-1].split()[0] == "6"
    assert "*" in out
    rows = answer(capsys, "trace", shop, 1)
    assert len(rows) == 12
    code, _, err = run(capsys, "trace", shop, 9)
    assert code == 2
    assert "from 0 to 2" in err


def test_a_ledger_is_exported_and_a_log_imported(shop, url, tmp_path, capsys):
    serve(url, 60)
    result = answer(capsys, "export", shop, "ledger.csv")
    assert result["rows"] == len((tmp_path / "ledger.csv").read_text().splitlines()) - 1
    assert run(capsys, "export", shop, "rewards.jsonl", "--what", "rewards")[0] == 0
    columns = ("--arm", "arm", "--reward", "value", "--replication", "replication")
    words = ("import", "old", "ledger.csv", "first=ucb1(alpha=2)", "uniform", *columns)
    code, out, err = run(capsys, *words, "--arms", "red,green,blue", "--horizon", 5)
    assert (code, err) == (0, "")
    assert "next:\n  sameluck live status old" in out
    assert [status["name"] for status in answer(capsys, "status")] == ["shop", "old"]
    code, out, err = run(capsys, *words, "--arms", "red,green")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "unknown arm 'blue'" in err
    made = answer(capsys, *["import", "again", *words[2:]], "--skip-bad", "--arms", "red,green")
    assert made["live"] == "again"
    assert made["skipped"]
    assert made["cautions"] == []


def test_commands_that_only_read_work_beside_a_server(shop, url, tmp_path, capsys):
    serve(url, 60)
    reading = [
        ("status",),
        ("status", shop),
        ("results", shop),
        ("trace", shop),
        ("doctor",),
        ("export", shop, "a.csv"),
        ("add-policy", shop, "uniform", "--preview"),
    ]
    with sl.open(url):
        assert [run(capsys, *words)[0] for words in reading] == [0] * len(reading)
        code, out, err = run(capsys, "assign", shop, "--unit", 1)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "is being written by another process" in err


def test_all_experiments_are_listed(url, tmp_path, capsys):
    (tmp_path / "shop.toml").write_text(FILE.format(exposure="implicit"))
    with sl.open(url):
        pass
    assert "no experiments yet; start one with: sameluck live start" in run(capsys, "status")[1]
    for name in ("first", "the second"):
        assert run(capsys, "start", "shop.toml", "--name", name)[0] == 0
    _, out, _ = run(capsys, "status")
    assert [line.split("  ")[0] for line in out.splitlines()] == [
        "experiment",
        "first",
        "the second",
    ]


def test_a_name_is_typed_or_written_or_the_files(url, tmp_path, capsys):
    text = FILE.format(exposure="implicit")
    (tmp_path / "shop.toml").write_text(text)
    (tmp_path / "other.toml").write_text(f'name = "written"\n{text}')
    assert answer(capsys, "start", "shop.toml")["name"] == "shop"
    assert answer(capsys, "start", "other.toml")["name"] == "written"
    started = answer(capsys, "start", "other.toml", "--name", "typed")
    assert started["name"] == "typed"
    assert sl.LiveOptions.from_dict(started["live"]).fallback == "red"
    assert sl.Experiment.from_dict(started["experiment"]).digest == started["digest"]
    code, _, err = run(capsys, "start", "shop.toml")
    assert code == 2
    assert "an experiment 'shop' exists; show it with: sameluck live status shop" in err
    assert "give this one another name: --name NAME" in err


def test_one_file_serves_for_simulation_and_for_real_users(url, tmp_path, capsys):
    text = 'environment = "bernoulli(0.5, 0.4, 0.3)"\n' + FILE.format(exposure="implicit")
    (tmp_path / "both.toml").write_text(text)
    assert cli.run(["compare", "both.toml", "--replications", "10"]) == 0
    capsys.readouterr()
    assert answer(capsys, "start", "both.toml")["name"] == "both"
    made = answer(capsys, "simulate", "both.toml")
    assert made["rehearsal"]["status"]["planned"] == 3


def test_a_plan_that_may_take_long_is_cautioned_about(url, tmp_path, capsys):
    slow = FILE.format(exposure="implicit").replace("3600", "86400").replace("= 6", "= 3000")
    (tmp_path / "slow.toml").write_text(slow)
    code, out, err = run(capsys, "start", "slow.toml")
    assert code == 0
    assert "caution" not in out
    assert err.startswith("caution: experiment 'slow': if rewards take the whole window")
    result = json.loads(run(capsys, "start", "slow.toml", "--name", "b", "--json")[1])
    assert len(result["cautions"]) == 1


BAD_FILES = {
    "horizon = ": "not valid TOML",
    "horzon = 3": "unknown 'horzon'; did you mean 'horizon'?",
    "arms = 2": "an experiment needs policies, horizon, replications",
    "live = 3": "live must be a table [live], got 3",
    FILE.replace("fallback", "fallbck"): "unknown field 'fallbck' in live; did you mean 'fallback'",
    FILE.replace('"red"\nexp', '"pink"\nexp'): "LiveOptions.fallback 'pink' is not an arm",
    FILE.replace("min = 0", "min = 2"): "Reward.min must be below Reward.max",
    FILE.replace(
        "{exposure}", "some"
    ): "unknown LiveOptions.exposure 'some'; known: implicit, explicit",
    FILE.replace("seed", 'design = "time_coupled"\nseed'): "live use Replay() or Naive()",
    FILE.replace(
        "ucb1(alpha=2)", "ucb1(alpha=-2)"
    ): "policy 'ucb': UCB1.alpha must be >= 0, got -2",
    FILE.replace(
        "ucb1(alpha=2)", "ucb9"
    ): "policy 'ucb': unknown policy 'ucb9'; did you mean 'ucb1'?",
    FILE.replace("horizon = 6", "horizon = 0"): "Experiment.horizon must be a whole number from 1",
    f"name = 3\n{FILE}": "an experiment's name must be",
}


@pytest.mark.parametrize("text", BAD_FILES)
def test_a_bad_file_is_one_clear_line_and_starts_nothing(text, url, tmp_path, capsys):
    (tmp_path / "bad.toml").write_text(text.replace("{exposure}", "implicit"))
    code, out, err = run(capsys, "start", "bad.toml")
    assert err.startswith("error: bad.toml: ")
    assert BAD_FILES[text] in err
    assert err.count("bad.toml") == 1
    assert (code, out, err.count("\n")) == (2, "", 1)
    if (tmp_path / "shop.db").exists():
        assert answer(capsys, "status") == []


def test_a_file_is_named_with_the_options_that_override_it(url, tmp_path, capsys):
    text = 'environment = "bernoulli(0.5, 0.4, 0.3)"\n' + FILE.format(exposure="implicit")
    (tmp_path / "a.toml").write_text(text)
    for words, message in (
        (("--horizon", 0), "a.toml with --horizon: Experiment.horizon must be"),
        (
            ("--seed", 1, "--loss", 2),
            "a.toml with --seed, --loss: Traffic.loss must be <= 1, got 2",
        ),
        (("--env", "coin"), "a.toml with --env: unknown environment 'coin'"),
        (("--name", ""), "--name must be 1 to 200 printable characters, got ''"),
    ):
        code, out, err = run(capsys, "simulate", "a.toml", *words)
        assert err.startswith(f"error: {message}")
        assert (code, out, err.count("\n")) == (2, "", 1)
    (tmp_path / "log.csv").write_text("arm,value\nred,1\ngreen,0\n")
    (tmp_path / "options.toml").write_text('[live]\norder = "any"\n')
    words = ("log.csv", "ucb1", "uniform", "--arm", "arm", "--reward", "value")
    _, _, err = run(capsys, "import", "old", *words, "--options", "options.toml")
    assert err.startswith("error: options.toml: unknown LiveOptions.order")


def test_settings_that_a_live_experiment_does_not_keep_give_a_caution(url, tmp_path, capsys):
    (tmp_path / "shop.toml").write_text("level = 0.9\n" + FILE.format(exposure="implicit"))
    code, _, err = run(capsys, "start", "shop.toml")
    assert code == 0
    assert "caution: shop.toml: level is ignored" in err


def test_a_single_policy_gets_the_command_that_adds_another(url, tmp_path, capsys):
    alone = FILE.format(exposure="implicit").replace('thompson = "thompson_bernoulli"', "")
    (tmp_path / "shop.toml").write_text(alone)
    _, out, _ = run(capsys, "start", "shop.toml")
    assert "sameluck live add-policy shop POLICY" in out
    code, _, err = run(capsys, "results", "shop")
    assert code == 2
    assert "'shop' has one policy, and a comparison needs two" in err


def test_an_a_a_experiment_says_so(url, tmp_path, capsys):
    same = FILE.format(exposure="implicit").replace("[live]", "[live]\naa = true")
    (tmp_path / "shop.toml").write_text(same)
    assert "A/A: all policies play the control's rule" in run(capsys, "start", "shop.toml")[1]


# Each command with arguments that would do if there were a database.
WORDS = {
    "assign": ("shop", "--unit", "1"),
    "expose": ("shop", "asg_1"),
    "reward": ("shop", "asg_1", "1"),
    "void": ("shop", "asg_1"),
    "tick": ("shop",),
    "status": ("shop",),
    "results": ("shop",),
    "doctor": ("shop",),
    "trace": ("shop",),
    "export": ("shop", "a.csv"),
    "add-policy": ("shop", "ucb1"),
    "pause": ("shop",),
    "resume": ("shop",),
    "stop": ("shop",),
    "disable-arm": ("shop", "1"),
    "enable-arm": ("shop", "1"),
    "history": ("shop",),
    "backup": ("shop.backup",),
    "remove-policy": ("shop", "thompson"),
    "replace-policy-code": ("shop", "thompson"),
    "repair": ("shop",),
    "extend-windows": ("shop", "60"),
    "delete": ("shop", "--yes"),
    "erase": ("shop", "--unit", "ann", "--yes"),
    "forget-units": ("shop", "--yes"),
    "prune": ("--older-than-days", "90", "--yes"),
}


@pytest.mark.parametrize("name", [name for name in COMMANDS if name in WORDS])
def test_a_database_that_is_not_there_is_not_made(name, url, tmp_path, capsys):
    code, out, err = run(capsys, name, *WORDS[name])
    assert (code, out) == (2, "")
    assert err.startswith(
        "error: no database 'shop.db'; start an experiment with: sameluck live start FILE.toml"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name in WORDS])
def test_a_database_in_which_nothing_was_started_stays_empty(name, url, tmp_path, capsys):
    (tmp_path / "shop.db").touch()
    code, out, err = run(capsys, name, *WORDS[name])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: sqlite:///shop.db?synchronous=normal has no experiments")
    assert "start an experiment with: sameluck live start FILE.toml, or name another --db" in err
    assert (tmp_path / "shop.db").stat().st_size == 0


def test_an_empty_postgresql_database_stays_empty(
    empty_postgres_url, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("SAMELUCK_DB", "sqlite:///another.db")
    for words in (("status",), ("doctor",), ("assign", "shop", "--unit", 1), ("pause", "shop")):
        code, out, err = run(capsys, *words, "--db", empty_postgres_url)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"{empty_postgres_url} has no experiments; start an experiment with: " in err
        assert f"sameluck live start FILE.toml --db {empty_postgres_url}" in err
    with psycopg.connect(empty_postgres_url) as connection:
        result = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        assert result.fetchone() == (0,)


UNREACHABLE = "postgresql://me:secret@127.0.0.1:1/shop"


@pytest.mark.parametrize("words", [("status",), ("doctor",), ("assign", "shop", "--unit", 1)])
def test_a_database_that_cannot_be_reached_is_exit_code_1(words, capsys):
    code, out, err = run(capsys, *words, "--db", UNREACHABLE)
    assert (code, out, err.count("\n")) == (sl.Unavailable.exit_code, "", 1)
    assert "cannot connect to PostgreSQL" in err
    assert "secret" not in err


def test_a_missing_permission_is_one_clear_line(postgres_url, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.toml").write_text(FILE.format(exposure="implicit"))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE weak LOGIN")
        try:
            weak = postgres_url.replace("postgres@", "weak@")
            code, out, err = run(capsys, "start", "shop.toml", "--db", weak)
        finally:
            connection.execute("DROP ROLE weak")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "this PostgreSQL user may not use the database: permission denied" in err


def test_the_page_says_what_exit_codes_mean():
    page = (ROOT / "docs" / "cli.md").read_text()
    meaning = {
        int(row.split("|")[1]): row
        for row in page.split("Exit codes:\n")[1].split("\n## ")[0].strip().splitlines()[2:]
    }
    assert set(meaning) == {0, 1, 2, 130}
    unavailable = "The database is unavailable or another process writes to it"
    assert unavailable in meaning[sl.Unavailable.exit_code]
    assert "differs from its policies' choices" in meaning[sl.Diverged.exit_code]
    assert "a name or an id is wrong" in meaning[sl.Unknown.exit_code]
    assert "An option, a value" in meaning[sl.Invalid.exit_code]
    assert "not installed" in meaning[sl.Missing.exit_code]
    assert "the state of the experiment forbids the call" in meaning[sl.Conflict.exit_code]
    assert "Ctrl-C" in meaning[Interrupted.exit_code]


def test_every_command_but_those_that_begin_something_needs_a_database():
    assert set(COMMANDS) - set(WORDS) == {"simulate", "start", "import", "restore"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in COMMANDS if name in {*WORDS} - {"backup", "prune"}]
)
def test_an_experiment_that_is_not_there_is_one_clear_line(name, shop, capsys):
    code, out, err = run(capsys, name, "shpo", *WORDS[name][1:])
    message = "error: no experiment 'shpo' in this store; did you mean 'shop'? known: shop\n"
    assert (code, out, err) == (2, "", message)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_nonsense_is_one_clear_line(name, url, tmp_path, capsys):
    for words in (("--colour", "red"), ("\x00",), ("a", "b", "c", "d", "e")):
        code, out, err = run(capsys, name, *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"See: sameluck live {name} --help" in run(capsys, name, "--colour", "red")[2]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("status", "--db", "mysql://x"), "unknown address of a store 'mysql://x'"),
        (("status", "--db", "sqlite://shop.db"), "write sqlite:///shop.db (three slashes)"),
        (("status", "--db", "sqlite://"), "sqlite:// is in memory and ends with the command"),
        (
            ("start", "a.toml", "--db", "sqlite://"),
            "sqlite:// is in memory and ends with the command",
        ),
        (("start", "a.toml", "--db", "sqlite:////no/where.db"), "no folder '/no'"),
        (("start", "no.toml"), "cannot read 'no.toml'"),
        (("start", "ucb1"), "an experiment is a TOML file"),
        (("import", "x", "no.csv", "ucb1", "--arm", "a", "--reward", "b"), "no such file"),
        (("status", "--db", "sqlite:///text.db"), "text.db' as a SQLite database"),
        (("simulate", "ucb1", "--env", "bernoulli(0.5,0.4)"), "at least two policies"),
        (("simulate", "--loss", "2"), "Traffic.loss must be <= 1"),
        (("simulate", "--delay", "soon"), "unknown delay 'soon'"),
        (("simulate", "--env", "switching(bernoulli(0.5, 0.4), every=2)"), "2 to 10 environments"),
        (("simulate", "--order", "random"), "unknown LiveOptions.order 'random'; "),
        (("simulate", "--days", "0"), "days must be > 0"),
        (("simulate", "--window", "0"), "Reward.window_seconds must be > 0"),
        (("simulate", "--level", "95"), "level must be between 0 and 1"),
        (("simulate", "--db", "sqlite://"), "sqlite:// is in memory"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(words, message, url, tmp_path, capsys):
    (tmp_path / "a.toml").write_text(FILE.format(exposure="implicit"))
    (tmp_path / "text.db").write_text("not a database, but long enough to be looked at" * 99)
    code, out, err = run(capsys, *words)
    assert message in err
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_values_below_zero_are_values(url, tmp_path, capsys):
    free = FILE.format(exposure="implicit").replace("min = 0", "min = -5")
    (tmp_path / "shop.toml").write_text(free.replace("thompson_bernoulli", "uniform"))
    run(capsys, "start", "shop.toml")
    id = answer(capsys, "assign", "shop", "--unit", 1)["id"]
    assert run(capsys, "reward", "shop", id, "-1.5") == (0, f"-1.5 counts for {id}\n", "")
    code, _, err = run(capsys, "reward", "shop", id, "lots")
    assert code == 2
    assert "'lots' is not a valid float" in err


def test_policies_that_are_objects_are_made_by_name(url, tmp_path, capsys, monkeypatch):
    (tmp_path / "own_policies.py").write_text(
        "class Turns:\n"
        "    def select(self, period): return period % 3\n"
        "    def update(self, arm, reward): pass\n"
        "def make(seed): return Turns()\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    text = FILE.format(exposure="implicit").replace("thompson_bernoulli", "external(turns)")
    (tmp_path / "shop.toml").write_text(text)
    maker = ("--maker", "turns=own_policies:make")
    code, out, _ = run(capsys, "start", "shop.toml", *maker)
    assert code == 0
    assert "sameluck live assign shop --unit USER --maker turns=own_policies:make  " in out
    assert answer(capsys, "assign", "shop", "--unit", 1, *maker)["enrolled"]
    (tmp_path / "other.toml").write_text(FILE.format(exposure="implicit"))
    assert run(capsys, "start", "other.toml")[0] == 0
    every = answer(capsys, "doctor")["experiments"]  # the other one can be examined
    assert [(check["name"], check["verdict"]) for check in every["shop"]] == [
        ("policies", "unknown")
    ]
    assert len(every["other"]) > 1
    assert run(capsys, "doctor", "shop")[0] == 2
    assert run(capsys, "doctor", "shop", *maker)[0] == 0
    assert run(capsys, "status", "shop")[0] == 0  # to look or to pause takes no policies
    code, _, err = run(capsys, "trace", "shop", 0)
    assert code == 2
    assert "external('turns')" in err
    assert "--maker" in err
    for wrong in ("turns", "turns=no_such_module:make", "turns=own_policies:mak"):
        code, _, err = run(capsys, "status", "shop", "--maker", wrong)
        assert (code, err.count("\n")) == (2, 1)
        assert "--maker" in err


def test_the_doctor_examines_everything_and_an_alarm_is_exit_code_1(shop, url, capsys):
    serve(url, 60)
    code, out, err = run(capsys, "doctor")
    assert (code, err) == (0, "")
    names = ["sqlite", "journal", "integrity", "schema", "rebuild", "drift", "sample ratio"]
    assert all(f" {name} " in out for name in names)
    result = answer(capsys, "doctor", shop)
    assert [check["name"] for check in result["store"]] == [*names[:4], "clocks"]
    with sl.open(url, read_only=True) as store:
        expected = [check._asdict() for check in store.load(shop).diagnostics()]
    assert result["experiments"][shop] == json.loads(to_json(expected))

    with sqlite3.connect("shop.db") as database:
        database.execute("UPDATE entry SET value = 1 - value WHERE replication = 0")
    database.close()
    code, out, err = run(capsys, "doctor")
    assert (code, err) == (1, "")
    assert "alarm" in out
    assert "The database was edited" in " ".join(out.split())


def test_a_password_is_not_shown():
    assert store_options.DatabaseOptions("postgresql://me:secret@host/db").next_command(
        "status"
    ) == ("sameluck live status --db 'postgresql://me:***@host/db'")


def test_the_default_database_needs_no_option(monkeypatch):
    monkeypatch.delenv("SAMELUCK_DB", raising=False)
    assert (
        store_options.DatabaseOptions("sqlite:///sameluck.db").next_command("status")
        == "sameluck live status"
    )
    assert (
        store_options.DatabaseOptions("sqlite:///a.db")
        .next_command("status")
        .endswith(" --db sqlite:///a.db")
    )


@pytest.mark.slow
def test_a_rehearsal_is_the_simulation_and_says_all(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ("--horizon", 30, "--replications", 5, "--arrivals-per-day", 50_000, "--seed", 3)
    code, out, err = run(capsys, "simulate", *words)
    assert (code, err) == (0, "")
    for message in (
        "5 replications of 30 periods",
        "rehearsed ",
        "5 complete of 5",
        "\ndiagnostics\n",
    ):
        assert message in out
    assert "thompson_bernoulli earned" in " ".join(out.split()) or "No difference" in out
    assert list(tmp_path.iterdir()) == []

    result = answer(capsys, "simulate", *words)
    experiment = sl.Experiment.from_dict(result["result"]["experiment"])
    expected = sl.compare(sl.simulate(experiment, simulate.ENVIRONMENT))
    shown = result["result"]["effects"][0]
    assert shown["effect"] == expected.effects[0].effect
    assert shown["interactions"] == expected.effects[0].interactions
    assert result["rehearsal"]["finished"]
    assert [check["name"] for check in result["diagnostics"]]


def test_a_rehearsal_takes_every_option_of_traffic_and_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = 'environment = "bernoulli(0.5, 0.4, 0.3)"\n' + FILE.replace(
        'exposure = "{exposure}"', ""
    )
    (tmp_path / "a.toml").write_text(text + "\n[traffic]\nloss = 0.5\nduplicates = 0.5\n")
    rough = ("--unexposed", 0.3, "--returning", 0.3, "--delay", "lognormal(5, 1)", "--batch", 2)
    rough += ("--order", "phase", "--open-replications", 2, "--window", 60)
    rough += ("--env", "drifting(bernoulli(0.5, 0.4, 0.3), bernoulli(0.3, 0.4, 0.5), over=100)")
    result = answer(capsys, "simulate", "a.toml", *rough, "--traffic-seed", 4)
    rehearsal = result["rehearsal"]
    assert rehearsal["finished"]
    assert rehearsal["status"]["defaulted"] > 0
    assert rehearsal["status"]["voided"] > 0
    assert rehearsal["units"] < rehearsal["calls"]
    assert "batched(ucb1" in result["result"]["experiment"]["policies"]["ucb"]
    assert "not i.i.d." in rehearsal["caution"]
    assert result["result"]["cautions"][0] == rehearsal["caution"]


def test_a_rehearsal_can_be_kept_and_looked_at(url, capsys):
    words = ("simulate", "--horizon", 20, "--replications", 4, "--db", url, "--name", "try")
    code, _, err = run(capsys, *words, "--days", 0.01)
    assert code == 0
    assert "show it with: sameluck live status try" in err
    status = answer(capsys, "status", "try")
    assert (status["status"], status["complete"]) == ("running", 0)
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "an experiment 'try' exists;" in err


@pytest.mark.slow
def test_a_short_rehearsal_shows_what_is_known_so_far(capsys):
    _, out, _ = run(capsys, "simulate", "--days", 0.02)
    assert "the experiment has not ended" in out
    assert "95% anytime interval" in out
    assert "No result yet" in run(capsys, "simulate", "--days", 0.0001)[1]


def test_an_interrupted_rehearsal_says_what_is_kept(url, monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sl, "rehearse", interrupt)
    code, out, err = run(capsys, "simulate", "--db", "sqlite:///a.db")
    assert (code, out) == (130, "")
    assert "is kept; show it with: sameluck live status rehearsal --db sqlite:///a.db" in err
    code, _, err = run(capsys, "simulate")
    assert (code, err) == (130, "\nerror: interrupted; nothing was written\n")


def test_postgresql_serves_the_same_commands(postgres_url, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAMELUCK_DB", postgres_url)
    (tmp_path / "shop.toml").write_text(FILE.format(exposure="implicit"))
    assert run(capsys, "start", "shop.toml")[0] == 0
    serve(postgres_url, 40)
    with sl.open(postgres_url, read_only=True) as store:
        runs = store.load("shop").runs()
    result = answer(capsys, "results", "shop")
    assert result["effects"] == json.loads(to_json(sl.compare(runs).to_dicts()))
    assert np.isfinite(result["effects"][0]["effect"])
    checks = json.loads(run(capsys, "doctor", "--json")[1])["store"]
    assert [check["name"] for check in checks] == ["postgresql", "durability", "schema", "clocks"]


@pytest.mark.slow
def test_long_rehearsals_show_a_bar_on_a_terminal():
    words = ["live", "simulate", "--replications", "200", "--days", "1"]
    parent, child = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "sameluck", *words],
        stdout=subprocess.PIPE,
        stderr=child,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    ) as process:
        os.close(child)
        shown = b""
        while b"after " not in shown:
            shown += os.read(parent, 4096)
        process.kill()
    os.close(parent)
    assert b"replications," in shown
