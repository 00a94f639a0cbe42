"""`sameluck compare`, `designs`, `demo` and `verify`. `live results` shares options and output."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import click

import sameluck as sl
from sameluck import text_forms
from sameluck.adapters import dask as dask_adapter
from sameluck.cli.experiment_options import (
    Command,
    OptionValues,
    control_option,
    experiment_options,
    parse_checkpoints,
    read_experiment,
)
from sameluck.cli.import_option import import_option, mention_import
from sameluck.cli.output import (
    Output,
    Outputs,
    check_outputs,
    horizon_grid,
    json_option,
    plot_option,
    progress_bar,
    report_option,
    written,
)
from sameluck.environments.base import Environment
from sameluck.experiment import capabilities_of
from sameluck.files import made_with, make_folder, write_whole
from sameluck.inference.interval_methods import INTERVALS, STUDENT, TWIN
from sameluck.inference.requests import Request, check_request
from sameluck.policies.external import Makers
from sameluck.reporting.pages.page import Card
from sameluck.reporting.tables import csv_table, wrapped
from sameluck.simulation.kept_runs import KeptRuns
from sameluck.simulation.simulate import Simulation, available_workers, checked_work
from sameluck.simulation.verification import difference_from_rerun
from sameluck.wording import listed_with_or

pairs_option = click.option("--pairs", help="control, all or best.  [default: control]")
metric_option = click.option(
    "--metric",
    help="The quantity to compare: reward, regret, realised_regret, best_arm_share, quantile(0.1) or worst_tenth.  "
    "[default: reward]",
)
simultaneous_option = click.option(
    "--simultaneous",
    help="The intervals that hold simultaneously: pairs, checkpoints, both or none.  [default: pairs]",
)


def interval_option(default: str) -> Callable[[Command], Command]:
    """Return the option for the interval; its help names every interval."""
    return click.option("--interval", help=f"{listed_with_or(INTERVALS)}.  [default: {default}]")


workers_option = click.option("--workers", type=int, help="Threads.  [default: all cores]")
twin_option = click.option(
    "--twin",
    "with_twin",
    is_flag=True,
    help="Also simulate the policies on a copy of the measured arms; one replication is enough.",
)


def output_options(command: Command) -> Command:
    """Add the options that write a comparison to files."""
    save = click.option(
        "--save", "runs_path", metavar="FILE", help="Save the runs (.npz) for sameluck.Runs.load."
    )
    csv = click.option("--csv", "csv_path", metavar="FILE", help="Write the effects as CSV.")
    return csv(plot_option(report_option(save(command))))


def take_outputs(options: OptionValues) -> dict[str, str | None]:
    """Remove the files from the options; raise `Invalid` for a file that cannot be written."""
    purposes = ("csv", "plot", "report", "runs")
    outputs = {purpose: options.pop(f"{purpose}_path") for purpose in purposes}
    check_outputs(outputs)
    return outputs


def read_request(
    values: OptionValues, experiment: sl.Experiment, replications: int
) -> OptionValues:
    """Return the arguments of `sl.compare` among the values; raise `Invalid` for an invalid argument."""
    request = {name: values[name] for name in Request._fields if values.get(name) is not None}
    check_request(experiment, replications, Request(**request))
    return request


def with_curve(checkpoints: list[int], outputs: Outputs) -> list[int]:
    """Return the checkpoints and, if a figure is drawn, the horizons of its curve."""
    drawn = outputs["plot"] or outputs["report"]
    curve = horizon_grid(checkpoints[-1]) if drawn and len(checkpoints) == 1 else []
    return sorted({*checkpoints, *curve})


def write_comparison(
    runs: sl.Runs,
    checkpoints: list[int],
    request: OptionValues,
    outputs: Outputs,
    split: sl.VarianceSplit | None = None,
    *,
    with_twin: bool = False,
    makers: Makers | None = None,
) -> Output:
    """Compare and write the files. Figures show all horizons of the runs, text and numbers the checkpoints."""
    # One replication shows no variance between replications; only a twin can give an interval.
    if with_twin and runs.replications == 1:
        request = {"interval": TWIN.name, **request}
    if "interval" in request and INTERVALS[request["interval"]].copies_arms:
        request = {"makers": makers, **request}
    # A figure's horizons must not widen simultaneous intervals, so text and numbers have their own comparison.
    result = sl.compare(runs.at(checkpoints), **request)
    has_curve = len(runs.checkpoints) > len(checkpoints)
    curve = sl.compare(runs, check=False, **request) if has_curve else result
    note = [Card("Where the variance comes from", split.verdict)] if split else []
    twin = _twin(runs.at(checkpoints), request, makers) if with_twin else None
    if twin is not None and outputs["report"]:
        note.append(twin.card())
    writers: dict[str, Callable[[Path], object]] = {
        "csv": lambda path: write_whole(path, _csv(result.to_dicts()).encode()),
        "plot": curve.plot,
        "report": lambda path: result.to_html(path, curve=curve, more=note),
        "runs": curve.runs.save,
    }
    for purpose, path in outputs.items():
        if path is not None:
            writers[purpose](Path(path))
    texts = [str(result), wrapped(split.verdict) if split else "", str(twin) if twin else ""]
    record = partial(comparison_record, result, split, twin)
    return Output("\n\n".join(filter(None, texts)), record, written(outputs))


def _twin(runs: sl.Runs, request: OptionValues, makers: Makers | None) -> sl.Twin:
    level = request.get("level", 0.95)
    with progress_bar("simulating a copy of the arms", "replications") as progress:
        return sl.twin(runs, level=level, progress=progress, makers=makers)


def comparison_record(
    result: sl.Comparison, split: sl.VarianceSplit | None = None, twin: sl.Twin | None = None
) -> dict[str, object]:
    environment = result.runs.environment
    values = [value._asdict() for value in result.values]
    return {
        **made_with(),
        "experiment": result.runs.experiment.to_dict(),
        "digest": result.runs.experiment.digest,
        "environment": environment and text_forms.write(environment),
        "checkpoints": result.runs.checkpoints.tolist(),
        **result.request._asdict(),
        **({} if result.metric == "reward" else {"values": values}),
        "effects": result.to_dicts(),
        **({"by_level": [row._asdict() for row in result.by_level]} if result.by_level else {}),
        "standings": [standing._asdict() for standing in result.standings],
        "verdict": result.verdict,
        "cautions": list(result.cautions),
        "check": result.check.to_record(),
        "split": split._asdict() if split else None,
        **({"twin": twin.to_record()} if twin else {}),
    }


def _csv(records: list[dict[str, object]]) -> str:
    return csv_table(list(records[0]), [list(record.values()) for record in records])


@click.command(
    "compare",
    epilog='Example: sameluck compare "ucb1(alpha=2.5)" "ucb1(alpha=3)" --env "bernoulli(0.9,0.7,0.5)"',
)
@experiment_options(replications=100)
@click.option(
    "--design", help="naive, replay, replay(share_noise=true), time_coupled.  [default: replay]"
)
@control_option
@metric_option
@click.option(
    "--checkpoints", help="Periods to report, e.g. 100,1000,10000.  [default: the horizon]"
)
@pairs_option
@interval_option(default=STUDENT.name)
@simultaneous_option
@click.option(
    "--best", is_flag=True, default=None, help="Report the policies that may be the best."
)
@click.option("--adjust", help="Subtract noise of mean zero: means.")
@click.option(
    "--split",
    is_flag=True,
    help="With a prior: report the share of the variance that is due to the drawn instance.",
)
@twin_option
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
    with_twin: bool,
    **options: object,
) -> Output:
    """Compare policies by simulation.

    Write policies as `sameluck policies` lists them; `NAME=POLICY` names a policy. A TOML file may hold the settings
    instead, under the same names (environment, horizon, ... and a table [policies]); options override the file.
    """
    outputs = take_outputs(options)
    experiment, settings = read_experiment(policies, options)
    environment = settings["environment"]
    if split and not capabilities_of(environment).has_instances:
        raise sl.Invalid("--split needs a prior as --env, such as bernoulli_prior")
    checkpoints = parse_checkpoints(settings.get("checkpoints"), experiment)
    request = read_request(settings, experiment, max(experiment.replications, 1 + with_twin))
    runs = simulate(
        experiment,
        environment,
        keep=outputs["runs"],
        dask=dask,
        checkpoints=with_curve(checkpoints, outputs),
        workers=workers,
    )
    request["best"] = settings.get("best", False)
    variance = sl.split_variance(experiment, environment) if split else None
    return write_comparison(runs, checkpoints, request, outputs, variance, with_twin=with_twin)


@click.command("designs")
@experiment_options(replications=100)
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
    **options: object,
) -> Output:
    """Compare the naive, time-coupled and replay designs on one experiment by variance, users and winner."""
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
    """Compare two UCB1 policies on five Bernoulli arms, naive and replay, with figure and report."""
    folder = Path(out)
    make_folder(folder)
    policies = {"ucb1(alpha=2.5)": sl.UCB1(2.5), "ucb1(alpha=3)": sl.UCB1(3.0)}
    # With 10 replications the 99% interval of the variance ratio misses the ratio in docs/paper.md, by chance.
    experiment = sl.Experiment(policies=policies, arms=5, horizon=10_000, replications=20, seed=7)
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


@click.command("verify")
@click.argument("path", metavar="RUNS.npz")
@workers_option
@import_option
@json_option
def verify_command(path: str, workers: int | None) -> Output:
    """Simulate saved runs again, from their file alone, and compare every bit.

    The exit code is 1 if a bit differs.
    """
    with mention_import():
        runs = sl.Runs.load(path)
    with progress_bar("simulating again") as progress:
        difference = difference_from_rerun(runs, workers=workers, progress=progress)
    about = f"{runs.replications:,} replications of {', '.join(runs.policies)}"
    text = f"equal: {about}, bit for bit" if difference is None else f"not equal: {difference}"
    record = {
        "equal": difference is None,
        "difference": difference,
        "digest": runs.experiment.digest,
        "environment": text_forms.write(runs.environment),
        "replications": runs.replications,
    }
    return Output(text, record, exit_code=0 if difference is None else 1)


def simulate(
    experiment: sl.Experiment,
    environment: Environment,
    *,
    keep: str | None,
    dask: str | None,
    **options: Any,
) -> sl.Runs:
    """Simulate, on the Dask cluster at an address if there is one.

    With `keep`, complete replications are saved to that file when Ctrl-C is pressed.
    """
    with ExitStack() as stack, progress_bar("simulating") as progress:
        if dask is not None:
            client = stack.enter_context(closing(dask_adapter.connect(dask)))
            options["map"] = dask_adapter.on(client)
        if keep is None:
            return sl.simulate(experiment, environment, progress=progress, **options)
        return _simulate_kept(keep, experiment, environment, progress, **options)


def _simulate_kept(
    path: str,
    experiment: sl.Experiment,
    environment: Environment,
    progress: Callable[[int, int], object],
    *,
    checkpoints: list[int] | None,
    **options: Any,
) -> sl.Runs:
    """Continue the runs of an interrupted simulation in the file; overwrite any other content."""
    work = checked_work(experiment, environment, checkpoints)
    workers = options["workers"] or available_workers()
    run = Simulation(work, workers, options.get("map")).run
    kept = KeptRuns(path, work, workers)
    try:
        earlier = kept.saved(run)
    except sl.Invalid:
        earlier = kept.nothing
    if earlier.replications == experiment.replications:  # it was not interrupted: simulate anew
        earlier = kept.nothing
    try:
        return kept.complete(run, earlier, progress)
    except KeyboardInterrupt as error:
        if notes := getattr(error, "__notes__", []):
            raise sl.Interrupted(notes[-1]) from None
        raise
