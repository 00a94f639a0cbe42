"""`open`: a store of live experiments, in a SQLite file or a PostgreSQL database."""

from __future__ import annotations

import json
import secrets
import time
import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from sameluck import streams
from sameluck.errors import Conflict, Invalid, Unknown, did_you_mean, require
from sameluck.experiment import Experiment, check_name
from sameluck.live.database import Database, Transaction
from sameluck.live.options import Live, check_fit, feasibility, played
from sameluck.live.running import Clock, LiveExperiment
from sameluck.live.walking import Maker


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
        from sameluck.live.sqlite import Sqlite  # noqa: PLC0415 only if it is wanted

        require(
            rest == "" or rest.startswith("/"),
            f"write sqlite:///{rest} (three slashes), got {url!r}",
        )
        require("\x00" not in rest, f"a file's name has no NUL, got {url!r}")
        path, _, query = rest.partition("?")
        setting = query.removeprefix("synchronous=") if query else "full"
        if setting not in ("full", "normal"):
            raise Invalid(
                f"after ? only synchronous=full or synchronous=normal is known, got {url!r}"
            )
        return Sqlite(path[1:] or None, read_only=read_only, synchronous=setting)
    if separator and scheme in ("postgresql", "postgres"):
        from sameluck.live.postgres import Postgres  # noqa: PLC0415 only if it is wanted

        return Postgres(url, connections=connections, read_only=read_only)
    known = "sqlite:///file.db, sqlite://, postgresql://user@host/database"
    raise Invalid(f"unknown kind of store {_without_password(url)!r}; known: {known}")


def _without_password(url: str) -> str:
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
    ) -> LiveExperiment:
        """Begin an experiment on real users; its name is taken from then on.

        Args:
            name: 1 to 200 printable characters.
            experiment: What to compare. Its seed decides the policies' own coins; rewards come from the world.
            live: How to run it; `Live()` if not given.
            makers: For `External` policies: name -> function of a seed that returns the policy.
        """
        check_name("an experiment's name", name)
        if not isinstance(experiment, Experiment):
            raise Invalid(f"start needs an Experiment, got {experiment!r}")
        live = live if isinstance(live, Live) else Live.from_dict(live or {})
        as_played = played(experiment, live)
        check_fit(as_played, live)
        for caution in feasibility(as_played, live):
            warnings.warn(f"experiment {name!r}: {caution}", stacklevel=2)
        salt = secrets.token_hex(16)

        def work(transaction: Transaction) -> LiveExperiment:
            if (there := transaction.one("experiment", name=name)) is not None:
                if there[6] != salt:  # ours, if the connection was lost after it had been committed
                    said = (
                        f"there is an experiment {name!r} already; load it, or choose another name"
                    )
                    raise Conflict(said, "name_taken")
                return LiveExperiment(self._database, there, makers, self._clock)
            values = {
                "name": name,
                "definition": as_played.to_json(),
                "options": json.dumps(live.to_dict()),
                "salt": salt,
                "streams": streams.VERSION,
                "now": round(self._clock() * 1_000_000),
            }
            transaction.one("start", **values)
            row = transaction.one("experiment", name=name)
            assert row is not None
            started = LiveExperiment(self._database, row, makers, self._clock)
            started.begin(transaction)
            return started

        return self._database.write(work)

    def load(self, name: str, *, makers: Mapping[str, Maker] | None = None) -> LiveExperiment:
        """Go on with an experiment: its state is derived from the ledger and compared with what was asked for."""
        found = self.peek(name, makers=makers)
        found.verify_or_fail()
        return found

    def peek(self, name: str, *, makers: Mapping[str, Maker] | None = None) -> LiveExperiment:
        """The experiment as `load` gives it, without the check; it is made where it matters all the same."""
        usable = isinstance(name, str) and "\x00" not in name
        row = None
        if usable:
            row = self._database.read(lambda transaction: transaction.one("experiment", name=name))
        if row is None:
            known = self.names()
            hint = did_you_mean(str(name), known) if known else "it is empty; start one"
            raise Unknown(f"no experiment {name!r} in this store; {hint}")
        require(
            row[7] == streams.VERSION,
            f"experiment {name!r} is played with stream version {row[7]}, this sameluck has {streams.VERSION}; "
            "go on with the version it was started with",
        )
        return LiveExperiment(self._database, row, makers, self._clock)
