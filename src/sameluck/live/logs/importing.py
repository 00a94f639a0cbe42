"""Importing a log: a production log of one policy becomes the ledger of a new experiment.

Each row of a replication is the next entry of its arm's stack, which all policies share. This is valid if who got
which arm did not depend on rewards still to come, if no row is missing because of its reward, and if users are now
what they were then. Everything is computed before the transaction that writes it.
"""

from __future__ import annotations

from sameluck.live.databases.base import Database
from sameluck.live.engine.scheduler import Scheduler
from sameluck.live.logs.imported import Imported, imported
from sameluck.live.logs.request import ImportRequest
from sameluck.live.logs.stacks import LogStacks, write_ledger
from sameluck.live.options import Clock
from sameluck.live.start import StartRequest, start


def import_log(database: Database, clock: Clock, request: ImportRequest) -> Imported:
    """Read a log, run every policy on it, and begin an experiment with the resulting ledger."""
    request.check()
    log, live, makers = request.read(), request.live, request.makers
    experiment = request.experiment(log)
    scheduler = Scheduler(experiment, order=live.order, audit_share=live.audit_share, makers=makers)
    stacks = LogStacks(log)
    replications = [
        stacks.replay(scheduler, number, request.logged_by)
        for number in range(len(log.replications))
    ]
    new = StartRequest(request.name, experiment, live, makers)
    begun = start(database, clock, new, lambda *at: write_ledger(stacks, replications, *at))
    return imported(begun, log, replications, request.logged_by)
