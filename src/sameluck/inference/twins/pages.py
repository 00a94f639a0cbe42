"""A twin as a table, records, a figure and a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sameluck.arrays import Floats
from sameluck.files import made_with
from sameluck.inference.effects import Effect
from sameluck.inference.twins.records import Failure, Guaranteed
from sameluck.reporting import plots, tables
from sameluck.reporting.pages import page as pages
from sameluck.reporting.pages.page import Card
from sameluck.reporting.twin_figures import Bar, PairFigure, Tail, draw_twin
from sameluck.wording import amount, percent

if TYPE_CHECKING:
    from sameluck.inference.twins.result import Twin

FIGURES = 4  # pairs that a figure has room for


def header(twin: Twin) -> list[str]:
    """The names of the columns of `rows`."""
    level = percent(twin.level)
    alone = " (each alone)" if len(twin.effects) > 1 else ""
    names = ["policy", "control", "horizon", "on the copy", f"{level} interval{alone}"]
    names += ["observed", f"{level} interval", "sd"]
    return [*names, f"guaranteed {level}"] if twin.guaranteed else names


def rows(twin: Twin) -> list[list[str]]:
    """One row for each pair and checkpoint."""
    return [
        [
            one.policy,
            one.control,
            f"{one.checkpoint:,}",
            amount(one.effect),
            "withheld" if twin.withheld else _bounds(one),
            amount(seen.effect),
            _bounds(seen),
            amount(one.sd),
            *map(_bounds, twin.guaranteed[place : place + 1]),
        ]
        for place, (one, seen) in enumerate(zip(twin.effects, twin.observed, strict=True))
    ]


def _bounds(one: Effect | Guaranteed) -> str:
    return f"{amount(one.low)} to {amount(one.high)}"


def sentences(twin: Twin) -> list[str]:
    """The verdict, the suggestion if there is one, and the cautions."""
    more = [] if twin.suggestion is None else [twin.suggestion]
    return [twin.verdict, *more, *(f"Caution: {caution}" for caution in twin.cautions)]


def text(twin: Twin) -> str:
    """Title, table and sentences for a terminal."""
    table = tables.text_table(header(twin), rows(twin), index=3)
    parts = [tables.wrapped(twin.title), table, *map(tables.wrapped, sentences(twin))]
    return "\n\n".join(parts)


def latex(twin: Twin) -> str:
    """The table as a LaTeX tabular."""
    return tables.latex_table(header(twin), rows(twin))


def fragment(twin: Twin) -> str:
    """Title, table and sentences as HTML."""
    return tables.notebook(twin.title, header(twin), rows(twin), sentences(twin))


def records(twin: Twin) -> list[dict[str, Any]]:
    """The effects with the observed mean and the other intervals."""
    result = []
    for place, (one, seen) in enumerate(zip(twin.effects, twin.observed, strict=True)):
        record = {**one._asdict(), "observed": seen.effect}
        record |= {"observed_low": seen.low, "observed_high": seen.high}
        for end in twin.guaranteed[place : place + 1]:
            record |= {"guaranteed_low": end.low, "guaranteed_high": end.high}
        result.append(record)
    return result


def figure(twin: Twin, ax: plots.Axes | None = None) -> plots.Figure:
    """The pairs at the last checkpoint, those with the control first, at most four; on `ax`, the first alone."""
    last = int(twin.source.checkpoints[-1])
    places = [at for at, one in enumerate(twin.effects) if one.checkpoint == last]
    return draw_twin([_pair_figure(twin, place) for place in places[:FIGURES]], ax)


def _pair_figure(twin: Twin, place: int) -> PairFigure:
    one, seen = twin.effects[place], twin.observed[place]
    star, observed = (
        runs.rewards[:, runs.policies.index(one.policy), -1]
        - runs.rewards[:, runs.policies.index(one.control), -1]
        for runs in (twin.runs, twin.source)
    )
    bars = [Bar("observed mean", seen.effect, seen.low, seen.high)]
    if not twin.withheld:
        bars.insert(0, Bar("on the copy", one.effect, one.low, one.high))
    bars += [
        Bar("guaranteed", None, end.low, end.high) for end in twin.guaranteed[place : place + 1]
    ]
    tail = next((_tail(one, star, by) for by in twin.failures if _is_of(by, one)), None)
    label = f"{one.policy} minus {one.control}"
    return PairFigure(label, one.checkpoint, star, observed, tuple(bars), twin.level, tail)


def _tail(one: Effect, star: Floats, failure: Failure) -> Tail:
    losses = np.sort(star if failure.policy == one.control else -star)
    return Tail(failure.policy, losses[losses > 0], failure.loss, failure.one_in)


def _is_of(failure: Failure, effect: Effect) -> bool:
    same = {failure.policy, failure.control} == {effect.policy, effect.control}
    return same and failure.checkpoint == effect.checkpoint


def card(twin: Twin) -> Card:
    """The section of a page."""
    words = [twin.verdict, *([] if twin.suggestion is None else [twin.suggestion])]
    drawn, title = plots.to_svg(figure(twin)), "On a copy of the arms"
    return Card(title, " ".join(words), header(twin), rows(twin), drawn, notes=twin.cautions)


def page(twin: Twin, path: str | Path | None) -> str:
    """A self-contained page, written to `path` if given."""
    experiment = twin.source.experiment
    cards = [
        card(twin),
        Card("Experiment", twin.title, code=experiment.to_json()),
    ]
    made = f"Made with sameluck {' on '.join(made_with().values())}. Experiment {experiment.digest}"
    footer = f"{made}; the same runs give the same bits."
    content = pages.render(f"Twin: {' v '.join(twin.source.policies)}", cards, footer)
    if path is not None:
        pages.write(path, content)
    return content
