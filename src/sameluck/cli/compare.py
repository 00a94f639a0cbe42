"""`sameluck compare`, `designs` and `demo`: simulate, compare, show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from sameluck.adapters import dask
from sameluck.cli.comparison_output import json_of, read_checkpoints, text_of, write_outputs
from sameluck.cli.experiment_options import experiment_of, experiment_options
from sameluck.cli.output import as_json_option, check_outputs, horizon_grid, progress_bar
from sameluck.design import Naive, Replay
from sameluck.environments.bernoulli import Bernoulli
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.files import to_json
from sameluck.inference.comparison import compare
from sameluck.inference.design_comparison import designs
from sameluck.inference.effects import Request, check_request
from sameluck.inference.variance_split import split_variance
from sameluck.policies.ucb import UCB1
from sameluck.simulation.simulate import simulate

ASKED = ("level", "pairs", "interval", "simultaneous", "adjust")


@click.command(
    "compare",
    epilog='Example: sameluck compare "ucb1(alpha=2.5)" "ucb1(alpha=3)" --env "bernoulli(0.9,0.7,0.5)"',
)
@experiment_options
@click.option("--replications", type=int, help="Independent repetitions.  [default: 100]")
@click.option(
    "--design", help="naive, replay, replay(share_noise=true), time_coupled.  [default: replay]"
)
@click.option("--control", help="The policy to compare with.  [default: the first]")
@click.option(
    "--checkpoints", help="Horizons to report, e.g. 100,1000,10000.  [default: the horizon]"
)
@click.option("--pairs", help="control, all or best.  [default: control]")
@click.option("--interval", help="t, bootstrap or anytime.  [default: t]")
@click.option("--simultaneous", help="Let intervals hold together over pairs, checkpoints or both.")
@click.option(
    "--best", is_flag=True, default=None, help="Say which policies may be the best of all."
)
@click.option("--adjust", help="Take out luck of mean zero: means or exploration.")
@click.option(
    "--split", is_flag=True, help="On a prior: how much variance is which bandit was drawn."
)
@click.option("--workers", type=int, help="Threads.  [default: all cores]")
@click.option("--dask", metavar="ADDRESS", help="Run on the Dask cluster at tcp://host:port.")
@as_json_option
@click.option("--csv", "csv_path", metavar="FILE", help="Write the effects as CSV.")
@click.option("--plot", "plot_path", metavar="FILE", help="Draw the effects: .svg, .pdf or .png.")
@click.option("--report", "report_path", metavar="FILE", help="Write a self-contained HTML page.")
@click.option(
    "--save", "runs_path", metavar="FILE", help="Keep the runs (.npz) for sameluck.Runs.load."
)
def compare_command(policies: tuple[str, ...], **options: Any) -> None:
    """Compare policies by simulation.

    Policies are written as in `sameluck policies`; `NAME=POLICY` gives one a name. All settings may stand in a
    TOML file instead, with the same words (environment, horizon, ... and a table [policies]); options given
    here override it.
    """
    outputs = {kind: options.pop(f"{kind}_path") for kind in ("csv", "plot", "report", "runs")}
    check_outputs(outputs)
    as_json, workers, dask, split = (
        options.pop(name) for name in ("as_json", "workers", "dask", "split")
    )
    experiment, settings = experiment_of(policies, options)
    if split and not settings["environment"].is_prior:
        raise Invalid("--split needs a prior as --env")
    asked = read_checkpoints(settings.get("checkpoints"), experiment)
    drawn = outputs["plot"] or outputs["report"]
    # A figure wants a curve; what is printed and written as numbers is what was asked for.
    grid = horizon_grid(experiment.horizon) if drawn and len(asked) == 1 else []
    wanted = {name: settings[name] for name in ASKED if name in settings}
    check_request(experiment, experiment.replications, Request(**wanted))
    with _cluster(dask) as map_like, progress_bar("simulating") as progress:
        runs = simulate(
            experiment,
            settings["environment"],
            checkpoints=sorted({*asked, *grid}),
            workers=workers,
            progress=progress,
            map=map_like,
            detail="adjust" in settings,
        )
    best = settings.get("best", False)
    result = compare(runs.at(asked), best=best, **wanted)
    curve = compare(runs, best=best, **wanted) if grid else result
    parts = split_variance(experiment, settings["environment"]) if split else None
    written = write_outputs(result, curve, parts, outputs)
    click.echo(json_of(result, parts) if as_json else text_of(result, parts))
    for path in written:
        click.echo(f"wrote {path}", err=True)


@click.command("designs")
@experiment_options
@click.option("--replications", type=int, help="Independent repetitions.  [default: 100]")
@click.option("--control", help="The policy to compare with.  [default: the first]")
@click.option("--workers", type=int, help="Threads.  [default: all cores]")
@as_json_option
@click.option("--plot", "plot_path", metavar="FILE", help="Draw the effects: .svg, .pdf or .png.")
@click.option("--report", "report_path", metavar="FILE", help="Write a self-contained HTML page.")
def designs_command(
    policies: tuple[str, ...],
    workers: int | None,
    plot_path: str | None,
    report_path: str | None,
    *,
    as_json: bool,
    **options: Any,
) -> None:
    """Show naive, time-coupled and replay side by side on your own case: variance, users, who wins."""
    check_outputs({"plot": plot_path, "report": report_path})
    experiment, settings = experiment_of(policies, options)
    level = settings.get("level", 0.95)
    check_request(experiment, experiment.replications, Request(level))
    drawn = plot_path or report_path
    with progress_bar("simulating") as progress:
        found = designs(
            experiment,
            settings["environment"],
            level=level,
            checkpoints=horizon_grid(experiment.horizon) if drawn else None,
            workers=workers,
            progress=progress,
        )
    if plot_path:
        found.plot(plot_path)
    if report_path:
        found.to_html(report_path)
    click.echo(to_json(found.to_dicts()) if as_json else str(found))
    for path in filter(None, (plot_path, report_path)):
        click.echo(f"wrote {path}", err=True)


@click.command("demo")
@click.option(
    "--out", default="sameluck-demo", show_default=True, help="Folder for figure and report."
)
@as_json_option
def demo_command(out: str, *, as_json: bool) -> None:
    """Two UCB1 policies on five coins, naive against replay: the first example, with figure and report."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"cannot make the folder {out!r}: {error.strerror}") from None
    policies = {"ucb1(alpha=2.5)": UCB1(2.5), "ucb1(alpha=3)": UCB1(3.0)}
    coins = Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1))
    experiment = Experiment(policies=policies, arms=5, horizon=10_000, replications=10, seed=7)
    with progress_bar("both designs") as progress:
        both = designs(
            experiment,
            coins,
            designs=(Naive(), Replay()),
            level=0.99,
            checkpoints=horizon_grid(10_000),
            progress=progress,
        )
    plot, report = folder / "effect.svg", folder / "report.html"
    both.plot(plot)
    both.to_html(report)
    if as_json:
        click.echo(to_json(both.to_dicts()))
        return
    click.echo(
        "Which earns more on five coins in 10,000 periods: UCB1 with alpha 3 or with alpha 2.5?\n"
    )
    click.echo(f"{both}\n")
    click.echo(f"figure  {plot}\nreport  {report}")


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    if address is None:
        yield None
        return
    client = dask.connect(address)
    try:
        yield dask.on(client)
    finally:
        client.close()
