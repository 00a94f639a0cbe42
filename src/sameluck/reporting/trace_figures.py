"""Figures of a small traced replication: the periods of each policy, and the reward stacks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import NamedTuple

from sameluck.errors import Invalid, optional
from sameluck.reporting.drawing import Axes, Figure, colour, drawing
from sameluck.trajectories import Trajectory

REAL, REPLAYED = "#A6CEE8", "#FFD9A0"  # light, for print; replayed ones also have dashed frames
SHADES = ("white", "#ECECEC", "#C9C9C9")  # of an entry that no policy, one policy or several used
MASKED = {"fc": "white", "hatch": "/////"}

_ARROW = {"arrowstyle": "-|>", "color": "#D55E00", "lw": 1.1, "shrinkA": 0, "shrinkB": 0}


class Visit(NamedTuple):
    """Period of a policy in a small replication."""

    policy: str
    period: int  # from 1
    arm: int
    position: int
    reward: float
    source: tuple[str, int] | None  # policy and period that revealed a replayed reward


def visits(trajectories: Mapping[str, Trajectory]) -> list[Visit]:
    """Return every period of a traced replication, each replayed reward with its last earlier visit."""
    seen: dict[tuple[int, int], tuple[str, int]] = {}
    result = []
    for policy, trajectory in trajectories.items():
        rows = zip(*(column.tolist() for column in trajectory), strict=True)
        policy_visits = [
            Visit(policy, period, arm, position, reward, seen[arm, position] if replayed else None)
            for period, (arm, position, reward, replayed) in enumerate(rows, 1)
        ]
        seen |= {(visit.arm, visit.position): (policy, visit.period) for visit in policy_visits}
        result += policy_visits
    return result


def draw_trajectories(
    trajectories: Mapping[str, Trajectory], *, arms: Sequence[str] = (), title: str = ""
) -> Figure:
    """Draw a small replication from `trace`: each policy's arms and rewards, and an arrow to each replay.

    `arms` are the arms' names; the default is their numbers, from 0.
    """
    patches = optional("matplotlib.patches", "plots")
    names, all_visits = list(trajectories), visits(trajectories)
    periods = max(visit.period for visit in all_visits)
    _check_room(periods)
    with drawing((1.7 + 0.55 * periods, 0.7 + 1.25 * len(names)), title) as (figure, axes):
        axes.axis("off")
        axes.set(xlim=(-0.3, periods + 0.6), ylim=(2.3 * len(names) - 1.2, -0.6))
        for visit in all_visits:
            row = 2.3 * names.index(visit.policy)
            _draw_visit(axes, patches, visit, row, arms[visit.arm] if arms else str(visit.arm))
            if visit.source is not None:
                start = visit.source[1], 2.3 * names.index(visit.source[0]) + 1.03
                axes.annotate("", (visit.period, row - 0.03), start, arrowprops=_ARROW, zorder=0)
        for index, name in enumerate(names):
            axes.text(0.3, 2.3 * index + 0.25, f"{name}  arm", ha="right", va="center")
            axes.text(0.3, 2.3 * index + 0.75, "reward", ha="right", va="center")
        for period in range(1, periods + 1):
            axes.text(period, -0.3, f"{period}", ha="center", va="center", color="0.35", fontsize=9)
        axes.text(0.3, -0.3, "period", ha="right", va="center", color="0.35", fontsize=9)
        _draw_legend(
            axes, patches, {"from a real user": {"fc": REAL}, "replayed": {"fc": REPLAYED}}
        )
    return figure


def _draw_visit(axes: Axes, patches: ModuleType, visit: Visit, row: float, arm: str) -> None:
    x, real = visit.period, visit.source is None
    style = {"fc": REAL, "ls": "-"} if real else {"fc": REPLAYED, "ls": "--"}
    axes.add_patch(patches.Rectangle((x - 0.4, row), 0.8, 1, ec="0.2", lw=0.8, **style))
    axes.plot([x - 0.4, x + 0.4], [row + 0.5, row + 0.5], color="0.2", lw=0.6)
    axes.text(x, row + 0.26, arm, ha="center", va="center", weight="bold")
    axes.text(x, row + 0.76, f"{visit.reward:.3g}", ha="center", va="center")


def draw_stacks(
    trajectories: Mapping[str, Trajectory],
    *,
    arms: Sequence[str] = (),
    unused: Sequence[Sequence[float]] = (),
    masked: tuple[int, int] | None = None,
    title: str = "",
) -> Figure:
    """Draw the reward stacks of a small replication: which policy used which entry, in which period.

    Args:
        trajectories: Result of `trace`, or some of its policies; empty if `unused` has the stacks.
        arms: The arms' names; the default is their numbers, from 0.
        unused: The whole stack of each arm, if rewards that no policy used are known too.
        masked: An arm, and the first position whose reward is hidden.
        title: Title of the figure.
    """
    patches = optional("matplotlib.patches", "plots")
    names, all_visits = list(trajectories), visits(trajectories)
    n_arms = max([len(arms), len(unused), *(1 + visit.arm for visit in all_visits)])
    depth = max([*(1 + visit.position for visit in all_visits), *map(len, unused)])
    _check_room(depth)
    with drawing((1.7 + 0.62 * depth, 1.0 + 0.72 * n_arms), title) as (figure, axes):
        axes.axis("off")
        axes.set(xlim=(-0.3, depth + 0.1), ylim=(n_arms - 0.05, -0.4))
        for arm, position in itertools.product(range(n_arms), range(depth)):
            entry = [
                visit for visit in all_visits if (visit.arm, visit.position) == (arm, position)
            ]
            reward = entry[0].reward if entry else unused[arm][position] if unused else None
            look = {"fc": SHADES[min(len(entry), 2)]}
            if masked is not None and arm == masked[0] and position >= masked[1]:
                reward, look = None, MASKED
            axes.add_patch(patches.Rectangle((position, arm), 0.94, 0.84, ec="0.2", lw=0.8, **look))
            if reward is not None:
                _draw_reward(axes, (position, arm), reward, beside=bool(names), used=bool(entry))
            for visit in entry:
                index = names.index(visit.policy)
                height = arm + 0.84 * (index + 0.6) / (max(len(names), 2) + 0.2)
                style = {"fontsize": 7.5, "va": "center", "weight": "bold", "color": colour(index)}
                axes.text(position + 0.07, height, f"{visit.period}", **style)
        for arm in range(n_arms):
            label = f"arm {arms[arm] if arms else arm}"
            axes.text(-0.15, arm + 0.42, label, ha="right", va="center")
        for index, name in enumerate(names):
            style = {"ha": "center", "color": colour(index), "fontsize": 9}
            axes.text(depth * (index + 0.5) / len(names), -0.22, f"period of {name}", **style)
        _draw_legend(axes, patches, _stack_legend(len(names), masked=masked is not None))
    return figure


def _draw_reward(
    axes: Axes, corner: tuple[int, int], reward: float, *, beside: bool, used: bool
) -> None:
    """Draw a reward in its entry, right of the centre if periods stand beside it."""
    x, y = corner[0] + (0.56 if beside else 0.47), corner[1] + 0.42
    shade = "0.1" if used or not beside else "0.55"
    axes.text(x, y, f"{reward:.3g}", ha="center", va="center", fontsize=11, color=shade)


def _stack_legend(policies: int, *, masked: bool) -> dict[str, dict[str, str]]:
    labels = {
        0: ("known",),
        1: ("not used", "used"),
        2: ("not used", "used by one policy", "used by both"),
    }.get(policies, ("not used", "used by one policy", "used by several"))
    shades = {label: {"fc": SHADES[index]} for index, label in reversed([*enumerate(labels)])}
    return {**shades, "masked": MASKED} if masked else shades


def _check_room(columns: int) -> None:
    if columns > 60:
        raise Invalid(
            f"a figure of single periods has room for 60 columns, got {columns:,}; trace a shorter horizon"
        )


def _draw_legend(axes: Axes, patches: ModuleType, styles: Mapping[str, dict[str, str]]) -> None:
    frames = [patches.Patch(ec="0.2", lw=0.8, **style) for style in styles.values()]
    axes.legend(
        frames, list(styles), ncols=4, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.0)
    )
