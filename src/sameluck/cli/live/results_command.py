"""`sameluck live results`: compare the policies of a live experiment."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

import sameluck as sl
from sameluck.cli import compare_commands as compare
from sameluck.cli.experiment_options import parse_checkpoints
from sameluck.cli.live.store_options import DatabaseOptions, live_command, name_argument
from sameluck.cli.output import Output
from sameluck.inference.interval_methods import INTERVALS, STUDENT
from sameluck.live.databases.rows import ACTIVE
from sameluck.policies.external import makers_for
from sameluck.wording import counted


@live_command("results")
@name_argument
@click.option("--checkpoints", help="Periods to report, e.g. 10,100.  [default: the horizon]")
@click.option(
    "--policies", metavar="NAMES", help="Only these, e.g. a,b; the other policies may lag."
)
@click.option("--level", type=float, help="Confidence level of the intervals.  [default: 0.95]")
@click.option("--control", help="The policy to compare with.  [default: the experiment's]")
@compare.metric_option
@compare.pairs_option
@compare.interval_option(default="anytime while it runs, then t")
@compare.simultaneous_option
@click.option("--best", is_flag=True, help="Report the policies that may be the best.")
@compare.twin_option
@compare.output_options
def results_command(
    name: str,
    database: DatabaseOptions,
    *,
    policies: str | None,
    best: bool,
    with_twin: bool,
    **options: object,
) -> Output:
    """Compare the policies on the rewards so far.

    Results use the first replications, up to the first incomplete replication. With lockstep order, earlier periods
    are known sooner: --checkpoints 10,50.
    """
    outputs = compare.take_outputs(options)
    with database.open_experiment(name, read_only=True) as live:
        if len(live.experiment.policies) < 2:
            raise sl.Invalid(
                f"{name!r} has one policy, and a comparison needs two; add a policy with: sameluck live add-policy"
            )
        # A request is valid or not whatever the data so far; too few replications are reported below, with a remedy.
        request = compare.read_request(
            options, live.experiment, max(2, live.experiment.replications)
        )
        names = _parse_names(policies, live)
        checkpoints = parse_checkpoints(options["checkpoints"], live.experiment)
        runs = live.runs(compare.with_curve(checkpoints, outputs), policies=names)
        needed = 1 if with_twin else INTERVALS[str(options["interval"] or STUDENT.name)].needs
        if runs.replications < needed:
            raise _too_early(live, names, runs.replications, checkpoints[-1], needed)
    request["best"] = best
    makers = makers_for(runs.experiment.policies, database.import_makers())
    return compare.write_comparison(
        runs, checkpoints, request, outputs, with_twin=with_twin, makers=makers
    )


def _parse_names(names: str | None, live: sl.LiveExperiment) -> list[str] | None:
    """Return the policies that `--policies` names; a comma within parentheses belongs to a name."""
    if names is None:
        return None
    if names in live.experiment.policies:
        return [names]
    policies = [name.strip() for name in re.split(r",(?![^()]*\))", names) if name.strip()]
    if not policies:
        raise sl.Invalid(f"--policies must name policies such as a,b, got {names!r}")
    return policies


def _too_early(
    live: sl.LiveExperiment, policies: list[str] | None, complete: int, horizon: int, needed: int
) -> sl.Invalid:
    planned, status = live.experiment.replications, live.status().status
    if planned < needed:
        remedy = "only one is planned: use --twin, which needs one, or start another with more"
    elif earlier := common_horizon(live, policies, needed):
        remedy = f"for the results so far: --checkpoints {earlier}"
    else:
        remedy = "wait for rewards" if status in ACTIVE else f"its status is {status}"
    if complete == 1 < needed <= planned:
        remedy = f"--twin needs one only; {remedy}"
    have = "has" if complete == 1 else "have"
    return sl.Invalid(
        f"{complete} of {counted(planned, 'replication')} of {live.name!r} {have} reached "
        f"{counted(horizon, 'period')}, and {'a comparison' if needed == 2 else 'a twin'} needs the first"
        f"{' 2' if needed == 2 else ''}; {remedy}"
    )


def common_horizon(
    live: sl.LiveExperiment, policies: Sequence[str] | None = None, count: int = 2
) -> int:
    """Return the last period that all policies have reached in each of the first `count` replications."""
    if live.status().opened < count:
        return 0
    traces = [live.trace(number) for number in range(count)]
    return min(trace[name].arms.size for trace in traces for name in policies or trace)
