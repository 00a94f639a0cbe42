"""Presentation of a `Plan`: sentences, table and power curves; and the verdict of a `VarianceSplit`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sameluck.inference.requests import first_pair
from sameluck.inference.unseen import unseen_share
from sameluck.reporting import plots, tables
from sameluck.reporting.cautions import movement_caution, scale_caution
from sameluck.wording import percent

if TYPE_CHECKING:
    from sameluck.inference.planning.plan import DesignPlan, Plan
    from sameluck.inference.planning.variance_split import VarianceSplit

_NUMBERS = ("sd", "effect", "power", "replications", "users each", "users", "days")
_HEADER = ("design", "horizon", *_NUMBERS)


def title(plan: Plan) -> str:
    policy, control = first_pair(plan.experiment)
    return (
        f"{policy} against {control} over {plan.experiment.horizon:,} periods, {percent(plan.level)} intervals; "
        f"sd from {plan.pilot_replications:,} pilot replications"
    )


def verdict(plan: Plan) -> str:
    """Return the plan of the experiment's design and of the naive design, as sentences."""
    row = plan.experiment_row
    days = f", {row.days:,.1f} days" if row.days is not None else ""
    low, high = plan.power_range
    sentences = [
        f"An effect of {row.effect:.4g} is found with power {row.power:.2f} ({low:.2f} to {high:.2f}, given the "
        f"pilot's error) by {row.replications:,} replications of the {row.design} design: {row.users:,.0f} "
        f"users{days}."
    ]
    sentences += [_about_naive(plan, naive) for naive in plan.rows[1:] if naive.design == "naive"]
    sentences.append(
        f"The pilot's own effect is {plan.pilot_effect:.4g} (standard error {plan.pilot_effect_error:.2g}). "
        f"Up to {100 * unseen_share(plan.pilot_replications, plan.level):.2g}% of replications may be unlike any "
        f"of its {plan.pilot_replications:,}, and add to the spread."
    )
    if plan.check is not None:
        sentences.append(
            f"Simulated {plan.check.experiments} times: power {plan.check.power:.2f}, "
            f"coverage {plan.check.covered:.3f} (standard error {plan.check.error:.3f})."
        )
    return " ".join([*sentences, *(f"Caution: {caution}" for caution in plan.cautions)])


def _about_naive(plan: Plan, naive: DesignPlan) -> str:
    if naive.replications != plan.replications:
        return f"The naive design needs {naive.users:,.0f}."
    return (
        f"As many replications of the naive design take {naive.users:,.0f} users and find an effect of "
        f"{naive.effect:.4g} with power {naive.power:.2f}."
    )


def cautions(plan: Plan) -> Iterator[str]:
    yield from plan.pilot_notes
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


def text(plan: Plan) -> str:
    table = tables.text_table(_HEADER, [_cells(row) for row in plan.rows], index=2)
    sections = [tables.wrapped(plan.title), table]
    if plan.by_horizon:
        shorter = tables.text_table(_HEADER, [_cells(row) for row in plan.by_horizon], index=2)
        sections.append(f"The same at shorter horizons:\n{shorter}")
    return "\n\n".join([*sections, tables.wrapped(plan.verdict)])


def notebook(plan: Plan) -> str:
    rows = [_cells(row) for row in (*plan.rows, *plan.by_horizon)]
    return tables.notebook(plan.title, _HEADER, rows, [plan.verdict])


def _cells(row: DesignPlan) -> list[str]:
    return [
        row.design,
        f"{row.horizon:,}",
        f"{row.sd:.4g} +- {row.sd_error:.2g}",
        f"{row.effect:.4g}",
        f"{row.power:.3f}",
        f"{row.replications:,}",
        f"{row.interactions:,.0f}",
        f"{row.users:,.0f}",
        "-" if row.days is None else f"{row.days:,.1f}",
    ]


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
