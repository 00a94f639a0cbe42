"""`sameluck live start` and `import`: make an experiment from a file of settings, or from a production log."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import click

import sameluck as sl
from sameluck.cli.experiment_options import (
    FOR_RESULTS,
    parse_policies,
    prefix_errors,
    read_experiment_file,
    read_settings_file,
)
from sameluck.cli.live.store_options import (
    DatabaseOptions,
    caution_notes,
    collect_cautions,
    format_rows,
    live_command,
    name_argument,
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
    return Output(_started_text(live, database), record, caution_notes(cautions))


def _started_text(live: sl.LiveExperiment, database: DatabaseOptions) -> str:
    experiment, name = live.experiment, live.name
    marks = {experiment.control: " (control)"}
    policies = [policy + marks.get(policy, "") for policy in experiment.policies]
    replications = counted(experiment.replications, "replication")
    plan = f"{replications} of {counted(experiment.horizon, 'period')}, {experiment.n_arms:,} arms"
    if live.options.aa:
        plan += "; A/A: all policies play the control's rule"
    rows = ("policies", ", ".join(policies)), ("plan", plan), ("kept in", database.safe_url)
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
    return (
        f"started {name!r}\n\n{format_rows(*rows)}\n\nnext:\n{format_rows(*commands, indent='  ')}"
    )


@live_command(
    "import",
    epilog="Example: sameluck live import old shop.csv ucb=ucb1 thompson_bernoulli --arm variant --reward bought",
)
@name_argument
@click.argument("file")
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
@click.option("--arm", required=True, metavar="COLUMN", help="The column of the arm shown.")
@click.option("--reward", required=True, metavar="COLUMN", help="The column of the reward.")
@click.option(
    "--replication",
    metavar="COLUMN|ROWS",
    callback=lambda _context, _option, text: int(text) if text and text.isdigit() else text,
    help="The column of the replication, or the number of rows of each.",
)
@click.option("--time", metavar="COLUMN", help="The column to sort by.  [default: file order]")
@click.option("--arms", help="The arms in order, e.g. red,green,blue.  [default: the log's]")
@click.option("--logged-by", metavar="NAME", help="The policy that made the log, to check.")
@click.option("--options", metavar="FILE.toml", help="A file whose table [live] has the options.")
@click.option("--horizon", type=int, help="Periods per replication.  [default: the shortest]")
@click.option("--replications", type=int, help="Planned replications.  [default: the log's]")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the policies' random choices."
)
@click.option("--skip-bad", is_flag=True, help="Skip bad rows instead of refusing the log.")
@click.option("--sorted-ok", is_flag=True, help="Accept a log that looks sorted by reward or arm.")
@click.option(
    "--mismatch-ok", is_flag=True, help="Accept a log that differs from the choices of --logged-by."
)
def import_command(
    name: str,
    file: str,
    policies: tuple[str, ...],
    database: DatabaseOptions,
    arms: str | None,
    options: str | None,
    **columns: Any,
) -> Output:
    """Import a production log of one policy (.csv, .jsonl, .parquet) as an experiment.

    The policies are run on the log's rewards; the output states the periods that each policy completes without users.
    """
    if not Path(file).is_file():
        raise sl.Invalid(f"cannot read {file!r}: no such file")
    live = None
    if options:
        with prefix_errors(options):
            table = read_settings_file(options).get("live", {})
            live = sl.LiveOptions.from_dict({key: table[key] for key in table if key != "name"})
    with (
        database.open(new=True) as store,
        collect_cautions() as cautions,
        database.explain_name_conflict(name, "choose another name"),
    ):
        imported = store.import_log(
            name,
            file,
            policies=parse_policies(policies),
            arms=[arm for arm in re.split(r"\s*,\s*", arms.strip()) if arm] if arms else None,
            options=live,
            makers=database.import_makers(),
            **columns,
        )
    record = {
        **imported._asdict(),
        "live": name,
        "policies": {policy: row._asdict() for policy, row in imported.policies.items()},
        "cautions": cautions,
    }
    return Output(_imported_text(imported, database), record, caution_notes(cautions))


def _imported_text(imported: sl.Imported, database: DatabaseOptions) -> str:
    name = imported.live.name
    steps = format_rows(
        (database.next_command("status", name), "show the progress"),
        (database.next_command("results", name), "compare the policies so far"),
        (database.next_command("assign", name, "--unit", "USER"), "continue with real users"),
        indent="  ",
    )
    lines = "\n".join(
        textwrap.fill(line, 100, subsequent_indent="    " if line.startswith(" ") else "")
        for line in str(imported).splitlines()
    )
    return f"{lines}\n\nnext:\n{steps}"
