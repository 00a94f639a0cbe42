"""`Snapshot`: the rows that the checks read, on one consistent state of the database."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Floats, Ints
from sameluck.errors import Diverged, Invalid
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Row, SqlValue
from sameluck.live.databases.rows import AnswerRow, OutcomeRow, ProgressRow
from sameluck.live.options import LiveOptions
from sameluck.live.state.ledger import Ledger
from sameluck.live.state.verification import verify

if TYPE_CHECKING:
    from sameluck.live.diagnostics.check import Check

SECOND = 1_000_000  # microseconds
MAX_ENDED = 100_000  # assignments in memory; more hardly change a check
CHUNK = 10_000  # rows read at once
_OPEN = -1
Rows: TypeAlias = NDArray[Any]  # of `_ASSIGNMENT`
_TYPES = ("i8", "i8", "i8", "?", "i8", "?", "f8", "i8")
_ASSIGNMENT = np.dtype(list(zip(OutcomeRow._fields, _TYPES, strict=True)))


class End(IntEnum):
    """End of an assignment."""

    OBSERVED = 0  # a reward was reported within the window
    DEFAULTED = 1  # shown, but no reward was reported: the default reward counts
    VOIDED = 2  # never shown: the entry was offered again


class EndedAssignments(NamedTuple):
    """Assignments in the order they were made, before the first that is still open.

    Of later assignments, only assignments with quick rewards have ended, which is not a fair sample. If there are
    more than `MAX_ENDED`, every second, third, ... is read, whatever its reward.
    """

    arm: Ints
    end: Ints  # `End` values
    value: Floats
    delay: Floats  # seconds from showing to reward, of observed rewards
    step: int = 1  # every step-th assignment is read

    def describe(self, check: Check) -> Check:
        """Return a check of these assignments, with a note if they are a sample."""
        if self.step == 1:
            return check
        note = f" Read: one assignment in {self.step:,}, {self.arm.size:,} ended assignments."
        details = check.details | {"every": self.step}
        return check._replace(sentence=check.sentence + note, details=details)


@dataclass(frozen=True)
class Snapshot:
    """Rows of one experiment, on one consistent state of the database."""

    ledger: Ledger
    options: LiveOptions
    now: int  # microseconds
    silence_is_zero: bool = False  # see `loss.loss`

    @property
    def experiment(self) -> Experiment:
        return self.ledger.engine.experiment

    def rows(self, row: type[Row], statement: str, **values: SqlValue) -> list[Row]:
        transaction, experiment = self.ledger.transaction, self.ledger.id
        return transaction.fetch_all(row, statement, experiment=experiment, **values)

    @cached_property
    def calls(self) -> dict[str, int]:
        """Number of calls of `assign` by reason."""
        return dict(self.rows(AnswerRow, "answers"))

    @cached_property
    def divergence(self) -> str | None:
        """First difference between the ledger and the policies' requests; None if there is none."""
        try:
            verify(self.ledger)
        except (Diverged, Invalid) as error:
            return str(error)
        return None

    @cached_property
    def ended(self) -> EndedAssignments:
        """Assignments before the first that is still open."""
        key = {"experiment": self.ledger.id}
        (row,) = self.rows(ProgressRow, "progress")
        assignments = row.settled - row.imported + row.waiting + row.voided
        step = -(-assignments // MAX_ENDED) or 1
        rows = self.ledger.transaction.iterate(OutcomeRow, "assignments", **key, now=self.now)
        chunks, count = [], 0
        while (chunk := np.fromiter(islice(rows, CHUNK), _ASSIGNMENT)).size:
            chunk, all_ended = self._ended(chunk)
            chunks.append(chunk[-count % step :: step].copy())
            count += chunk.size
            if not all_ended:
                break
        return self._columns(np.concatenate([np.empty(0, _ASSIGNMENT), *chunks]), step)

    def _ended(self, rows: Rows) -> tuple[Rows, bool]:
        """Return the rows before the first assignment that is still open, and True if they are all rows."""
        # An overdue assignment has ended, whether or not `tick` has been called since.
        overdue, shown = rows["overdue"], rows["exposed"] | (self.options.exposure == "implicit")
        rows["outcome"][overdue] = np.where(shown[overdue], End.DEFAULTED, End.VOIDED)
        rows["value"][overdue & shown] = self.options.reward.default
        still_open = np.flatnonzero(rows["outcome"] == _OPEN)
        return (rows[: still_open[0]], False) if still_open.size else (rows, True)

    def _columns(self, rows: Rows, step: int) -> EndedAssignments:
        observed = rows[rows["outcome"] == End.OBSERVED]
        shown_us = observed["assigned_us" if self.options.exposure == "implicit" else "shown_us"]
        delay = (observed["settled_us"] - shown_us) / SECOND
        arm, end, value = (rows[name].copy() for name in ("arm", "outcome", "value"))
        return EndedAssignments(arm, end, value, delay, step)
