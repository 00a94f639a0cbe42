"""`compare`: the answer of an experiment, as records, a table and a sentence, a figure and a page."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sameluck import text_forms
from sameluck.errors import Invalid, optional
from sameluck.files import write_whole
from sameluck.inference.cautions import cautions, on_the_way
from sameluck.inference.effects import Effect, Request, effect_curves, effects
from sameluck.inference.policy_summaries import PolicySummary, Standing, standings, summarise
from sameluck.reporting import pages, plots, tables
from sameluck.runs import Runs

HEADER = ("policy", "control", "horizon", "effect", "interval", "p-value", "sd", "variance v naive")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What `compare` returns: `print` it, or take `effects` apart.

    Args:
        effects: One record for each pair of policies and checkpoint.
        runs: What it was computed from.
        request: How it was asked for.
        standings: Which policies may be the best, if asked for.
    """

    effects: tuple[Effect, ...]
    runs: Runs
    request: Request
    standings: tuple[Standing, ...] = ()

    @property
    def policies(self) -> tuple[PolicySummary, ...]:
        """Each policy on its own: reward, regret, pulls, share of the best arm, at every checkpoint."""
        return summarise(self.runs)

    @property
    def cautions(self) -> tuple[str, ...]:
        """What to know before believing the intervals."""
        return cautions(self.runs, self.effects, self.request)

    @property
    def verdict(self) -> str:
        """What was found at the last checkpoint and what it cost, in words."""
        last = [one for one in self.effects if one.checkpoint == self.runs.checkpoints[-1]]
        said = [finding(one) for one in last]
        if self.standings:
            names = ", ".join(one.policy for one in self.standings if one.may_be_best)
            said.append(f"May be the best of all, at {percent(self.request.level)}: {names}.")
        if self.request.adjust:
            plain = f"{amount(last[0].plain_effect)} with an sd of {amount(last[0].plain_sd)}"
            said.append(f"Without adjustment the first effect is {plain}.")
        return " ".join([*said, cost(last[0], self._design)])

    @property
    def _design(self) -> str:
        return text_forms.write(self.runs.experiment.design, brief=True)

    @property
    def title(self) -> str:
        """What was compared, on one line."""
        experiment = self.runs.experiment
        environment = self.runs.environment
        where = text_forms.write(environment) if environment else "live traffic"
        where = where if len(where) <= 60 else where[:57] + "..."
        return (
            f"{self._design} design on {where}, {self.runs.replications:,} replications of "
            f"{experiment.horizon:,} periods, seed {experiment.seed}"
        )

    def __str__(self) -> str:
        table = tables.text_table(self._header, self._rows(self.effects))
        said = [self.verdict, *(f"Caution: {caution}" for caution in self.cautions)]
        return "\n\n".join([self.title, table, *map(tables.wrapped, said)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = tables.html_table(self._header, self._rows(self.effects))
        warned = "".join(_paragraph(f"Caution: {caution}") for caution in self.cautions)
        return f"{_paragraph(self.title)}{table}{_paragraph(self.verdict)}{warned}"

    @property
    def _header(self) -> list[str]:
        kind = "" if self.request.interval == "t" else f"{self.request.interval} "
        if self.request.adjust:
            kind = f"{kind}adjusted "
        if self.request.simultaneous:
            kind = f"simultaneous {kind}"
        named = {"interval": f"{percent(self.request.level)} {kind}interval"}
        if self._several:
            named["p-value"] = "p-value (Holm)"
        return [named.get(cell, cell) for cell in HEADER]

    @property
    def _several(self) -> bool:
        return len({(one.policy, one.control) for one in self.effects}) > 1

    def _rows(self, effects: Sequence[Effect]) -> list[list[str]]:
        naive = self._design == "naive"
        return [
            [
                one.policy,
                one.control,
                f"{one.checkpoint:,}",
                amount(one.effect),
                f"{amount(one.low)} to {amount(one.high)}",
                probability(one.p_adjusted if self._several else one.p_value),
                amount(one.sd),
                "-" if naive else times(one.variance_ratio),
            ]
            for one in effects
        ]

    def card(self, title: str, figure: str = "") -> pages.Card:
        """Finding and table for a page; of many checkpoints only some make it into the table."""
        last = self.runs.checkpoints.size - 1
        shown = {int(self.runs.checkpoints[round(last * k / 7)]) for k in range(8)}
        some = [one for one in self.effects if one.checkpoint in shown]
        return pages.Card(
            title, self.verdict, self._header, self._rows(some), figure, notes=self.cautions
        )

    def to_dicts(self) -> list[dict[str, Any]]:
        """The effects as plain records."""
        return [one._asdict() for one in self.effects]

    def to_pandas(self) -> Any:
        """The effects as a pandas DataFrame. Needs `sameluck[data]`."""
        return optional("pandas", "data").DataFrame(self.to_dicts())

    def to_polars(self) -> Any:
        """The effects as a polars DataFrame. Needs `sameluck[data]`."""
        return optional("polars", "data").DataFrame(self.to_dicts())

    def to_latex(self) -> str:
        """The printed table as a LaTeX tabular (booktabs)."""
        return tables.latex_table(self._header, self._rows(self.effects))

    def plot(self, path: str | Path | None = None) -> Any:
        """The effects over the horizon as a matplotlib figure, written to `path` if given."""
        curves = effect_curves(self.effects)
        title = f"{self._design} design, {self.runs.replications:,} replications"
        figure = plots.draw_effects(curves, level=self.request.level, title=title)
        if path is not None:
            plots.save(figure, path)
        return figure

    def to_html(
        self,
        path: str | Path | None = None,
        *,
        curve: Comparison | None = None,
        more: Sequence[pages.Card] = (),
    ) -> str:
        """A self-contained page: finding, figure, table, definition. Written to `path` if given.

        `curve` is the same comparison at more checkpoints, for the figure; `more` are further cards.
        """
        cards = [
            self.card("What was found", plots.to_svg((curve or self).plot())),
            self._policies_card(),
            *more,
            pages.Card("Experiment", self.title, code=self.runs.experiment.to_json()),
        ]
        page = pages.render(" v ".join(self.runs.policies), cards, footer(self.runs))
        if path is not None:
            write_page(path, page)
        return page

    def _policies_card(self) -> pages.Card:
        last = [one for one in self.policies if one.checkpoint == self.runs.checkpoints[-1]]
        arms = [f"pulls of {name}" for name in self.runs.experiment.arm_names[:8]]
        header = ["policy", "reward", "regret", "plays the best arm", *arms]
        rows = [
            [
                one.policy,
                amount(one.reward),
                "-" if one.regret is None else amount(one.regret),
                "-" if one.best_arm_share is None else f"{one.best_arm_share:.1%}",
                *(amount(pulls) for pulls in one.pulls[:8]),
            ]
            for one in last
        ]
        return pages.Card("Policies", "", header, rows)


def compare(
    runs: Runs,
    *,
    level: float = 0.95,
    control: str | None = None,
    pairs: str = "control",
    interval: str | None = None,
    simultaneous: str | None = None,
    best: bool = False,
    adjust: str | None = None,
) -> Comparison:
    """Estimate how much more each policy earns than the control, at every checkpoint.

    Where the design shares luck, policies are compared within replications; under `naive` as independent samples.

    Args:
        runs: What `simulate` or a live experiment's `runs` returned.
        level: Confidence of the intervals.
        control: Compare with this policy instead of the experiment's control.
        pairs: `"control"`: every other policy with the control; `"all"`: every two policies; `"best"`: every
            other policy with the one that earned most.
        interval: `"t"`: Student's t over replications, as in the paper; `"bootstrap"`: without leaning on the normal
            law; `"anytime"`: valid however often one looks while replications come in. If not given: `"t"`, but
            `"anytime"` for a live experiment that has not finished the replications it planned.
        simultaneous: Widen the intervals so that they hold together over `"pairs"`, `"checkpoints"` or `"both"`
            (max-t; Bonferroni for the others).
        best: Also say which policies may still be the best of all (multiple comparisons with the best).
        adjust: Take out luck whose mean is zero, for runs of `simulate(detail=True)`: `"means"` (of the rewards,
            where true means are known: in simulations) or `"exploration"` (of the policies' own coins).
    """
    if not isinstance(runs, Runs):
        raise Invalid(
            f"compare takes the Runs of simulate, or of a live experiment (live.runs()), got {runs!r}"
        )
    _refuse_too_early(runs)
    usual = "anytime" if on_the_way(runs) else "t"
    request = Request(level, control, pairs, interval or usual, simultaneous, adjust)
    found = effects(runs, request)
    standing = standings(runs, request) if best else ()
    return Comparison(found, runs, request, standing)


def _refuse_too_early(runs: Runs) -> None:
    if on_the_way(runs) and runs.replications < 2:
        raise Invalid(
            f"{runs.replications} of {runs.experiment.replications:,} replications are complete, and compare needs "
            "2: the replication is the unit of inference. Wait, or ask for an earlier horizon with "
            "live.runs(checkpoints=[...])"
        )


def write_page(path: str | Path, page: str) -> None:
    """Write a page, whole or not at all."""
    target = Path(path)
    if not target.parent.is_dir():
        raise Invalid(f"cannot write {str(path)!r}: no folder {str(target.parent)!r}")
    write_whole(target, page.encode())


def finding(one: Effect) -> str:
    """One effect as a sentence a person can act on."""
    sure = percent(one.level)
    over = f"over {one.checkpoint:,} periods"
    if one.sd == 0 and one.effect == 0:
        return (
            f"{one.policy} and {one.control} earned exactly the same {over} in every replication."
        )
    if math.isinf(one.low) and math.isinf(one.high):
        return (
            f"Nothing can be said of {one.policy} and {one.control} yet: with so few replications an interval that "
            "may be looked at any time has no bounds."
        )
    if one.low <= 0 <= one.high:
        bounds = f"{amount(one.low)} to {amount(one.high)}"
        return (
            f"No difference between {one.policy} and {one.control} is shown {over}: "
            f"the {sure} interval, {bounds}, contains 0."
        )
    word = "more" if one.effect > 0 else "less"
    near, far = sorted((abs(one.low), abs(one.high)))
    return (
        f"{one.policy} earned {amount(abs(one.effect))} {word} than {one.control} {over} "
        f"({sure} interval {amount(near)} to {amount(far)} {word})."
    )


def cost(one: Effect, design: str) -> str:
    """What a replication cost in real users, as a sentence."""
    spent = f"The {design} design asks {one.interactions:,.0f} users a replication"
    saved = one.interactions < one.naive_interactions
    return f"{spent} instead of {one.naive_interactions:,}." if saved else f"{spent}."


def percent(level: float) -> str:
    """A level of confidence."""
    return f"{float(f'{100 * level:.6g}'):g}%"


def amount(value: float) -> str:
    """A number with as many digits as a reader wants."""
    size = abs(value)
    if math.isinf(value):
        return "no bound"
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 or value == 0 else f"{value:.2g}"


def probability(value: float) -> str:
    """A p-value."""
    return "< 1e-15" if value < 1e-15 else f"{value:.2g}"


def times(value: float) -> str:
    """A variance ratio."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "none left"
    size = max(value, 1 / value)
    shown = f"{size:,.0f}" if size >= 100 else f"{size:.3g}"
    return f"{shown}x {'less' if value >= 1 else 'more'}"


def footer(runs: Runs) -> str:
    """What the end of a page says."""
    return f"Made with sameluck. Experiment {runs.experiment.digest}; the same seed gives the same bits."


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"
