"""Presentation of a `Twin`: sentences, table, figure and page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.files import made_with
from sameluck.inference.effects import Effect, is_interim
from sameluck.reporting import plots, tables
from sameluck.reporting.drawing import Axes, Figure, colour, drawing, panels
from sameluck.reporting.pages.page import Card, render
from sameluck.reporting.sentences import MAX_FINDINGS, failure_sentences
from sameluck.wording import amount, counted, listed, percent

if TYPE_CHECKING:
    from sameluck.inference.twins.bernoulli_confidence_set import Guaranteed
    from sameluck.inference.twins.twin import Twin

FEW_USERS = 20  # of an arm
MAX_FIGURES = 4  # pairs with room in a figure
_POINTER = {"arrowprops": {"arrowstyle": "-", "color": "0.5"}, "ha": "right", "va": "top"}


def title(twin: Twin) -> str:
    source, runs = twin.source, twin.runs
    users = counted(int(twin.long_run.stacks.users.sum()), "user")
    means = listed(f"{mean:.3g}" for mean in twin.environment.means)
    return (
        f"Twin of {counted(source.replications, 'replication')} ({users}): {runs.experiment.design.label} design on "
        f"arms of means {means}, {runs.replications:,} replications of "
        f"{counted(int(runs.checkpoints[-1]), 'period')}, seed {source.experiment.seed}"
    )


def verdict(twin: Twin) -> str:
    sentences = _findings(twin)
    if twin.admits_equal_arms and not all(map(_is_same_policy, twin.last_effects)):
        which = "the effect" if len(twin.last_effects) == 1 else "every effect"
        sentences.append(f"The ledger does not rule out equal arms, so {which} may be 0.")
    return " ".join([*sentences, *failure_sentences(twin.failures), assumption(twin)])


def _findings(twin: Twin) -> list[str]:
    effects, withheld = twin.last_effects, bool(twin.withheld)
    sentences = [_finding(effect, withheld=withheld) for effect in effects[:MAX_FINDINGS]]
    if len(effects) > MAX_FINDINGS:
        sentences.append(f"{counted(len(effects) - MAX_FINDINGS, 'more pair')}: see the table.")
    return [*sentences, *(f"No interval of the effect is given: {why}." for why in twin.withheld)]


def _finding(effect: Effect, *, withheld: bool) -> str:
    pair, over = f"{effect.policy} and {effect.control}", f"over {effect.checkpoint:,} periods"
    if _is_same_policy(effect):
        return f"On a copy of your arms, {pair} earn the same {over} in every replication, as the same policy would."
    bounds = f"{percent(effect.level)} interval {amount(effect.low)} to {amount(effect.high)}"
    if amount(abs(effect.effect)) == amount(0.0) and not effect.shows_difference and not withheld:
        return f"On a copy of your arms, {pair} earn about the same {over} ({bounds})."
    word = "more" if effect.effect > 0 else "less"
    earns = f"On a copy of your arms, {effect.policy} earns {amount(abs(effect.effect))} {word} than {effect.control}"
    if withheld:
        return f"{earns} {over}."
    if effect.shows_difference:
        near, far = sorted((abs(effect.low), abs(effect.high)))
        return f"{earns} {over} ({percent(effect.level)} interval {amount(near)} to {amount(far)} {word})."
    return f"{earns} {over}, which shows no difference ({bounds})."


def _is_same_policy(effect: Effect) -> bool:
    return effect.effect == effect.sd == 0


def assumption(twin: Twin) -> str:
    """Say what a twin assumes, and how well that was tested."""
    stability = twin.stability
    p_value = f"test of constancy, p = {stability.p_value:.2g}"
    assumed = "This assumes that each arm's rewards are i.i.d."
    if stability.rejected:
        also = "; the guaranteed interval assumes it too" if twin.guaranteed else ""
        return f"{assumed}, which the observed rewards contradict ({p_value}){also}. Read the observed mean instead."
    if twin.source.replications == 1:
        return f"{assumed}; one replication can hardly test that ({p_value})."
    return f"{assumed}; the observed rewards do not contradict it ({p_value})."


def suggestion(twin: Twin) -> str | None:
    """Say whether the twin of a running experiment is sure already; None if it is not running."""
    source = twin.source
    control, last = source.experiment.control, int(source.checkpoints[-1])
    if not is_interim(source) or twin.withheld:
        return None
    with_control = [effect for effect in twin.last_effects if effect.control == control]
    differing = [effect for effect in with_control if not _is_same_policy(effect)]
    if not differing:
        return "The policies never differ on the copy, as the same policy would: the experiment could stop."
    if unsure := [effect for effect in differing if not effect.shows_difference]:
        return f"The twin is not sure yet of {_pairs(unsure)}: continue."
    compared = {effect[:3] for effect in differing}
    guaranteed = [interval for interval in twin.guaranteed if interval[:3] in compared]
    if with_zero := [interval for interval in guaranteed if interval.low <= 0 <= interval.high]:
        return (
            "Every interval with the control leaves out 0, but these intervals are for one look. The guaranteed "
            f"interval, for every look, contains 0 for {_pairs(with_zero)}: continue."
        )
    unseen = any(failure.met == 0 and failure.checkpoint == last for failure in twin.failures)
    unmet = " Failures that no replication has met are in its effect." if unseen else ""
    same = " if the policies differ" if len(differing) < len(with_control) else ""
    looks = "The interval is for one look, and stopping at the first look that is sure misses more often"
    if guaranteed:
        looks += "; the guaranteed interval, for every look, also leaves out 0"
    return (
        f"The twin is sure already: every interval with the control leaves out 0{same}, so the experiment could "
        "stop. That rests wholly on stationary arms, also in the future; the anytime interval of compare does not."
        f"{unmet} {looks}."
    )


def _pairs(effects: Sequence[Effect | Guaranteed]) -> str:
    return listed(f"{effect.policy} and {effect.control}" for effect in effects)


def cautions(twin: Twin) -> Iterator[str]:
    source, users = twin.source, twin.long_run.stacks.users.tolist()
    yield from source.notes
    names = source.experiment.arm_names
    rough = [name for name, count in zip(names, users, strict=True) if count < FEW_USERS]
    if rough:
        arms = f"{'arm' if len(rough) == 1 else 'arms'} {listed(rough)}"
        yield f"Fewer than {FEW_USERS} users have seen {arms}: the copy is rough there."
    if source.environment is not None:
        yield (
            "These runs are simulated, so the arms are known: more replications of simulate show the effect itself, "
            "without a copy."
        )


def _header(twin: Twin) -> list[str]:
    level = percent(twin.level)
    alone = " (each alone)" if len(twin.effects) > 1 else ""
    names = ["policy", "control", "horizon", "on the copy", f"{level} interval{alone}"]
    names += ["observed", f"{level} interval", "sd"]
    return [*names, f"guaranteed {level}"] if twin.guaranteed else names


def _rows(twin: Twin) -> list[list[str]]:
    return [
        [
            effect.policy,
            effect.control,
            f"{effect.checkpoint:,}",
            amount(effect.effect),
            "withheld" if twin.withheld else _bounds(effect),
            amount(observed.effect),
            _bounds(observed),
            amount(effect.sd),
            *map(_bounds, twin.guaranteed[index : index + 1]),
        ]
        for index, (effect, observed) in enumerate(zip(twin.effects, twin.observed, strict=True))
    ]


def _bounds(interval: Effect | Guaranteed) -> str:
    return f"{amount(interval.low)} to {amount(interval.high)}"


def _sentences(twin: Twin) -> list[str]:
    suggested = [] if twin.suggestion is None else [twin.suggestion]
    return [twin.verdict, *suggested, *(f"Caution: {caution}" for caution in twin.cautions)]


def text(twin: Twin) -> str:
    table = tables.text_table(_header(twin), _rows(twin), index=3)
    return "\n\n".join([tables.wrapped(twin.title), table, *map(tables.wrapped, _sentences(twin))])


def notebook(twin: Twin) -> str:
    return tables.notebook(twin.title, _header(twin), _rows(twin), _sentences(twin))


def latex(twin: Twin) -> str:
    return tables.latex_table(_header(twin), _rows(twin))


def figure(twin: Twin, ax: Axes | None = None) -> Figure:
    """Draw at most four pairs at the last checkpoint, pairs with the control first; on `ax`, the first pair alone.

    A pair has the distribution of a replication's difference, the intervals, and the tail of losses.
    """
    last = int(twin.source.checkpoints[-1])
    indices = [index for index, effect in enumerate(twin.effects) if effect.checkpoint == last]
    return draw_twin([_pair_figure(twin, index) for index in indices[:MAX_FIGURES]], ax)


def _pair_figure(twin: Twin, index: int) -> PairFigure:
    effect, observed = twin.effects[index], twin.observed[index]
    on_copy, seen = (
        runs.rewards[:, runs.policies.index(effect.policy), -1]
        - runs.rewards[:, runs.policies.index(effect.control), -1]
        for runs in (twin.runs, twin.source)
    )
    bars = [Bar("observed mean", observed.effect, observed.low, observed.high)]
    if not twin.withheld:
        bars.insert(0, Bar("on the copy", effect.effect, effect.low, effect.high))
    bars += [
        Bar("guaranteed", None, interval.low, interval.high)
        for interval in twin.guaranteed[index : index + 1]
    ]
    label, tail = f"{effect.policy} minus {effect.control}", None
    for failure in twin.failures:
        same_pair = {failure.policy, failure.control} == {effect.policy, effect.control}
        if same_pair and failure.checkpoint == effect.checkpoint:
            losses = np.sort(on_copy if failure.policy == effect.control else -on_copy)
            tail = Tail(failure.policy, losses[losses > 0], failure.loss, failure.one_in)
            break
    return PairFigure(label, effect.checkpoint, on_copy, seen, tuple(bars), twin.level, tail)


def card(twin: Twin) -> Card:
    words = " ".join(filter(None, [twin.verdict, twin.suggestion]))
    table, drawn = (_header(twin), _rows(twin)), plots.to_svg(figure(twin))
    return Card("On a copy of the arms", words, *table, drawn, notes=twin.cautions)


def page(twin: Twin) -> str:
    """Return a self-contained page: verdict, figure, table and definition."""
    experiment = twin.source.experiment
    cards = [card(twin), Card("Experiment", twin.title, code=experiment.to_json())]
    made = f"Made with sameluck {' on '.join(made_with().values())}. Experiment {experiment.digest}"
    footer = f"{made}; the same runs give the same bits."
    return render(f"Twin: {' v '.join(twin.source.policies)}", cards, footer)


# The figure: differences on the copy, intervals side by side, and the tail of losses.


class Bar(NamedTuple):
    label: str
    centre: float | None
    low: float
    high: float


class Tail(NamedTuple):
    """Losses of a policy that fails rarely."""

    policy: str
    losses: Floats  # ascending
    loss: float  # of its rare failure
    one_in: float


class PairFigure(NamedTuple):
    """Numbers to draw for a pair of policies at a horizon."""

    label: str  # policy minus control
    horizon: int
    differences: Floats  # on the copy
    observed: Floats
    bars: tuple[Bar, ...]
    level: float  # of the bars
    tail: Tail | None  # None if no policy fails rarely


def draw_twin(pairs: Sequence[PairFigure], ax: Axes | None = None) -> Figure:
    """Draw a row of panels for each pair; on `ax`, only the distribution of the first pair's difference."""
    if ax is not None:
        with drawing((1, 1), "", ax) as (figure, axes):
            _draw_distribution(axes, pairs[0])
        return figure
    with panels((11.5, 3.4 * len(pairs)), len(pairs), 3) as (figure, rows):
        for (distribution, intervals, tail), pair in zip(rows, pairs, strict=True):
            _draw_distribution(distribution, pair)
            _draw_intervals(intervals, pair)
            _draw_tail(tail, pair)
    return figure


def _draw_distribution(axes: Axes, pair: PairFigure) -> None:
    low, high = np.quantile(pair.differences, [0.0005, 0.9995])
    low, high = min(low, pair.observed.min()), max(high, pair.observed.max())
    whole = bool((pair.differences == np.round(pair.differences)).all())
    width = max(1.0, float(np.ceil((high - low) / 60))) if whole else (high - low) / 60 or 1.0
    edges = np.arange(low - width / 2, high + 1.5 * width, width)
    heights, _ = np.histogram(pair.differences, edges)
    axes.stairs(heights / heights.max(), edges, fill=True, color=colour(0), alpha=0.35)
    label = f"observed ({pair.observed.size:,})"
    axes.plot(*_stacked(pair.observed, width), "o", color=colour(1), clip_on=False, label=label)
    axes.axvline(0, color="0.35", lw=0.8, zorder=0)
    axes.set(title=f"One replication: {pair.label}", yticks=[], ylim=(0, None))
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"difference over {pair.horizon:,} periods, on the copy")
    # The frame tells the legend's dot apart from the observed dots.
    axes.legend(framealpha=0.9, edgecolor="0.85", loc="best")


def _stacked(values: Floats, width: float) -> tuple[Floats, Floats]:
    """Return the positions of dots, with dots of the same bar above each other; the panel has height 1."""
    ordered = np.sort(values)
    bars = np.round(ordered / width)
    rank = np.arange(values.size) - np.searchsorted(bars, bars)
    return ordered, rank.astype(float) * min(0.06, 0.8 / max(1, int(rank.max())))


def _draw_intervals(axes: Axes, pair: PairFigure) -> None:
    for index, bar in enumerate(pair.bars):
        axes.plot([bar.low, bar.high], [index, index], color=colour(index), lw=3, alpha=0.5)
        if bar.centre is not None:
            axes.plot(bar.centre, index, "o", color=colour(index))
    axes.axvline(0, color="0.35", lw=0.8, zorder=0)
    axes.set_yticks(range(len(pair.bars)), [bar.label for bar in pair.bars])
    axes.set_ylim(len(pair.bars) - 0.5, -0.5)
    axes.set(title=f"Effect, {percent(pair.level)} intervals", xlabel="effect on cumulative reward")


def _draw_tail(axes: Axes, pair: PairFigure) -> None:
    axes.set_title("Rare failures")
    if pair.tail is None:
        axes.axis("off")
        axes.text(0, 0.9, "none on the copy", transform=axes.transAxes, color="0.35", va="top")
        return
    policy, losses, loss, one_in = pair.tail
    share = np.arange(losses.size, 0, -1) / pair.differences.size
    axes.step(losses, share, where="pre", color=colour(1), lw=1.8)
    axes.plot(loss, 1 / one_in, "o", color=colour(1))
    axes.set_yscale("log")
    axes.set(xlabel=f"{policy} ends behind\nby this much, or more", ylabel="share of replications")
    text = f"{amount(loss)} or more:\n1 in {one_in:,.0f}"
    # The curve falls, so the upper right corner is empty.
    axes.annotate(text, (loss, 1 / one_in), (1, 1), textcoords="axes fraction", **_POINTER)
