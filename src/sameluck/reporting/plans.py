"""Presentation of a `Plan`: sentences, table and power curves; and the verdict of a `VarianceSplit`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sameluck.inference.unseen import unseen_share
from sameluck.reporting import plots, tables
from sameluck.reporting.cautions import movement_caution, scale_caution
from sameluck.wording import amount, listed, percent

if TYPE_CHECKING:
    from sameluck.inference.planning.plan import DesignPlan, HorizonPlan, PairPlan, Plan
    from sameluck.inference.planning.variance_split import VarianceSplit

_NUMBERS = ("sd", "effect", "power", "replications", "users each", "users", "days")
_HEADER = ("design", "horizon", *_NUMBERS)
_PAIR_HEADER = ("policy", "sd", "pilot's effect", "power")
MAX_USERS = 1e8
MIN_SHARE = 1e-4  # of the control's reward


def title(plan: Plan) -> str:
    policies = listed(pair.policy for pair in plan.pairs)
    together = " for all pairs together" if len(plan.pairs) > 1 else ""
    return (
        f"{policies} against {plan.pair[1]} over {plan.experiment.horizon:,} periods, {percent(plan.level)} "
        f"intervals{together}; sd from {plan.pilot_replications:,} pilot replications"
        f"{' on a copy of the measured arms' if plan.is_copy else ''}"
    )


def verdict(plan: Plan) -> str:
    """Return the plan of the experiment's design and of the naive design, as sentences."""
    row = plan.experiment_row
    days = f", {row.days:,.1f} days" if row.days is not None else ""
    low, high = plan.power_range
    error = "the measured arms' error" if plan.is_copy else "the pilot's error"
    sentences = [
        f"An effect of {row.effect:.4g}{_share(plan, row.effect)} is found with power {row.power:.2f} ({low:.2f} to "
        f"{high:.2f}, given {error}) by {row.replications:,} replications of the {row.design} design: "
        f"{row.users:,.0f} users{days}."
    ]
    if len(plan.pairs) > 1:
        sentences.append(
            f"This is for {plan.pair[0]} against {plan.pair[1]}, whose difference varies most; every other pair has "
            "at least this power."
        )
    sentences += [_about_naive(plan, naive) for naive in plan.rows[1:] if naive.design == "naive"]
    sentences.append(
        f"The pilot's own effect is {plan.pilot_effect:.4g} (standard error {plan.pilot_effect_error:.2g})"
        f"{_share(plan, plan.pilot_effect, ', ')}. "
        f"Up to {100 * unseen_share(plan.pilot_replications, plan.level):.2g}% of replications may be unlike any "
        f"of its {plan.pilot_replications:,}, and add to the spread."
    )
    if plan.check is not None:
        sentences.append(
            f"Simulated {plan.check.experiments} times: power {plan.check.power:.2f}, "
            f"coverage {plan.check.covered:.3f} (standard error {plan.check.error:.3f})."
        )
    return " ".join([*sentences, *(f"Caution: {caution}" for caution in plan.cautions)])


def _share(plan: Plan, effect: float, before: str = "") -> str:
    """Return an effect as a share of the control's reward, in brackets or after a comma; nothing if that is 0."""
    share = plan.relative(effect)
    if share is None:
        return ""
    words = f"{100 * share:.2g}% of what {plan.pair[1]} earns"
    return f"{before}{words}" if before else f" ({words})"


def _about_naive(plan: Plan, naive: DesignPlan) -> str:
    if naive.replications != plan.replications:
        return f"The naive design needs {naive.users:,.0f}."
    return (
        f"As many replications of the naive design take {naive.users:,.0f} users and find an effect of "
        f"{naive.effect:.4g} with power {naive.power:.2f}."
    )


def cautions(plan: Plan) -> Iterator[str]:
    yield from plan.pilot_notes
    yield from _implausible(plan)
    yield from movement_caution(plan.moving_environment)
    if plan.max_effect is not None and abs(plan.effect) > plan.max_effect:
        yield (
            f"two policies can differ by at most {plan.max_effect:.4g} here, so {plan.replications:,} "
            "replications do not have this power for any effect. Plan more."
        )
    if plan.replications_for_skewness > plan.replications:
        yield (
            f"the pilot's differences are skewed, so rare replications weigh heavily: power and interval of "
            f"{plan.replications:,} replications are only approximate. Plan about "
            f"{plan.replications_for_skewness:,}, or simulate the plan with verify=True."
        )
    yield from scale_caution(plan.scale)


def _implausible(plan: Plan) -> Iterator[str]:
    """Question an effect that was probably meant as a share, or that nobody can detect."""
    row, share = plan.experiment_row, plan.relative(plan.effect)
    is_small = share is not None and abs(share) < MIN_SHARE
    if row.users < MAX_USERS and not is_small:
        return
    percentage = f"{100 * plan.effect:g}%" if abs(plan.effect) < 1 else "2%"
    earns = f" in which {plan.pair[1]} earns {amount(plan.control_reward)}"
    earned = earns if share is not None else ""
    yield (
        f"{row.users:,.0f} users for an effect of {plan.effect:.4g} over a horizon{earned}. Did you mean "
        f'--effect {percentage} (effect="{percentage}"), a share of the control\'s reward?'
    )


def text(plan: Plan) -> str:
    table = tables.text_table(_HEADER, [_cells(row) for row in plan.rows], index=2)
    sections = [tables.wrapped(plan.title), table]
    if len(plan.pairs) > 1:
        pairs = tables.text_table(_PAIR_HEADER, [_pair_cells(pair) for pair in plan.pairs], index=1)
        sections.append(
            f"All policies against {plan.pair[1]}, with {plan.replications:,} replications:\n{pairs}"
        )
    if len(plan.by_horizon) > 1:
        rows = [_cells(row, row.effect_error) for row in plan.by_horizon]
        own = f"The pilot's own effect of {plan.pair[0]} at each horizon"
        unknown = " (-: it may be 0)" if any(row.users is None for row in plan.by_horizon) else ""
        sections.append(f"{own}{unknown}:\n{tables.text_table(_HEADER, rows, index=2)}")
    return "\n\n".join([*sections, tables.wrapped(plan.verdict)])


def notebook(plan: Plan) -> str:
    return tables.notebook(plan.title, _HEADER, [_cells(row) for row in plan.rows], [plan.verdict])


def _cells(row: DesignPlan | HorizonPlan, effect_error: float | None = None) -> list[str]:
    error = "" if effect_error is None else f" +- {effect_error:.2g}"
    return [
        row.design,
        f"{row.horizon:,}",
        f"{row.sd:.4g} +- {row.sd_error:.2g}",
        f"{row.effect:.4g}{error}",
        f"{row.power:.3f}",
        "-" if row.replications is None else f"{row.replications:,}",
        f"{row.interactions:,.0f}",
        "-" if row.users is None else f"{row.users:,.0f}",
        "-" if row.days is None else f"{row.days:,.1f}",
    ]


def _pair_cells(pair: PairPlan) -> list[str]:
    effect = f"{pair.effect:.4g} +- {pair.effect_error:.2g}"
    return [pair.policy, f"{pair.sd:.4g}", effect, f"{pair.power:.3f}"]


def figure(plan: Plan, ax: plots.Axes | None) -> plots.Figure:
    curves = plan.power_curves()
    return plots.draw_power(curves, effect=plan.effect, power=plan.requested_power, ax=ax)


def split_verdict(split: VarianceSplit) -> str:
    """Say which share of the variance is between instances, and whether more instances or repeats reduce it."""
    shares = (
        f"{split.share_between:.0%} of the variance of a replication's difference is between instances (bandits "
        "drawn from the prior), the rest is on a given instance."
    )
    if split.share_between > 0.5:
        return f"{shares} Only more instances (replications with new bandits) help."
    return f"{shares} Repeating each instance helps almost as much as drawing new instances."
