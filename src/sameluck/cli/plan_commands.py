"""`sameluck plan` and `sameluck race`: size an experiment, and find the best of several policies."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console
from rich.status import Status

import sameluck as sl
from sameluck import text_forms
from sameluck.cli.experiment_options import experiment_options, read_experiment
from sameluck.cli.output import Output, check_outputs, json_option, written
from sameluck.files import made_with

EXPERIMENT_OPTIONS = (
    "environment",
    "skip_bad",
    "arms",
    "context",
    "horizon",
    "seed",
    "level",
    "design",
)


class Effect(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """Number, or a share such as 2%."""

    name = "NUMBER | SHARE%"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        if isinstance(value, str) and value.strip().endswith("%"):
            return value
        try:
            return float(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a valid float, nor a share such as 2%.", param, ctx)


@click.command(
    "plan",
    epilog='Example: sameluck plan ucb1 thompson_bernoulli --env "bernoulli(0.7,0.3)" --effect 10 --power 0.9',
)
@experiment_options()
@click.option("--design", help="The design to plan for.  [default: replay]")
@click.option(
    "--effect",
    type=Effect(),
    help="The difference in cumulative reward to detect, or a share of the control's reward: 2%.",
)
@click.option("--power", type=float, help="The probability of detecting it.  [default: 0.8]")
@click.option(
    "--replications",
    type=int,
    help="The number of replications. Give --effect or this option, or two of the three.",
)
@click.option("--pilot", type=int, default=400, show_default=True, help="Replications to simulate.")
@click.option("--arrivals-per-day", type=float, help="Users per day, to compute the duration.")
@click.option(
    "--reward-delay-seconds", type=float, default=0.0, help="Seconds from an arm to its reward."
)
@click.option("--verify", is_flag=True, help="Simulate the plan to check its power and coverage.")
@json_option
@click.option("--plot", "plot_path", metavar="FILE", help="Draw power curves: .svg, .pdf or .png.")
def plan_command(policies: tuple[str, ...], plot_path: str | None, **question: Any) -> Output:
    """Compute the replications and users that a comparison of policies needs, under each design."""
    outputs = {"plot": plot_path}
    check_outputs(outputs)
    options = {name: question.pop(name) for name in EXPERIMENT_OPTIONS}
    experiment, settings = read_experiment(policies, options)
    level = settings.get("level", 0.95)
    plan = sl.plan(experiment, settings["environment"], level=level, **question)
    if plot_path:
        plan.plot(plot_path)
    record = {
        **made_with(),
        "experiment": plan.experiment.to_dict(),
        "environment": text_forms.write(settings["environment"]),
        "level": plan.level,
        "pair": plan.pair,
        "pairs": [pair._asdict() for pair in plan.pairs],
        "control_reward": plan.control_reward,
        "designs": plan.to_dicts(),
        "by_horizon": [row._asdict() for row in plan.by_horizon],
        "pilot_effect": plan.pilot_effect,
        "pilot_effect_error": plan.pilot_effect_error,
        "check": plan.check._asdict() if plan.check else None,
        "power_range": plan.power_range,
        "verdict": plan.verdict,
        "cautions": plan.cautions,
    }
    return Output(plan, record, written(outputs))


@click.command(
    "race",
    epilog='Example: sameluck race "ucb1(0.2)" "ucb1(1)" uniform --env "bernoulli(0.6,0.5)" --tolerance 5',
)
@experiment_options()
@click.option("--tolerance", type=float, help="The acceptable loss against the best policy.")
@click.option(
    "--failures",
    default=0.01,
    show_default=True,
    help="The largest share of replications in which a policy may fail without being noticed.",
)
@click.option(
    "--least",
    "min_replications",
    default=30,
    show_default=True,
    help="The fewest replications before a decision.",
)
@click.option(
    "--most", "max_replications", default=1_000, show_default=True, help="The most replications."
)
@click.option(
    "--keep", metavar="FILE", help="Keep the race in this file and continue it from there."
)
@json_option
def race_command(policies: tuple[str, ...], keep: str | None, **question: Any) -> Output:
    """Race any number of policies until the leader is within a tolerance of the best."""
    if question["tolerance"] is None:
        message = "the acceptable loss against the best policy is missing; name it, for example --tolerance 5"
        raise sl.Invalid(message)
    check_outputs({"keep": keep})
    options = {name: question.pop(name) for name in EXPERIMENT_OPTIONS if name in question}
    experiment, settings = read_experiment(policies, options)
    if experiment.design != sl.Replay():
        raise sl.Invalid("a race uses the design replay; remove the design from the file")
    try:
        with Status("racing", console=Console(stderr=True)) as status:
            race = sl.race(
                experiment.replace(arms=experiment.n_arms, control=""),
                settings["environment"],
                level=settings.get("level", 0.95),
                progress=lambda count, names: status.update(
                    f"racing: {count} replications, still in: {', '.join(names)}"
                ),
                keep=keep,
                **question,
            )
    except KeyboardInterrupt:
        if keep is None:
            raise
        message = f"the race is kept in {keep!r}; run the same command again to continue it"
        raise sl.Interrupted(message) from None
    record = {
        **made_with(),
        "experiment": race.experiment.to_dict(),
        "environment": text_forms.write(settings["environment"]),
        "level": race.level,
        "tolerance": race.tolerance,
        "certified": race.certified,
        "best": race.best,
        "replications": race.replications,
        "users": race.users,
        "policy_runs": race.policy_runs,
        "naive_users": race.naive_users,
        "runners": race.to_dicts(),
        "verdict": race.verdict,
        "cautions": race.cautions,
    }
    return Output(race, record)
