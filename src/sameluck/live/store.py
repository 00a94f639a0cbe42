"""`open`: a store of live experiments, in a SQLite file or a PostgreSQL database."""

from __future__ import annotations

import contextlib
import time
import warnings
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from sameluck.errors import Conflict, Invalid, SameluckError, Unknown, did_you_mean
from sameluck.experiment import Experiment
from sameluck.live.assignments import Clock
from sameluck.live.databases.base import Database
from sameluck.live.engine.walker import Maker
from sameluck.live.experiment import LiveExperiment
from sameluck.live.logs import LogColumns
from sameluck.live.logs.imported import Imported
from sameluck.live.logs.importing import import_log
from sameluck.live.logs.request import ImportRequest
from sameluck.live.options import Live, check_fit, feasibility, played
from sameluck.live.start import StartRequest, begin, difference
from sameluck.randomness import streams
from sameluck.validation import require_name


def open(
    url: str, *, read_only: bool = False, clock: Clock = time.time, connections: int = 8
) -> Store:
    """Open a store of live experiments; use it as a context manager.

    Args:
        url: `sqlite:///file.db` (relative; four slashes for an absolute path), `sqlite://` (in memory, gone
            afterwards) or `postgresql://user:password@host/database`. `sqlite:///file.db?synchronous=normal` does not
            wait for the disk: what was acknowledged survives a crash of the program, not one of the machine.
        read_only: Only look: any number of processes may, also while another one writes a SQLite file.
        clock: Where the time comes from, in seconds since 1970; for tests and rehearsals.
        connections: At most so many to PostgreSQL.
    """
    return Store(_database(url, read_only=read_only, connections=connections), clock=clock)


def _database(url: str, *, read_only: bool, connections: int) -> Database:
    if not isinstance(url, str):
        raise Invalid(f"a store's address is text such as 'sqlite:///shop.db', got {url!r}")
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "sqlite":
        from sameluck.live.databases.sqlite import Sqlite  # noqa: PLC0415 only if it is wanted

        if rest != "" and not rest.startswith("/"):
            raise Invalid(f"write sqlite:///{rest} (three slashes), got {url!r}")
        if "\x00" in rest:
            raise Invalid(f"a file's name has no NUL, got {url!r}")
        path, _, query = rest.partition("?")
        setting = query.removeprefix("synchronous=") if query else "full"
        if setting not in ("full", "normal"):
            raise Invalid(
                f"after ? only synchronous=full or synchronous=normal is known, got {url!r}"
            )
        return Sqlite(path[1:] or None, read_only=read_only, synchronous=setting)
    if separator and scheme in ("postgresql", "postgres"):
        from sameluck.live.databases.postgres import Postgres  # noqa: PLC0415 only if it is wanted

        whole = isinstance(connections, int) and not isinstance(connections, bool)
        if not (whole and connections >= 1):
            raise Invalid(f"connections must be a whole number >= 1, got {connections!r}")
        return Postgres(url, connections=connections, read_only=read_only)
    known = "sqlite:///file.db, sqlite://, postgresql://user@host/database"
    raise Invalid(f"unknown kind of store {without_password(url)!r}; known: {known}")


def _may_be_a_name(name: Any) -> bool:
    try:
        require_name("an experiment's name", name)
    except Invalid:
        return False
    return True


def without_password(url: str) -> str:
    """An address that may be shown."""
    try:
        parts = urlsplit(url)
        return url.replace(f":{parts.password}@", ":***@") if parts.password else url
    except ValueError:
        return url


class Store:
    """Live experiments by name, in one database."""

    def __init__(self, database: Database, *, clock: Clock = time.time) -> None:
        self._database = database
        self._clock = clock
        self._given: weakref.WeakSet[LiveExperiment] = weakref.WeakSet()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; what was acknowledged is safe whether or not this is called."""
        for live in list(self._given):
            with contextlib.suppress(SameluckError):
                live.count_calls()
        self._database.close()

    def names(self) -> list[str]:
        """The experiments of this store, the oldest first."""
        rows = self._database.read(lambda transaction: transaction.all("names"))
        return [name for (name,) in rows]

    def start(
        self,
        name: str,
        experiment: Experiment,
        *,
        live: Live | Mapping[str, Any] | None = None,
        makers: Mapping[str, Maker] | None = None,
        exist_ok: bool = False,
    ) -> LiveExperiment:
        """Begin an experiment on real users; its name is taken from then on.

        Args:
            name: 1 to 200 printable characters.
            experiment: What to compare. Its seed decides the policies' own coins; rewards come from the world.
            live: How to run it; `Live()` if not given.
            makers: For `External` policies: name -> function of a seed that returns the policy.
            exist_ok: Go on with the experiment of this name if it has been started just so, as an application does
                that begins anew; several processes may. Policies that progress since are no difference.
        """
        require_name("an experiment's name", name)
        if not isinstance(experiment, Experiment):
            raise Invalid(f"start needs an Experiment, got {experiment!r}")
        if not isinstance(live, Live):
            live = Live() if live is None else Live.from_dict(live)
        as_played = played(experiment, live)
        if exist_ok and name in self.names():
            return self._gone_on_with(StartRequest(name, as_played, live, makers))
        check_fit(as_played, live)
        for caution in feasibility(as_played, live):
            warnings.warn(f"experiment {name!r}: {caution}", stacklevel=2)
        new = StartRequest(name, as_played, live, makers)
        try:
            return self._remembered(begin(self._database, self._clock, new))
        except Conflict:
            if not exist_ok:
                raise
            return self._gone_on_with(new)  # another process was a moment earlier

    def _gone_on_with(self, request: StartRequest) -> LiveExperiment:
        there = self.peek(request.name, makers=request.makers)
        if said := difference(there.experiment, there.live, request):
            raise Conflict(
                f"experiment {request.name!r} was started otherwise: {said}; load it as it is, or choose another name",
                "name_taken",
            )
        there.verify_or_fail()
        return there

    def import_log(  # noqa: PLR0913 a log has many columns, an experiment many settings
        self,
        name: str,
        source: Any,
        *,
        arm: str,
        reward: str,
        policies: Mapping[str, Any],
        replication: str | None = None,
        time: str | None = None,
        arms: Sequence[str] | None = None,
        logged_by: str | None = None,
        live: Live | Mapping[str, Any] | None = None,
        skip_bad: bool = False,
        seed: int = 0,
        horizon: int | None = None,
        replications: int | None = None,
        makers: Mapping[str, Maker] | None = None,
    ) -> Imported:
        """Begin an experiment with a production log of one policy as its ledger.

        Each row of a replication becomes the next entry of its arm's stack. The policies walk over it first; users
        are asked for entries that the log does not have. Nothing is imported if a row cannot be used, unless told to
        skip such rows.

        Args:
            name: Of the new experiment: 1 to 200 printable characters.
            source: A path ending in .csv, .jsonl, .ndjson or .parquet, a DataFrame, or records.
            arm: The column of arms.
            reward: The column of rewards.
            policies: The policies to compare, by name; the one that wrote the log may be among them.
            replication: The column that says to which replication a row belongs; all to one if not given.
            time: The column to order by; rows stand in order if not given.
            arms: The arms there are, in their order; those found in the log if not given.
            logged_by: Which of `policies` wrote the log: it is made the control, and what it would have done is
                compared with the log row by row.
            live: How to go on; `Live(order="phase")` if not given. Rewards outside its range are bad rows.
            skip_bad: Leave out rows that cannot be used; they are listed in the answer.
            seed: Decides the policies' own coins.
            horizon: Periods in a replication; as many as the shortest has rows if not given. Further rows are kept as
                further entries.
            replications: How many are planned; as many as the log has if not given.
            makers: For `External` policies: name -> function of a seed that returns the policy.
        """
        if live is None:
            live = Live(order="phase")
        live = live if isinstance(live, Live) else Live.from_dict(live)
        request = ImportRequest(
            name,
            source,
            LogColumns(arm, reward, replication, time),
            policies,
            arms,
            logged_by,
            live,
            skip_bad,
            seed,
            horizon,
            replications,
            makers,
        )
        return import_log(self._database, self._clock, request)

    def load(self, name: str, *, makers: Mapping[str, Maker] | None = None) -> LiveExperiment:
        """Go on with an experiment: its state is derived from the ledger and compared with what was asked for."""
        found = self.peek(name, makers=makers)
        found.verify_or_fail()
        return found

    def peek(self, name: str, *, makers: Mapping[str, Maker] | None = None) -> LiveExperiment:
        """The experiment as `load` gives it, without the check; it is made where it matters all the same."""
        row = None
        if _may_be_a_name(name):
            row = self._database.read(lambda transaction: transaction.one("experiment", name=name))
        if row is None:
            known = self.names()
            hint = did_you_mean(str(name), known) if known else "it is empty; start one"
            raise Unknown(f"no experiment {name!r} in this store; {hint}")
        if row[7] != streams.VERSION:
            raise Invalid(
                f"experiment {name!r} is played with stream version {row[7]}, this sameluck has {streams.VERSION}; "
                "go on with the version it was started with"
            )
        return self._remembered(LiveExperiment(self._database, row, makers, self._clock))

    def _remembered(self, live: LiveExperiment) -> LiveExperiment:
        self._given.add(live)
        return live
