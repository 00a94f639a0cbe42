"""Write ledgers of any size directly, as if users had been served."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import NamedTuple

import numpy as np

from sameluck.live.engine.protocol import SHARED, Entry, SettledEntries
from sameluck.live.engine.replication import Scheduler

STARTED = 1_700_000_000_000_000  # microseconds
SPACING = 1_000_000  # microseconds from one replication to the next
TOGETHER = 64  # replications that take place at the same time
COLUMNS = {
    "replication": "experiment, number, state, version, digest, digested, policies, opened_us, completed_us",
    "entry": (
        "experiment, replication, owner, arm, position, state, assignment, due_us, value, source, "
        "settled, settled_us"
    ),
    "assignment": (
        "id, experiment, replication, owner, arm, position, unit, assigned_us, exposed_us, voided_us"
    ),
    "reward_event": "assignment, value, received_us, outcome",
    "arrival": "experiment, unit, visits",
}


class PlayedReplication(NamedTuple):
    """A replication whose first periods have been played."""

    number: int
    settled: SettledEntries
    outstanding: list[Entry]
    complete: bool


def make(experiment, reaches, means):
    """Yield replications 0, 1, ..., played by every policy up to period `reaches[0]`, `reaches[1]`, ..."""
    whole = Scheduler(experiment)
    schedulers = {reach: Scheduler(experiment.replace(horizon=reach)) for reach in {*reaches} - {0}}
    rng = np.random.default_rng(experiment.seed)
    for number, reach in enumerate(reaches):
        stacks = (rng.random((experiment.n_arms, reach)) < np.array(means)[:, None]).astype(float)
        depths = np.zeros(experiment.n_arms, np.int64)
        if reach:
            everything = _first_of(stacks, np.full(experiment.n_arms, reach))
            depths = schedulers[reach].rebuild(number, everything, []).read_ends(SHARED)
        settled = _first_of(stacks, depths)
        state = whole.rebuild(number, settled, [])
        yield PlayedReplication(number, settled, state.want(), state.complete)


def _first_of(stacks, counts):
    arms = np.repeat(np.arange(counts.size), counts)
    positions = np.concatenate([np.arange(count) for count in counts])
    return SettledEntries(np.full(arms.size, SHARED), arms, positions, stacks[arms, positions])


def fill(add, policies, replications, *, whole, experiment=1):
    """Write replications of an experiment by `add(table, rows)`; return the number of settled entries.

    The order in which entries were settled is invented; no measurement depends on it. Unless `whole`, assignments and
    reported rewards, which opening does not read, are left out.
    """
    count, first = 0, (experiment - 1) << 40
    for made in replications:
        size = made.settled.value.size
        # Ids grow with time, and go to the end of their index; hashes of units go anywhere in theirs.
        ids = [f"asg_{first + count + k:032x}" for k in range(size)]
        units = [f"{(count + k) * 0x9E3779B97F4A7C15 % 2**64:032x}"[::-1] for k in range(size)]
        add("replication", [(experiment, *_replication(made, policies))])
        add("entry", ((experiment, *row) for row in _entries(made, ids)))
        if whole:
            times = _times(made)
            rows = _assignments(made, ids, units, times)
            add("assignment", ((id, experiment, *row) for id, *row in rows))
            values = zip(ids, made.settled.value.tolist(), times, strict=True)
            rewards = ((id, value, at + SPACING, "applied") for id, value, at in values)
            add("reward_event", rewards)
            add("arrival", ((experiment, unit, 1) for unit in units))
        count += size
    return count


def _replication(made, policies):
    opened, size = STARTED + made.number * SPACING, made.settled.value.size
    state, ended = ("complete", opened + TOGETHER * SPACING) if made.complete else ("open", None)
    return made.number, state, size, made.settled.digest(), size, policies, opened, ended


def _times(made):
    """Return the times at which the users of a replication were assigned, in order."""
    first, size = STARTED + made.number * SPACING, made.settled.value.size
    return (first + np.arange(size) * TOGETHER * SPACING // max(size, 1)).tolist()


def _addresses(made):
    settled = made.settled
    columns = (settled.stack_owner, settled.cell, settled.position)
    return zip(*(column.tolist() for column in columns), strict=True)


def _entries(made, ids):
    values = made.settled.value.tolist()
    rows = zip(ids, _addresses(made), values, _times(made), strict=True)
    for k, (id, address, value, at) in enumerate(rows, 1):
        yield made.number, *address, "settled", id, None, value, "observed", k, at + SPACING
    for entry in made.outstanding:
        yield made.number, *entry, "wanted", None, None, None, None, None, None


def _assignments(made, ids, units, times):
    for id, unit, address, at in zip(ids, units, _addresses(made), times, strict=True):
        yield id, made.number, *address, unit, at, None, None


def fill_sqlite(path, policies, replications, *, whole=True, experiment=1):
    """Replace the ledger of an experiment in a SQLite file."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -500000")
        connection.execute("BEGIN IMMEDIATE")
        for table in ("entry", "replication"):
            connection.execute(f"DELETE FROM {table} WHERE experiment = {experiment}")

        def add(table, rows):
            marks = ", ".join("?" * len(COLUMNS[table].split(",")))
            connection.executemany(f"INSERT INTO {table} ({COLUMNS[table]}) VALUES ({marks})", rows)

        count = fill(add, policies, replications, whole=whole, experiment=experiment)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return count


def fill_postgres(url, policies, replications, *, whole=True, experiment=1):
    """Replace the ledger of an experiment in a PostgreSQL database."""
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute("SET session_replication_role = replica")  # no foreign keys, one by one
        for table in ("entry", "replication"):
            connection.execute(f"DELETE FROM {table} WHERE experiment = {experiment}")

        def add(table, rows):
            with connection.cursor().copy(f"COPY {table} ({COLUMNS[table]}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)

        count = fill(add, policies, replications, whole=whole, experiment=experiment)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")  # as the server does by itself before long
    return count
