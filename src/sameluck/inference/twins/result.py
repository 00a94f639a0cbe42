"""`Twin`: effects on a copy of the measured arms, as records, a table with sentences, a figure and a page."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats, Ints
from sameluck.environments.base import Environment
from sameluck.errors import optional
from sameluck.inference.effects import Effect
from sameluck.inference.twins import sentences
from sameluck.inference.twins.failures import Failure
from sameluck.inference.twins.guaranteed import Guaranteed
from sameluck.inference.twins.stability import Stability
from sameluck.reporting import pages, plots, tables, twin_figures
from sameluck.reporting.wording import amount, counted, listed, percent
from sameluck.runs import Runs

FIGURES = 4  # pairs that a figure has room for


@dataclass(frozen=True, eq=False, repr=False)
class Twin:
    """What `twin` returns: `print` it, or read `effects`.

    Args:
        effects: The effect on the copy with an interval of the true effect, every pair and checkpoint; no bounds
            if it is withheld.
        observed: The observed mean with an interval of the spread that the copy shows, likewise.
        guaranteed: Intervals that hold at every look, for all pairs and horizons at once; of rewards 0 and 1 only.
        failures: Rare failures on the copy, whether or not a replication has met them.
        runs: The long run on the copy.
        source: The runs whose arms were copied.
        users: How many real users each arm had.
        stability: Whether the arms stood still.
        withheld: Why the effects have no interval, as sentences; empty if they have.
        level: Confidence of the intervals, each for one pair at one horizon.
    """

    effects: tuple[Effect, ...]
    observed: tuple[Effect, ...]
    guaranteed: tuple[Guaranteed, ...]
    failures: tuple[Failure, ...]
    runs: Runs
    source: Runs
    users: Ints
    stability: Stability
    withheld: tuple[str, ...]
    level: float

    @property
    def environment(self) -> Environment:
        """The copy of the arms."""
        assert self.runs.environment is not None
        return self.runs.environment

    @property
    def last_effects(self) -> list[Effect]:
        """The effects at the last checkpoint, one for each pair."""
        return [one for one in self.effects if one.checkpoint == self.source.checkpoints[-1]]

    @property
    def verdict(self) -> str:
        """The effects at the last checkpoint, rare failures and what all this assumes, as sentences."""
        parts = [
            *sentences.findings(self.last_effects, self.withheld),
            *sentences.about_failures(self.failures),
            sentences.assumption(self.stability, self.source.replications),
        ]
        return " ".join(parts)

    @property
    def suggestion(self) -> str | None:
        """Whether a live experiment could be stopped, if the arms stand still; None if it is not running."""
        return sentences.suggestion(self.source, self.last_effects, self.withheld, self.failures)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences to read before relying on the twin."""
        return tuple(sentences.cautions(self.source, self.users))

    @property
    def title(self) -> str:
        """What was copied and simulated, on one line."""
        count, runs = self.source.replications, self.runs
        design = text_forms.write(runs.experiment.design, brief=True)
        means = listed(f"{mean:.3g}" for mean in self.environment.means)
        return (
            f"Twin of {counted(count, 'replication')} ({counted(int(self.users.sum()), 'user')}): {design} design on "
            f"arms of means {means}, {runs.replications:,} replications of {int(runs.checkpoints[-1]):,} periods, "
            f"seed {self.source.experiment.seed}"
        )

    def _sentences(self) -> list[str]:
        more = [] if self.suggestion is None else [self.suggestion]
        return [self.verdict, *more, *(f"Caution: {caution}" for caution in self.cautions)]

    def __str__(self) -> str:
        table = tables.text_table(self._header, self._rows())
        return "\n\n".join(
            [tables.wrapped(self.title), table, *map(tables.wrapped, self._sentences())]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in self._sentences())
        table = tables.html_table(self._header, self._rows())
        return f"<p>{html.escape(self.title)}</p>{table}{paragraphs}"

    @property
    def _header(self) -> list[str]:
        alone = " (each alone)" if len(self.effects) > 1 else ""
        names = [
            "policy",
            "control",
            "horizon",
            "on the copy",
            f"{percent(self.level)} interval{alone}",
        ]
        names += ["observed", f"{percent(self.level)} interval", "sd"]
        return [*names, f"guaranteed {percent(self.level)}"] if self.guaranteed else names

    def _rows(self) -> list[list[str]]:
        rows = []
        for place, (one, seen) in enumerate(zip(self.effects, self.observed, strict=True)):
            row = [one.policy, one.control, f"{one.checkpoint:,}"]
            row += [amount(one.effect), "withheld" if self.withheld else _bounds(one)]
            row += [amount(seen.effect), _bounds(seen), amount(one.sd)]
            rows.append([*row, *(_bounds(end) for end in self.guaranteed[place : place + 1])])
        return rows

    def to_dicts(self) -> list[dict[str, Any]]:
        """The effects as plain records, with the observed mean and the other intervals."""
        records = []
        for place, (one, seen) in enumerate(zip(self.effects, self.observed, strict=True)):
            record = {**one._asdict(), "observed": seen.effect}
            record |= {"observed_low": seen.low, "observed_high": seen.high}
            for end in self.guaranteed[place : place + 1]:
                record |= {"guaranteed_low": end.low, "guaranteed_high": end.high}
            records.append(record)
        return records

    def to_record(self) -> dict[str, Any]:
        """Everything but the long run as values that JSON can hold."""
        return {
            "environment": text_forms.write(self.environment),
            "replications": self.source.replications,
            "users": self.users.tolist(),
            "effects": self.to_dicts(),
            "failures": [one._asdict() for one in self.failures],
            "stability": {**self.stability._asdict(), "p_value": self.stability.p_value},
            "withheld": list(self.withheld),
            "verdict": self.verdict,
            "suggestion": self.suggestion,
            "cautions": list(self.cautions),
        }

    def to_pandas(self) -> Any:
        """The effects as a pandas DataFrame. Needs `sameluck[data]`."""
        return optional("pandas", "data").DataFrame(self.to_dicts())

    def to_polars(self) -> Any:
        """The effects as a polars DataFrame. Needs `sameluck[data]`."""
        return optional("polars", "data").DataFrame(self.to_dicts())

    def to_latex(self) -> str:
        """The printed table as a LaTeX tabular (booktabs)."""
        return tables.latex_table(self._header, self._rows())

    def plot(self, path: str | Path | None = None) -> plots.Figure:
        """The law of one replication's difference, the intervals and the tail of losses, at the last checkpoint."""
        figure = twin_figures.draw_twin(self.pair_figures())
        if path is not None:
            plots.save(figure, path)
        return figure

    def pair_figures(self) -> list[twin_figures.PairFigure]:
        """What `plot` draws: the pairs with the control first, at most four."""
        last = int(self.source.checkpoints[-1])
        places = [at for at, one in enumerate(self.effects) if one.checkpoint == last]
        return [self._pair_figure(place) for place in places[:FIGURES]]

    def _pair_figure(self, place: int) -> twin_figures.PairFigure:
        one, seen = self.effects[place], self.observed[place]
        star, observed = (
            runs.rewards[:, runs.policies.index(one.policy), -1]
            - runs.rewards[:, runs.policies.index(one.control), -1]
            for runs in (self.runs, self.source)
        )
        bars = [twin_figures.Bar("observed mean", seen.effect, seen.low, seen.high)]
        if not self.withheld:
            bars.insert(0, twin_figures.Bar("on the copy", one.effect, one.low, one.high))
        bars += [
            twin_figures.Bar("guaranteed", None, end.low, end.high)
            for end in self.guaranteed[place : place + 1]
        ]
        tail = next((self._tail(one, star, by) for by in self.failures if _is_of(by, one)), None)
        label = f"{one.policy} minus {one.control}"
        return twin_figures.PairFigure(label, one.checkpoint, star, observed, tuple(bars), tail)

    def _tail(self, one: Effect, star: Floats, failure: Failure) -> twin_figures.Tail:
        losses = np.sort(star if failure.policy == one.control else -star)
        return twin_figures.Tail(failure.policy, losses[losses > 0], failure.loss, failure.one_in)

    def card(self, title: str = "On a copy of the arms", figure: str = "") -> pages.Card:
        """Verdict and table for a page."""
        words = [self.verdict, *([] if self.suggestion is None else [self.suggestion])]
        return pages.Card(
            title, " ".join(words), self._header, self._rows(), figure, notes=self.cautions
        )

    def to_html(self, path: str | Path | None = None) -> str:
        """A self-contained page: verdict, figure, table, definition. Written to `path` if given."""
        experiment = self.source.experiment
        cards = [
            self.card(figure=plots.to_svg(self.plot())),
            pages.Card("Experiment", self.title, code=experiment.to_json()),
        ]
        footer = (
            f"Made with sameluck. Experiment {experiment.digest}; the same runs give the same bits."
        )
        page = pages.render(f"Twin: {' v '.join(self.source.policies)}", cards, footer)
        if path is not None:
            pages.write(path, page)
        return page


def _is_of(failure: Failure, effect: Effect) -> bool:
    pairs = {failure.policy, failure.control} == {effect.policy, effect.control}
    return pairs and failure.checkpoint == effect.checkpoint


def _bounds(one: Effect | Guaranteed) -> str:
    return f"{amount(one.low)} to {amount(one.high)}"
