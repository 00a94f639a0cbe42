"""`compare`: the effects of an experiment as records, a table with a sentence, a figure and a page."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sameluck import text_forms
from sameluck.environments.base import Environment
from sameluck.errors import Invalid, optional
from sameluck.inference.cautions import cautions, is_interim
from sameluck.inference.effects import (
    Effect,
    Request,
    check_request,
    effect_curves,
    effects,
    is_same_policy,
)
from sameluck.inference.policy_summaries import PolicySummary, Standing, standings, summarise
from sameluck.inference.unseen import (
    possible_loss,
    replications_to_exclude,
    reversing_loss,
    unseen_share,
)
from sameluck.reporting import pages, plots, tables
from sameluck.reporting.wording import amount, duration, listed, percent, probability, times
from sameluck.runs import Runs
from sameluck.validation import is_listed

FINDINGS = 5  # that a verdict lists
HEADER = ("policy", "control", "horizon", "effect", "interval", "p-value", "sd", "variance v naive")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What `compare` returns: `print` it, or read `effects`.

    Args:
        effects: One record for each pair of policies and checkpoint.
        runs: What it was computed from.
        request: The arguments of `compare`.
        standings: Which policies may be the best, with `best=True`.
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
        """Sentences to read before relying on the intervals."""
        return cautions(self.runs, self.effects, self.request)

    @property
    def verdict(self) -> str:
        """The effects at the last checkpoint, what they cannot exclude and the users they cost, as sentences."""
        effects = self.last_effects
        sentences = [*findings(effects), *self.about_unseen]
        if self.request.interval == "median":
            sentences.append(
                "These are medians over replications: a rare failure does not show in them."
            )
        if self.standings:
            names = ", ".join(row.policy for row in self.standings if row.may_be_best)
            level = f"{percent(self.request.level)} (one-sided)"
            sentences.append(f"May be the best of all by mean reward, at {level}: {names}.")
        if self.request.adjust:
            plain = f"{amount(effects[0].plain_effect)} with an sd of {amount(effects[0].plain_sd)}"
            sentences.append(f"Without adjustment the first effect is {plain}.")
        return " ".join([*sentences, cost(effects[0], self._design)])

    @property
    def about_unseen(self) -> list[str]:
        """As a sentence: what rare replications that were not met could do to the weakest finding."""
        shown = [abs(one.effect) for one in self.last_effects if shows_difference(one)]
        if self.request.interval == "median":
            return []
        count, level = self.runs.replications, self.request.level
        share = unseen_share(count, level)
        unlike = f"Up to {100 * share:.2g}% of replications may be unlike any of these {count:,}"
        if not shown:
            return [f"{unlike}."]
        weakest = min(shown)
        loss, most = reversing_loss(weakest, count, level), possible_loss(self.runs)
        which = "this finding" if len(shown) == 1 else "the smallest of these differences"
        if most is None:
            return [f"{unlike}; {which} is reversed if those lose more than {amount(loss)} each."]
        if weakest > most:
            return [
                f"{unlike}; policies can differ by at most {amount(most)} here, the horizon times the range of the "
                f"arms' means, so {which} is due to chance at least in part."
            ]
        if loss >= most:
            return [
                f"{unlike}; not even a loss of {amount(most)} each, the largest possible, reverses {which}."
            ]
        needed = replications_to_exclude(weakest, most, level)
        time = "" if self.runs.seconds is None else _takes(self.runs.seconds * needed / count)
        return [
            f"{unlike}; {which} is reversed if those lose more than {amount(loss)} each, of at most {amount(most)}: "
            f"{needed:,} replications{time} exclude that."
        ]

    @property
    def last_effects(self) -> list[Effect]:
        """The effects at the last checkpoint, one for each pair."""
        return [one for one in self.effects if one.checkpoint == self.runs.checkpoints[-1]]

    @property
    def _design(self) -> str:
        return text_forms.write(self.runs.experiment.design, brief=True)

    @property
    def title(self) -> str:
        """What was compared, on one line."""
        experiment, environment = self.runs.experiment, self.runs.environment
        rewards = "live traffic" if environment is None else _short_form(environment)
        return (
            f"{self._design} design on {rewards}, {self.runs.replications:,} replications of "
            f"{experiment.horizon:,} periods, seed {experiment.seed}"
        )

    def __str__(self) -> str:
        table = tables.text_table(self._header, self._rows(self.effects))
        sentences = [self.verdict, *(f"Caution: {caution}" for caution in self.cautions)]
        return "\n\n".join([self.title, table, *map(tables.wrapped, sentences)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = tables.html_table(self._header, self._rows(self.effects))
        sentences = [self.verdict, *(f"Caution: {caution}" for caution in self.cautions)]
        return f"{_paragraph(self.title)}{table}{''.join(map(_paragraph, sentences))}"

    @property
    def _header(self) -> list[str]:
        kind = "" if self.request.interval == "t" else f"{self.request.interval} "
        if self.request.adjust:
            kind = f"{kind}adjusted "
        names = {"interval": f"{percent(self.request.level)} {kind}interval{self.scope}"}
        return [names.get(cell, cell) for cell in HEADER]

    @property
    def scope(self) -> str:
        """What intervals and p-values hold for together, in brackets; empty if there is only one."""
        pairs, horizons = len(self.last_effects) > 1, self.runs.checkpoints.size > 1
        covered = str(self.request.simultaneous)
        over_pairs, over_horizons = covered in ("pairs", "both"), covered in ("checkpoints", "both")
        if not pairs and not horizons:
            return ""
        if (over_pairs or not pairs) and (over_horizons or not horizons):
            return " (simultaneous)"
        if pairs and over_pairs:
            return " (over pairs, pointwise)"
        if pairs and over_horizons:
            return " (over horizons, each alone)"
        return " (each alone)" if pairs else " (pointwise)"

    def _rows(self, effects: Sequence[Effect]) -> list[list[str]]:
        naive = self._design == "naive"
        return [
            [
                one.policy,
                one.control,
                f"{one.checkpoint:,}",
                amount(one.effect),
                f"{amount(one.low)} to {amount(one.high)}",
                probability(one.p_adjusted),
                amount(one.sd),
                "-" if naive else times(one.variance_ratio, one.ratio_low, one.ratio_high),
            ]
            for one in effects
        ]

    def card(self, title: str, figure: str = "") -> pages.Card:
        """Verdict and table for a page; the table has at most eight of the checkpoints."""
        last = self.runs.checkpoints.size - 1
        checkpoints = {int(self.runs.checkpoints[round(last * k / 7)]) for k in range(8)}
        rows = self._rows([one for one in self.effects if one.checkpoint in checkpoints])
        return pages.Card(title, self.verdict, self._header, rows, figure, notes=self.cautions)

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

    def plot(self, path: str | Path | None = None) -> plots.Figure:
        """The effects over the horizon as a matplotlib figure, written to `path` if given."""
        curves = effect_curves(self.effects)
        title = f"{self._design} design, {self.runs.replications:,} replications"
        level = self.request.level
        figure = plots.draw_effects(curves, level=level, title=title, scope=self.scope)
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
        """A self-contained page: verdict, figure, table, definition. Written to `path` if given.

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
            pages.write(path, page)
        return page

    def _policies_card(self) -> pages.Card:
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
            for one in self.policies
            if one.checkpoint == self.runs.checkpoints[-1]
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

    Where the design shares rewards, policies are compared within replications; under `naive` as independent samples.

    Args:
        runs: What `simulate` or a live experiment's `runs` returned.
        level: Confidence of the intervals.
        control: Compare with this policy instead of the experiment's control.
        pairs: `"control"`: every other policy with the control; `"all"`: every two policies; `"best"`: every
            other policy with the one that earned most, with intervals that hold although it was chosen.
        interval: `"t"`: Student's t over replications, as in the paper; `"anytime"`: valid at every look while
            replications complete; `"median"`: the median difference instead of the mean, exactly; `"bootstrap"`:
            BCa. If not given: `"t"`, but `"anytime"` for a live experiment that has not completed its planned
            replications.
        simultaneous: What intervals, p-values and sentences hold for together: all `"pairs"` at a checkpoint (the
            default), all `"checkpoints"` of a pair, `"both"`, or `"none"`: each alone (max-t for `"t"`, Bonferroni
            for the others and for independent policies).
        best: Also report which policies may be the best of all (multiple comparisons with the best).
        adjust: Subtract noise of mean zero, for runs of `simulate(detail=True)`: `"means"` (of the rewards, where
            true means are known: in simulations) or `"exploration"` (of the policies' random choices).
    """
    if not isinstance(runs, Runs):
        raise Invalid(
            f"compare takes the Runs of simulate, or of a live experiment (live.runs()), got {runs!r}"
        )
    interim = is_interim(runs)
    if interim and runs.replications < 2:
        raise Invalid(
            f"{runs.replications} of {runs.experiment.replications:,} replications are complete, and compare needs "
            "2: the replication is the unit of inference. Wait, or choose an earlier horizon with "
            "live.runs(checkpoints=[...])"
        )
    default = "anytime" if interim else "t"
    request = check_request(
        runs.experiment,
        runs.replications,
        Request(level, control, pairs, interval or default, simultaneous, adjust),
    )
    records = effects(runs, request)
    return Comparison(records, runs, request, standings(runs, request) if best else ())


def _short_form(environment: Environment, length: int = 60) -> str:
    """The text form, cut to a length; only what is shown of it is written."""
    kind: Any = type(environment)
    fields: tuple[Any, ...] = tuple(environment)  # type: ignore[arg-type]  # a NamedTuple
    text = text_forms.write(kind(*(_beginning(field, length) for field in fields)))
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _beginning(field: Any, items: int) -> Any:
    if not is_listed(field):
        return field
    return tuple(_beginning(item, items) for item in field[:items])


def shows_difference(effect: Effect) -> bool:
    """Whether the interval leaves out 0."""
    return not effect.low <= 0 <= effect.high


def findings(effects: Sequence[Effect]) -> list[str]:
    """Effects as sentences: the first that show a difference one by one, the others together."""
    shown = [one for one in effects if shows_difference(one)]
    sentences = [finding(one) for one in shown[:FINDINGS]]
    if len(shown) > FINDINGS:
        sentences.append(f"{len(shown) - FINDINGS} more pairs differ (see the table).")
    sentences += [finding(one) for one in effects if is_same_policy(one)]
    others = [one for one in effects if not shows_difference(one) and not is_same_policy(one)]
    if len(others) > 1:
        pairs = listed(f"{one.policy} and {one.control}" for one in others)
        return [*sentences, f"No difference is shown between: {pairs}."]
    return [*sentences, *map(finding, others)]


def finding(effect: Effect) -> str:
    """One effect as a sentence."""
    pair = f"{effect.policy} and {effect.control}"
    level, over = percent(effect.level), f"over {effect.checkpoint:,} periods"
    if is_same_policy(effect):
        return f"{pair} are the same policy and earned exactly the same {over}."
    if effect.sd == 0:
        same = "earned exactly the same" if effect.effect == 0 else "differed by exactly the same"
        return f"{pair} {same} {over} in each of {effect.replications:,} replications: no interval can be given."
    if math.isinf(effect.low) and math.isinf(effect.high):
        return f"Too few replications to compare {pair}: the interval has no bounds yet."
    if not shows_difference(effect):
        bounds = f"{amount(effect.low)} to {amount(effect.high)}"
        return f"No difference between {pair} is shown {over}: the {level} interval, {bounds}, contains 0."
    word = "more" if effect.effect > 0 else "less"
    near, far = sorted((abs(effect.low), abs(effect.high)))
    return (
        f"{effect.policy} earned {amount(abs(effect.effect))} {word} than {effect.control} {over} "
        f"({level} interval {amount(near)} to {amount(far)} {word})."
    )


def _takes(seconds: float) -> str:
    # Coarse, so that two runs nearly always print the same.
    if seconds < 60:
        return " (less than a minute)"
    return f" (about {duration(float(f'{seconds:.1g}'))})"


def cost(effect: Effect, design: str) -> str:
    """The real users per replication, as a sentence."""
    users = f"The {design} design needs {effect.interactions:,.0f} users per replication"
    saves = effect.interactions < effect.naive_interactions
    return f"{users} instead of {effect.naive_interactions:,}." if saves else f"{users}."


def footer(runs: Runs) -> str:
    """The last line of a page."""
    return f"Made with sameluck. Experiment {runs.experiment.digest}; the same seed gives the same bits."


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"
