"""`sameluck live simulate`: run a live experiment on synthetic users, to demonstrate it or rehearse a plan."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

import click

import sameluck as sl
from sameluck import text_forms
from sameluck.cli.compare_commands import comparison_record, read_request
from sameluck.cli.experiment_options import (
    OptionValues,
    control_option,
    experiment_options,
    prefix_errors,
    read_experiment,
    toml_file,
)
from sameluck.cli.live import store_options
from sameluck.cli.live.monitoring import format_checks
from sameluck.cli.live.results_command import common_horizon
from sameluck.cli.output import Output, json_option, progress_bar
from sameluck.live.rehearsal import days_text
from sameluck.reporting.tables import wrapped

POLICIES = ("ucb1(alpha=2)", "thompson_bernoulli")
ENVIRONMENT = "bernoulli(0.6, 0.4, 0.2)"
HORIZON, REPLICATIONS, WINDOW = 100, 20, 3600.0
NO_RESULT = "No result yet: a comparison needs rewards in two replications; simulate more --days."

TRAFFIC_OPTIONS = ("arrivals_per_day", "delay", "loss", "unexposed", "duplicates", "returning")
LIVE_OPTIONS = ("order", "open_replications", "batch")


@click.command(
    "simulate",
    epilog='Example: sameluck live simulate ucb1 uniform --env "bernoulli(0.6,0.5)" --delay "exponential(600)" '
    "--loss 0.1",
)
@experiment_options(horizon=HORIZON, replications=REPLICATIONS)
@click.option("--design", help="replay or naive.  [default: replay]")
@control_option
@click.option("--arrivals-per-day", type=float, help="Calls for an arm per day.  [default: 10000]")
@click.option(
    "--delay",
    help="Seconds from arm to reward: 60, exponential(60), lognormal(60, 1.5).  [default: exponential(60)]",
)
@click.option("--loss", type=float, help="Share of rewards that are lost.  [default: 0]")
@click.option("--unexposed", type=float, help="Share of users who never see the arm.  [default: 0]")
@click.option("--duplicates", type=float, help="Share of rewards reported twice.  [default: 0]")
@click.option("--returning", type=float, help="Share of calls by earlier users.  [default: 0]")
@click.option("--window", type=float, help="Seconds a reward may take.  [default: 3600]")
@click.option("--order", help="lockstep or phase.  [default: lockstep]")
@click.option("--open-replications", type=int, help="Replications open at once.  [default: 10]")
@click.option(
    "--batch", type=int, help="Periods after which a policy sees its rewards.  [default: 1]"
)
@click.option(
    "--days", type=float, help="Stop after this many virtual days.  [default: run to the end]"
)
@click.option("--traffic-seed", type=int, default=0, show_default=True, help="Seed of the traffic.")
@click.option(
    "--db",
    "url",
    metavar="URL",
    help=f"Keep the experiment in this database instead of in memory; {store_options.URL_VARIABLE} is not used.",
)
@store_options.name_option(default="rehearsal", show_default=True, help="Name of the experiment.")
@json_option
def simulate_command(
    policies: tuple[str, ...],
    url: str | None,
    name: str,
    days: float | None,
    traffic_seed: int,
    **options: object,
) -> Output:
    """Run a live experiment with synthetic users on a virtual clock: the real engine, months in seconds.

    Without policies the command runs an example. A TOML file as for `sameluck live start`, with tables [live] and
    [traffic], may replace the policies; options override the file.
    """
    words = (*TRAFFIC_OPTIONS, *LIVE_OPTIONS, "window")
    typed = {word: value for word in words if (value := options.pop(word)) is not None}
    if not policies and options["environment"] is None:
        options["environment"] = ENVIRONMENT
    experiment, settings = read_experiment(
        policies or POLICIES, options, horizon=HORIZON, replications=REPLICATIONS
    )
    with prefix_errors(toml_file(policies), {**options, **typed}):
        planned = _pick(settings.get("live", {}), ("arrivals_per_day",))
        values = planned | settings.get("traffic", {}) | _pick(typed, TRAFFIC_OPTIONS)
        traffic = sl.Traffic.from_dict(values)
        request = read_request({**settings, "adjust": None}, experiment, experiment.replications)
        live_options = _live_options(settings, typed, traffic)
    database = store_options.DatabaseOptions(url or "")
    show = f"show it with: {database.next_command('status', name)}"
    with _store(url) as store:
        with (
            store_options.collect_cautions() as cautions,
            prefix_errors(toml_file(policies), {**options, **typed}),
            database.explain_name_conflict(name, "give this one another name: --name NAME"),
        ):
            live = store.start(name, experiment, options=live_options)
        try:
            rehearsal = _rehearse(live, settings["environment"], traffic, days, traffic_seed)
        except KeyboardInterrupt:
            if url is None:
                raise
            raise sl.Interrupted(f"the experiment so far is kept; {show}") from None
        comparison, checks = _compare(live, request), live.diagnostics()
    sections = [
        _title(experiment, settings, traffic),
        str(rehearsal._replace(effects={})),
        str(rehearsal.status),
        str(comparison) if comparison else NO_RESULT,
        f"diagnostics\n{format_checks(checks)}",
    ]
    record = {
        "rehearsal": rehearsal.to_dict(),
        "result": comparison_record(comparison) if comparison else None,
        "diagnostics": [check._asdict() for check in checks],
        "cautions": cautions,
    }
    notes = store_options.caution_notes(cautions) + ([] if url is None else [f"kept; {show}"])
    return Output("\n\n".join(sections), record, notes)


def _live_options(
    settings: OptionValues, typed: OptionValues, traffic: sl.Traffic
) -> sl.LiveOptions:
    values = settings.get("live", {}) | _pick(typed, LIVE_OPTIONS)
    if traffic.unexposed:
        values.setdefault("exposure", "explicit")
    values.setdefault("arrivals_per_day", traffic.arrivals_per_day)
    reward = values.get("reward", {})
    if isinstance(reward, dict):
        window = typed.get("window", reward.get("window_seconds", WINDOW))
        values["reward"] = {**reward, "window_seconds": window}
    return sl.LiveOptions.from_dict(values)


def _pick(values: OptionValues, names: tuple[str, ...]) -> OptionValues:
    return {name: values[name] for name in names if name in values}


def _store(url: str | None) -> AbstractContextManager[sl.Store]:
    if url is None:
        return sl.open("sqlite://", clock=sl.VirtualClock())
    # Synthetic users may be lost in a crash, so there is no need to wait for the disk.
    plain_file = url.startswith("sqlite:///") and "?" not in url
    address = f"{url}?synchronous=normal" if plain_file else url
    return store_options.DatabaseOptions(address).open(new=True, clock=sl.VirtualClock(time.time()))


def _rehearse(
    live: sl.LiveExperiment,
    environment: sl.Environment,
    traffic: sl.Traffic,
    days: float | None,
    seed: int,
) -> sl.Rehearsal:
    with progress_bar("rehearsing", "replications") as advance:

        def progress(now: sl.Rehearsal) -> None:
            advance(now.status.complete, now.status.planned, f"after {days_text(now.days)}")

        return sl.rehearse(
            live, environment, traffic=traffic, days=days, seed=seed, progress=progress
        )


def _compare(live: sl.LiveExperiment, request: OptionValues) -> sl.Comparison | None:
    """Compare at the horizon, or at the last period that two replications have reached."""
    runs = live.runs()
    if runs.replications < 2 and (horizon := common_horizon(live)):
        runs = live.runs([horizon])
    return sl.compare(runs, **request) if runs.replications >= 2 else None


def _title(experiment: sl.Experiment, settings: OptionValues, traffic: sl.Traffic) -> str:
    text = text_forms.write(settings["environment"])
    text = text if len(text) <= 60 else text[:57] + "..."
    delay = text_forms.write(traffic.delay)
    return wrapped(
        f"{', '.join(experiment.policies)} on {text}: {experiment.replications:,} replications of "
        f"{experiment.horizon:,} periods; {traffic.arrivals_per_day:,.10g} calls per day, rewards after {delay} "
        "seconds"
    )
