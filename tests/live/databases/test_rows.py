"""Rows of every statement have a class with the statement's columns."""

import re
from pathlib import Path

import pytest

import sameluck as sl
from sameluck.live.databases import rows
from sameluck.live.databases.statements import statements

SOURCES = Path(sl.__file__).parent.rglob("*.py")
CALL = re.compile(r"\.(?:fetch_one|find|find_many|fetch_all|iterate|rows)\(\s*(\w+),\s*\"(\w+)\"")
PAIRS = {pair for source in SOURCES for pair in CALL.findall(source.read_text())}
POSTGRES_ONLY = {"assign_list", "lock", "try_lock", "set_server_options", "server_clock"}
PAIRS = {(row_class, name) for row_class, name in PAIRS if name not in POSTGRES_ONLY}
PAIRS |= {("HistoryRow", "history"), ("HistoryRow", "voided")}  # named in a loop


def test_every_statement_with_rows_is_read_somewhere():
    returning = {
        name
        for name, source in statements().items()
        if re.match("SELECT|.*RETURNING", source.text, re.S) and name not in POSTGRES_ONLY
    }
    assert {name for _, name in PAIRS} == returning


@pytest.mark.slow
@pytest.mark.parametrize(("row_class", "name"), sorted(PAIRS))
def test_the_fields_of_a_row_are_the_columns(row_class, name):
    fields = vars(rows)[row_class]._fields
    sql = statements()[name].text
    with sl.open("sqlite://") as store:
        values = dict.fromkeys(re.findall(r"(?<!:):(\w+)", sql), 1)
        connection = store.database.write(lambda t: t.connection)
        columns = [column[0] for column in connection.execute(sql, values).description]
    assert len(columns) == len(fields)
    if len(fields) > 1:
        assert tuple(columns) == fields
