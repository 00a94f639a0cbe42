"""`sameluck live start`: start an experiment on real users from a file."""

from __future__ import annotations

from pathlib import Path

import click

import sameluck as sl
from sameluck.cli.experiment_options import FOR_RESULTS, prefix_errors, read_experiment_file
from sameluck.cli.live.store_options import (
    DatabaseOptions,
    caution_notes,
    collect_cautions,
    format_rows,
    live_command,
    name_option,
)
from sameluck.cli.output import Output
from sameluck.wording import counted


@live_command("start", epilog="Example: sameluck live start shop.toml --db sqlite:///shop.db")
@click.argument("file", metavar="FILE.toml")
@name_option(help="Name of the experiment.  [default: name in the file, or the file's name]")
def start_command(file: str, name: str | None, database: DatabaseOptions) -> Output:
    """Start an experiment on real users.

    The file has the settings of `sameluck compare` (arms, horizon, replications, seed, ... and a table [policies]).
    It may have a name, a table [live] with the options of sameluck.LiveOptions (fallback, exposure, order,
    open_replications, ...) and a table [live.reward] (min, max, default, window_seconds). For example:

    \b
        arms = ["red", "green", "blue"]
        horizon = 100
        replications = 20

    \b
        [policies]
        ucb = "ucb1(alpha=2)"
        thompson = "thompson_bernoulli"

    \b
        [live]
        fallback = "red"

    \b
        [live.reward]
        min = 0
        max = 1
        window_seconds = 3600
    """  # noqa: D301 click does not join the lines after this mark
    experiment, settings = read_experiment_file(file)
    name = settings.get("name", Path(file).stem) if name is None else name
    functions = database.import_makers()
    with prefix_errors(file):
        options = sl.LiveOptions.from_dict(settings.get("live", {}))
    with (
        database.open(new=True) as store,
        collect_cautions() as cautions,
        prefix_errors(file),
        database.explain_name_conflict(name, "give this one another name: --name NAME"),
    ):
        live = store.start(name, experiment, options=options, makers=functions)
    if unused := [name for name in FOR_RESULTS if name in settings]:
        cautions.append(
            f"{file}: {', '.join(unused)} {'is' if len(unused) == 1 else 'are'} ignored by a live experiment; "
            "use the options of `sameluck live results`"
        )
    record = {
        "name": live.name,
        "started_at": live.started_at,
        "experiment": live.experiment.to_dict(),
        "digest": live.experiment.digest,
        "live": live.options.to_dict(),
        "cautions": cautions,
    }
    return Output(_text(live, database), record, caution_notes(cautions))


def _text(live: sl.LiveExperiment, database: DatabaseOptions) -> str:
    experiment, name = live.experiment, live.name
    policies = [
        f"{policy} (control)" if policy == experiment.control else policy
        for policy in experiment.policies
    ]
    plan = (
        f"{counted(experiment.replications, 'replication')} of {counted(experiment.horizon, 'period')}, "
        f"{experiment.n_arms:,} arms"
    )
    if live.options.aa:
        plan += "; A/A: all policies play the control's rule"
    rows = format_rows(
        ("policies", ", ".join(policies)), ("plan", plan), ("kept in", database.safe_url)
    )
    steps = {
        "assign": (("--unit", "USER"), "choose the arm to show to a user"),
        "reward": (("ID", "VALUE"), "report the user's reward"),
        "status": ((), "show the progress"),
        "results": ((), "compare the policies so far"),
        "doctor": ((), "check the experiment"),
    }
    if len(policies) == 1:
        steps["add-policy"] = (("POLICY",), "add a policy to compare")
    commands = [
        (database.next_command(command, name, *words), purpose)
        for command, (words, purpose) in steps.items()
    ]
    return f"started {name!r}\n\n{rows}\n\nnext:\n{format_rows(*commands, indent='  ')}"
