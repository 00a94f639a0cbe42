"""What `compare` returns: effects as records, a table with a sentence, a figure and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sameluck.frames import Frames
from sameluck.inference import effect_tables, figures, reports
from sameluck.inference.cautions import cautions
from sameluck.inference.effects import Effect, Request
from sameluck.inference.policy_summaries import (
    PolicyMetric,
    PolicySummary,
    Standing,
    metric_of_each,
    summarise,
)
from sameluck.inference.sentences import (
    cost,
    findings,
    may_be_best,
    setting,
    shows_difference,
    unseen_replications,
    without_adjustment,
)
from sameluck.runs import Runs


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Frames):
    """What `compare` returns: `print` it, or read `effects`.

    Args:
        effects: One record for each pair of policies and checkpoint.
        runs: What it was computed from.
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

    @property
    def metric(self) -> str:
        """What the policies are compared by, in its text form."""
        return self.request.metric

    @property
    def values(self) -> tuple[PolicyMetric, ...]:
        """The metric of each policy at every checkpoint, with an interval of its own."""
        return metric_of_each(self.runs, self.request)

    @property
    def policies(self) -> tuple[PolicySummary, ...]:
        """Each policy on its own: reward, regret, pulls, share of the best arm, at every checkpoint."""
        return summarise(self.runs)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences to read before relying on the intervals."""
        return cautions(self.runs, self.effects, self.request)

    @property
    def verdict(self) -> str:
        """The effects at the last checkpoint, what they cannot exclude and the users they cost, as sentences."""
        effects = self.last_effects
        median = self.request.interval == "median"
        found = findings(effects, median=median, metric=self.request.by)
        sentences = [*found, *self.remarks]
        if self.standings:
            names = [row.policy for row in self.standings if row.may_be_best]
            sentences.append(may_be_best(names, self.request))
        return " ".join([*sentences, cost(effects[0], self._design)])

    @property
    def remarks(self) -> list[str]:
        """What is to be known beside the effects at the last checkpoint, as sentences."""
        first = self.last_effects[0]
        sentences = [*self.about_unseen, *self.failures]
        if self.request.interval == "median":
            sentences.append(
                "The intervals are of the medians over replications, in which rare failures do not show."
            )
        if self.request.adjust:
            sentences.append(without_adjustment(first))
        return sentences

    @property
    def about_unseen(self) -> list[str]:
        """As a sentence: what rare replications that were not met could do to the weakest finding."""
        if self.request.interval == "median":
            return []
        by_reward = self.request.by.is_reward  # for others it is not known what could be lost
        shown = [
            abs(one.effect) for one in self.last_effects if by_reward and shows_difference(one)
        ]
        return [unseen_replications(self.runs, self.request.level, shown)]

    @property
    def last_effects(self) -> list[Effect]:
        """The effects at the last checkpoint, one for each pair."""
        return [one for one in self.effects if one.checkpoint == self.runs.checkpoints[-1]]

    @property
    def _design(self) -> str:
        return self.runs.experiment.design.label

    @property
    def title(self) -> str:
        """What was compared, on one line."""
        return f"{self.request.by.description}{self._design} design on {setting(self.runs)}"

    def __str__(self) -> str:
        return effect_tables.as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return effect_tables.as_html(self)

    @property
    def scope(self) -> str:
        """What intervals and p-values hold for together, in brackets; empty if there is only one."""
        pairs, horizons = len(self.last_effects) > 1, self.runs.checkpoints.size > 1
        covered = str(self.request.simultaneous)
        over_pairs, over_horizons = covered in ("pairs", "both"), covered in ("checkpoints", "both")
        if not pairs and not horizons:
            return ""
        if (over_pairs or not pairs) and (over_horizons or not horizons):
            return " (simultaneous)"
        if pairs and over_pairs:
            return " (over pairs, pointwise)"
        if pairs and over_horizons:
            return " (over horizons, each alone)"
        return " (each alone)" if pairs else " (pointwise)"

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows for a page: at most eight of the checkpoints."""
        last = self.runs.checkpoints.size - 1
        checkpoints = {int(self.runs.checkpoints[round(last * k / 7)]) for k in range(8)}
        shown = [one for one in self.effects if one.checkpoint in checkpoints]
        return effect_tables.effects_table(self, shown)

    def card(self, title: str, figure: str = "") -> reports.Card:
        """Verdict and table for a page."""
        return reports.Card(title, self.verdict, *self.table(), figure, notes=self.cautions)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The effects as plain records."""
        return [one._asdict() for one in self.effects]

    def to_latex(self) -> str:
        """The printed table as a LaTeX tabular (booktabs)."""
        return effect_tables.as_latex(self)

    def plot(
        self, path: str | Path | None = None, *, ax: figures.Axes | None = None
    ) -> figures.Figure:
        """The effects over the horizon as a matplotlib figure, written to `path` if given, or drawn on `ax`.

        Of many policies, the effects at the last checkpoint, in their order.
        """
        return figures.draw_effects(self, path, ax)

    def plot_policies(
        self, path: str | Path | None = None, *, ax: figures.Axes | None = None
    ) -> figures.Figure:
        """The metric of each policy over the horizon as a matplotlib figure, written to `path` if given."""
        return figures.draw_metric(self, path, ax)

    def to_html(
        self,
        path: str | Path | None = None,
        *,
        curve: Comparison | None = None,
        more: Sequence[reports.Card] = (),
    ) -> str:
        """A self-contained page: verdict, figure, table, definition. Written to `path` if given.

        `curve` is the same comparison at more checkpoints, for the figure; `more` are further cards.
        """
        return reports.write(reports.page(self, curve or self, more), path)
