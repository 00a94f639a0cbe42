"""Exports hold the whole ledger and every reward, in three formats, whole or not at all."""

import csv
import json
import tracemalloc
from datetime import datetime

import numpy as np
import pytest
from users import Users, finish

import sameluck as sl
from sameluck.live.engine.protocol import AUDITED, SHARED, SettledEntries
from sameluck.live.engine.replication import Scheduler
from sameluck.live.engine.walker import empty_results
from sameluck.live.logs import exporting

NOON = 1_700_000_000.25  # a time whose microseconds are not zero
ENVIRONMENT = sl.Gaussian([0.1, 0.3, 0.2], sd=1.0)


def experiment(**changes):
    values = {
        "policies": {"old": "ucb1(alpha=2)", "new": "thompson_gaussian"},
        "arms": ("=SUM(A1)", "@home", 'quo"te, é\u2028'),
        "horizon": 12,
        "replications": 3,
        "seed": 5,
    }
    return sl.Experiment(**{**values, **changes})


@pytest.fixture
def store(url):
    with sl.open(url, clock=sl.VirtualClock(NOON)) as opened:
        yield opened


@pytest.fixture
def memory():
    with sl.open("sqlite://", clock=sl.VirtualClock(NOON)) as opened:
        yield opened


def of_every_kind(store):
    """An experiment with entries wanted, assigned, exposed, observed and defaulted, and a voided assignment."""
    options = sl.LiveOptions(exposure="explicit", lease_seconds=60, open_replications=3)
    live = store.start("shop", experiment(), options=options)
    ids = [live.assign(unit).id for unit in range(6)]
    live.void(ids[0])
    for id in ids[1:5]:
        live.expose(id)
    live.reward(ids[1], -0.1)
    live.reward(ids[1], -0.1)
    with pytest.raises(sl.Conflict):
        live.reward(ids[1], 7.0)
    store.settings.clock.advance(86_400.0)
    live.tick()
    with pytest.raises(sl.Conflict):
        live.reward(ids[2], 1 / 3)
    live.assign("waits")
    shown = live.assign("shown")
    live.expose(shown.id)
    return live


def read_jsonl(path):
    about, *rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    return about, rows


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_entry_and_every_assignment_is_there(store, tmp_path):
    live = of_every_kind(store)

    count = live.export(tmp_path / "ledger.jsonl")
    about, rows = read_jsonl(tmp_path / "ledger.jsonl")

    assert len(rows) == count
    status = live.status()
    states = [row["state"] for row in rows]
    assert states.count("settled") == status.settled
    assert states.count("assigned") + states.count("exposed") == status.waiting
    assert states.count("exposed") == 1
    assert states.count("wanted") == status.wanted
    assert states.count("voided") == status.voided > 0
    ledger = [row for row in rows if row["state"] != "voided"]
    indices = [(row["replication"], row["arm_index"], row["position"]) for row in ledger]
    assert indices == sorted(set(indices))
    assert about["kind"] == "experiment"
    assert sl.Experiment.from_dict(about["definition"]) == live.experiment
    assert about["digest"] == live.experiment.digest
    assert sl.LiveOptions.from_dict(about["options"]) == live.options


def test_a_row_says_what_describe_says(store, tmp_path):
    live = of_every_kind(store)
    live.export(tmp_path / "ledger.jsonl")
    _, rows = read_jsonl(tmp_path / "ledger.jsonl")

    entries = [row for row in rows if row["assignment"]]

    assert len(entries) == live.status().users + live.status().voided
    for row in entries:
        one = live.describe(row["assignment"])
        assert row["state"] == one.status
        same = ("replication", "policy", "arm", "arm_index", "position", "value", "source")
        for name in (*same, "audit", "assigned_at", "exposed_at", "settled_at"):
            assert row[name] == getattr(one, name)
        assert (row["voided_at"] is not None) == (one.status == "voided")
        assert len(row["unit"]) == 32
    for row in rows:
        if not row["assignment"]:
            assert row["state"] == "wanted"
            assert row["unit"] is None


def test_the_audit_log_holds_every_reward(store, tmp_path):
    live = of_every_kind(store)

    count = live.export(tmp_path / "rewards.jsonl", what="rewards")
    about, rows = read_jsonl(tmp_path / "rewards.jsonl")

    assert about["what"] == "rewards"
    assert [row["outcome"] for row in rows] == ["applied", "duplicate", "conflict", "late"]
    assert [row["value"] for row in rows] == [-0.1, -0.1, 7.0, 1 / 3]
    assert count == 4
    assert rows[0]["kind"] == "reward"
    assert datetime.fromisoformat(rows[0]["received_at"]).timestamp() == NOON


def test_the_three_formats_agree(store, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    live = of_every_kind(store)
    for what in ("ledger", "rewards"):
        for suffix in ("csv", "jsonl", "parquet"):
            live.export(tmp_path / f"{what}.{suffix}", what=what)

        about, rows = read_jsonl(tmp_path / f"{what}.jsonl")
        table = parquet.read_table(tmp_path / f"{what}.parquet")
        lines = read_csv(tmp_path / f"{what}.csv")

        assert json.loads(table.schema.metadata[b"sameluck"]) == about
        assert table.num_rows == len(rows) == len(lines)
        for row, same, line in zip(rows, table.to_pylist(), lines, strict=True):
            assert list(line) == list(same) == list(row)[1:]
            for name, value in same.items():
                plain = value.isoformat() if isinstance(value, datetime) else value
                assert plain == row[name]
                assert line[name] == in_csv(row[name])


def in_csv(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if str(value) in ("=SUM(A1)", "@home") else str(value)


def test_text_that_a_spreadsheet_would_run_is_kept_from_it(memory, tmp_path):
    names = ("=1+1", "+1", "-1", "@x", "plain", "1-1")
    live = memory.start("shop", experiment(arms=names, horizon=6, replications=1))
    finish(live, Users(live.experiment, sl.Gaussian([-1.0] * 6, sd=1.0)))
    live.export(tmp_path / "ledger.csv")

    lines = read_csv(tmp_path / "ledger.csv")

    assert {line["arm"] for line in lines} >= {"'=1+1", "'+1", "'-1", "'@x", "plain", "1-1"}
    values = [line["value"] for line in lines if line["value"]]
    assert min(map(float, values)) < 0, "numbers are left as they are"


@pytest.mark.slow
@pytest.mark.parametrize("design", ["replay", "naive"])
def test_the_ledger_read_back_gives_the_same_runs(memory, tmp_path, design):
    live = memory.start("shop", experiment(design=design), options=sl.LiveOptions(audit_share=0.5))
    users = Users(live.experiment, ENVIRONMENT)
    audits = 0
    for unit in range(1_000):
        if (assignment := live.assign(unit)).id:
            audits += live.describe(assignment.id).audit
            live.reward(assignment.id, users.reward(live, assignment.id))
    live.export(tmp_path / "ledger.jsonl")

    about, rows = read_jsonl(tmp_path / "ledger.jsonl")
    scheduler = Scheduler(
        sl.Experiment.from_dict(about["definition"]), sl.LiveOptions(audit_share=0.5)
    )
    names = [None, *scheduler.experiment.policies]
    runs = live.runs()
    for number in range(runs.replications):
        entries = sorted(
            (AUDITED if row["audit"] else names.index(row["policy"]), *place(row), row["value"])
            for row in rows
            if row["replication"] == number
        )
        settled = SettledEntries(*map(np.array, zip(*entries, strict=True)))
        results = [
            empty_results(scheduler.experiment, runs.checkpoints) for _ in scheduler.policies
        ]
        scheduler.rebuild(number, settled, [], results).check()
        assert [results.rewards[0] for results in results] == runs.rewards[number, :, 0].tolist()
    assert runs.replications == 3
    assert sum(row["audit"] for row in rows) == audits
    assert (audits > 0) == (design == "replay")
    assert SHARED == 0


def place(row):
    return row["arm_index"], row["position"]


def test_an_experiment_that_just_began(memory, tmp_path):
    live = memory.start("shop", experiment())

    assert live.export(tmp_path / "a.csv") == live.status().wanted
    assert live.export(tmp_path / "b.csv", what="rewards") == 0
    assert live.export(tmp_path / "b.parquet", what="rewards") == 0
    assert (tmp_path / "b.csv").read_text() == ",".join(exporting.REWARDS) + "\n"


def test_the_format_may_be_given(memory, tmp_path):
    live = memory.start("shop", experiment())

    live.export(tmp_path / "a.txt", format="jsonl")

    assert read_jsonl(tmp_path / "a.txt")[0]["name"] == "shop"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "a.txt"}, r"no format for the suffix of '.*a\.txt'; use one of \.csv"),
        ({"path": "a.csv", "format": "jsonl2"}, "did you mean 'jsonl'"),
        ({"path": "a.csv", "what": "users"}, "what must be ledger or rewards, got 'users'"),
        ({"path": "nowhere/a.csv"}, r"cannot write '.*nowhere/a.csv': No such file"),
        ({"path": "folder.csv"}, r"cannot write '.*folder\.csv': Is a directory"),
        ({"path": "a\0.csv"}, "export: the path of a file is text without NUL, .* got"),
    ],
)
def test_a_file_that_cannot_be_written_is_reported_and_leaves_nothing(
    memory, tmp_path, arguments, message
):
    (tmp_path / "folder.csv").mkdir()
    live = memory.start("shop", experiment())
    path = f"{tmp_path}/{arguments.pop('path')}"

    with pytest.raises(sl.Invalid, match=message):
        live.export(path, **arguments)

    assert [row.name for row in tmp_path.iterdir()] == ["folder.csv"]


def test_what_was_there_stays_if_writing_fails(memory, tmp_path, monkeypatch):
    live = memory.start("shop", experiment())
    path = tmp_path / "a.csv"
    path.write_text("before")

    def full(value):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, "_cell", full)
    with pytest.raises(sl.Invalid, match="No space left"):
        live.export(path)

    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_memory_does_not_grow_with_the_ledger(tmp_path, monkeypatch, suffix):
    """20,000 rows as Python objects would take more than 10 MB."""
    monkeypatch.setattr(exporting, "CHUNK", 1_000)
    with sl.open(f"sqlite:///{tmp_path / 'live.db'}?synchronous=normal") as store:
        live = store.start("shop", experiment(arms=2))
        live.export(tmp_path / f"b.{suffix}")  # whatever is imported meanwhile
        key = {"experiment": 1, "replication": 0, "stack_owner": 0, "arm": 0}
        wide = ({**key, "position": index + 1} for index in range(20_000))
        store.database.write(lambda transaction: transaction.execute_many("want", wide))
        tracemalloc.start()
        try:
            assert live.export(tmp_path / f"a.{suffix}") > 20_000
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert peak < 3_000_000
