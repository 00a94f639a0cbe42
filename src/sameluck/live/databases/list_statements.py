"""Statements for lists: one statement of PostgreSQL in place of one for each row of parameters.

The parameters are arrays of the same length. What is written of a statement is its text for one row; that for a list
has the columns of the arrays in the place of its parameters. No two rows of a list change the same row of a table.
"""

from __future__ import annotations

import re

from sameluck.live.databases.base import PARAMETER, for_postgres

# Those of which a call runs several.
LISTED = (
    "lock",
    "try_lock",
    "enrol",
    "arrive",
    "enrolment",
    "lock_assignment",
    "want",
    "settle",
    "note_reward",
    "advance_replication",
    "count_visits",
    "import_replication",
    "import_entry",
)

# A list of unknown length is joined with a table by its index, also if the tables were empty when that was planned.
# This holds until the end of a transaction that writes. Where there is no index, the plan seems so costly that it
# would be compiled, which takes 0.2 seconds.
PLAN_BY_INDEX = """SELECT set_config(name, 'off', true)
FROM unnest(ARRAY['enable_hashjoin', 'enable_mergejoin', 'enable_seqscan', 'jit']) AS name"""

# As `assign`: the n-th of the units that are to be enrolled gets the n-th of the entries. Without OFFSET 0 PostgreSQL
# may read every unit of the experiment.
ASSIGN = """
WITH unit AS (
  SELECT one.place, one.assignment, row_number() OVER (ORDER BY one.place) AS n
  FROM unnest(:assignment::text[], :unit::text[]) WITH ORDINALITY AS one(assignment, unit, place)
  WHERE EXISTS (SELECT 1 FROM experiment x WHERE x.id = :experiment AND x.status IN ('running', 'draining'))
    AND NOT EXISTS (SELECT 1 FROM assignment a WHERE a.experiment = :experiment AND a.unit = one.unit
                                                 AND a.voided_us IS NULL OFFSET 0)
    AND NOT EXISTS (SELECT 1 FROM arrival v WHERE v.experiment = :experiment AND v.unit = one.unit
                                              AND v.away_until_us > :now OFFSET 0)),
wanted AS (
  SELECT *, row_number() OVER (ORDER BY replication, owner, arm, position) AS n FROM (
    SELECT w.experiment, w.replication, w.owner, w.arm, w.position FROM entry w
    WHERE w.experiment = :experiment AND w.state = 'wanted' AND w.released = 0
      AND NOT EXISTS (SELECT 1 FROM disabled_arm d WHERE d.experiment = :experiment AND d.arm = w.arm)
    ORDER BY w.replication, w.owner, w.arm, w.position
    LIMIT (SELECT COUNT(*) FROM unit) FOR UPDATE OF w SKIP LOCKED) AS first)
UPDATE entry e SET state = 'assigned', assignment = unit.assignment, due_us = :due
FROM wanted w JOIN unit ON unit.n = w.n
WHERE (e.experiment, e.replication, e.owner, e.arm, e.position)
    = (w.experiment, w.replication, w.owner, w.arm, w.position)
RETURNING unit.place, e.replication, e.owner AS stack_owner, e.arm, e.position"""

# Assignments are locked in the same order by every transaction, so that no two wait for each other.
IN_ORDER = """(SELECT one.* FROM {rows} JOIN assignment a ON a.id = one._assignment
      ORDER BY a.experiment, a.replication, one.place) AS one"""

ARRAY = re.compile(r":(\w+)::\w+\[\]")  # a parameter that is one
_KINDS = {
    "assignment": "text",
    "complete": "boolean",
    "outcome": "text",
    "source": "text",
    "state": "text",
    "unit": "text",
    "value": "float8",
}
_INSERT = re.compile(r"(INSERT INTO .*?)VALUES \((.*?)\)(\s+ON CONFLICT.*)?", re.DOTALL)
_WHERE = re.compile(r"\bWHERE\b")


def for_list(sql: str) -> str:
    """The text of a statement for a list. That of a SELECT returns the place in the list first, from 1 on."""
    text = for_postgres(sql)
    names = list(dict.fromkeys(PARAMETER.findall(text)))
    columns = ", ".join(f"_{name}" for name in names)
    arrays = ", ".join(f":{name}::{_KINDS.get(name, 'bigint')}[]" for name in names)
    rows = f"unnest({arrays}) WITH ORDINALITY AS one({columns}, place)"
    of_row = PARAMETER.sub(r"one._\1", text)
    if insert := _INSERT.fullmatch(of_row):
        return f"{insert[1]}SELECT {insert[2]} FROM {rows}{insert[3] or ''}"
    if of_row.startswith("UPDATE"):
        return _WHERE.sub(f"FROM {rows}\nWHERE", of_row, count=1)
    if " FOR UPDATE" in of_row:
        rows = IN_ORDER.format(rows=rows)
    return f"SELECT one.place, found.* FROM {rows}\nCROSS JOIN LATERAL ({of_row}) AS found"
