"""The arms: what each has paid, and which of them each policy plays over time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.reporting.pages.charts import Chart, Label, Mark, Scale, band
from sameluck.runs import Runs

SHOWN_ARMS = 4  # shades of the ramp; further arms share the last
RIBBON_STEP = 3  # checkpoints in one step of a ribbon: shares of few periods are ragged
TABLE_ARMS = 20


class ArmRow(NamedTuple):
    """What an arm has paid, and how often each policy has played it per replication."""

    name: str
    paid: str
    users: int
    pulls: list[str]


class Ribbon(NamedTuple):
    """The arms that one policy plays over time."""

    policy: str
    place: int | None
    summary: str
    chart: Chart


def arm_means(runs: Runs) -> tuple[Floats, Floats]:
    """What each arm has paid on average to real users, and how many of them there were."""
    depths, arms = runs.stack_depths, runs.experiment.n_arms
    which = np.repeat(np.tile(np.arange(arms), depths.size // arms), depths.ravel())
    users = np.bincount(which, minlength=arms).astype(float)
    values = np.zeros(which.size) if runs.observed is None else runs.observed
    with np.errstate(invalid="ignore"):
        return np.bincount(which, values, minlength=arms) / users, users


def ribbons(
    runs: Runs, places: dict[str, int | None]
) -> tuple[list[Ribbon], list[ArmRow], list[str]]:
    """The arms that each policy plays over time, those that paid most at the bottom; a table; the names of shades."""
    if not runs.replications:
        return [], [], []
    runs = runs.at(_steps(runs.checkpoints))
    means, users = arm_means(runs)
    order = np.argsort(-np.nan_to_num(means, nan=-np.inf), kind="stable")
    names = runs.experiment.arm_names
    pulls = runs.pulls.mean(axis=0)  # (policy, checkpoint, arm)
    horizon = int(runs.checkpoints[-1])
    lengths = np.diff(runs.checkpoints, prepend=0)
    shares = np.diff(pulls, axis=1, prepend=0)[:, :, order] / lengths[None, :, None]
    if len(names) > SHOWN_ARMS:
        head, rest = shares[:, :, : SHOWN_ARMS - 1], shares[:, :, SHOWN_ARMS - 1 :]
        shares = np.concatenate([head, rest.sum(axis=2, keepdims=True)], axis=2)
    shades = [names[arm] for arm in order[: shares.shape[2]]]
    if len(names) > SHOWN_ARMS:
        shades[-1] = f"{len(names) - SHOWN_ARMS + 1} others"
    drawn = [
        Ribbon(
            policy,
            places[policy],
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


def _steps(checkpoints: Ints) -> list[int]:
    """The ends of the steps of a ribbon; a short first one is part of the second."""
    ends = [int(period) for period in checkpoints[::-RIBBON_STEP][::-1]]
    return ends[1:] if len(ends) > 2 and 2 * ends[0] < ends[1] else ends


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
