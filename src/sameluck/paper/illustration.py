"""Illustration of the paper with three arms and ten periods.

The trajectories and the shared stacks are drawn from the printed sequences; the stacks of a single policy and the
masked stack are drawn from a traced replication.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import sameluck as sl
from sameluck.arrays import Ints
from sameluck.paper import published
from sameluck.paper.algorithms import Users
from sameluck.paper.chapters import (
    Chapter,
    Estimate,
    Record,
    ReportFigure,
    ReportTable,
    Section,
    Settings,
)
from sameluck.reporting import plots
from sameluck.runs import Runs
from sameluck.trajectories import Trajectory

POLICIES = ("first policy", "second policy")
ARMS = ("1", "2", "3")

TRACED = sl.Experiment(
    policies={"ucb1": sl.UCB1(), "thompson": sl.ThompsonBernoulli()},
    arms=len(ARMS),
    horizon=10,
    replications=1,
    seed=162,  # of the two policies, one pulls arm 2 at most three times
)
ENVIRONMENT = sl.Bernoulli((0.3, 0.6, 0.5))
MASKED = (1, 3)  # arm 2 from its fourth entry on, as in the paper


def trajectories() -> dict[str, Trajectory]:
    """Return both trajectories as `trace` would; the arms determine the replayed rewards."""
    traced: dict[str, Trajectory] = {}
    for name, arms, rewards in zip(POLICIES, published.ARMS, published.REWARDS, strict=True):
        traced[name] = _trajectory(np.array(arms) - 1, rewards, list(traced.values()))
    return traced


def _trajectory(arms: Ints, rewards: Sequence[float], earlier: Sequence[Trajectory]) -> Trajectory:
    positions = np.array([int((arms[:t] == arms[t]).sum()) for t in range(arms.size)])
    replayed = np.zeros(arms.size, bool)
    for trajectory in earlier:
        replayed |= positions < np.bincount(trajectory.arms, minlength=arms.max() + 1)[arms]
    return Trajectory(arms, positions, np.array(rewards, float), replayed)


def _analyse(settings: Settings, runs: Mapping[str, Runs]) -> Record:
    visits = plots.visits(trajectories())
    real = sum(visit.source is None for visit in visits)
    differing = sum(v.reward != published.STACKS[v.arm][v.position] for v in visits)
    counts = (
        ("real interactions", float(real), float(published.INTERACTIONS)),
        ("replayed rewards", float(len(visits) - real), float(published.REPLAYED)),
        ("rewards that are not the stack's", float(differing), 0.0),
    )
    matches = [
        published.match(name, 10, Estimate(ours, 0.0), Estimate(printed, 0.0), "illustration")
        for name, ours, printed in counts
    ]
    return {"published": [match._asdict() for match in matches]}


def _sections(chapter: Chapter, result: Record) -> list[Section]:
    printed, arms = trajectories(), ARMS
    visits = plots.visits(printed)
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
                "the periods in which the second policy replays them",
                _trajectory_table(visits),
                lambda: plots.draw_trajectories(printed, arms=arms, title=title),
            ),
        ),
        Section(
            "The illustration as shared reward stacks",
            "The same replication: each arm has one stack, and both policies read it in order. A reward that both "
            "read costs one user, not two.",
            figure=ReportFigure(
                "illustration-stacks",
                "Three rows of ten rewards, shaded by the number of policies that used them and marked with the "
                "period",
                _stack_table("illustration-stacks", visits, published.STACKS, POLICIES),
                lambda: plots.draw_stacks(
                    printed, arms=arms, unused=published.STACKS, title="Shared reward stacks"
                ),
            ),
        ),
        *_traced_sections(),
    ]


def traced() -> sl.Trace:
    return sl.trace(TRACED, ENVIRONMENT)


def stacks() -> list[list[float]]:
    """Return the whole reward stack of each arm in the traced replication."""
    users = Users(TRACED, ENVIRONMENT, 0)
    return [
        [users.reward(arm, position) for position in range(TRACED.horizon)]
        for arm in range(TRACED.n_arms)
    ]


def masked_answer(trajectory: Trajectory) -> str:
    """Say whether a policy pulls the masked arm at most as often as its visible entries, and how they tell."""
    arm, visible = MASKED
    periods = np.flatnonzero(trajectory.arms == arm) + 1
    if len(periods) <= visible:
        return f"pulls it {len(periods)} times (yes)"
    return f"needs the first masked entry in period {periods[visible]} (no)"


def _traced_sections() -> list[Section]:
    both, whole = traced(), stacks()
    hidden: list[list[float | None]] = [[*stack] for stack in whole]
    hidden[MASKED[0]][MASKED[1] :] = [None] * (TRACED.horizon - MASKED[1])
    alone = {"ucb1": both["ucb1"]}
    answers = "; ".join(f"{name} {masked_answer(path)}" for name, path in both.items())
    title = f"Arm {ARMS[MASKED[0]]} masked after {MASKED[1]} entries"
    return [
        Section(
            "The reward stacks of a single policy",
            "A traced replication of UCB1 on three Bernoulli arms. The policy reads each arm's stack in order; later "
            "entries have no influence.",
            figure=ReportFigure(
                "illustration-single-stack",
                "Three rows of ten rewards; the rewards that the policy used are shaded and marked with the period",
                _stack_table("illustration-single-stack", plots.visits(alone), whole, [*alone]),
                lambda: plots.draw_stacks(
                    alone, arms=ARMS, unused=whole, title="Reward stacks of one policy"
                ),
            ),
        ),
        Section(
            "The stacks with one arm masked",
            f"The same stacks; only the first {MASKED[1]} entries of arm {ARMS[MASKED[0]]} are visible. With the "
            f"policy's own random numbers they determine whether it pulls the arm at most {MASKED[1]} times in "
            f"{TRACED.horizon} periods. So the number of pulls is a stopping time. Here {answers}.",
            figure=ReportFigure(
                "illustration-masked-stack",
                "Three rows of ten rewards; the second arm's rewards are hatched from the fourth on",
                _stack_table("illustration-masked-stack", (), hidden, ()),
                lambda: plots.draw_stacks({}, arms=ARMS, unused=whole, masked=MASKED, title=title),
            ),
        ),
    ]


def _trajectory_table(visits: Sequence[plots.Visit]) -> ReportTable:
    header = ("policy", "period", "arm", "position", "reward", "replayed")
    rows = [
        (v.policy, v.period, v.arm + 1, v.position + 1, v.reward, v.source is not None)
        for v in visits
    ]
    return ReportTable("illustration-trajectories", header, rows)


def _stack_table(
    name: str,
    visits: Sequence[plots.Visit],
    stacks: Sequence[Sequence[float | None]],
    policies: Sequence[str],
) -> ReportTable:
    periods = {(v.arm, v.position, v.policy): v.period for v in visits}
    rows = [
        (arm + 1, position + 1, reward, *(periods.get((arm, position, name)) for name in policies))
        for arm, stack in enumerate(stacks)
        for position, reward in enumerate(stack)
    ]
    header = ("arm", "position", "reward", *(f"period of {policy}" for policy in policies))
    return ReportTable(name, header, rows)


_TITLE = "The illustration: three arms, ten periods"
CHAPTERS = (Chapter("illustration", _TITLE, lambda _: {}, _analyse, _sections),)
