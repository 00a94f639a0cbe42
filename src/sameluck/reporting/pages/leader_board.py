"""`leader_board`: many policies against one policy, as a table with the intervals drawn.

Policies far from the others would squeeze their intervals. So close policies have a scale of their own, and a policy
far off the scale of its part has its number and an arrow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sameluck.inference.effects import Effect
from sameluck.inference.metrics import REWARD, Metric
from sameluck.inference.policy_summaries import PolicyMetric, PolicySummary, Standing
from sameluck.reporting.pages.charts import Scale, Tick
from sameluck.wording import amount, counted, digits_of, percent, signed

CLOSE = 3.0  # times the median difference of the policies whose interval has 0
OFF_SCALE = 3.0  # times the median difference of a part


class BoardEntry(NamedTuple):
    """One policy, and its difference to the policy that all are compared with."""

    policy: str
    effect: float
    low: float
    high: float
    reward: float | None = None  # in one replication
    best_arm: float | None = None  # share of periods with the best arm
    may_be_best: bool = False
    link: str = ""
    value: float | None = None  # of the metric, if that is not the reward


class BoardRow(NamedTuple):
    """A policy as it is shown; positions are in per cent."""

    policy: str
    link: str
    rank: int
    may_be_best: bool
    is_reference: bool
    difference: str
    interval: str
    cells: Sequence[str]  # of the further columns
    x: float
    low_x: float
    high_x: float
    is_off_left: bool
    is_off_right: bool


class BoardPart(NamedTuple):
    title: str  # empty if there is one part
    ticks: Sequence[Tick]
    zero: float
    rows: Sequence[BoardRow]


class LeaderBoard(NamedTuple):
    caption: str
    interval: str  # title of the column
    columns: Sequence[str]  # titles of the further columns
    parts: Sequence[BoardPart]


def leader_board(
    entries: Sequence[BoardEntry],
    reference: str,
    level: float,
    scope: str = "",
    *,
    lowest_first: bool = False,
    value_title: str = "value",
) -> LeaderBoard:
    """Return the leader board of policies, `reference` among them, with which all are compared.

    `scope` says more about the intervals, after their level; `value_title` is the column of `BoardEntry.value`.
    """
    ranked = sorted(entries, key=lambda entry: entry.effect if lowest_first else -entry.effect)
    columns = _columns(ranked, value_title)
    board = _Board(reference, columns, {entry.policy: n for n, entry in enumerate(ranked, 1)})
    groups = _groups(ranked, reference, lowest_first=lowest_first)
    return LeaderBoard(
        f"{counted(len(entries), 'policy', 'policies')}, each minus {reference}",
        f"{percent(level)} interval{scope}",
        list(columns),
        [board.part(title, group) for title, group in groups],
    )


def comparison_board(
    effects: Sequence[Effect],
    policies: Sequence[PolicySummary],
    standings: Sequence[Standing] = (),
    scope: str = "",
    metric: Metric = REWARD,
    values: Sequence[PolicyMetric] = (),
) -> LeaderBoard:
    """Return the leader board of effects at one checkpoint, against the control of the first effect.

    `policies` are the summaries there; `values` are the values of a metric other than the reward.
    """
    checkpoint, reference = effects[0].checkpoint, effects[0].control
    measured = {row.policy: row.value for row in values if row.checkpoint == checkpoint}
    differences = {effect.policy: effect for effect in effects if effect.control == reference}
    candidates = {standing.policy for standing in standings if standing.may_be_best}
    entries = []
    for summary in policies:
        name, effect = summary.policy, differences.get(summary.policy)
        bounds = (0.0, 0.0, 0.0) if effect is None else (effect.effect, effect.low, effect.high)
        shown = (summary.reward, summary.best_arm_share, name in candidates)
        entries.append(BoardEntry(name, *bounds, *shown, value=measured.get(name)))
    lowest_first, level = metric.lower_is_better, effects[0].level
    return leader_board(
        entries, reference, level, scope, lowest_first=lowest_first, value_title=metric.title
    )


def _columns(entries: Sequence[BoardEntry], value_title: str) -> dict[str, dict[str, str]]:
    """Return the further columns that have a value, by title and by policy."""
    columns: dict[str, dict[str, str]] = {value_title: {}, "reward": {}, "best arm": {}}
    for entry in entries:
        if entry.value is not None:
            columns[value_title][entry.policy] = amount(entry.value)
        if entry.reward is not None:
            digits = 1 if abs(entry.reward) < 100 else 0
            columns["reward"][entry.policy] = signed(entry.reward, digits)
        if entry.best_arm is not None:
            columns["best arm"][entry.policy] = f"{entry.best_arm:.0%}"
    return {title: cells for title, cells in columns.items() if cells}


def _groups(
    ranked: Sequence[BoardEntry], reference: str, *, lowest_first: bool
) -> list[tuple[str, list[BoardEntry]]]:
    """Return the entries by part: clearly ahead, close, clearly behind."""
    compared = _by_size([entry for entry in ranked if entry.policy != reference])
    sizes = [abs(entry.effect) for entry in compared]
    sizes_with_zero = [abs(entry.effect) for entry in compared if _has_zero(entry)]
    # Differences that noise explains set the scale of what is close.
    limit = CLOSE * _median(sizes_with_zero or sizes[:1])
    if not limit or sizes[-1] <= 2 * limit:
        return [("", list(ranked))]
    apart = [entry for entry in ranked if entry.policy != reference and not _has_zero(entry)]
    sign = -1.0 if lowest_first else 1.0
    ahead = [entry for entry in apart if sign * entry.effect > limit]
    behind = [entry for entry in apart if sign * entry.effect < -limit]
    close = [entry for entry in ranked if entry not in ahead and entry not in behind]
    titles = ("Clearly ahead", f"Close to {reference}", "Clearly behind")
    groups = zip(titles, (ahead, close, behind), strict=True)
    return [(title, group) for title, group in groups if group]


def _by_size(entries: Sequence[BoardEntry]) -> list[BoardEntry]:
    return sorted(entries, key=lambda entry: abs(entry.effect))


def _median(values: Sequence[float]) -> float:
    return values[len(values) // 2] if values else 0.0


def _has_zero(entry: BoardEntry) -> bool:
    return entry.low <= 0 <= entry.high


class _Board(NamedTuple):
    """Data that the rows of all parts share."""

    reference: str
    columns: Mapping[str, Mapping[str, str]]
    ranks: Mapping[str, int]

    def part(self, title: str, group: Sequence[BoardEntry]) -> BoardPart:
        scale = _scale(title, group)
        rows = [self._row(entry, scale) for entry in group]
        return BoardPart(title, scale.labelled_ticks(3), scale.percent(0.0), rows)

    def _row(self, entry: BoardEntry, scale: Scale) -> BoardRow:
        is_reference = entry.policy == self.reference
        digits = digits_of(entry.low, entry.high)
        difference = signed(entry.effect, digits)
        interval = f"{signed(entry.low, digits)} to {signed(entry.high, digits)}"
        if math.isinf(entry.high - entry.low):
            interval = "no interval"
        if is_reference:
            difference, interval = "leader" if self.ranks[entry.policy] == 1 else "control", ""
        return BoardRow(
            entry.policy,
            entry.link,
            self.ranks[entry.policy],
            entry.may_be_best,
            is_reference,
            difference,
            interval,
            [cells.get(entry.policy, "-") for cells in self.columns.values()],
            scale.percent(entry.effect),
            scale.percent(entry.low),
            scale.percent(entry.high),
            entry.effect < scale.low,
            entry.effect > scale.high,
        )


def _scale(title: str, group: Sequence[BoardEntry]) -> Scale:
    """Return the scale of a part: all close policies are on their scale, outliers of other parts are not."""
    median = _median([abs(entry.effect) for entry in _by_size(group)])
    limit = math.inf if title.startswith("Close") or len(group) < 4 else OFF_SCALE * median
    on_scale = [entry for entry in group if abs(entry.effect) <= limit]
    ends = [0.0, *(end for entry in on_scale for end in entry[1:4] if math.isfinite(end))]
    margin = 0.04 * (max(ends) - min(ends) or 1.0)
    return Scale(min(ends) - margin, max(ends) + margin)
