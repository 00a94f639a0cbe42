"""`Comparison`: the effects that `compare` estimated, with everything that is printed and drawn of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sameluck.arrays import Floats
from sameluck.frames import Frames
from sameluck.inference.assumptions import Violations
from sameluck.inference.display import DisplayedOnPages, reporting, written
from sameluck.inference.effects import Effect, LevelEffect, level_effects
from sameluck.inference.policy_summaries import PolicyMetric, PolicySummary, Standing
from sameluck.inference.requests import Request
from sameluck.inference.twins.failures import Failure
from sameluck.inference.unseen import SeedCheck
from sameluck.runs import Runs

if TYPE_CHECKING:
    from sameluck.inference.display import Axes, Card, Figure


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(DisplayedOnPages, Frames):
    """Result of `compare`: `print` it, or read `effects`.

    Attributes:
        effects: One record for each pair of policies and checkpoint.
        runs: The compared runs.
        request: The arguments of `compare`.
        values: Each policy's metric at every checkpoint, with an interval of its own.
        differences: Difference of the first pair in each replication, at the last checkpoint.
        policies: Each policy's reward, regret, pulls and share of the best arm, at every checkpoint.
        standings: Which policies may be the best, with `best=True`.
        failures: Rare failures in a short twin of live runs.
        check: The effects on other seeds, in simulations.
        violations: Assumptions of the intervals that the runs do not meet.
        moving_environment: Name of a simulated environment whose arms move; None for others.
        possible_loss: Most that a policy can lose to another in a replication, on average; None if not known.
    """

    effects: tuple[Effect, ...]
    runs: Runs
    request: Request
    values: tuple[PolicyMetric, ...]
    differences: Floats
    policies: tuple[PolicySummary, ...]
    standings: tuple[Standing, ...]
    failures: tuple[Failure, ...]
    check: SeedCheck
    violations: Violations
    moving_environment: str | None
    possible_loss: float | None

    _index = ("policy", "control", "checkpoint")
    _presentation = "comparisons"

    @property
    def metric(self) -> str:
        """Compared metric in its text form."""
        return self.request.metric

    @property
    def last_effects(self) -> list[Effect]:
        """Effects at the last checkpoint, one for each pair."""
        last = self.runs.checkpoints[-1]
        return [effect for effect in self.effects if effect.checkpoint == last]

    @cached_property
    def by_level(self) -> tuple[LevelEffect, ...]:
        """Effects at the last checkpoint split by the users' levels; empty without levels, and for other metrics.

        The parts of all levels add up to the effect. Their intervals hold together.
        """
        pairs = [effect[:2] for effect in self.last_effects]
        return level_effects(self.runs, self.request, pairs)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the effects as plain records."""
        return [effect._asdict() for effect in self.effects]

    def plot_policies(self, path: str | Path | None = None, *, ax: Axes | None = None) -> Figure:
        """Draw each policy's metric over the horizon with matplotlib; write it to `path`, or draw on `ax`."""
        figure = reporting("comparisons").metric_figure(self, ax)
        return reporting("drawing").saved(figure, path)

    def to_html(
        self,
        path: str | Path | None = None,
        *,
        curve: Comparison | None = None,
        more: Sequence[Card] = (),
    ) -> str:
        """Return a self-contained page with verdict, figure, table and definition; also write it to `path` if given.

        `curve` is the same comparison at more checkpoints, for the figure; `more` are further cards.
        """
        return written(reporting("comparisons").page(self, curve or self, more), path)
