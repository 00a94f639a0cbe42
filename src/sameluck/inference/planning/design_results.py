"""What `designs` returns: the precision and the users of each design, as a table, a sentence, a figure and a page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import scipy

from sameluck.frames import Frames
from sameluck.inference.comparison import Comparison
from sameluck.inference.display import reporting, written
from sameluck.inference.effects import Effect
from sameluck.reporting import plots, tables
from sameluck.reporting.pages import page as pages
from sameluck.reporting.plots import effect_curves
from sameluck.wording import amount, percent


class DesignRow(NamedTuple):
    """One pair of policies under one design, and what it needs for the precision of the reference design."""

    design: str
    policy: str
    control: str
    effect: float
    low: float
    high: float
    sd: float
    variance_ratio: float  # variance of the naive design over its own, both measured
    interactions: float  # mean real users per replication
    replications_needed: float  # for the precision that replay (else the first design) has here
    users_needed: float  # in total, for the same precision
    users_low: float  # interval of these, from that of the variance ratio
    users_high: float


@dataclass(frozen=True, eq=False, repr=False)
class DesignComparison(Frames):
    """What `designs` returns: one `Comparison` for each design, on the same policies and environment."""

    results: dict[str, Comparison]

    _index = ("design", "policy", "control")

    @property
    def rows(self) -> tuple[DesignRow, ...]:
        """One record for each design and pair of policies, at the last checkpoint."""
        reference = self.results[self._reference].last_effects
        rows = []
        for label, result in self.results.items():
            naive = self.results.get("naive", result).last_effects
            for one, best, independent in zip(result.last_effects, reference, naive, strict=True):
                estimate = (one.policy, one.control, one.effect, one.low, one.high, one.sd)
                ratio = (independent.sd / one.sd) ** 2 if one.sd else math.inf
                needed = _replications_needed(one, best, naive=label == "naive")
                users = (count * one.interactions for count in needed)
                rows.append(DesignRow(label, *estimate, ratio, one.interactions, needed[0], *users))
        return tuple(rows)

    @property
    def _reference(self) -> str:
        return "replay" if "replay" in self.results else self._first

    @property
    def _first(self) -> str:
        return next(iter(self.results))

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain records."""
        return [row._asdict() for row in self.rows]

    @property
    def verdict(self) -> str:
        """The effects under the reference design, and what the others need for the precision of the first."""
        reference = self.results[self._reference]
        effect = reference.last_effects[0]
        others = [
            f"The {row.design} design would need about {row.replications_needed:,.0f} replications "
            f"({row.users_needed:,.0f} users, between {_count(row.users_low)} and {_count(row.users_high)}) for the "
            "same precision."
            for row in self.rows
            if row.policy == effect.policy
            and row.design != self._reference
            and math.isfinite(row.users_needed)
        ]
        found = [
            *reporting("sentences").findings(reference.last_effects),
            *reporting("sentences").about_unseen(reference),
        ]
        return " ".join([*found, reporting("sentences").cost(effect, self._reference), *others])

    def __str__(self) -> str:
        table = tables.text_table(self._header, self.cells(), index=2)
        title = tables.wrapped(self._title)
        return "\n\n".join([title, table, *map(tables.wrapped, self._sentences)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return tables.notebook(self._title, self._header, self.cells(), self._sentences)

    @property
    def _title(self) -> str:
        return reporting("sentences").setting(self.results[self._first].runs)

    @property
    def _sentences(self) -> list[str]:
        cautions = dict.fromkeys(
            f"Caution ({label}): {caution}"
            for label, result in self.results.items()
            for caution in result.cautions
        )
        return [self.verdict, *cautions]

    @property
    def _header(self) -> list[str]:
        first = self.results[self._first]
        scope = " (simultaneous)" if len(first.last_effects) > 1 else ""
        interval = f"{percent(first.request.level)} interval{scope}"
        columns = ["design", "policy", "effect", interval, "sd", "users each"]
        return [*columns, "users for equal precision", "finding"]

    def cells(self) -> list[list[str]]:
        """The rows as text."""
        return [
            [
                row.design,
                row.policy,
                amount(row.effect),
                f"{amount(row.low)} to {amount(row.high)}",
                amount(row.sd),
                f"{row.interactions:,.0f}",
                _users(row),
                _short_finding(row),
            ]
            for row in self.rows
        ]

    def plot(self, path: str | Path | None = None, *, ax: plots.Axes | None = None) -> plots.Figure:
        """The effects on one axis, a band for each design, written to `path` if given, or drawn on `ax`."""
        first = self.results[self._first]
        several = len(first.last_effects) > 1
        curves = [
            curve._replace(label=f"{label}: {curve.label}" if several else label)
            for label, result in self.results.items()
            for curve in effect_curves(result.effects)
        ]
        one = first.effects[0]
        pair = f"minus {one.control}" if several else f"{one.policy} minus {one.control}"
        title = f"{pair}, {one.replications:,} replications"
        figure = plots.draw_effects(
            curves, level=one.level, title=title, scope=reporting("sentences").scope(first), ax=ax
        )
        return plots.saved(figure, path)

    def to_html(self, path: str | Path | None = None) -> str:
        """A self-contained page: the answer of the reference design, all side by side, each design's own verdict."""
        card = pages.Card("Side by side", self.verdict, self._header, self.cells())
        content = reporting("pages.comparison_page").designs_page(
            self.results, self.results[self._reference], card
        )
        return written(content, path)


def _replications_needed(
    effect: Effect, reference: Effect, *, naive: bool
) -> tuple[float, float, float]:
    """How many replications have the reference's precision, and the interval of this number.

    For the naive design from the reference's own runs, as everywhere else; for others from the ratio of the two
    designs' variances, with the F interval.
    """
    count = reference.replications
    if reference.sd == 0 or effect is reference:
        same = float(count) if effect.sd == reference.sd else math.inf
        return same, same, same
    if naive and math.isfinite(reference.variance_ratio):
        ratios = (reference.variance_ratio, reference.ratio_low, reference.ratio_high)
    else:
        ratio = (effect.sd / reference.sd) ** 2
        factor = float(scipy.special.fdtri(count - 1, count - 1, 0.5 + effect.level / 2))
        ratios = (ratio, ratio / factor, ratio * factor)
    needed, low, high = (math.ceil(count * one) if math.isfinite(one) else one for one in ratios)
    return needed, low, high


def _users(row: DesignRow) -> str:
    if row.users_low == row.users_high or not math.isfinite(row.users_needed):
        return _count(row.users_needed)
    return f"{_count(row.users_needed)} ({_count(row.users_low)} to {_count(row.users_high)})"


def _count(value: float) -> str:
    if math.isinf(value):
        return "no bound"
    return f"{value:,.0f}" if math.isfinite(value) else "-"


def _short_finding(row: DesignRow) -> str:
    if row.low <= 0 <= row.high:
        return "undecided"
    return f"{row.policy if row.effect > 0 else row.control} wins"
