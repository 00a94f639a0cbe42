"""Presentation of a `Race`: sentences, table and figure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sameluck.inference.unseen import unseen_share
from sameluck.reporting import plots, tables
from sameluck.reporting.cautions import movement_caution, scale_caution
from sameluck.wording import percent

if TYPE_CHECKING:
    from sameluck.inference.racing.race_results import Race, Runner

LARGE_SKEWNESS = 2.0


def title(race: Race) -> str:
    return f"Race of {len(race.runners):,} policies over {race.experiment.horizon:,} periods"


def verdict(race: Race) -> str:
    if race.certified:
        unseen = unseen_share(race.replications, race.level)
        outcome = (
            f"{race.best} is within {race.tolerance:g} of the best with {percent(race.level)} confidence, failures "
            f"in up to {100 * unseen:.2g}% of replications not excluded."
        )
    else:
        names = ", ".join(race.remaining)
        outcome = f"Undecided after {race.replications:,} replications: {names} remain."
    return " ".join([outcome, _cost(race), *(f"Caution: {caution}" for caution in race.cautions)])


def _cost(race: Race) -> str:
    costs = [
        f"{race.replications:,} replications, {race.users:,} users and {race.policy_runs:,} policy runs"
    ]
    if race.policy_runs < race.fixed_policy_runs:
        costs.append(
            f"without dropping about {race.fixed_users:,} users and {race.fixed_policy_runs:,} policy runs"
        )
    if race.experiment.design.shares_rewards:
        low, high = (
            f"{users:,.0f}" if math.isfinite(users) else "no bound"
            for users in (race.naive_users_low, race.naive_users_high)
        )
        costs.append(
            f"the naive design about {race.naive_users:,.0f} users ({low} to {high}) for the same precision"
        )
    return f"It took {'; '.join(costs)}."


def cautions(race: Race) -> Iterator[str]:
    yield from movement_caution(race.moving_environment)
    rivals = race.runners[1:]
    equal = [
        runner.policy
        for runner in rivals
        if runner.dropped_by is None and not math.isfinite(runner.low) and runner.behind == 0
    ]
    if equal:
        yield (
            f"{', '.join(equal)} earned exactly what {race.best} did, in every replication, so how far they may "
            "differ is not known; leave out policies that are the same."
        )
    skewed = [runner.policy for runner in rivals if abs(runner.skewness) > LARGE_SKEWNESS]
    if skewed:
        yield (
            f"the differences from {', '.join(skewed)} are skewed: a policy may fail rarely and badly. A smaller "
            f"share than failures={race.failures:g} takes more replications and shows rarer failures."
        )
    for reason in race.vetoed:
        yield f"{reason}: it is not certified before that is settled."
    yield from scale_caution(race.scale)


def text(race: Race) -> str:
    table = tables.text_table(_header(race), _rows(race))
    return f"{table}\n\n{tables.wrapped(race.verdict)}"


def notebook(race: Race) -> str:
    return tables.notebook(race.title, _header(race), _rows(race), [race.verdict])


def _header(race: Race) -> list[str]:
    bounds = f"{percent(race.level)} bounds"
    return ["policy", "reward", "behind", bounds, "replications", "dropped by"]


def _rows(race: Race) -> list[list[str]]:
    return [
        [
            runner.policy,
            f"{runner.reward:,.2f}",
            *(["-", "-"] if runner.policy == race.best else _behind(runner)),
            f"{runner.replications:,}",
            runner.dropped_by or "-",
        ]
        for runner in race.runners
    ]


def _behind(runner: Runner) -> list[str]:
    has_bounds = math.isfinite(runner.low)
    bounds = f"{runner.low:,.2f} to {runner.high:,.2f}" if has_bounds else "no bounds"
    return [f"{runner.behind:,.2f}", bounds]


def figure(race: Race, ax: plots.Axes | None) -> plots.Figure:
    curves = []
    for runner in race.runners[1:]:
        label = f"{runner.policy} minus {runner.dropped_by or race.best}"
        effect = (-runner.behind,), (-runner.high,), (-runner.low,)
        curves.append(plots.Curve(label, (race.experiment.horizon,), *effect))
    title = f"race to {race.best}, {race.replications:,} replications"
    return plots.draw_effects(curves, level=race.level, title=title, scope=" (anytime)", ax=ax)
