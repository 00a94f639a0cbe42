"""The charts of a live experiment: the effect over the horizon, replication by replication, users, a sparkline."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import numpy as np

from sameluck.reporting.pages.charts import (
    Chart,
    Label,
    Mark,
    Scale,
    band,
    dots,
    line,
    scale_around,
    x_axis,
    y_axis,
)
from sameluck.reporting.pages.effect_charts import clamp, effect_chart, naive_factor
from sameluck.reporting.pages.leader_board import BoardEntry, LeaderBoard, leader_board
from sameluck.runs import Runs
from sameluck.service.dashboard.findings import LEVEL, Finding
from sameluck.service.dashboard.verdicts import Verdict
from sameluck.wording import digits_for, signed

TABLE_ROWS = 200
MANY = 4  # challengers, from which on a board has them


def horizon_chart(verdict: Verdict) -> tuple[Chart, tuple[float, float] | None] | None:
    """The effect over the horizon, and by how much wider the naive interval would be, for how many more users."""
    finding = verdict.finding
    if finding.effect is None:
        return None
    return effect_chart(finding.curve, verdict.sentence), naive_factor(finding.effect)


def challengers_board(verdicts: Sequence[Verdict], path: str) -> LeaderBoard | None:
    """Many challengers against the control, each name with a link to its charts; empty if there are few."""
    known = [one.finding for one in verdicts if one.finding.effect]
    if len(verdicts) < MANY or not known:
        return None
    control = known[0].control
    entries = [BoardEntry(control, 0.0, 0.0, 0.0)]
    for finding in known:
        effect, link = finding.curve[-1], f"{path}?{urlencode({'policy': finding.policy})}"
        bounds = (effect.effect, effect.low, effect.high)
        entries.append(BoardEntry(finding.policy, *bounds, link=link))
    return leader_board(entries, control, LEVEL)


def replications_chart(finding: Finding) -> Chart | None:
    """One dot for each replication; line and band are what could be seen on the way."""
    count, differences = finding.replications, finding.differences
    if not count:
        return None
    numbers, means = np.arange(1.0, count + 1), finding.running_means
    bounds = [finding.effect.low, finding.effect.high] if finding.effect is not None else []
    # With some room, so that no dot is cut at an edge, which may be 0.
    highest = float(np.abs(differences).max())
    x, y = (
        Scale(0.5, max(count, 8) + 0.5),
        scale_around(
            [
                *(1.1 * value for value in (*differences.tolist(), *bounds)),
                -0.05 * highest,
                0.05 * highest,
            ]
        ),
    )
    known = np.isfinite(finding.half_widths)
    at, halves = x.at(numbers), finding.half_widths
    marks = [
        y_axis(y)[1],
        Mark("zero", f"M0 {y.up([0.0])[0]:.0f}H1000"),
        Mark("band", band(at[known], y.up((means - halves)[known]), y.up((means + halves)[known]))),
    ]
    labels = []
    if (since := finding.decided_at) is not None:
        place = float(x.at([since])[0])
        marks.append(Mark("mark", f"M{place:.0f} 0V1000"))
        late = place > 600
        labels.append(
            Label(
                place / 10 + (-2 if late else 2),
                4,
                f"left zero at {since}",
                "strong",
                "end" if late else "start",
            )
        )
    ahead = differences >= 0
    marks += [
        Mark("line", line(at[known], y.up(means[known]))),
        Mark("dots", dots(at[ahead], y.up(differences[ahead]))),
        Mark("dots behind", dots(at[~ahead], y.up(differences[~ahead]))),
    ]
    digits = digits_for(float(np.abs(differences).max()) / 10)
    return Chart(
        label=f"In each replication {finding.policy} minus {finding.control}: ahead in {finding.wins:,} of {count:,}",
        marks=marks,
        y_ticks=y_axis(y)[0],
        x_ticks=_counts_axis(x, count),
        labels=labels,
        y_title="difference in one replication",
        x_title="replications complete, in order",
        columns=("replication", "difference", "mean so far", "half-width"),
        rows=[
            (
                f"{n:,}",
                signed(d, digits),
                signed(m, digits + 1),
                signed(h, digits + 1) if np.isfinite(h) else "none yet",
            )
            for n, d, m, h in zip(range(count), differences, means, halves, strict=True)
        ][-TABLE_ROWS:],
    )


def _counts_axis(x: Scale, count: int) -> list[Label]:
    step = max(1, round((x.high - 0.5) / 5))
    return (
        [Label(float(x.at([n])[0]) / 10, 100, f"{n:,}") for n in range(step, int(x.high) + 1, step)]
        if count
        else []
    )


def users_chart(runs: Runs) -> Chart | None:
    """Real users against those of the naive design, as replications complete."""
    count = runs.replications
    if not count:
        return None
    asked = np.append(0.0, np.cumsum(runs.interactions[:, -1]))
    naive = np.arange(count + 1.0) * len(runs.policies) * int(runs.checkpoints[-1])
    x, y = Scale(0, count), scale_around([float(naive[-1])])
    y_ticks, grid = y_axis(y, 4)
    at, asked_at, naive_at = x.at(np.arange(count + 1.0)), y.up(asked), y.up(naive)
    return Chart(
        label=f"{asked[-1]:,.0f} users instead of {naive[-1]:,.0f} in {count:,} replications",
        marks=[
            grid,
            Mark("saved", band(at, asked_at, naive_at)),
            Mark("ghost-line", line(at, naive_at)),
            Mark("line", line(at, asked_at)),
        ],
        y_ticks=y_ticks,
        x_ticks=x_axis(x) if count > 1 else [Label(100, 100, "1", anchor="end")],
        labels=[
            Label(
                82, clamp(float(naive_at[-1]) / 10 + 8), f"naive {naive[-1]:,.0f}", "ghost", "end"
            ),
            Label(
                99,
                clamp(float(y.up([0.7 * asked[-1]])[0]) / 10 + 7),
                f"asked {asked[-1]:,.0f}",
                "strong",
                "end",
            ),
        ],
        y_title="users so far",
        x_title="replications complete",
        columns=("replications", "asked", "naive"),
        rows=[
            (f"{n:,}", f"{a:,.0f}", f"{b:,.0f}")
            for n, (a, b) in enumerate(zip(asked, naive, strict=True))
        ][-TABLE_ROWS:],
        size="low",
    )


def sparkline(finding: Finding) -> Chart | None:
    """The running mean with its anytime band, for a list."""
    known = np.isfinite(finding.half_widths)
    if finding.effect is None or not known.any():
        return None
    numbers = np.arange(1.0, finding.replications + 1)[known]
    means, halves = finding.running_means[known], finding.half_widths[known]
    most = 1.4 * max(abs(finding.effect.low), abs(finding.effect.high))
    x, y = Scale(1, max(finding.replications, 2)), Scale(-most, most)
    at = x.at(numbers)
    return Chart(
        label="effect so far: the band "
        + ("leaves out zero" if finding.is_decided else "contains zero"),
        marks=[
            Mark("band", band(at, y.up(means - halves), y.up(means + halves))),
            Mark("zero", "M0 500H1000"),
            Mark("line", line(at, y.up(means))),
        ],
        y_ticks=[],
        x_ticks=[],
        labels=[],
        size="spark",
    )
