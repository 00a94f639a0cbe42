"""What `compare` returns: effects as records, a table with a sentence, a figure and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sameluck.frames import Frames
from sameluck.inference import reports
from sameluck.inference.cautions import cautions
from sameluck.inference.effects import Effect, Request, effect_curves
from sameluck.inference.policy_summaries import PolicySummary, Standing, summarise
from sameluck.inference.sentences import (
    cost,
    findings,
    setting,
    shows_difference,
    unseen_replications,
)
from sameluck.reporting import plots, tables
from sameluck.reporting.wording import amount, percent, probability, times
from sameluck.runs import Runs

HEADER = ("policy", "control", "horizon", "effect", "interval", "p-value", "sd", "variance v naive")


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
        sentences = [*findings(effects, median=self.request.interval == "median"), *self.remarks]
        if self.standings:
            names = ", ".join(row.policy for row in self.standings if row.may_be_best)
            level = f"{percent(self.request.level)} (one-sided)"
            sentences.append(f"May be the best of all by mean reward, at {level}: {names}.")
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
            plain = f"{amount(first.plain_effect)} with an sd of {amount(first.plain_sd)}"
            sentences.append(f"Without adjustment the first effect is {plain}.")
        return sentences

    @property
    def about_unseen(self) -> list[str]:
        """As a sentence: what rare replications that were not met could do to the weakest finding."""
        if self.request.interval == "median":
            return []
        shown = [abs(one.effect) for one in self.last_effects if shows_difference(one)]
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
        return f"{self._design} design on {setting(self.runs)}"

    def __str__(self) -> str:
        table = tables.text_table(self._header, self._rows(self.effects))
        return "\n\n".join(
            [tables.wrapped(self.title), table, *map(tables.wrapped, self._sentences)]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return tables.notebook(self.title, self._header, self._rows(self.effects), self._sentences)

    @property
    def _sentences(self) -> list[str]:
        return [self.verdict, *(f"Caution: {caution}" for caution in self.cautions)]

    @property
    def _header(self) -> list[str]:
        kind = "" if self.request.interval == "t" else f"{self.request.interval} "
        if self.request.adjust:
            kind = f"{kind}adjusted "
        names = {"interval": f"{percent(self.request.level)} {kind}interval{self.scope}"}
        if self.request.adjust:
            names["variance v naive"] = "unadjusted variance v naive"
        return [names.get(cell, cell) for cell in HEADER]

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

    def _rows(self, effects: Sequence[Effect]) -> list[list[str]]:
        naive = self._design == "naive"
        if len({one.control for one in effects}) == 1:  # a leader board
            last = {one.policy: one.effect for one in self.last_effects}
            effects = sorted(effects, key=lambda one: -last[one.policy])
        return [
            [
                one.policy,
                one.control,
                f"{one.checkpoint:,}",
                amount(one.effect),
                f"{amount(one.low)} to {amount(one.high)}",
                probability(one.p_adjusted),
                amount(one.sd),
                "-" if naive else times(one.variance_ratio, one.ratio_low, one.ratio_high),
            ]
            for one in effects
        ]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows for a page: at most eight of the checkpoints."""
        last = self.runs.checkpoints.size - 1
        checkpoints = {int(self.runs.checkpoints[round(last * k / 7)]) for k in range(8)}
        return self._header, self._rows(
            [one for one in self.effects if one.checkpoint in checkpoints]
        )

    def card(self, title: str, figure: str = "") -> reports.Card:
        """Verdict and table for a page."""
        return reports.Card(title, self.verdict, *self.table(), figure, notes=self.cautions)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The effects as plain records."""
        return [one._asdict() for one in self.effects]

    def to_latex(self) -> str:
        """The printed table as a LaTeX tabular (booktabs)."""
        return tables.latex_table(self._header, self._rows(self.effects))

    def plot(self, path: str | Path | None = None, *, ax: plots.Axes | None = None) -> plots.Figure:
        """The effects over the horizon as a matplotlib figure, written to `path` if given, or drawn on `ax`.

        Of many policies, the effects at the last checkpoint, in their order.
        """
        curves = effect_curves(self.effects)
        title = f"{self._design} design, {self.runs.replications:,} replications"
        level = self.request.level
        figure = plots.draw_effects(curves, level=level, title=title, scope=self.scope, ax=ax)
        return plots.saved(figure, path)

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
