"""The transaction in which an experiment begins, with an empty ledger or with one that is known already."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from sameluck.errors import Conflict
from sameluck.experiment import Experiment
from sameluck.live.assignments import Clock
from sameluck.live.databases.base import Database, Transaction
from sameluck.live.engine.walker import Maker
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import Live
from sameluck.live.replications import found
from sameluck.randomness import streams

Fill: TypeAlias = Callable[[Transaction, int, int], None]  # of an experiment's id, at a time


class StartRequest(NamedTuple):
    """What an experiment begins with."""

    name: str
    experiment: Experiment  # as it is played
    live: Live
    makers: Mapping[str, Maker] | None


def begin(
    database: Database, clock: Clock, new: StartRequest, fill: Fill | None = None
) -> LiveExperiment:
    """Begin an experiment in one transaction; `fill` writes what is known of its ledger."""
    salt = secrets.token_hex(16)

    def work(transaction: Transaction) -> LiveExperiment:
        if (there := transaction.one("experiment", name=new.name)) is not None:
            if there[6] != salt:  # ours, if the connection was lost after it had been committed
                said = (
                    f"there is an experiment {new.name!r} already; load it, or choose another name"
                )
                raise Conflict(said, "name_taken")
            return LiveExperiment(database, there, new.makers, clock)
        now = round(clock() * 1_000_000)
        values = {
            "name": new.name,
            "definition": new.experiment.to_json(),
            "options": json.dumps(new.live.to_dict()),
            "salt": salt,
            "streams": streams.VERSION,
            "now": now,
        }
        transaction.one("start", **values)
        row = found(transaction.one("experiment", name=new.name))
        started = LiveExperiment(database, row, new.makers, clock)
        if fill is not None:
            fill(transaction, row[0], now)
        started.begin(transaction)
        return started

    return database.write(work)


def difference(there: Experiment, live: Live, request: StartRequest) -> str | None:
    """The first setting in which an experiment differs from what it would begin with; None if there is none.

    Policies may have progress since: those at the end that the request does not name are no difference.
    """
    theirs, ours = there.to_dict(), request.experiment.to_dict()
    policies, wished = theirs.pop("policies"), ours.pop("policies")
    pairs = {
        "policies": (list(islice(policies, len(wished))), list(wished)),
        **_pairs("policy ", policies, wished),
        **_pairs("", theirs, ours),
        **_pairs("Live.", live.to_dict(), request.live.to_dict()),
    }
    for what, (one, other) in pairs.items():
        if one != other:
            return f"{what} is {one!r} there and {other!r} here"
    return None


def _pairs(owner: str, theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {f"{owner}{key}": (theirs.get(key), ours[key]) for key in ours}
