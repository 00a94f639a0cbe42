"""The paper's illustration with three arms and ten periods, from the literal sequences it prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sameluck.paper import published
from sameluck.paper.examples import match
from sameluck.paper.parts import Estimate, Findings, Part, Plan, Settings
from sameluck.runs import Runs
from sameluck.trajectories import Trajectory

POLICIES = ("first policy", "second policy")


def trajectories() -> dict[str, Trajectory]:
    """Both trajectories as `trace` would return them; what was replayed follows from the arms."""
    built: dict[str, Trajectory] = {}
    for name, arms, rewards in zip(POLICIES, published.ARMS, published.REWARDS, strict=True):
        built[name] = _trajectory(arms, rewards, list(built.values()))
    return built


def _trajectory(
    arms: Sequence[int], rewards: Sequence[float], earlier: Sequence[Trajectory]
) -> Trajectory:
    chosen = np.array(arms) - 1
    positions = np.array([int((chosen[:t] == chosen[t]).sum()) for t in range(chosen.size)])
    replayed = np.zeros(chosen.size, bool)
    for one in earlier:
        replayed |= positions < np.bincount(one.arms, minlength=chosen.max() + 1)[chosen]
    return Trajectory(chosen, positions, np.array(rewards, float), replayed)


def _plan(settings: Settings) -> Plan:  # noqa: ARG001
    return {}


def _find(settings: Settings, runs: Mapping[str, Runs]) -> Findings:  # noqa: ARG001
    played = trajectories()
    real = sum(int((~one.replayed).sum()) for one in played.values())
    replayed = sum(int(one.replayed.sum()) for one in played.values())
    off = sum(
        float(reward) != published.STACKS[arm][position]
        for one in played.values()
        for arm, position, reward in zip(one.arms, one.positions, one.rewards, strict=True)
    )
    counts = (
        ("real interactions", real, published.INTERACTIONS),
        ("replayed rewards", replayed, published.REPLAYED),
        ("rewards that are not the stack's", off, 0),
    )
    return {
        "published": [
            match(name, 10, Estimate(float(ours), 0.0), Estimate(float(said), 0.0))._asdict()
            for name, ours, said in counts
        ]
    }


PARTS = (Part("illustration", "The illustration: three arms, ten periods", _plan, _find),)
