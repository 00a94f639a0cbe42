"""`Outcome`: the result of a simulation of the playground, as its page shows it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.inference import Effect, compare
from sameluck.reporting.commands import compare_command
from sameluck.reporting.pages.charts import Chart
from sameluck.reporting.pages.effect_charts import effect_chart
from sameluck.reporting.pages.leader_board import LeaderBoard, comparison_board
from sameluck.reporting.sentences import answer_sentences, remarks
from sameluck.runs import Runs
from sameluck.service.dashboard.findings import LEVEL, finding_of
from sameluck.service.dashboard.playground_simulations import SimulatedRuns
from sameluck.service.dashboard.verdicts import Verdict, verdict_of
from sameluck.wording import digits_for, signed

SHADES = 4  # of arms; further arms share the last


class Share(NamedTuple):
    """Share of periods in which a policy plays an arm, as a segment of a bar in per cent."""

    arm: str
    shade: int  # from 1
    start: float
    width: float


class Outcome(NamedTuple):
    """Answer in words and charts: for two policies a verdict and a chart, for more a leader board."""

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
    command: str  # prints the same comparison


def outcome_of(answer: SimulatedRuns, means: list[float]) -> Outcome:
    """Return the outcome of a simulation; `means` are the arms' mean rewards."""
    runs = answer.replay
    replications, policies = runs.replications, len(runs.policies)
    asked = int(runs.interactions[:, -1].sum())
    naive = replications * policies * runs.experiment.horizon
    last = runs.at([runs.experiment.horizon])
    result = compare(last, pairs="best", best=True) if policies > 2 else compare(last)
    shared = (asked, naive, _shares(runs, means), result.cautions, compare_command(result))
    if answer.naive is None:
        sentence, *more = answer_sentences(result)
        detail = " ".join([*more, *remarks(result)])
        ruled_out = sum(not standing.may_be_best for standing in result.standings)
        chip = f"{ruled_out} of {policies} ruled out at 95%"
        table = comparison_board(result.effects, result.policies, result.standings)
        return Outcome(None, chip, sentence, detail, ruled_out > 0, None, table, *shared)
    finding = finding_of(runs, runs.policies[1], LEVEL)
    verdict = verdict_of(finding)
    independent = finding_of(answer.naive, runs.policies[1], LEVEL).curve
    chart = effect_chart(finding.curve, verdict.sentence, independent) if finding.effect else None
    detail, is_decided = _detail(verdict, independent[-1]), verdict.state == "decided"
    return Outcome(verdict, "", verdict.sentence, detail, is_decided, chart, None, *shared)


def _detail(verdict: Verdict, naive: Effect) -> str:
    if verdict.state not in ("decided", "open"):
        return ""
    ahead = verdict.winner == naive.policy or verdict.state == "open"
    low, high = (naive.low, naive.high) if ahead else (-naive.high, -naive.low)
    effect = verdict.finding.curve[-1]
    digits = digits_for((effect.high - effect.low) / 2)
    bounds = f"{signed(low, digits)} to {signed(high, digits)}"
    ends = ", which contains 0" if naive.low <= 0 <= naive.high else ""
    first = "More replications would make the interval narrower."
    if verdict.state == "decided":
        first = f"The 95% interval runs from {verdict.interval} more."
    return f"{first} As many replications of the naive design give {bounds}{ends}."


def _shares(runs: Runs, means: list[float]) -> list[tuple[str, list[Share]]]:
    """Return the shares of the arms that each policy plays, the arm with the highest mean first."""
    order = sorted(range(len(means)), key=lambda arm: -means[arm])
    names = [runs.experiment.arm_names[arm] for arm in order]
    shades = [min(rank, SHADES) for rank in range(1, len(order) + 1)]
    played = 100 * runs.pulls[:, :, -1, order].mean(axis=0) / runs.checkpoints[-1]
    starts = np.cumsum(played, axis=1) - played
    rows = zip(runs.policies, starts.tolist(), played.tolist(), strict=True)
    return [(policy, list(map(Share, names, shades, *sides))) for policy, *sides in rows]
