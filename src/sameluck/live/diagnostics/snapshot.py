"""`Snapshot`: the rows that the checks read, on one consistent state of the database."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.errors import Diverged, Invalid
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Row, SqlValue
from sameluck.live.databases.rows import AnswerRow, OutcomeRow
from sameluck.live.ledger import Ledger
from sameluck.live.options import Live
from sameluck.live.verification import verify

SECOND = 1_000_000  # microseconds
_OPEN = -1
_ASSIGNMENT = np.dtype(
    list(zip(OutcomeRow._fields, ("i8", "i8", "i8", "?", "i8", "?", "f8", "i8"), strict=True))
)


class End(IntEnum):
    """How an assignment ended."""

    OBSERVED = 0  # a reward was reported within the window
    DEFAULTED = 1  # shown, but no reward was reported: the default reward counts
    VOIDED = 2  # never shown: the entry was offered again


class EndedAssignments(NamedTuple):
    """Assignments in the order they were made, before the first that is still open.

    Of later assignments only those with quick rewards have ended, which is not a fair sample.
    """

    arm: Ints
    end: Ints  # `End` values
    value: Floats
    delay: Floats  # seconds from showing to reward, of those observed


@dataclass(frozen=True)
class Snapshot:
    """One experiment on one consistent state of the database."""

    ledger: Ledger
    live: Live
    now: int  # microseconds
    silence_is_zero: bool = False  # see `loss.loss`

    @property
    def experiment(self) -> Experiment:
        """The experiment's definition."""
        return self.ledger.scheduler.experiment

    def rows(self, row: type[Row], statement: str, **values: SqlValue) -> list[Row]:
        """The rows that a statement returns for this experiment."""
        return self.ledger.transaction.all(row, statement, experiment=self.ledger.id, **values)

    @cached_property
    def calls(self) -> dict[str, int]:
        """The number of calls of `assign` by reason."""
        return dict(self.rows(AnswerRow, "answers"))

    @cached_property
    def divergence(self) -> str | None:
        """The first difference between the ledger and what the policies do with it; None if there is none."""
        try:
            verify(self.ledger)
        except (Diverged, Invalid) as error:
            return str(error)
        return None

    @cached_property
    def ended(self) -> EndedAssignments:
        """The assignments before the first that is still open."""
        key = {"experiment": self.ledger.id, "now": self.now}
        assignments = self.ledger.transaction.each(OutcomeRow, "assignments", **key)
        rows = np.fromiter(assignments, _ASSIGNMENT)
        rows = rows[np.argsort(rows["assigned_us"], kind="stable")]
        implicit = self.live.exposure == "implicit"
        # An overdue assignment has ended, whether or not `tick` has been called since.
        overdue, shown = rows["overdue"], rows["exposed"] | implicit
        rows["outcome"][overdue] = np.where(shown[overdue], End.DEFAULTED, End.VOIDED)
        rows["value"][overdue & shown] = self.live.reward.default
        still_open = np.flatnonzero(rows["outcome"] == _OPEN)
        rows = rows[: still_open[0]] if still_open.size else rows
        observed = rows[rows["outcome"] == End.OBSERVED]
        shown_us = observed["assigned_us" if implicit else "shown_us"]
        delay = (observed["settled_us"] - shown_us) / SECOND
        arm, end, value = (rows[name].copy() for name in ("arm", "outcome", "value"))
        return EndedAssignments(arm, end, value, delay)
