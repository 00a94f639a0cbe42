"""Live experiments: the paper's design on real users, on a ledger in SQLite or PostgreSQL."""

from sameluck.live.databases import restore
from sameluck.live.diagnostics.check import Check
from sameluck.live.experiment import LiveExperiment
from sameluck.live.history import Change
from sameluck.live.logs.imported import Imported
from sameluck.live.options import Live, Reward
from sameluck.live.records import Assignment, Description, Joining, Receipt, Status
from sameluck.live.rederivation import LedgerDifference, Rederivation
from sameluck.live.rehearsal.rehearsal import Rehearsal, VirtualClock, rehearse
from sameluck.live.rehearsal.traffic import Traffic
from sameluck.live.store import Store
from sameluck.live.store import open as open

# Without `open`, which a star import would put in the place of the builtin.
__all__ = [
    "Assignment",
    "Change",
    "Check",
    "Description",
    "Imported",
    "Joining",
    "LedgerDifference",
    "Live",
    "LiveExperiment",
    "Receipt",
    "Rederivation",
    "Rehearsal",
    "Reward",
    "Status",
    "Store",
    "Traffic",
    "VirtualClock",
    "rehearse",
    "restore",
]
