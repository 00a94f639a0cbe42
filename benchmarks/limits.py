"""What the databases do without sameluck, and the nearest tool that users know: the references of live.py."""

from __future__ import annotations

import contextlib
import importlib.util
import queue
import re
import shutil
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

from sameluck.live.databases.sqlite import Sqlite
from sameluck.live.databases.statements import for_postgres, statements

SQL = {name: source.text for name, source in statements().items()}
OPTUNA = "Optuna was skipped: it is not installed (pip install optuna)."
PGBENCH = "pgbench was skipped: it is not installed (it comes with PostgreSQL)."


class Recorder:
    """A database in memory that notes the statements of every write, with their values."""

    kind = "sqlite"
    read_only = False

    def __init__(self):
        self._database = Sqlite(None)
        self.calls = []

    def write(self, work):
        """Run the work and note its statements as one call."""
        noted = []
        result = self._database.write(lambda transaction: work(_Noting(transaction, noted)))
        self.calls.append(noted)
        return result

    def read(self, work):
        """Run the work; nothing is noted."""
        return self._database.read(work)

    def close(self):
        """Give everything back."""
        self._database.close()


class _Noting:
    def __init__(self, transaction, noted):
        self._transaction = transaction
        self._noted = noted

    def __getattr__(self, method):
        passed_on = getattr(self._transaction, method)
        if method in ("defer", "hold_lock", "lock", "try_lock", "on_rollback"):
            return passed_on

        def run(*arguments, **values):
            # A row class and a name, a name alone, or a name and rows of parameters.
            name = next(one for one in arguments if isinstance(one, str))
            rows = arguments[-1] if method in ("execute_many", "find_many") else [values]
            self._noted += [(SQL[name], row) for row in rows]
            return passed_on(*arguments, **values)

        return run


def replay(path, calls, group, seconds):
    """Run recorded calls on a new SQLite file, `group` of them in a transaction.

    Returns how many calls, in how many seconds, and the processor time. The first recorded call starts the experiment
    and is not timed.
    """
    Sqlite(str(path)).close()
    with contextlib.closing(
        sqlite3.connect(path, isolation_level=None, cached_statements=200)
    ) as connection:
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")
        _commit(connection, calls[:1])
        begin, spent, done = time.perf_counter(), time.process_time(), 1
        while done < len(calls) and time.perf_counter() < begin + seconds:
            some = calls[done : done + group]
            _commit(connection, some)
            done += len(some)
        return done - 1, time.perf_counter() - begin, time.process_time() - spent


def replay_for_callers(path, calls, callers, seconds):
    """The same for so many threads: each queues a recorded call and waits; one thread commits the queue."""
    Sqlite(str(path)).close()
    connection = sqlite3.connect(
        path, isolation_level=None, cached_statements=200, check_same_thread=False
    )
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    _commit(connection, calls[:1])
    waiting, in_order, following = queue.SimpleQueue(), threading.Lock(), iter(calls[1:])
    counts, begin, spent = [0] * callers, time.perf_counter(), time.process_time()

    def commit_all():
        while (first := waiting.get()) is not None:
            group = [first, *(waiting.get() for _ in range(waiting.qsize()))]
            _commit(connection, [call for call, _ in group if call])
            for _, gate in group:
                gate.release()

    def work(k):
        while time.perf_counter() < begin + seconds:
            gate = threading.Lock()
            gate.acquire()
            with in_order:  # a reward is not handed in before its assignment
                call = next(following, None)
                if call is None:
                    return
                waiting.put((call, gate))
            gate.acquire()
            counts[k] += 1

    writer = threading.Thread(target=commit_all)
    writer.start()
    run_together(work, callers)
    end, spent = time.perf_counter(), time.process_time() - spent
    waiting.put(None)
    writer.join()
    connection.close()
    return sum(counts), end - begin, spent


def _commit(connection, calls):
    connection.execute("BEGIN IMMEDIATE")
    for call in calls:
        for sql, values in call:
            connection.execute(sql, values).fetchall()
    connection.execute("COMMIT")


# What `LiveExperiment` does for one user, most often. pgbench has no policies: it asks for the next entry of the arm.
PAIR = {
    ("assign", "enrol", "arrive"),
    ("lock_assignment", "want", "settle", "note_reward", "advance_replication"),
}
SCRIPT = """
\\set n :n + 1
\\set assignment 1000000000000000 + :n * 100 + :client_id
\\set unit random(1, 9000000000000000000)
\\set now 1700000000000000 + :n
\\set due :now + 3600000000
BEGIN;
SELECT pg_advisory_xact_lock(:unit);
{assign} \\gset
{begin_pipe}
{enrol};
{arrive};
COMMIT;
{end_pipe}
BEGIN;
{lock_assignment} \\gset held_
\\set settled :held_version + 1
\\set version :settled
\\set before :held_version
\\set following :position + 1
{begin_pipe}
{want_following};
{settle};
{note_reward};
{advance_replication};
COMMIT;
{end_pipe}
"""
TEXTS = {"outcome": "applied", "source": "observed", "state": "open", "complete": "false"}
NUMBERS = {"n": 0, "value": 1, "policies": 2, "until": 0, "defaulted": 0, "digest": 1}


def check_script(calls):
    """Refuse to compare with a script that is not what sameluck does any more."""
    names = {sql: name for name, sql in SQL.items()}
    kinds = Counter(tuple(names[sql] for sql, _ in call) for call in calls)
    usual = {kind for kind, _ in kinds.most_common(2)}
    assert usual == PAIR, f"bring SCRIPT up to date: a user now takes {usual}"


def pgbench(url, experiment, folder, seconds, *, clients, piped):
    """Serve a started experiment by pgbench: how many calls, how many seconds."""
    texts = {name: " ".join(for_postgres(sql).split()) for name, sql in SQL.items()}
    texts["want_following"] = texts["want"].replace(":position", ":following")
    texts["begin_pipe"], texts["end_pipe"] = (
        ("\\startpipeline", "\\endpipeline") if piped else ("", "")
    )
    where = Path(folder) / "pairs.pgbench"
    where.write_text(SCRIPT.format(**texts))
    variables = {**NUMBERS, **TEXTS, "experiment": experiment}
    words = [word for name, value in variables.items() for word in ("-D", f"{name}={value}")]
    command = [shutil.which("pgbench"), "-n", "-M", "prepared", "-c", str(clients), "-j", "2"]
    command += ["-T", str(seconds), "-f", str(where), *words, url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    pairs = re.search(r"actually processed: (\d+)", done.stdout)
    rate = re.search(r"tps = ([\d.]+)", done.stdout)
    if done.returncode or "aborted" in done.stderr or not pairs or not float(rate[1]):
        raise RuntimeError(f"pgbench failed: {done.stderr or done.stdout}")
    return 2 * int(pairs[1]), int(pairs[1]) / float(rate[1])


def has_pgbench():
    return shutil.which("pgbench") is not None


def optuna(path, threads, arms, seconds):
    """Ask and tell on a SQLite file: how many calls, how many seconds; an arm at random, so that storage is all."""
    import optuna as library

    library.logging.set_verbosity(library.logging.ERROR)
    storage = library.storages.RDBStorage(
        f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": 30}}
    )
    study = library.create_study(storage=storage, sampler=library.samplers.RandomSampler(seed=1))
    counts = [0] * threads
    begin = time.perf_counter()

    def work(k):
        while time.perf_counter() < begin + seconds:
            trial = study.ask()
            arm = trial.suggest_categorical("arm", range(arms))
            study.tell(trial, float(arm))
            counts[k] += 2

    run_together(work, threads)
    return sum(counts), time.perf_counter() - begin


def has_optuna():
    return importlib.util.find_spec("optuna") is not None


def run_together(work, threads):
    """Run `work(k)` in so many threads; an error of any of them is raised here."""
    errors = []

    def guarded(k):
        try:
            work(k)
        except Exception as error:
            errors.append(error)

    started = [threading.Thread(target=guarded, args=(k,)) for k in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]
