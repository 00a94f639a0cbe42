"""`Comparison`: the effects that `compare` estimated, with everything that is printed and drawn of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sameluck.frames import Frames
from sameluck.inference.display import DisplayedOnPages, reporting, written
from sameluck.inference.effects import Effect, Request
from sameluck.inference.policy_summaries import (
    PolicyMetric,
    PolicySummary,
    Standing,
    metric_of_each,
    summarise,
)
from sameluck.runs import Runs

if TYPE_CHECKING:
    from sameluck.inference.display import Axes, Card, Figure


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(DisplayedOnPages, Frames):
    """Result of `compare`: `print` it, or read `effects`.

    Args:
        effects: One record for each pair of policies and checkpoint.
        runs: The compared runs.
        request: The arguments of `compare`.
        standings: Which policies may be the best, with `best=True`.
        failures: Rare failures that a short twin of live runs has met, as sentences.
    """

    effects: tuple[Effect, ...]
    runs: Runs
    request: Request
    standings: tuple[Standing, ...] = ()
    failures: tuple[str, ...] = ()

    _index = ("policy", "control", "checkpoint")
    _presentation = "comparisons"

    @property
    def metric(self) -> str:
        """The compared metric in its text form."""
        return self.request.metric

    @cached_property
    def values(self) -> tuple[PolicyMetric, ...]:
        """Each policy's metric at every checkpoint, with an interval of its own."""
        return metric_of_each(self.runs, self.request)

    @cached_property
    def policies(self) -> tuple[PolicySummary, ...]:
        """Each policy's reward, regret, pulls and share of the best arm, at every checkpoint."""
        return summarise(self.runs)

    @property
    def last_effects(self) -> list[Effect]:
        """The effects at the last checkpoint, one for each pair."""
        last = self.runs.checkpoints[-1]
        return [effect for effect in self.effects if effect.checkpoint == last]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the effects as plain records."""
        return [effect._asdict() for effect in self.effects]

    def plot_policies(self, path: str | Path | None = None, *, ax: Axes | None = None) -> Figure:
        """Draw each policy's metric over the horizon with matplotlib; write it to `path`, or draw on `ax`."""
        figure = reporting("comparisons").metric_figure(self, ax)
        saved: Figure = reporting("drawing").saved(figure, path)
        return saved

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
        page = reporting("comparisons").page(self, curve or self, more)
        return written(page, path)
