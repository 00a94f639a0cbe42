"""Statements of calls find their rows by index, so that their cost does not grow with the ledger."""

import re
from functools import partial

import pytest

import sameluck as sl
from sameluck.live.databases import postgres
from sameluck.live.databases.statements import (
    for_postgres,
    numbered,
    numbered_for_list,
    statements,
)

SOURCES = {name: for_postgres(source.text) for name, source in statements().items()}
LISTS = {
    f"{name}_list": numbered_for_list(SOURCES[name])
    for name, source in statements().items()
    if source.for_lists
}
LISTS["assign_list"] = numbered(SOURCES["assign_list"], "$")
PREPARED = {**{name: numbered(sql, "$") for name, sql in SOURCES.items()}, **LISTS}

# Each call of assign, expose, reward, void and tick runs some of these; the word is what finds its rows.
HOT = {
    "enrolment": "one_enrolment_a_unit",
    "assign": "entry_wanted (experiment=? AND state=?)",
    "enrol": "",
    "arrive": "",
    "unarrive": "PRIMARY KEY (experiment=? AND unit=?)",
    "count_visits": "PRIMARY KEY (experiment=? AND unit=?)",
    "lock_assignment": "PRIMARY KEY (id=?)",
    "note_reward": "",
    "settle": "PRIMARY KEY (experiment=? AND replication=? AND owner=? AND arm=? AND position=?)",
    "set_due": "PRIMARY KEY (experiment=? AND replication=? AND owner=? AND arm=? AND position=?)",
    "want_again": "PRIMARY KEY (experiment=? AND replication=? AND owner=? AND arm=? AND position=?)",
    "expose": "PRIMARY KEY (id=?)",
    "void": "PRIMARY KEY (id=?)",
    "tell": "PRIMARY KEY (id=?)",
    "overdue": "entry_due (experiment=? AND state=? AND due_us<?)",
    "values": "PRIMARY KEY (experiment=? AND replication=? AND owner=? AND arm=? AND position>? AND position<?)",
    "advance_replication": "PRIMARY KEY (experiment=? AND number=?)",
    "open_replication": "",
    "want": "",
    "count_open": "replication_state (experiment=? AND state=?)",
    "any_outstanding": "entry_wanted (experiment=? AND state=?)",
    "last_replication": "PRIMARY KEY (experiment=?)",
    "lock_experiment": "INTEGER PRIMARY KEY (rowid=?)",
    # Of changes for which users wait
    "assignments_of": "one_enrolment_a_unit (experiment=? AND unit=?)",
    "extend_windows": "entry_due (experiment=? AND state=? AND due_us>?)",
    "count_awaited": "entry_due (experiment=? AND state=? AND due_us>?)",
    "defaults": "PRIMARY KEY (experiment=? AND replication=?)",
}


def test_a_status_reads_no_settled_entry():
    sql = statements()["progress"].text
    with sl.open("sqlite://") as store:
        connection = store.database.write(lambda t: t.connection)
        plan = [
            row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", {"experiment": 1})
        ]
    read = [re.sub(r" .*", "", step[7:]) for step in plan if step.startswith("SEARCH")]
    assert {"entry", "e"} <= set(read)
    entries = [step for step in plan if re.match(r"SEARCH (entry|e) ", step)]
    assert all("entry_wanted" in step or "entry_due" in step for step in entries), plan


@pytest.mark.slow
@pytest.mark.parametrize("name", HOT)
def test_a_call_never_reads_the_whole_ledger(name):
    sql = statements()[name].text
    values = dict.fromkeys(re.findall(r":(\w+)", sql), 1)
    with sl.open("sqlite://") as store:
        connection = store.database.write(lambda t: t.connection)
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    assert HOT[name] in "\n".join(plan)
    assert [step for step in plan if re.match(r"SCAN (?!CONSTANT|one$)", step)] == []
    weak = r"(entry|replication) USING (PRIMARY KEY|INDEX \w+) \(experiment=\?\)$"
    ordered = {"last_replication"}  # the last of an index, found at once
    assert name in ordered or not re.search(weak, "\n".join(plan), re.MULTILINE), plan


def _kept_plan(transaction, name):
    """Return the plan that PostgreSQL keeps for a prepared statement."""
    connection, statement = transaction.connection, PREPARED[name]
    connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    connection.execute(f"PREPARE {name}_planned AS {statement.text}".encode())
    values = ", ".join(["NULL"] * len(statement.names))
    explain = f"EXPLAIN EXECUTE {name}_planned" + (f" ({values})" if values else "")
    plan = [line for (line,) in connection.execute(explain)]
    connection.execute(f"DEALLOCATE {name}_planned")
    return plan


@pytest.mark.slow
def test_postgresql_plans_for_large_tables_also_if_all_are_new(empty_postgres_url):
    with sl.open(empty_postgres_url) as store:
        plans = store.database.write(
            lambda t: {name: _kept_plan(t, name) for name in (*HOT, *LISTS)}
        )
    for name, plan in plans.items():
        assert not [line for line in plan if "Seq Scan" in line], (name, plan)
    for name in LISTS:  # the rows of a list are found one by one
        assert not [line for line in plans[name] if "Materialize" in line], (name, plans[name])
    condition = next(line for line in plans["lock_assignment"] if "owner = a.owner" in line)
    assert "Index Cond" in condition  # not among all entries of the replication


@pytest.mark.slow
def test_postgresql_plans_again_when_tables_have_grown(postgres_url, monkeypatch):
    monkeypatch.setattr(postgres, "PLAN_SECONDS", 0)
    grow = """
        INSERT INTO experiment (name, definition, options, status, reason, salt, streams, started_us)
        VALUES ('grown', '', '', 'running', '', '', 1, 0);
        INSERT INTO replication (experiment, number, state, version, policies, opened_us)
        SELECT id, generate_series(1, 2000), 'open', 0, 1, 0 FROM experiment
    """
    with sl.open(postgres_url, connections=1) as store:
        plan = partial(_kept_plan, name="lock_replication")
        store.database.write(lambda transaction: transaction.connection.execute("ANALYZE"))
        assert "replication_pkey" not in str(store.database.write(plan))  # of nothing, any index
        store.database.write(lambda transaction: transaction.connection.execute(grow))
        assert "replication_pkey" in str(store.database.write(plan))
