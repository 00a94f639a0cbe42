"""`sameluck plan` and `sameluck race`: before the experiment, and many candidates at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.status import Status

from sameluck.cli.experiment_options import experiment_of, experiment_options
from sameluck.cli.output import as_json_option, check_outputs
from sameluck.design import Replay
from sameluck.errors import Interrupted, Invalid
from sameluck.files import to_json
from sameluck.inference.planning import plan
from sameluck.inference.racing import race


@click.command(
    "plan",
    epilog='Example: sameluck plan ucb1 thompson_bernoulli --env "bernoulli(0.7,0.3)" --effect 10 --power 0.9',
)
@experiment_options
@click.option("--design", help="The design to plan for.  [default: replay]")
@click.option("--effect", type=float, help="The difference in cumulative reward to detect.")
@click.option("--power", type=float, help="The chance to detect it.")
@click.option("--replications", type=int, help="How many are affordable. Give two of these three.")
@click.option("--pilot", type=int, default=400, show_default=True, help="Replications to simulate.")
@click.option("--arrivals-per-day", type=float, help="Users a day, for the wall-clock time.")
@click.option("--reward-delay-seconds", type=float, default=0.0, help="From an arm to its reward.")
@click.option("--verify", is_flag=True, help="Simulate the plan: realised power and coverage.")
@as_json_option
@click.option("--plot", "plot_path", metavar="FILE", help="Draw power curves: .svg, .pdf or .png.")
def plan_command(
    policies: tuple[str, ...], plot_path: str | None, *, as_json: bool, **options: Any
) -> None:
    """Say how many replications and users a comparison of two policies needs, under each design."""
    check_outputs({"plot": plot_path})
    asked = ("effect", "power", "replications", "pilot", "verify")
    question = {
        name: options.pop(name) for name in (*asked, "arrivals_per_day", "reward_delay_seconds")
    }
    experiment, settings = experiment_of(policies, options)
    level = settings.get("level", 0.95)
    found = plan(experiment, settings["environment"], level=level, **question)
    if plot_path:
        found.plot(plot_path)
        click.echo(f"wrote {plot_path}", err=True)
    click.echo(_plan_json(found) if as_json else str(found))


def _plan_json(found: Any) -> str:
    return to_json(
        {
            "designs": found.to_dicts(),
            "by_horizon": [row._asdict() for row in found.by_horizon],
            "pilot_effect": found.pilot_effect,
            "pilot_effect_error": found.pilot_effect_error,
            "check": found.check._asdict() if found.check else None,
            "verdict": found.verdict,
        }
    )


@contextmanager
def _kept(path: str | None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if path is None:
            raise
        raise Interrupted(
            f"the race is kept in {path!r}; run the same command again to go on"
        ) from None


@click.command(
    "race",
    epilog='Example: sameluck race "ucb1(0.2)" "ucb1(1)" uniform --env "bernoulli(0.6,0.5)" --tolerance 5',
)
@experiment_options
@click.option("--tolerance", type=float, help="How much short of the best is good enough.")
@click.option(
    "--least", type=int, default=30, show_default=True, help="Replications before deciding."
)
@click.option(
    "--most", type=int, default=1_000, show_default=True, help="Replications before giving up."
)
@click.option("--keep", metavar="FILE", help="Keep the race here and go on from it.")
@as_json_option
def race_command(
    policies: tuple[str, ...],
    tolerance: float | None,
    keep: str | None,
    *,
    as_json: bool,
    **options: Any,
) -> None:
    """Race any number of policies on the same luck until one is certainly good enough."""
    least, most = options.pop("least"), options.pop("most")
    if tolerance is None:
        raise Invalid("say how much short of the best is good enough: --tolerance 5")
    check_outputs({"keep": keep})
    experiment, settings = experiment_of(policies, options)
    if experiment.design != Replay():
        raise Invalid("a race shares all luck: take the design out of the file")
    with _kept(keep), Status("racing", console=Console(stderr=True)) as status:
        found = race(
            experiment.policies,
            settings["environment"],
            tolerance=tolerance,
            horizon=experiment.horizon,
            level=settings.get("level", 0.95),
            least=least,
            most=most,
            arms=experiment.n_arms,
            seed=experiment.seed,
            progress=lambda many, names: status.update(
                f"racing: {many} replications, still in: {', '.join(names)}"
            ),
            keep=keep,
        )
    if as_json:
        whole = {
            "certified": found.certified,
            "best": found.best,
            "replications": found.replications,
        }
        costs = {
            "users": found.users,
            "policy_runs": found.policy_runs,
            "naive_users": found.naive_users,
        }
        click.echo(
            to_json({**whole, **costs, "runners": found.to_dicts(), "verdict": found.verdict})
        )
        return
    click.echo(str(found))
