"""Start of an experiment, with an empty ledger or with imported entries."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from itertools import islice
from typing import NamedTuple, TypeAlias

from sameluck.errors import Conflict, Invalid, Unknown, did_you_mean, shown
from sameluck.experiment import Experiment
from sameluck.live.calls.settings import StoreSettings
from sameluck.live.databases.base import Database, Transaction
from sameluck.live.databases.rows import ExperimentRow, NumberRow, TextRow
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import (
    LiveOptions,
    Makers,
    checked_makers,
    experiment_as_run,
    options_text,
)
from sameluck.live.state.definition import first_definition
from sameluck.live.state.replications import OpenReplications
from sameluck.randomness import streams
from sameluck.validation import require_name

NOT_STARTED = "it waits to be resumed for the first time"

Fill: TypeAlias = Callable[[Transaction, int, int], None]  # (transaction, experiment, time)


class StartRequest(NamedTuple):
    """Arguments of an experiment that starts."""

    name: str
    experiment: Experiment  # with its policies as run
    options: LiveOptions
    makers: Makers | None
    paused: bool = False


Start: TypeAlias = Callable[[StartRequest, Fill], LiveExperiment]


def checked_request(
    name: str, experiment: Experiment, options: LiveOptions, makers: Makers | None
) -> StartRequest:
    """Return a request to start an experiment, or raise `Invalid` for an invalid name or experiment."""
    require_name("an experiment's name", name)
    if not isinstance(experiment, Experiment):
        raise Invalid(f"start needs an Experiment, got {shown(experiment)}")
    experiment.require_replications("start")
    _ = experiment.n_arms  # raises if it is unknown
    return StartRequest(name, experiment_as_run(experiment, options), options, makers)


def names_in(database: Database) -> list[str]:
    """Return the names of a database's experiments, the oldest first."""
    return [row.text for row in database.read(lambda t: t.fetch_all(TextRow, "names"))]


def find_row(database: Database, name: str) -> ExperimentRow:
    """Return the row of an experiment, or raise `Unknown`."""
    names = names_in(database)
    if not isinstance(name, str) or name not in names:
        hint = did_you_mean(name, names) if names else "it is empty; start an experiment"
        raise Unknown(f"no experiment {shown(name)} in this store; {hint}")
    return database.read(lambda t: t.fetch_one(ExperimentRow, "experiment", name=name))


def start(
    database: Database, settings: StoreSettings, request: StartRequest, fill: Fill | None = None
) -> LiveExperiment:
    """Start an experiment in one transaction; `fill` writes entries that are known already."""
    name, salt = request.name, secrets.token_hex(16)
    makers = checked_makers(request.makers)
    first = first_definition(request.experiment, request.options, makers)

    def work(transaction: Transaction) -> LiveExperiment:
        before = transaction.find(ExperimentRow, "experiment", name=name)
        if before is not None:
            if before.salt != salt:  # equal if the connection was lost after this call's own commit
                taken = f"there is an experiment {name!r} already; load it, or choose another name"
                raise Conflict(taken, "name_taken")
            replications = OpenReplications(database, before, settings, request.makers)
            return LiveExperiment(replications, before)
        now = settings.now()
        transaction.fetch_one(
            NumberRow,
            "start",
            name=name,
            definition=first.row.definition,
            fingerprints=first.row.fingerprints,
            options=options_text(request.options),
            salt=salt,
            streams=streams.VERSION,
            now=now,
        )
        row = transaction.fetch_one(ExperimentRow, "experiment", name=name)
        if fill is not None:
            fill(transaction, row.id, now)
        replications = OpenReplications(database, row, settings, request.makers, first)
        replications.history.record(transaction, "started")
        replications.open_next(transaction, now)
        if request.paused:
            replications.set_status(transaction, "paused", NOT_STARTED)
        return LiveExperiment(replications, row)

    return database.write(work)


def first_difference(replications: OpenReplications, request: StartRequest) -> str | None:
    """Return the first setting in which a stored experiment differs from a request, or None.

    Policies that were added or removed later are no difference, nor are options that did not exist at the start.
    """
    stored, requested = replications.experiment.to_dict(), request.experiment.to_dict()
    options = {
        name: value
        for name, value in request.options.to_dict().items()
        if name not in replications.later_options
    }
    records = replications.definition.records
    removed = {name for name, record in records.items() if record.removed}
    stored_policies = stored["policies"]
    policies = {name: text for name, text in requested["policies"].items() if name not in removed}
    settings = {name: value for name, value in requested.items() if name != "policies"}
    pairs = {
        "policies": (list(islice(stored_policies, len(policies))), list(policies)),
        **_pairs("policy ", stored_policies, policies),
        **_pairs("", stored, settings),
        **_pairs("LiveOptions.", replications.options.to_dict(), options),
    }
    for name, (stored_value, requested_value) in pairs.items():
        if stored_value != requested_value:
            return f"{name} is {stored_value!r} there and {requested_value!r} here"
    return None


def _pairs(
    prefix: str, stored: Mapping[str, object], requested: Mapping[str, object]
) -> dict[str, tuple[object, object]]:
    return {f"{prefix}{key}": (stored.get(key), requested[key]) for key in requested}
