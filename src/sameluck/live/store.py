"""`open` and `Store`: live experiments in a SQLite file or a PostgreSQL database."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
import weakref
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from sameluck.errors import Conflict, Invalid, SameluckError, renamed_arguments, shown
from sameluck.experiment import Experiment
from sameluck.live.calls.settings import check_settings, store_settings, timeout_of
from sameluck.live.calls.timing import time_limit
from sameluck.live.control.history import Change, all_changes
from sameluck.live.control.removal import delete_experiment, prune
from sameluck.live.databases import Database, open_database, write_backup
from sameluck.live.experiment import LiveExperiment
from sameluck.live.logs.importing import Imported, ImportRequest, import_log
from sameluck.live.options import (
    MAX_SECONDS,
    Clock,
    LiveOptions,
    Makers,
    as_options,
    check_fit,
    check_flags,
    feasibility,
)
from sameluck.live.records import Status, read_experiments_of, read_statuses
from sameluck.live.start import (
    StartRequest,
    checked_request,
    find_row,
    first_difference,
    names_in,
    start,
)
from sameluck.live.state.replications import OpenReplications
from sameluck.live.state.verification import verify_or_fail
from sameluck.live.users.units import Unit
from sameluck.validation import require_list, require_name, require_number

# To write the last counts: a process that ends does not wait for an unavailable database.
CLOSE_SECONDS = 1.0


def open(
    url: str,
    *,
    read_only: bool = False,
    clock: Clock = time.time,
    connections: int = 8,
    actor: str | None = None,
    timeout: float | None = None,
) -> Store:
    """Open a store of live experiments; use it as a context manager.

    Args:
        url: `sqlite:///file.db` (relative; four slashes for an absolute path), `sqlite://` (in memory) or
            `postgresql://user:password@host/database`. `sqlite:///file.db?synchronous=normal` does not wait for the
            disk: acknowledged rewards survive a crash of the program, but not of the machine.
        read_only: Change nothing: any number of processes may read, also while another one writes a SQLite file.
        clock: Returns the time in seconds since 1970; for tests and rehearsals. The default is the server's clock for
            PostgreSQL, and for SQLite this machine's clock when the store was opened, without jumps since.
        connections: The largest number of connections to PostgreSQL.
        timeout: The seconds that `assign` may take before it answers with the fallback arm; 0.25 if not given.
            Reporting an exposure or a reward may take 5 seconds, or `timeout` if it is longer. With a clock of your
            own there is no deadline unless a timeout is given.
        actor: The author of changes, for the history; the variable SAMELUCK_ACTOR, or user@host, if not given.
    """
    check_settings(clock, actor, timeout)  # before there is a database to close
    database = open_database(url, read_only=read_only, connections=connections)
    return Store(database, clock=clock, actor=actor, timeout=timeout_of(clock, timeout))


class Store:
    """Live experiments by name, in one database."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock = time.time,
        actor: str | None = None,
        timeout: float | None = None,
    ) -> None:
        check_settings(clock, actor, timeout)
        if not all(callable(getattr(database, name, None)) for name in ("write", "read", "close")):
            raise Invalid(
                f"Store needs a database, got {shown(database)}; sl.open(url) opens one by its address"
            )
        self._database = database
        self.settings = store_settings(database, clock, actor, timeout)
        self._loaded: weakref.WeakSet[LiveExperiment] = weakref.WeakSet()

    @property
    def database(self) -> Database:
        """Database that holds the experiments."""
        return self._database

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; acknowledged rewards are durable whether or not this is called."""
        with time_limit(CLOSE_SECONDS):
            for live in list(self._loaded):
                with contextlib.suppress(SameluckError):
                    live.enrolment.flush()
        self._database.close()

    @property
    def timeout(self) -> float | None:
        """Seconds that `assign` may take; None for no deadline."""
        return self.settings.timeout

    def check_writable(self, seconds: float = 1.0) -> None:
        """Raise `Unavailable` unless the database accepts a write within some seconds."""
        require_number("seconds", seconds, above=0, at_most=MAX_SECONDS)
        with time_limit(seconds):
            self._database.write(lambda _: None)

    @renamed_arguments(live="options")
    def start(
        self,
        name: str,
        experiment: Experiment,
        *,
        options: LiveOptions | Mapping[str, object] | None = None,
        makers: Makers | None = None,
        exist_ok: bool = False,
        paused: bool = False,
    ) -> LiveExperiment:
        """Start an experiment on real users; its name is taken from then on.

        Args:
            name: 1 to 200 printable characters.
            experiment: The experiment. Its seed decides the policies' random choices; rewards come from users.
            options: Its options, or a mapping of them; `LiveOptions()` if not given.
            makers: For `External` policies: name -> function of a seed that returns the policy.
            exist_ok: Load the experiment of this name if it was started with the same settings. An application that
                is restarted needs this, and so do several processes. Policies that were added since are no
                difference.
            paused: Enrol no unit until `resume` is called.
        """
        options = as_options(options)
        check_flags(exist_ok=exist_ok, paused=paused)
        request = checked_request(name, experiment, options, makers)._replace(paused=paused)
        if exist_ok and name in self.names():
            return self._load_same(request)
        check_fit(request.experiment, options)
        for caution in feasibility(request.experiment, options):
            warnings.warn(f"experiment {name!r}: {caution}", stacklevel=3)
        try:
            live = start(self._database, self.settings, request)
        except Conflict:
            if not exist_ok:
                raise
            return self._load_same(request)  # another process was a moment earlier
        self._loaded.add(live)
        return live

    def _load_same(self, request: StartRequest) -> LiveExperiment:
        """Load the experiment of a request, or raise `Conflict` if it was started with other settings."""
        replications, live = self._open(request.name, request.makers)
        if difference := first_difference(replications, request):
            raise Conflict(
                f"experiment {request.name!r} was started with other settings: {difference}; load it as it is, or "
                "choose another name",
                "name_taken",
            )
        verify_or_fail(replications)
        return live

    @renamed_arguments(live="options")
    def import_log(  # noqa: PLR0913 a log has many columns, an experiment many settings
        self,
        name: str,
        source: object,
        *,
        arm: str,
        reward: str,
        policies: Mapping[str, Any],
        replication: str | None = None,
        time: str | None = None,
        arms: Sequence[str] | None = None,
        logged_by: str | None = None,
        options: LiveOptions | Mapping[str, object] | None = None,
        skip_bad: bool = False,
        seed: int = 0,
        horizon: int | None = None,
        replications: int | None = None,
        makers: Makers | None = None,
        sorted_ok: bool = False,
        mismatch_ok: bool = False,
    ) -> Imported:
        """Start an experiment with a production log of one policy as its ledger.

        Each row of a replication becomes the next entry of its arm's stack. The policies read the log first; users
        are requested for entries that it does not have. Nothing is imported if a row cannot be used, unless
        `skip_bad`, or if the rows cannot be in the order of users, unless the order is confirmed.

        Args:
            name: The new experiment's name: 1 to 200 printable characters.
            source: A path ending in .csv, .jsonl, .ndjson or .parquet, a DataFrame, or records.
            arm: The column of arms.
            reward: The column of rewards.
            policies: The policies to compare, by name; the log's policy may be among them.
            replication: The column of replications; all rows belong to one if not given.
            time: The column to order by; rows are in order if not given.
            arms: All arms, in their order; those in the log if not given.
            logged_by: Which of `policies` wrote the log: it becomes the control, and what it would have done is
                compared with the log row by row.
            options: The options of the experiment; `LiveOptions(order="phase")` if not given. Rewards outside their
                range are bad rows.
            skip_bad: Leave out rows that cannot be used; they are listed in the result.
            seed: Decides the policies' random choices.
            horizon: Periods per replication; the number of rows of the shortest replication if not given. Further
                rows are kept as further entries.
            replications: The planned number; the number in the log if not given.
            makers: For `External` policies: name -> function of a seed that returns the policy.
            sorted_ok: Import the log although it looks sorted by reward, or by arm.
            mismatch_ok: Import the log although `logged_by` would have written another log. This is expected of a
                randomised policy, since the log has other random choices.
        """
        require_name("an experiment's name", name)
        columns = arm, reward, policies, replication, time, arms, logged_by
        more = skip_bad, seed, horizon, replications, makers, sorted_ok, mismatch_ok
        request = ImportRequest(name, source, *columns, as_options(options, order="phase"), *more)
        return import_log(request, partial(start, self._database, self.settings))

    def load(self, name: str, *, makers: Makers | None = None) -> LiveExperiment:
        """Load an experiment: derive its state from the ledger and compare it with the outstanding entries."""
        replications, live = self._open(name, makers)
        verify_or_fail(replications)
        return live

    def peek(self, name: str, *, makers: Makers | None = None) -> LiveExperiment:
        """Load an experiment without the check; each replication is still checked when it is first used."""
        return self._open(name, makers)[1]

    def _open(self, name: str, makers: Makers | None) -> tuple[OpenReplications, LiveExperiment]:
        row = find_row(self._database, name)
        replications = OpenReplications(self._database, row, self.settings, makers)
        live = LiveExperiment(replications, row)
        self._loaded.add(live)
        return replications, live

    # All experiments

    def names(self) -> list[str]:
        """Return the names of the experiments, the oldest first."""
        return names_in(self._database)

    def statuses(self) -> list[Status]:
        """Return the status of every experiment, the oldest first."""
        return self._database.read(read_statuses)

    def experiments_of(self, ids: Sequence[str]) -> list[str | None]:
        """Return the names of the experiments that assignments belong to; None for an unknown id."""
        checked = require_list("experiments_of: ids", ids)
        return self._database.read(lambda transaction: read_experiments_of(transaction, checked))

    def history(self) -> list[Change]:
        """Return every change of every experiment, the oldest first."""
        return self._database.read(all_changes)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write all experiments, as they are at this moment, to a new SQLite file; the store may serve meanwhile.

        `restore` makes a store of either database from it. A copy of a SQLite file made by other means lacks the
        content of its write-ahead log.
        """
        write_backup(self._database, path)

    def delete(self, name: str, *, reason: str = "") -> None:
        """Delete an experiment that is stopped, complete or failed, with its ledger and its audit log.

        Its lines in the history stay, and a line records the deletion. Its name may be used again. A long ledger
        takes several transactions; if this is interrupted, call it again.
        """
        delete_experiment(self._database, self.settings, find_row(self._database, name), reason)

    def erase(self, unit: Unit, *, reason: str = "") -> int:
        """Erase a unit from every experiment, as `LiveExperiment.erase` does; return its assignments' number."""
        return sum(self.peek(name).erase(unit, reason=reason) for name in self.names())

    def prune(self, older_than: float | timedelta, *, reason: str = "") -> int:
        """Remove lines of the audit log that are older than some seconds, or a `timedelta`; return their number.

        Only lines of complete replications are removed, because windows of open ones may be extended. The digests'
        sums of the removed lines are kept, so that the ledger can still be compared with the audit log. Visits of
        units are removed too from experiments that ended before that time.
        """
        return prune(self._database, self.settings, older_than, reason)
