"""Charts of a live experiment: effect over the horizon, single replications, users, and the arms of each policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np

from sameluck.arrays import Floats
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
SHADES = 4  # of arms; further arms share the last
RIBBON_STEP = 3  # checkpoints in one step of a ribbon; shares of fewer periods are ragged
TABLE_ARMS = 20
MIN_BOARD = 4  # challengers that are shown as a leader board


def horizon_chart(verdict: Verdict) -> tuple[Chart, tuple[float, float] | None] | None:
    """Return the effect over the horizon, and the naive interval's width and users as multiples of this design's."""
    finding = verdict.finding
    if finding.effect is None:
        return None
    return effect_chart(finding.curve, verdict.sentence), naive_factor(finding.effect)


class Extent(NamedTuple):
    """A horizontal bar; its position and width are in per cent."""

    x: float
    width: float


class IntervalDrawing(NamedTuple):
    """Interval of an effect before the naive design's interval; positions are in per cent."""

    label: str
    replay: Extent
    naive: Extent | None
    zero: float
    mean: float
    labels: list[Label]


def interval_drawing(verdict: Verdict) -> IntervalDrawing | None:
    """Return the interval over the horizon on a scale that holds 0 and the naive interval; None without bounds."""
    effect = verdict.finding.effect
    if effect is None:
        return None
    factor = naive_factor(effect)
    half = (factor[0] if factor else 1.0) * (effect.high - effect.low) / 2
    naive_low, naive_high = effect.effect - half, effect.effect + half
    scale = Scale(min(0.0, effect.low, naive_low), max(0.0, effect.high, naive_high))
    zero, mean, low, high, naive_x, naive_end = (
        scale.percent(value)
        for value in (0.0, effect.effect, effect.low, effect.high, naive_low, naive_high)
    )
    low_text, high_text, mean_text = verdict.bounds
    labels = [Label(mean, 0, mean_text, "label strong")]
    # Labels that would overlap are left out.
    if mean - low > 11:
        labels += [Label(low, 0, low_text, "tick"), Label(high, 0, high_text, "tick")]
    if min(abs(low - zero), abs(mean - zero), abs(high - zero)) > 9:
        labels.append(Label(zero, 0, "0", "tick"))
    return IntervalDrawing(
        f"{mean_text}, 95% interval {low_text} to {high_text}; the wider interval is the naive design's",
        Extent(low, high - low),
        Extent(naive_x, naive_end - naive_x) if factor else None,
        zero,
        mean,
        labels,
    )


def challengers_board(verdicts: Sequence[Verdict], path: str) -> LeaderBoard | None:
    """Return the leader board of many challengers, with links to their charts; None if there are few."""
    findings = [verdict.finding for verdict in verdicts if verdict.finding.effect]
    if len(verdicts) < MIN_BOARD or not findings:
        return None
    control = findings[0].control
    entries = [BoardEntry(control, 0.0, 0.0, 0.0)]
    for finding in findings:
        effect, link = finding.curve[-1], f"{path}?{urlencode({'policy': finding.policy})}"
        bounds = (effect.effect, effect.low, effect.high)
        entries.append(BoardEntry(finding.policy, *bounds, link=link))
    return leader_board(entries, control, LEVEL)


def replications_chart(finding: Finding) -> Chart | None:
    """Return a chart with a dot for each replication, and the running mean with its anytime interval."""
    count, differences = finding.replications, finding.differences
    if not count:
        return None
    numbers, means = np.arange(1.0, count + 1), finding.running_means
    bounds = [finding.effect.low, finding.effect.high] if finding.effect is not None else []
    # A margin, so that no dot is cut at an edge, which may be 0.
    margin = 0.05 * float(np.abs(differences).max())
    x = Scale(0.5, max(count, 8) + 0.5)
    values = [1.1 * value for value in (*differences.tolist(), *bounds)]
    y = scale_around([*values, -margin, margin])
    y_ticks, grid = y_axis(y)
    step = max(1, round((x.high - 0.5) / 5))
    at, halves, bounded = x.at(numbers), finding.half_widths, np.isfinite(finding.half_widths)
    low, high = y.up((means - halves)[bounded]), y.up((means + halves)[bounded])
    zero = Mark("zero", f"M0 {y.up([0.0])[0]:.0f}H1000")
    marks = [grid, zero, Mark("band", band(at[bounded], low, high))]
    labels = []
    if finding.decided_at is not None:
        decided_x = x.percent(finding.decided_at)
        marks.append(Mark("mark", f"M{10 * decided_x:.0f} 0V1000"))
        # The label is on the side of the line with more room.
        label_x, anchor = (decided_x - 2, "end") if decided_x > 60 else (decided_x + 2, "start")
        text = f"excludes zero from {finding.decided_at}"
        labels.append(Label(label_x, 4, text, "strong", anchor))
    ahead = differences >= 0
    marks += [
        Mark("line", line(at[bounded], y.up(means[bounded]))),
        Mark("dots", dots(at[ahead], y.up(differences[ahead]))),
        Mark("dots behind", dots(at[~ahead], y.up(differences[~ahead]))),
    ]
    return Chart(
        label=f"In each replication {finding.policy} minus {finding.control}: ahead in {finding.wins:,} of {count:,}",
        marks=marks,
        y_ticks=y_ticks,
        x_ticks=[Label(x.percent(n), 100, f"{n:,}") for n in range(step, int(x.high) + 1, step)],
        labels=labels,
        y_title="difference in one replication",
        x_title="replications complete, in order",
        columns=("replication", "difference", "mean so far", "half-width"),
        rows=_replication_rows(finding)[-TABLE_ROWS:],
    )


def _replication_rows(finding: Finding) -> list[tuple[str, ...]]:
    digits = digits_for(float(np.abs(finding.differences).max()) / 10)
    columns = (finding.differences, finding.running_means, finding.half_widths)
    return [
        (
            f"{replication:,}",
            signed(difference, digits),
            signed(mean, digits + 1),
            signed(half, digits + 1) if np.isfinite(half) else "none yet",
        )
        for replication, (difference, mean, half) in enumerate(zip(*columns, strict=True))
    ]


def users_chart(runs: Runs) -> Chart | None:
    """Return the chart of real users and of the naive design's users, by complete replications."""
    count = runs.replications
    if not count:
        return None
    asked = np.append(0.0, np.cumsum(runs.interactions[:, -1]))
    naive = np.arange(count + 1.0) * len(runs.policies) * int(runs.checkpoints[-1])
    x, y = Scale(0, count), scale_around([float(naive[-1])])
    y_ticks, grid = y_axis(y, 4)
    at, asked_at, naive_at = x.at(np.arange(count + 1.0)), y.up(asked), y.up(naive)
    naive_y = clamp(float(naive_at[-1]) / 10 + 8)
    asked_y = clamp(float(y.up([0.7 * asked[-1]])[0]) / 10 + 7)
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
            Label(82, naive_y, f"naive {naive[-1]:,.0f}", "ghost", "end"),
            Label(99, asked_y, f"actual {asked[-1]:,.0f}", "strong", "end"),
        ],
        y_title="users so far",
        x_title="replications complete",
        columns=("replications", "actual", "naive"),
        rows=[
            (f"{n:,}", f"{a:,.0f}", f"{b:,.0f}")
            for n, (a, b) in enumerate(zip(asked, naive, strict=True))
        ][-TABLE_ROWS:],
        size="low",
    )


def sparkline(finding: Finding) -> Chart | None:
    """Return the running mean with its anytime interval, for a list."""
    bounded = np.isfinite(finding.half_widths)
    if finding.effect is None or not bounded.any():
        return None
    numbers = np.arange(1.0, finding.replications + 1)[bounded]
    means, halves = finding.running_means[bounded], finding.half_widths[bounded]
    limit = 1.4 * max(abs(finding.effect.low), abs(finding.effect.high))
    x, y = Scale(1, max(finding.replications, 2)), Scale(-limit, limit)
    at = x.at(numbers)
    contains = "leaves out" if finding.is_decided else "contains"
    return Chart(
        label=f"effect so far: the band {contains} zero",
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


class ArmRow(NamedTuple):
    """Mean reward of an arm, its users, and each policy's pulls per replication."""

    name: str
    paid: str
    users: int
    pulls: list[str]


class Ribbon(NamedTuple):
    """Arms that one policy plays over time."""

    policy: str
    colour: int | None
    summary: str
    chart: Chart


def arm_means(runs: Runs) -> tuple[Floats, Floats]:
    """Return the mean reward of each arm over real users, and the number of these users."""
    # Observed rewards are concatenated by replication and arm; the depths of the stacks tell them apart.
    depths, arms = runs.depths, runs.experiment.n_arms
    which = np.repeat(np.tile(np.arange(arms), depths.size // arms), depths.ravel())
    users = np.bincount(which, minlength=arms).astype(float)
    values = np.zeros(which.size) if runs.observed is None else runs.observed
    with np.errstate(invalid="ignore"):
        return np.bincount(which, values, minlength=arms) / users, users


def ribbons(
    runs: Runs, colours: Mapping[str, int | None]
) -> tuple[list[Ribbon], list[ArmRow], list[str]]:
    """Return the arms that each policy plays over time, a table of arms, and the names of the shades.

    The arm with the highest mean reward is at the bottom.
    """
    if not runs.replications:
        return [], [], []
    ends = [int(period) for period in runs.checkpoints[::-RIBBON_STEP][::-1]]
    # A short first step is joined to the second.
    runs = runs.at(ends[1:] if len(ends) > 2 and 2 * ends[0] < ends[1] else ends)
    means, users = arm_means(runs)
    order = np.argsort(-np.nan_to_num(means, nan=-np.inf), kind="stable")
    names = runs.experiment.arm_names
    pulls = runs.pulls.mean(axis=0)  # (policy, checkpoint, arm)
    horizon = int(runs.checkpoints[-1])
    lengths = np.diff(runs.checkpoints, prepend=0)
    shares = np.diff(pulls, axis=1, prepend=0)[:, :, order] / lengths[None, :, None]
    if len(names) > SHADES:
        head, tail = shares[:, :, : SHADES - 1], shares[:, :, SHADES - 1 :]
        shares = np.concatenate([head, tail.sum(axis=2, keepdims=True)], axis=2)
    shades = [names[arm] for arm in order[: shares.shape[2]]]
    if len(names) > SHADES:
        shades[-1] = f"{len(names) - SHADES + 1} others"
    drawn = [
        Ribbon(
            policy,
            colours[policy],
            f"{shades[0]} {pulls[k, -1, order[0]] / horizon:.0%} overall, {shares[k, -1, 0]:.0%} at the end",
            _ribbon(runs, policy, shares[k], shades),
        )
        for k, policy in enumerate(runs.policies)
    ]
    rows = [
        ArmRow(
            names[arm],
            "-" if np.isnan(means[arm]) else f"{means[arm]:.3g}",
            int(users[arm]),
            [f"{pulls[k, -1, arm]:,.0f}" for k in range(len(runs.policies))],
        )
        for arm in order[:TABLE_ARMS]
    ]
    return drawn, rows, shades


def _ribbon(runs: Runs, policy: str, shares: Floats, shades: list[str]) -> Chart:
    x, y = Scale(0, int(runs.checkpoints[-1])), Scale(0, 1)
    starts = np.concatenate([[0], runs.checkpoints[:-1]])
    at = np.concatenate([[0.0], x.at((starts + runs.checkpoints) / 2)[1:-1], [1_000.0]])
    if runs.checkpoints.size < 2:
        at, shares = np.array([0.0, 1_000.0]), np.repeat(shares, 2, axis=0)
    above = np.concatenate([np.zeros((shares.shape[0], 1)), np.cumsum(shares, axis=1)], axis=1)
    marks = [
        Mark(f"arm{shade + 1}", band(at, y.up(above[:, shade]), y.up(above[:, shade + 1])))
        for shade in range(shares.shape[1])
    ]
    return Chart(
        label=f"Arms that {policy} plays by period; {shades[0]} {shares[-1, 0]:.0%} at the end",
        marks=marks,
        y_ticks=[Label(0, 0, "100%"), Label(0, 50, "50%"), Label(0, 100, "0")],
        x_ticks=[
            Label(0, 100, "period 1", anchor="start"),
            Label(100, 100, f"{runs.checkpoints[-1]:,}", anchor="end"),
        ],
        labels=[Label(60, 80, shades[0], "on-arm")] if shares[:, 0].mean() > 0.4 else [],
        size="ribbon",
    )
