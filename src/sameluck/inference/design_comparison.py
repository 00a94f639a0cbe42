"""The same question under several designs, side by side: what each costs and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sameluck import text_forms
from sameluck.design import Naive, Replay, TimeCoupled, as_design
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.inference.comparison import (
    Comparison,
    amount,
    compare,
    cost,
    finding,
    footer,
    percent,
    write_page,
)
from sameluck.inference.effects import Effect, effect_curves
from sameluck.reporting import pages, plots, tables
from sameluck.simulation.simulate import Progress, simulate


class DesignRow(NamedTuple):
    """What one design showed, and what it would take to be as sure as replay."""

    design: str
    policy: str
    control: str
    effect: float
    low: float
    high: float
    sd: float
    variance_ratio: float  # variance of the naive design over its own, both measured
    interactions: float  # users a replication
    replications_needed: float  # for the precision that replay has here
    users_needed: float


@dataclass(frozen=True, eq=False, repr=False)
class DesignComparison:
    """What `designs` returns: one `Comparison` for each design, on the same policies and environment."""

    results: dict[str, Comparison]

    @property
    def rows(self) -> tuple[DesignRow, ...]:
        """One record for each design and pair of policies, at the last checkpoint."""
        return tuple(
            row
            for label in self.results
            for row in self._rows_of(label, last_effects(self.results[label]))
        )

    def _rows_of(self, label: str, effects: Iterable[Effect]) -> Iterable[DesignRow]:
        for place, one in enumerate(effects):
            best = last_effects(self.results[self._finest])[place]
            naive = last_effects(self.results.get("naive", self.results[label]))[place]
            needed = _needed(one, best)
            yield DesignRow(
                label,
                one.policy,
                one.control,
                one.effect,
                one.low,
                one.high,
                one.sd,
                (naive.sd / one.sd) ** 2 if one.sd else math.inf,
                one.interactions,
                needed,
                needed * one.interactions,
            )

    @property
    def _finest(self) -> str:
        return "replay" if "replay" in self.results else next(iter(self.results))

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain records."""
        return [row._asdict() for row in self.rows]

    @property
    def verdict(self) -> str:
        """What the designs cost, in words."""
        result = self.results[self._finest]
        one = last_effects(result)[0]
        others = [
            f"The {row.design} design would need about {row.replications_needed:,.0f} replications "
            f"({row.users_needed:,.0f} users) to be as sure."
            for row in self.rows
            if row.policy == one.policy
            and row.design != self._finest
            and math.isfinite(row.users_needed)
        ]
        return " ".join([finding(one), cost(one, self._finest), *others])

    def __str__(self) -> str:
        title = next(iter(self.results.values())).title.partition(" design on ")[2]
        return (
            f"{title}\n\n{tables.text_table(_header(self.results), self.cells())}\n\n{self._said()}"
        )

    __repr__ = __str__

    def _said(self) -> str:
        warned = dict.fromkeys(
            f"Caution ({label}): {caution}"
            for label, result in self.results.items()
            for caution in result.cautions
        )
        return "\n\n".join(map(tables.wrapped, [self.verdict, *warned]))

    def cells(self) -> list[list[str]]:
        """The rows, formatted."""
        return [
            [
                row.design,
                row.policy,
                amount(row.effect),
                f"{amount(row.low)} to {amount(row.high)}",
                amount(row.sd),
                f"{row.interactions:,.0f}",
                _count(row.users_needed),
                _short_finding(row),
            ]
            for row in self.rows
        ]

    def plot(self, path: str | Path | None = None) -> Any:
        """The effects on one axis, a band for each design, written to `path` if given."""
        several = len(last_effects(next(iter(self.results.values())))) > 1
        curves = [
            curve._replace(label=f"{label}: {curve.label}" if several else label)
            for label, result in self.results.items()
            for curve in effect_curves(result.effects)
        ]
        one = next(iter(self.results.values())).effects[0]
        what = f"minus {one.control}" if several else f"{one.policy} minus {one.control}"
        title = f"{what}, {one.replications:,} replications"
        figure = plots.draw_effects(curves, level=one.level, title=title)
        if path is not None:
            plots.save(figure, path)
        return figure

    def to_html(self, path: str | Path | None = None) -> str:
        """A self-contained page with the figure, the table, and each design's own finding."""
        runs = next(iter(self.results.values())).runs
        figure = plots.to_svg(self.plot())
        cards = [
            pages.Card("Side by side", self.verdict, _header(self.results), self.cells(), figure)
        ]
        cards += [result.card(f"{label} design") for label, result in self.results.items()]
        page = pages.render(" v ".join(runs.policies), cards, footer(runs))
        if path is not None:
            write_page(path, page)
        return page


def designs(
    experiment: Experiment,
    environment: Any,
    *,
    designs: Iterable[Any] = (Naive(), TimeCoupled(), Replay()),
    level: float = 0.95,
    checkpoints: list[int] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> DesignComparison:
    """Run the same comparison under several designs, to see on your own case what sharing luck is worth.

    Args:
        experiment: What to compare; its own design is not used.
        environment: Where rewards come from, or its text form.
        designs: Which designs, or their text forms.
        level: Confidence of the intervals.
        checkpoints: Horizons to report.
        workers: Threads; all cores if not given.
        progress: As for `simulate`, once for each design.
    """
    chosen = {text_forms.write(one, brief=True): one for one in map(as_design, designs)}
    if len(chosen) <= 0:
        raise Invalid("designs needs at least one design")
    results = {
        label: compare(
            simulate(
                experiment.replace(design=design),
                environment,
                checkpoints=checkpoints,
                workers=workers,
                progress=progress,
            ),
            level=level,
        )
        for label, design in chosen.items()
    }
    return DesignComparison(results)


def last_effects(result: Comparison) -> list[Effect]:
    """The effects at the last checkpoint, one for each pair."""
    return [one for one in result.effects if one.checkpoint == result.runs.checkpoints[-1]]


def _needed(one: Effect, finest: Effect) -> float:
    if finest.sd == 0:
        return float(finest.replications) if one.sd == 0 else math.inf
    return float(math.ceil(finest.replications * (one.sd / finest.sd) ** 2))


def _header(results: Mapping[str, Comparison]) -> list[str]:
    level = percent(next(iter(results.values())).request.level)
    named = ["design", "policy", "effect", f"{level} interval", "sd", "users each"]
    return [*named, "users to be as sure", "finding"]


def _count(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "-"


def _short_finding(row: DesignRow) -> str:
    if row.low <= 0 <= row.high:
        return "undecided"
    return f"{row.policy if row.effect > 0 else row.control} wins"
