"""`sameluck compare`, `designs` and `demo`: simulate and compare."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click

import sameluck as sl
from sameluck.adapters import dask as dask_adapter
from sameluck.cli.comparison_output import (
    output_options,
    pairs_option,
    parse_checkpoints,
    read_request,
    simultaneous_option,
    take_outputs,
    with_curve,
    write_comparison,
)
from sameluck.cli.experiment_options import (
    control_option,
    experiment_options,
    read_experiment,
    replications_option,
)
from sameluck.cli.output import (
    Output,
    check_outputs,
    horizon_grid,
    json_option,
    plot_option,
    progress_bar,
    report_option,
    written,
)
from sameluck.files import make_folder
from sameluck.simulation.simulate import MapLike

workers_option = click.option("--workers", type=int, help="Threads.  [default: all cores]")


@click.command(
    "compare",
    epilog='Example: sameluck compare "ucb1(alpha=2.5)" "ucb1(alpha=3)" --env "bernoulli(0.9,0.7,0.5)"',
)
@experiment_options()
@replications_option()
@click.option(
    "--design", help="naive, replay, replay(share_noise=true), time_coupled.  [default: replay]"
)
@control_option
@click.option(
    "--checkpoints", help="Horizons to report, e.g. 100,1000,10000.  [default: the horizon]"
)
@pairs_option
@click.option("--interval", help="t, bootstrap or anytime.  [default: t]")
@simultaneous_option
@click.option(
    "--best", is_flag=True, default=None, help="Report which policies may be the best of all."
)
@click.option("--adjust", help="Remove noise of mean zero: means or exploration.")
@click.option(
    "--split",
    is_flag=True,
    help="With a prior: report which share of the variance is due to the drawn instance.",
)
@workers_option
@click.option("--dask", metavar="ADDRESS", help="Run on the Dask cluster at tcp://host:port.")
@json_option
@output_options
def compare_command(
    policies: tuple[str, ...],
    workers: int | None,
    dask: str | None,
    *,
    split: bool,
    **options: Any,
) -> Output:
    """Compare policies by simulation.

    Policies are written as in `sameluck policies`; `NAME=POLICY` gives one a name. The settings may be in a TOML file
    instead, under the same names (environment, horizon, ... and a table [policies]); options override the file.
    """
    outputs = take_outputs(options)
    experiment, settings = read_experiment(policies, options)
    environment = settings["environment"]
    if split and not environment.is_prior:
        raise sl.Invalid("--split needs a prior as --env")
    checkpoints = parse_checkpoints(settings.get("checkpoints"), experiment)
    request = read_request(settings, experiment, experiment.replications)
    with _cluster(dask) as map_like, progress_bar("simulating") as progress:
        runs = sl.simulate(
            experiment,
            environment,
            checkpoints=with_curve(checkpoints, outputs),
            workers=workers,
            progress=progress,
            map=map_like,
            detail="adjust" in settings,
        )
    request["best"] = settings.get("best", False)
    parts = sl.split_variance(experiment, environment) if split else None
    return write_comparison(runs, checkpoints, request, outputs, parts)


@contextmanager
def _cluster(address: str | None) -> Iterator[MapLike | None]:
    if address is None:
        yield None
        return
    with closing(dask_adapter.connect(address)) as client:
        yield dask_adapter.on(client)


@click.command("designs")
@experiment_options()
@replications_option()
@control_option
@workers_option
@json_option
@plot_option
@report_option
def designs_command(
    policies: tuple[str, ...],
    workers: int | None,
    plot_path: str | None,
    report_path: str | None,
    **options: Any,
) -> Output:
    """Compare the naive, time-coupled and replay designs on one experiment: variance, users, winner."""
    outputs = {"plot": plot_path, "report": report_path}
    check_outputs(outputs)
    experiment, settings = read_experiment(policies, options)
    level = settings.get("level", 0.95)
    read_request({"level": level}, experiment, experiment.replications)
    with progress_bar("simulating") as progress:
        comparison = sl.designs(
            experiment,
            settings["environment"],
            level=level,
            checkpoints=horizon_grid(experiment.horizon) if plot_path or report_path else None,
            workers=workers,
            progress=progress,
        )
    if plot_path:
        comparison.plot(plot_path)
    if report_path:
        comparison.to_html(report_path)
    return Output(comparison, comparison.to_dicts(), written(outputs))


@click.command("demo")
@click.option(
    "--out", default="sameluck-demo", show_default=True, help="Folder for figure and report."
)
@json_option
def demo_command(out: str) -> Output:
    """Run the first example: two UCB1 policies on five Bernoulli arms, naive and replay, with figure and report."""
    folder = Path(out)
    make_folder(folder)
    policies = {"ucb1(alpha=2.5)": sl.UCB1(2.5), "ucb1(alpha=3)": sl.UCB1(3.0)}
    experiment = sl.Experiment(policies=policies, arms=5, horizon=10_000, replications=10, seed=7)
    with progress_bar("both designs") as progress:
        comparison = sl.designs(
            experiment,
            sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1)),
            designs=(sl.Naive(), sl.Replay()),
            level=0.99,
            checkpoints=horizon_grid(10_000),
            progress=progress,
        )
    plot, report = folder / "effect.svg", folder / "report.html"
    comparison.plot(plot)
    comparison.to_html(report)
    text = (
        "Which policy earns more on five Bernoulli arms in 10,000 periods: UCB1 with alpha 3 or with alpha 2.5?\n\n"
        f"{comparison}\n\nfigure  {plot}\nreport  {report}"
    )
    return Output(text, comparison.to_dicts())
