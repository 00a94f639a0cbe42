"""`Outcome`: what a simulation of the playground found, as its page shows it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.inference import Effect, compare
from sameluck.reporting.commands import compare_command
from sameluck.reporting.pages.charts import Chart
from sameluck.reporting.pages.effect_charts import effect_chart
from sameluck.reporting.pages.leader_board import LeaderBoard, comparison_board
from sameluck.reporting.sentences import headline
from sameluck.runs import Runs
from sameluck.service.dashboard.findings import LEVEL, finding_of
from sameluck.service.dashboard.simulations import Answer
from sameluck.service.dashboard.verdicts import Verdict, verdict_of
from sameluck.wording import digits_for, signed

SHADES = 4  # of the ramp of arms; further arms share the last


class Share(NamedTuple):
    """How often a policy plays an arm, as a part of a bar in per cent."""

    arm: str
    shade: int  # from 1
    start: float
    width: float


class Outcome(NamedTuple):
    """The answer in words and pictures: of two policies a verdict and a chart, of more a leader board."""

    verdict: Verdict | None
    chip: str
    sentence: str
    detail: str
    is_decided: bool
    chart: Chart | None
    board: LeaderBoard | None
    asked: int
    naive: int
    shares: list[tuple[str, list[Share]]]
    cautions: tuple[str, ...]
    command: str  # that prints the same


def outcome_of(answer: Answer, means: list[float]) -> Outcome:
    """What two designs show; `means` are what the arms pay."""
    runs = answer.replay
    replications, policies = runs.replications, len(runs.policies)
    asked = int(runs.interactions[:, -1].sum())
    naive = replications * policies * runs.experiment.horizon
    last = runs.at([runs.experiment.horizon])
    found = compare(last, pairs="best", best=True) if policies > 2 else compare(last)
    rest = (asked, naive, _shares(runs, means), found.cautions, compare_command(found))
    if answer.naive is None:
        sentence, detail = headline(found.effects, found.standings)
        ruled_out = sum(not one.may_be_best for one in found.standings)
        chip = f"{ruled_out} of {policies} ruled out at 95%"
        table = comparison_board(found.effects, found.policies, found.standings)
        return Outcome(None, chip, sentence, detail, ruled_out > 0, None, table, *rest)
    finding = finding_of(runs, runs.policies[1], LEVEL)
    verdict = verdict_of(finding)
    independent = finding_of(answer.naive, runs.policies[1], LEVEL).curve
    chart = effect_chart(finding.curve, verdict.sentence, independent) if finding.effect else None
    sentence, detail = verdict.sentence, _detail(verdict, independent[-1])
    is_decided = verdict.kind == "decided"
    return Outcome(verdict, "", sentence, detail, is_decided, chart, None, *rest)


def _detail(verdict: Verdict, naive: Effect) -> str:
    if verdict.kind not in ("decided", "open"):
        return ""
    ahead = verdict.winner == naive.policy or verdict.kind == "open"
    low, high = (naive.low, naive.high) if ahead else (-naive.high, -naive.low)
    effect = verdict.finding.curve[-1]
    digits = digits_for((effect.high - effect.low) / 2)
    bounds = f"{signed(low, digits)} to {signed(high, digits)}"
    ends = ", which contains 0" if naive.low <= 0 <= naive.high else ""
    first = (
        f"The 95% interval runs from {verdict.interval} more."
        if verdict.kind == "decided"
        else "More replications would make the interval narrower."
    )
    return f"{first} As many replications of the naive design give {bounds}{ends}."


def _shares(runs: Runs, means: list[float]) -> list[tuple[str, list[Share]]]:
    """For each policy the arms that it plays, those that pay most first."""
    order = sorted(range(len(means)), key=lambda arm: -means[arm])
    names = [runs.experiment.arm_names[arm] for arm in order]
    shades = [min(place, SHADES) for place in range(1, len(order) + 1)]
    played = 100 * runs.pulls[:, :, -1, order].mean(axis=0) / runs.checkpoints[-1]
    starts = np.cumsum(played, axis=1) - played
    return [
        (policy, [Share(*one) for one in zip(names, shades, at.tolist(), by.tolist(), strict=True)])
        for policy, at, by in zip(runs.policies, starts, played, strict=True)
    ]
