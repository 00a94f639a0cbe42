"""`leader_board`: many policies against one of them, as a table with the intervals drawn.

Policies that are far from the others would squeeze them: those that are close have a scale of their own, and a
policy that is far off the scale of its part has its number and an arrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from sameluck.reporting.pages.charts import Scale, tick_text
from sameluck.wording import amount, counted, digits_of, percent, signed

CLOSE = 3.0  # times the middle difference of those whose interval has 0
OFF_SCALE = 3.0  # times the middle difference of a part


class Place(NamedTuple):
    """One policy in a leader board; its difference is to the policy that all are compared with."""

    policy: str
    effect: float
    low: float
    high: float
    reward: float | None = None  # in one replication
    best_arm: float | None = None  # share of periods with the best arm
    may_be_best: bool = False
    link: str = ""
    value: float | None = None  # of what is compared, if it is not the reward


def leader_board(
    places: Sequence[Place],
    reference: str,
    level: float,
    kind: str = "",
    *,
    lowest_first: bool = False,
    value_title: str = "value",
) -> str:
    """The table; `reference` has a place too, and `kind` says more about the interval."""
    ranked = sorted(places, key=lambda place: place.effect if lowest_first else -place.effect)
    columns = _columns(ranked, value_title)
    ranks = {place.policy: rank for rank, place in enumerate(ranked, 1)}
    parts = "".join(
        _part(title, group, reference, ranks, columns)
        for title, group in _groups(ranked, reference, lowest_first=lowest_first)
    )
    head = (
        '<th scope="col" class="rank">#</th><th scope="col" class="l">policy</th>'
        '<th scope="col" class="drawn"><span class="vh">difference, drawn</span></th>'
        f'<th scope="col">difference</th><th scope="col">{percent(level)} interval{escape(kind)}</th>'
        + "".join(f'<th scope="col" class="more">{title}</th>' for title in columns)
    )
    caption = f"{counted(len(places), 'policy', 'policies')}, each minus {escape(reference)}"
    return (
        f'<table class="board"><caption class="vh">{caption}</caption>'
        f"<thead><tr>{head}</tr></thead>{parts}</table>"
    )


def _columns(places: Sequence[Place], value_title: str) -> dict[str, dict[str, str]]:
    """Further columns, those that are known, by title and by policy."""
    found: dict[str, dict[str, str]] = {value_title: {}, "reward": {}, "best arm": {}}
    for place in places:
        if place.value is not None:
            found[value_title][place.policy] = amount(place.value)
        if place.reward is not None:
            digits = 1 if abs(place.reward) < 100 else 0
            found["reward"][place.policy] = signed(place.reward, digits)
        if place.best_arm is not None:
            found["best arm"][place.policy] = f"{place.best_arm:.0%}"
    return {title: cells for title, cells in found.items() if cells}


def _groups(
    ranked: Sequence[Place], reference: str, *, lowest_first: bool
) -> list[tuple[str, list[Place]]]:
    """The places by part: clearly ahead, close, clearly behind."""
    others = [place for place in ranked if place.policy != reference]
    sizes = [abs(place.effect) for place in _by_size(others)]
    level_with = [abs(place.effect) for place in _by_size(others) if _has_zero(place)]
    limit = CLOSE * _median(level_with or sizes[:1])
    if not limit or sizes[-1] <= 2 * limit:
        return [("", list(ranked))]
    apart = [place for place in others if not _has_zero(place)]
    sign = -1.0 if lowest_first else 1.0
    ahead = [place for place in apart if sign * place.effect > limit]
    behind = [place for place in apart if sign * place.effect < -limit]
    close = [place for place in ranked if place not in ahead and place not in behind]
    groups = [
        ("Clearly ahead", ahead),
        (f"Close to {reference}", close),
        ("Clearly behind", behind),
    ]
    return [(title, group) for title, group in groups if group]


def _by_size(places: Sequence[Place]) -> list[Place]:
    return sorted(places, key=lambda place: abs(place.effect))


def _median(values: Sequence[float]) -> float:
    return values[len(values) // 2] if values else 0.0


def _has_zero(place: Place) -> bool:
    return place.low <= 0 <= place.high


def _part(
    title: str,
    group: Sequence[Place],
    reference: str,
    ranks: dict[str, int],
    columns: dict[str, dict[str, str]],
) -> str:
    middle = _median([abs(place.effect) for place in _by_size(group)])
    most = math.inf if title.startswith("Close") or len(group) < 4 else OFF_SCALE * middle
    on_scale = [place for place in group if abs(place.effect) <= most]
    ends = [0.0, *(end for place in on_scale for end in (place.low, place.high))]
    room = 0.04 * (max(ends) - min(ends) or 1.0)
    scale = Scale(min(ends) - room, max(ends) + room)
    ticks = scale.ticks(3)
    axis = "".join(
        f'<text class="tick" x="{_at(scale, tick):.2f}%" y="12" text-anchor="middle">{tick_text(tick)}</text>'
        for tick in ticks
    )
    heading = (
        f"{escape(title)}, {len(group):,}" if title else '<span class="vh">All policies</span>'
    )
    rows = "".join(
        _row(
            place,
            "leader" * (ranks[reference] == 1) or "control",
            _drawn(place, scale, ticks, is_reference=place.policy == reference),
            [
                str(ranks[place.policy]),
                *(cells.get(place.policy, "-") for cells in columns.values()),
            ],
            is_reference=place.policy == reference,
        )
        for place in group
    )
    return (
        f'<tbody><tr class="part"><th colspan="2" scope="rowgroup" class="l">{heading}</th>'
        f'<td class="drawn"><svg class="ticks" aria-hidden="true">{axis}</svg></td>'
        f'<td colspan="{2 + len(columns)}" class="more"></td></tr>{rows}</tbody>'
    )


def _row(place: Place, role: str, drawn: str, cells: Sequence[str], *, is_reference: bool) -> str:
    """One policy; the cells are its rank and what the further columns have."""
    digits = digits_of(place.low, place.high)
    name = escape(place.policy)
    if place.link:
        name = f'<a href="{escape(place.link)}">{name}</a>'
    chip = ' <span class="chip win">may be best</span>' if place.may_be_best else ""
    difference = role if is_reference else signed(place.effect, digits)
    interval = (
        "" if is_reference else f"{signed(place.low, digits)} to {signed(place.high, digits)}"
    )
    may = ' class="may"' if place.may_be_best else ""
    rank, *more = cells
    return (
        f'<tr{may}><td class="rank">{rank}</td>'
        f'<th scope="row" class="l name">{name}{chip}</th><td class="drawn">{drawn}</td>'
        f'<td class="difference">{difference}</td><td class="interval-cell">{interval}</td>'
        + "".join(f'<td class="more">{cell}</td>' for cell in more)
        + "</tr>"
    )


def _drawn(place: Place, scale: Scale, ticks: Sequence[float], *, is_reference: bool) -> str:
    lines = "".join(_line("grid", _at(scale, tick)) for tick in ticks)
    low, middle, high = (_at(scale, value) for value in (place.low, place.effect, place.high))
    if is_reference:
        mark = _centred(
            middle,
            '<svg y="50%" overflow="visible"><path class="lead" d="M0-7 7 0 0 7-7 0z"/></svg>',
        )
    elif not scale.low <= place.effect <= scale.high:
        mark = _arrow(left=place.effect < scale.low)
    else:
        bounds = f'x="{low:.2f}%" width="{high - low:.2f}%" y="30%" height="40%" rx="2"'
        mean = '<rect class="mean" x="-1.5" width="3" y="20%" height="60%" rx="1"/>'
        mark = f'<rect class="band" {bounds}/>{_centred(middle, mean)}'
    zero = _line("zero", _at(scale, 0.0))
    return f'<svg class="row-plot" aria-hidden="true">{lines}{zero}{mark}</svg>'


def _centred(at: float, mark: str) -> str:
    return f'<svg x="{at:.2f}%" overflow="visible">{mark}</svg>'


def _arrow(*, left: bool) -> str:
    if left:
        where, words = 'x="2" text-anchor="start"', "\N{BLACK LEFT-POINTING TRIANGLE} off the scale"
    else:
        where, words = (
            'x="98%" text-anchor="end"',
            "off the scale \N{BLACK RIGHT-POINTING TRIANGLE}",
        )
    return f'<text class="tick" {where} y="50%" dy=".34em">{words}</text>'


def _line(kind: str, at: float) -> str:
    return f'<line class="{kind}" x1="{at:.2f}%" x2="{at:.2f}%" y1="0" y2="100%"/>'


def _at(scale: Scale, value: float) -> float:
    return float(scale.at([value])[0]) / 10
