"""`Snapshot`: the rows that the checks read, on one consistent state of the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.errors import Diverged, Invalid
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Row, SqlValue
from sameluck.live.databases.rows import AnswerRow, ProgressRow
from sameluck.live.diagnostics.summaries import (
    MAX_SAMPLE,
    NO_ASSIGNMENTS,
    OPEN,
    AssignmentRows,
    Summaries,
    Summary,
)
from sameluck.live.options import LiveOptions
from sameluck.live.state.ledger import Ledger
from sameluck.live.state.verification import verify
from sameluck.runs import Runs

if TYPE_CHECKING:
    from sameluck.live.diagnostics.check import Check

SECOND = 1_000_000  # microseconds


class End(IntEnum):
    """End of an assignment."""

    OBSERVED = 0  # a reward was reported within the window
    DEFAULTED = 1  # shown, but no reward was reported: the default reward counts
    VOIDED = 2  # never shown: the entry was offered again


class EndedAssignments(NamedTuple):
    """Assignments in the order they were made, before the first that is still open.

    Of later assignments, only assignments with quick rewards have ended, which is not a fair sample. If there are
    more than `MAX_SAMPLE`, assignments of every second, fourth, ... entry of a stack are read, whatever the reward.
    """

    arm: Ints
    end: Ints  # `End` values
    value: Floats
    delay: Floats  # seconds from showing to reward, of observed rewards
    step: int = 1  # one entry in so many is read

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
    kept: Summaries = field(default_factory=Summaries)
    runs: Callable[[Ledger, None, Sequence[str]], Runs] = Ledger.runs  # of the complete prefix

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
    def assigned(self) -> int:
        """Number of assignments, voided or not."""
        (row,) = self.rows(ProgressRow, "progress")
        return row.settled - row.imported + row.waiting + row.voided

    @property
    def step(self) -> int:
        """Entries of a stack from one to the next in the sample of assignments."""
        return step_of(self.assigned, MAX_SAMPLE)

    @cached_property
    def summaries(self) -> dict[int, Summary]:
        """Summaries of all replications by number."""
        return self.kept.read(self.ledger, self.step, self.now)

    @cached_property
    def divergence(self) -> str | None:
        """First difference between the ledger and the policies' requests; None if there is none."""
        _ = self.summaries  # chooses the replications that are derived again
        try:
            verify(self.ledger, self.kept.verified)
        except (Diverged, Invalid) as error:
            return str(error)
        return None

    @cached_property
    def late(self) -> list[int]:
        """Rewards that came after their window, by arm."""
        return self.kept.late_by_arm(self.ledger, self.experiment.n_arms)

    @cached_property
    def ended(self) -> EndedAssignments:
        """Assignments before the first that is still open."""
        chunks = [summary.assignments for summary in self.summaries.values()]
        rows = np.concatenate([NO_ASSIGNMENTS, *chunks])
        # Stable: assignments of the same moment stay in the order of their addresses.
        rows = rows[np.argsort(rows["assigned_us"], kind="stable")]
        # An overdue assignment has ended, whether or not `tick` has been called since.
        overdue, shown = rows["overdue"], rows["exposed"] | (self.options.exposure == "implicit")
        rows["outcome"][overdue] = np.where(shown[overdue], End.DEFAULTED, End.VOIDED)
        rows["value"][overdue & shown] = self.options.reward.default
        still_open = np.flatnonzero(rows["outcome"] == OPEN)
        return self._columns(rows[: still_open[0]] if still_open.size else rows)

    def _columns(self, rows: AssignmentRows) -> EndedAssignments:
        observed = rows[rows["outcome"] == End.OBSERVED]
        shown_us = observed["assigned_us" if self.options.exposure == "implicit" else "shown_us"]
        delay = (observed["settled_us"] - shown_us) / SECOND
        arm, end, value = (rows[name].copy() for name in ("arm", "outcome", "value"))
        return EndedAssignments(arm, end, value, delay, self.step)


def step_of(count: int, most: int) -> int:
    """Return the smallest power of two that divides a count into at most so many."""
    step = 1
    while step * most < count:
        step *= 2
    return step
