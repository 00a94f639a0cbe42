"""`sameluck live simulate`: a live experiment on synthetic users, to see it move or to rehearse a plan."""

from __future__ import annotations

import shlex
import time
from typing import Any, NamedTuple

import click

from sameluck import text_forms
from sameluck.cli.comparison_output import as_dict, text_of
from sameluck.cli.experiment_options import experiment_of, file_among, naming, options_with
from sameluck.cli.live.status import checks_text, common_horizon
from sameluck.cli.live.store_options import VARIABLE, cautions_noted, following, opened, taking
from sameluck.cli.output import as_json_option, progress_bar
from sameluck.errors import Interrupted
from sameluck.experiment import Experiment
from sameluck.files import to_json
from sameluck.inference.comparison import Comparison, compare
from sameluck.inference.effects import Request, check_request
from sameluck.live import store as stores
from sameluck.live.diagnostics import Check
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import Live
from sameluck.live.rehearsal.rehearsal import Rehearsal, VirtualClock, rehearse, span
from sameluck.live.rehearsal.traffic import Traffic
from sameluck.reporting.tables import wrapped
from sameluck.validation import require_name

POLICIES = ("ucb1(alpha=2)", "thompson_bernoulli")
ENVIRONMENT = "bernoulli(0.6, 0.4, 0.2)"
HORIZON, REPLICATIONS, WINDOW = 100, 20, 3600.0

TRAFFIC = ("arrivals_per_day", "delay", "loss", "unexposed", "duplicates", "returning", "drift")
ASKED = ("level", "pairs", "interval", "simultaneous")
LIVE = ("order", "open_replications", "window", "batch")


@click.command(
    "simulate",
    epilog='Example: sameluck live simulate ucb1 uniform --env "bernoulli(0.6,0.5)" --delay "exponential(600)" '
    "--loss 0.1",
)
@options_with(horizon=HORIZON)
@click.option("--replications", type=int, help="Independent repetitions.  [default: 20]")
@click.option("--design", help="replay or naive.  [default: replay]")
@click.option("--control", help="The policy to compare with.  [default: the first]")
@click.option("--arrivals-per-day", type=float, help="Calls for an arm.  [default: 10000]")
@click.option(
    "--delay",
    help="Seconds from arm to reward: 60, exponential(60), lognormal(60, 1.5).  [default: exponential(60)]",
)
@click.option("--loss", type=float, help="Share of rewards that never come.  [default: 0]")
@click.option("--unexposed", type=float, help="Share of users who never see the arm.  [default: 0]")
@click.option("--duplicates", type=float, help="Share of rewards reported twice.  [default: 0]")
@click.option("--returning", type=float, help="Share of calls by earlier users.  [default: 0]")
@click.option(
    "--drift",
    help="Of the mean reward: 0.01 (per 1,000 users), step(0.1, after=500, arm=1).  [default: 0]",
)
@click.option("--window", type=float, help="Seconds a reward may take.  [default: 3600]")
@click.option("--order", help="lockstep or phase.  [default: lockstep]")
@click.option("--open-replications", type=int, help="How many run at once.  [default: 10]")
@click.option("--batch", type=int, help="A policy acts so often, then sees.  [default: 1]")
@click.option("--days", type=float, help="Stop after so many virtual days.  [default: at its end]")
@click.option("--traffic-seed", type=int, default=0, show_default=True, help="Of the traffic.")
@click.option(
    "--db",
    "url",
    metavar="URL",
    help=f"Keep the experiment there instead of in memory; {VARIABLE} is not heeded.",
)
@click.option("--name", default="rehearsal", show_default=True, help="What to call it there.")
@as_json_option
def simulate_command(
    policies: tuple[str, ...],
    url: str | None,
    name: str,
    days: float | None,
    traffic_seed: int,
    *,
    as_json: bool,
    **options: Any,
) -> None:
    """Drive a live experiment with synthetic users on a virtual clock: the real engine, months in seconds.

    Without policies it shows an example. A TOML file as for `sameluck live start` may be given instead, with the
    tables [live] and [traffic]; options given here override it.
    """
    given = {word: options.pop(word) for word in (*TRAFFIC, *LIVE)}
    if not policies and options["environment"] is None:
        options["environment"] = ENVIRONMENT
    experiment, settings = experiment_of(
        policies or POLICIES, options, horizon=HORIZON, replications=REPLICATIONS
    )
    table = settings.get("live", {})
    wanted = {word: settings[word] for word in ASKED if word in settings}
    require_name("--name", name)
    with naming(file_among(policies), {**options, **given}):
        traffic = _traffic(settings.get("traffic", {}), table, given)
        check_request(experiment, experiment.replications, Request(**wanted))
        live = _live(table, given, traffic)
    with _store(url) as store:
        with (
            cautions_noted() as cautions,
            naming(file_among(policies), {**options, **given}),
            taking(url or "", name, "call this one otherwise: --name NAME"),
        ):
            started = store.start(name, experiment, live=live)
        try:
            rehearsal = _drive(started, settings["environment"], traffic, days, traffic_seed)
        except KeyboardInterrupt:
            raise _interrupted(url, name) from None
        result = _result(started, wanted)
        shown = _Shown(
            _title(experiment, settings["environment"], traffic),
            rehearsal,
            result,
            started.diagnostics(),
        )
    click.echo(_json(shown, cautions) if as_json else _text(shown))
    for caution in cautions:
        click.echo(wrapped(f"caution: {caution}"), err=True)
    if url is not None:
        look = following(url, "status", shlex.quote(name))
        click.echo(f"kept; look at it with: {look}", err=True)


def _result(live: LiveExperiment, wanted: dict[str, Any]) -> Comparison | None:
    """What is known at the horizon, or at the last one that two replications have reached."""
    runs, reached = live.runs(), live.experiment.horizon
    if runs.replications < 2 and (reached := common_horizon(live)):
        runs = live.runs([reached])
    return compare(runs, **wanted) if runs.replications >= 2 else None


class _Shown(NamedTuple):
    title: str
    rehearsal: Rehearsal
    result: Comparison | None
    checks: tuple[Check, ...]


def _drive(
    live: LiveExperiment, environment: Any, traffic: Traffic, days: float | None, seed: int
) -> Rehearsal:
    with progress_bar("rehearsing", "replications") as advance:

        def report(now: Rehearsal) -> None:
            advance(now.status.complete, now.status.planned, f"after {span(now.days)}")

        return rehearse(live, environment, traffic=traffic, days=days, seed=seed, progress=report)


def _title(experiment: Experiment, environment: Any, traffic: Traffic) -> str:
    where = text_forms.write(environment)
    where = where if len(where) <= 60 else where[:57] + "..."
    delay = text_forms.write(traffic.delay)
    return wrapped(
        f"{', '.join(experiment.policies)} on {where}: {experiment.replications:,} replications of "
        f"{experiment.horizon:,} periods; {traffic.arrivals_per_day:,.10g} calls a day, rewards after {delay} seconds"
    )


def _store(url: str | None) -> Any:
    if url is None:
        return stores.open("sqlite://", clock=VirtualClock())
    waitless = url.startswith("sqlite:///") and "?" not in url  # users who do not exist can be lost
    where = f"{url}?synchronous=normal" if waitless else url
    return opened(where, new=True, clock=VirtualClock(time.time()))


def _typed(given: dict[str, Any], words: tuple[str, ...]) -> dict[str, Any]:
    return {word: given[word] for word in words if given[word] is not None}


def _traffic(table: dict[str, Any], live: dict[str, Any], given: dict[str, Any]) -> Traffic:
    expected = {word: live[word] for word in ("arrivals_per_day",) if word in live}
    return Traffic.from_dict({**expected, **table, **_typed(given, TRAFFIC)})


def _live(table: dict[str, Any], given: dict[str, Any], traffic: Traffic) -> Live:
    values = dict(table)
    values.update(_typed(given, ("order", "open_replications", "batch")))
    if traffic.unexposed:
        values.setdefault("exposure", "explicit")
    values.setdefault("arrivals_per_day", traffic.arrivals_per_day)
    reward = values.get("reward", {})
    if isinstance(reward, dict):
        typed = {} if given["window"] is None else {"window_seconds": given["window"]}
        values["reward"] = {"window_seconds": WINDOW, **reward, **typed}
    return Live.from_dict(values)


def _interrupted(url: str | None, name: str) -> BaseException:
    if url is None:
        return KeyboardInterrupt()
    look = following(url, "status", shlex.quote(name))
    return Interrupted(f"what happened so far is kept; look at it with: {look}")


def _json(shown: _Shown, cautions: list[str]) -> str:
    return to_json(
        {
            "rehearsal": shown.rehearsal.to_dict(),
            "result": as_dict(shown.result) if shown.result else None,
            "diagnostics": [check._asdict() for check in shown.checks],
            "cautions": cautions,
        }
    )


def _text(shown: _Shown) -> str:
    found = (
        text_of(shown.result)
        if shown.result
        else "No result yet: a comparison needs rewards in two replications. Give it more --days."
    )
    parts = [
        shown.title,
        str(shown.rehearsal._replace(effects={})),
        str(shown.rehearsal.status),
        found,
        f"diagnostics\n{checks_text(shown.checks)}",
    ]
    return "\n\n".join(parts)
