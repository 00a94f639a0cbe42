"""Live experiments: the paper's design on real users, on a ledger in SQLite or PostgreSQL."""

from sameluck.live.async_store import AsyncLiveExperiment, AsyncStore, open_async
from sameluck.live.control.history import Change
from sameluck.live.control.policy_changes import LedgerChanges, LedgerDifference
from sameluck.live.databases.backups import restore
from sameluck.live.diagnostics.check import Check
from sameluck.live.experiment import LiveExperiment
from sameluck.live.logs.importing import Imported
from sameluck.live.options import LiveOptions, Reward
from sameluck.live.records import (
    AddedPolicy,
    Assignment,
    AssignmentDetails,
    Receipt,
    ReplicationStatus,
    Status,
    WindowExtension,
)
from sameluck.live.rehearsal import Rehearsal, Traffic, VirtualClock, rehearse
from sameluck.live.store import Store
from sameluck.live.store import open as open

# Without `open`, which a star import would put in the place of the builtin.
__all__ = [
    "AddedPolicy",
    "Assignment",
    "AssignmentDetails",
    "AsyncLiveExperiment",
    "AsyncStore",
    "Change",
    "Check",
    "Imported",
    "LedgerChanges",
    "LedgerDifference",
    "LiveExperiment",
    "LiveOptions",
    "Receipt",
    "Rehearsal",
    "ReplicationStatus",
    "Reward",
    "Status",
    "Store",
    "Traffic",
    "VirtualClock",
    "WindowExtension",
    "open_async",
    "rehearse",
    "restore",
]
