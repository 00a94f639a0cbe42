"""The paper's illustration with three arms and ten periods, from the sequences that it prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sameluck.arrays import Ints
from sameluck.paper import published
from sameluck.paper.parts import (
    Estimate,
    Part,
    Record,
    ReportFigure,
    Section,
    Settings,
    Table,
)
from sameluck.reporting import plots
from sameluck.runs import Runs
from sameluck.trajectories import Trajectory

POLICIES = ("first policy", "second policy")


def trajectories() -> dict[str, Trajectory]:
    """Both trajectories as `trace` would return them; which rewards were replayed follows from the arms."""
    traced: dict[str, Trajectory] = {}
    for name, arms, rewards in zip(POLICIES, published.ARMS, published.REWARDS, strict=True):
        traced[name] = _trajectory(np.array(arms) - 1, rewards, list(traced.values()))
    return traced


def _trajectory(arms: Ints, rewards: Sequence[float], earlier: Sequence[Trajectory]) -> Trajectory:
    positions = np.array([int((arms[:t] == arms[t]).sum()) for t in range(arms.size)])
    replayed = np.zeros(arms.size, bool)
    for one in earlier:
        replayed |= positions < np.bincount(one.arms, minlength=arms.max() + 1)[arms]
    return Trajectory(arms, positions, np.array(rewards, float), replayed)


def _analyse(settings: Settings, runs: Mapping[str, Runs]) -> Record:  # noqa: ARG001
    visits = plots.visits(trajectories())
    real = sum(one.source is None for one in visits)
    differing = sum(one.reward != published.STACKS[one.arm][one.position] for one in visits)
    counts = (
        ("real interactions", float(real), float(published.INTERACTIONS)),
        ("replayed rewards", float(len(visits) - real), float(published.REPLAYED)),
        ("rewards that are not the stack's", float(differing), 0.0),
    )
    matches = [
        published.match(name, 10, Estimate(ours, 0.0), Estimate(printed, 0.0))
        for name, ours, printed in counts
    ]
    return {"published": [one._asdict() for one in matches]}


def _sections(part: Part, result: Record) -> list[Section]:  # noqa: ARG001
    traced, arms = trajectories(), ("1", "2", "3")
    visits = plots.visits(traced)
    real = sum(v.source is None for v in visits)
    title = f"Three arms, ten periods, two policies: {real} real users instead of {len(visits)}"
    return [
        Section(
            "The illustration",
            f"The paper's two trajectories, drawn from its printed sequences. Of {len(visits)} rewards, {real} come "
            f"from real users (published: {published.INTERACTIONS}) and {len(visits) - real} are replayed.",
            figure=ReportFigure(
                "illustration-trajectories",
                "Arms and rewards of two policies in ten periods, with arrows from the first policy's rewards to "
                "where the second one replays them",
                _trajectory_table(visits),
                lambda: plots.draw_trajectories(traced, arms=arms, title=title),
            ),
        ),
        Section(
            "The illustration as shared reward stacks",
            "The same replication: each arm has one stack, and both policies read it in order. A reward that both "
            "read costs one user, not two.",
            figure=ReportFigure(
                "illustration-stacks",
                "Three rows of ten rewards, shaded by how many policies used each and marked with the period",
                _stack_table(visits),
                lambda: plots.draw_stacks(
                    traced, arms=arms, unused=published.STACKS, title="Shared reward stacks"
                ),
            ),
        ),
    ]


def _trajectory_table(visits: Sequence[plots.Visit]) -> Table:
    header = ("policy", "period", "arm", "position", "reward", "replayed")
    rows = [
        (v.policy, v.period, v.arm + 1, v.position + 1, v.reward, v.source is not None)
        for v in visits
    ]
    return Table("illustration-trajectories", header, rows)


def _stack_table(visits: Sequence[plots.Visit]) -> Table:
    periods = {(v.arm, v.position, v.policy): v.period for v in visits}
    rows = [
        (arm + 1, position + 1, reward, *(periods.get((arm, position, name)) for name in POLICIES))
        for arm, stack in enumerate(published.STACKS)
        for position, reward in enumerate(stack)
    ]
    header = ("arm", "position", "reward", *(f"period of {name}" for name in POLICIES))
    return Table("illustration-stacks", header, rows)


_TITLE = "The illustration: three arms, ten periods"
PARTS = (Part("illustration", _TITLE, lambda _: {}, _analyse, _sections),)
