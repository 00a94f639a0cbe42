"""`open` and `Store`: live experiments in a SQLite file or a PostgreSQL database."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
import warnings
import weakref
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sameluck.errors import (
    Conflict,
    Invalid,
    SameluckError,
    Unknown,
    did_you_mean,
    shown,
)
from sameluck.experiment import Experiment
from sameluck.live.calls.settings import ASSIGN_SECONDS, check_settings, store_settings
from sameluck.live.calls.timing import time_limit
from sameluck.live.control.history import Change, read_changes
from sameluck.live.control.removal import delete_experiment, prune
from sameluck.live.databases import open_database
from sameluck.live.databases.backups import write_backup
from sameluck.live.databases.base import Database, Transaction
from sameluck.live.databases.rows import ExperimentRow, NumberRow, TextRow
from sameluck.live.experiment import LiveExperiment
from sameluck.live.logs.importing import Fill, Imported, ImportRequest, import_log
from sameluck.live.options import (
    MAX_SECONDS,
    Clock,
    LiveOptions,
    Makers,
    as_options,
    check_fit,
    checked_makers,
    experiment_as_run,
    feasibility,
    options_text,
)
from sameluck.live.records import Status, read_experiments_of, read_statuses
from sameluck.live.state.definition import first_definition
from sameluck.live.state.replications import OpenReplications
from sameluck.live.state.verification import verify_or_fail
from sameluck.live.users.units import Unit
from sameluck.randomness import streams
from sameluck.validation import require_flag, require_list, require_name, require_number

# To write the last counts: a process that ends does not wait for an unavailable database.
CLOSE_SECONDS = 1.0
NOT_STARTED = "it waits to be resumed for the first time"


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
    if timeout is None and clock is time.time:
        timeout = ASSIGN_SECONDS
    return Store(database, clock=clock, actor=actor, timeout=timeout)


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
        self.database = database
        self.settings = store_settings(database, clock, actor, timeout)
        self._loaded: weakref.WeakSet[LiveExperiment] = weakref.WeakSet()

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
        self.database.close()

    @property
    def timeout(self) -> float | None:
        """Seconds that `assign` may take; None for no deadline."""
        return self.settings.timeout

    def check_writable(self, seconds: float = 1.0) -> None:
        """Raise `Unavailable` unless the database accepts a write within some seconds."""
        require_number("seconds", seconds, above=0, at_most=MAX_SECONDS)
        with time_limit(seconds):
            self.database.write(lambda _: None)

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
        exist_ok, paused = require_flag("exist_ok", exist_ok), require_flag("paused", paused)
        require_name("an experiment's name", name)
        if not isinstance(experiment, Experiment):
            raise Invalid(f"start needs an Experiment, got {shown(experiment)}")
        experiment.require_replications("start")
        _ = experiment.n_arms  # raises if it is unknown
        experiment = experiment_as_run(experiment, options)
        if exist_ok and name in self.names():
            return self._load_same(name, experiment, options, makers)
        check_fit(experiment, options)
        for caution in feasibility(experiment, options):
            warnings.warn(f"experiment {name!r}: {caution}", stacklevel=2)
        try:
            return self._start(name, experiment, options, makers, paused=paused)
        except Conflict:
            if not exist_ok:
                raise
            # Another process was a moment earlier.
            return self._load_same(name, experiment, options, makers)

    def _start(
        self,
        name: str,
        experiment: Experiment,
        options: LiveOptions,
        makers: Makers | None,
        fill: Fill | None = None,
        *,
        paused: bool = False,
    ) -> LiveExperiment:
        """Start an experiment in one transaction; `fill` writes entries that are known already."""
        salt = secrets.token_hex(16)
        first = first_definition(experiment, options, checked_makers(makers))

        def work(transaction: Transaction) -> LiveExperiment:
            row = transaction.find(ExperimentRow, "experiment", name=name)
            if row is not None:
                if (
                    row.salt != salt
                ):  # equal if the connection was lost after this call's own commit
                    taken = (
                        f"there is an experiment {name!r} already; load it, or choose another name"
                    )
                    raise Conflict(taken, "name_taken")
                replications = OpenReplications(self.database, row, self.settings, makers)
                return LiveExperiment(replications, row)
            now = self.settings.now()
            values = {"name": name, "salt": salt, "options": options_text(options)}
            moment = {"now": now, "streams": streams.VERSION}
            transaction.fetch_one(NumberRow, "start", **first.row._asdict(), **values, **moment)
            row = transaction.fetch_one(ExperimentRow, "experiment", name=name)
            if fill is not None:
                fill(transaction, row.id, now)
            replications = OpenReplications(self.database, row, self.settings, makers, first)
            replications.history.record(transaction, "started")
            replications.open_next(transaction, now)
            if paused:
                replications.set_status(transaction, "paused", NOT_STARTED)
            return LiveExperiment(replications, row)

        live = self.database.write(work)
        self._loaded.add(live)
        return live

    def _load_same(
        self, name: str, experiment: Experiment, options: LiveOptions, makers: Makers | None
    ) -> LiveExperiment:
        """Load an experiment, or raise `Conflict` if it was started with other settings."""
        live = self.peek(name, makers=makers)
        if difference := first_difference(live.open_replications, experiment, options):
            raise Conflict(
                f"experiment {name!r} was started with other settings: {difference}; load it as it is, or "
                "choose another name",
                "name_taken",
            )
        verify_or_fail(live.open_replications)
        return live

    def import_log(  # noqa: PLR0913 a log has many columns, an experiment many settings
        self,
        name: str,
        source: object,
        *,
        arm: str,
        reward: str,
        policies: Mapping[str, Any],
        replication: str | int | None = None,
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
            replication: The column of replications, or the number of rows of each, by which a long log is split; all
                rows belong to one if not given.
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
        return import_log(request, self._start)

    def load(self, name: str, *, makers: Makers | None = None) -> LiveExperiment:
        """Load an experiment: derive its state from the ledger and compare it with the outstanding entries."""
        live = self.peek(name, makers=makers)
        verify_or_fail(live.open_replications)
        return live

    def peek(self, name: str, *, makers: Makers | None = None) -> LiveExperiment:
        """Load an experiment without the check; each replication is still checked when it is first used."""
        row = self._row(name)
        live = LiveExperiment(OpenReplications(self.database, row, self.settings, makers), row)
        self._loaded.add(live)
        return live

    def _row(self, name: str) -> ExperimentRow:
        names = self.names()
        if not isinstance(name, str) or name not in names:
            hint = did_you_mean(name, names) if names else "it is empty; start an experiment"
            raise Unknown(f"no experiment {shown(name)} in this store; {hint}")
        return self.database.read(lambda t: t.fetch_one(ExperimentRow, "experiment", name=name))

    # All experiments

    def names(self) -> list[str]:
        """Return the names of the experiments, the oldest first."""
        return [row.text for row in self.database.read(lambda t: t.fetch_all(TextRow, "names"))]

    def statuses(self) -> list[Status]:
        """Return the status of every experiment, the oldest first."""
        return self.database.read(read_statuses)

    def experiments_of(self, ids: Sequence[str]) -> list[str | None]:
        """Return the names of the experiments that assignments belong to; None for an unknown id."""
        checked = require_list("experiments_of: ids", ids)
        return self.database.read(lambda transaction: read_experiments_of(transaction, checked))

    def history(self) -> list[Change]:
        """Return every change of every experiment, the oldest first."""
        return self.database.read(read_changes)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write all experiments, as they are at this moment, to a new SQLite file; the store may serve meanwhile.

        `restore` makes a store of either database from it. A copy of a SQLite file made by other means lacks the
        content of its write-ahead log.
        """
        write_backup(self.database, path)

    def delete(self, name: str, *, reason: str = "") -> None:
        """Delete an experiment that is stopped, complete or failed, with its ledger and its audit log.

        Its lines in the history stay, and a line records the deletion. Its name may be used again. A long ledger
        takes several transactions; if this is interrupted, call it again.
        """
        delete_experiment(self.database, self.settings, self._row(name), reason)

    def erase(self, unit: Unit, *, reason: str = "") -> int:
        """Erase a unit from every experiment, as `LiveExperiment.erase` does; return its assignments' number."""
        return sum(self.peek(name).erase(unit, reason=reason) for name in self.names())

    def prune(self, older_than: float | timedelta, *, reason: str = "") -> int:
        """Remove lines of the audit log that are older than some seconds, or a `timedelta`; return their number.

        Only lines of complete replications are removed, because windows of open ones may be extended. The digests'
        sums of the removed lines are kept, so that the ledger can still be compared with the audit log. Visits of
        units are removed too from experiments that ended before that time.
        """
        return prune(self.database, self.settings, older_than, reason)


def first_difference(
    replications: OpenReplications, experiment: Experiment, options: LiveOptions
) -> str | None:
    """Return the first setting in which a stored experiment differs from a requested one, or None.

    Policies that were added or removed later are no difference, nor are options that did not exist at the start.
    """
    stored, requested = replications.experiment.to_dict(), experiment.to_dict()
    records = replications.definition.records
    policies = {
        name: text
        for name, text in requested["policies"].items()
        if name not in records or not records[name].removed
    }
    before, stored_options = stored["policies"], replications.options.to_dict()
    pairs: list[tuple[str, object, object]] = [
        ("policies", list(before)[: len(policies)], list(policies)),
        *((f"policy {name}", before.get(name), text) for name, text in policies.items()),
        *(
            (name, stored.get(name), value)
            for name, value in requested.items()
            if name != "policies"
        ),
        *(
            (f"LiveOptions.{name}", stored_options[name], value)
            for name, value in options.to_dict().items()
            if name not in replications.later_options
        ),
    ]
    for name, stored_value, requested_value in pairs:
        if stored_value != requested_value:
            return f"{name} is {stored_value!r} there and {requested_value!r} here"
    return None
