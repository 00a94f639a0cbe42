"""A twin as sentences: findings, what they assume, and when not to believe them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sameluck.arrays import Ints
from sameluck.inference.effects import Effect, is_interim
from sameluck.inference.twins.records import Failure, Guaranteed, Stability
from sameluck.runs import Runs
from sameluck.wording import amount, counted, listed, percent

FEW_USERS = 20  # of an arm
MOST = 5  # findings or failures that are listed


def title(source: Runs, runs: Runs, users: Ints) -> str:
    """What was copied and simulated, on one line."""
    seen = f"{counted(source.replications, 'replication')} ({counted(int(users.sum()), 'user')})"
    assert runs.environment is not None
    means = listed(f"{mean:.3g}" for mean in runs.environment.means)
    return (
        f"Twin of {seen}: {runs.experiment.design.label} design on arms of means {means}, "
        f"{runs.replications:,} replications of {counted(int(runs.checkpoints[-1]), 'period')}, "
        f"seed {source.experiment.seed}"
    )


def findings(effects: Sequence[Effect], withheld: Sequence[str]) -> list[str]:
    """The effects on the copy, one sentence each."""
    sentences = [_finding(one, withheld=bool(withheld)) for one in effects[:MOST]]
    if len(effects) > MOST:
        sentences.append(f"{counted(len(effects) - MOST, 'more pair')}: see the table.")
    return [*sentences, *(f"No interval of the effect is given: {why}." for why in withheld)]


def _finding(effect: Effect, *, withheld: bool) -> str:
    pair, over = f"{effect.policy} and {effect.control}", f"over {effect.checkpoint:,} periods"
    if effect.effect == effect.sd == 0:
        return f"On a copy of your arms, {pair} earn the same {over} in every replication, as the same policy would."
    word = "more" if effect.effect > 0 else "less"
    earns = f"On a copy of your arms, {effect.policy} earns {amount(abs(effect.effect))} {word} than {effect.control}"
    if withheld:
        return f"{earns} {over}."
    bounds = f"{percent(effect.level)} interval {amount(effect.low)} to {amount(effect.high)}"
    if effect.shows_difference:
        near, far = sorted((abs(effect.low), abs(effect.high)))
        bounds = f"{percent(effect.level)} interval {amount(near)} to {amount(far)} {word}"
        return f"{earns} {over} ({bounds})."
    return f"{earns} {over}, which shows no difference ({bounds})."


def about_failures(failures: Sequence[Failure]) -> list[str]:
    """The failures at the last checkpoint of any."""
    last = max((one.checkpoint for one in failures), default=0)
    now = [one for one in failures if one.checkpoint == last]
    sentences = [str(one) for one in now[:MOST]]
    if len(now) > MOST:
        sentences.append(f"{counted(len(now) - MOST, 'more pair')} fail rarely: see failures.")
    return sentences


def assumption(stability: Stability, replications: int, *, guaranteed: bool) -> str:
    """What a twin assumes, and how well that was tested."""
    assumed = "This assumes that each arm pays independently, by one law throughout"
    if stability.rejected:
        also = ", and the guaranteed interval assumes it too" if guaranteed else ""
        contradicted = f"which the ledger contradicts ({_p_text(stability)})"
        return f"{assumed}, {contradicted}{also}; read the observed mean instead."
    if replications == 1:
        return f"{assumed}. One replication can hardly test that ({_p_text(stability)})."
    return f"{assumed}; the ledger does not contradict it ({_p_text(stability)})."


def _p_text(stability: Stability) -> str:
    return f"p = {stability.p_value:.2g}"


def suggestion(
    source: Runs,
    effects: Sequence[Effect],
    withheld: Sequence[str],
    failures: Sequence[Failure],
    guaranteed: Sequence[Guaranteed],
) -> str | None:
    """For an experiment that still runs: whether its twin is sure already."""
    if not is_interim(source) or withheld:
        return None
    with_control = [one for one in effects if one.control == source.experiment.control]
    unsure = [one for one in with_control if not one.shows_difference and not one.is_same_policy]
    if unsure:
        names = listed(f"{one.policy} and {one.control}" for one in unsure)
        return f"The twin is not sure yet of {names}: continue."
    last = source.checkpoints[-1]
    unseen = any(one.met == 0 and one.checkpoint == last for one in failures)
    unmet = " Failures that no replication has met are in its effect." if unseen else ""
    return (
        "The twin is sure already: every interval with the control leaves out 0, so one could stop. That rests "
        f"wholly on the arms standing still, also in the future; the anytime interval of compare does not."
        f"{unmet} {_about_looks(source, guaranteed)}"
    )


def _about_looks(source: Runs, guaranteed: Sequence[Guaranteed]) -> str:
    """What remains of a twin that is sure if it has been asked before, and would have been stopped then."""
    once = "The interval is for one look, and stopping at the first that is sure misses more often"
    last, control = int(source.checkpoints[-1]), source.experiment.control
    ours = [one for one in guaranteed if (one.control, one.checkpoint) == (control, last)]
    if not ours:
        return f"{once}."
    sure = all(not one.low <= 0 <= one.high for one in ours)
    return f"{once}; the guaranteed one, for every look, {'also leaves out' if sure else 'contains'} 0."


def cautions(source: Runs, users: Ints) -> Iterator[str]:
    """Reasons to doubt a twin."""
    yield from source.notes
    names = source.experiment.arm_names
    few = [name for name, count in zip(names, users.tolist(), strict=True) if count < FEW_USERS]
    if few:
        yield (
            f"Fewer than {FEW_USERS} users have seen {'arm' if len(few) == 1 else 'arms'} {listed(few)}: the copy is "
            "rough there."
        )
    if source.environment is not None:
        yield (
            "These runs are simulated, so the arms are known: more replications of simulate show the effect itself, "
            "without a copy."
        )
