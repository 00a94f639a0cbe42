"""`sameluck live start`, `pause`, `resume`, `stop`, `add-policy` and `import`."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import click

from sameluck.cli.experiment_options import experiment_in, named_policies, naming, read_file
from sameluck.cli.live.store_options import (
    aligned,
    cautions_noted,
    following,
    found_makers,
    name_argument,
    next_steps,
    one_experiment,
    opened,
    store_options,
    taking,
)
from sameluck.cli.output import as_json_option
from sameluck.errors import Invalid
from sameluck.files import to_json
from sameluck.live.experiment import LiveExperiment
from sameluck.live.logs.importing import Imported
from sameluck.live.options import Live
from sameluck.live.store import without_password
from sameluck.reporting.tables import wrapped
from sameluck.reporting.wording import counted
from sameluck.validation import require_name

FOR_RESULTS = ("checkpoints", "level", "pairs", "interval", "simultaneous", "adjust", "best")

_reason_option = click.option("--reason", default="", help="For the record.")


@click.command("start", epilog="Example: sameluck live start shop.toml --db sqlite:///shop.db")
@click.argument("file", metavar="FILE.toml")
@click.option("--name", help="What to call it.  [default: name in the file, or the file's own]")
@store_options
@as_json_option
def start_command(
    file: str, name: str | None, url: str, makers: tuple[str, ...], *, as_json: bool
) -> None:
    """Begin an experiment on real users.

    The file has the words of `sameluck compare` (arms, horizon, replications, seed, ... and a table [policies]), and
    may have a name, a table [live] with the options of sameluck.Live (fallback, exposure, order,
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
    """  # noqa: D301 click's sign for lines that are not to be joined
    experiment, settings = experiment_in(file)
    if name is not None:
        require_name("--name", name)
    name = settings.get("name", Path(file).stem) if name is None else name
    made = found_makers(makers)
    with naming(file):
        live = Live.from_dict(settings.get("live", {}))
    with (
        opened(url, new=True) as store,
        cautions_noted() as cautions,
        naming(file),
        taking(url, name, "call this one otherwise: --name NAME"),
    ):
        started = store.start(name, experiment, live=live, makers=made)
    cautions += _not_kept(file, settings)
    click.echo(_started_json(started, cautions) if as_json else _started(started, url))
    for caution in cautions:
        click.echo(wrapped(f"caution: {caution}"), err=True)


def _not_kept(file: str, settings: dict[str, Any]) -> list[str]:
    """What a file may say for other commands, and somebody may expect to be remembered."""
    given = [word for word in FOR_RESULTS if word in settings]
    if not given:
        return []
    return [
        f"{file}: {', '.join(given)} {'is' if len(given) == 1 else 'are'} not kept with a live experiment; give "
        "`sameluck live results` what it is to show"
    ]


def _started_json(started: LiveExperiment, cautions: list[str]) -> str:
    experiment = started.experiment
    return to_json(
        {
            "name": started.name,
            "started_at": started.started_at,
            "experiment": experiment.to_dict(),
            "digest": experiment.digest,
            "live": started.live.to_dict(),
            "cautions": cautions,
        }
    )


def _started(started: LiveExperiment, url: str) -> str:
    experiment, name = started.experiment, shlex.quote(started.name)
    policies = [
        f"{one} (control)" if one == experiment.control else one for one in experiment.policies
    ]
    plan = (
        f"{counted(experiment.replications, 'replication')} of {counted(experiment.horizon, 'period')}, "
        f"{experiment.n_arms:,} arms"
    )
    if started.live.aa:
        plan += "; A/A: every policy plays the control's rule"
    rows = aligned(
        ("policies", ", ".join(policies)),
        ("plan", plan),
        ("kept in", without_password(url)),
    )
    steps = next_steps(
        (following(url, "assign", name, "--unit", "USER"), "which arm to show a user"),
        (following(url, "reward", name, "ID", "VALUE"), "what the user brought"),
        (following(url, "status", name), "how far it has come"),
        (following(url, "results", name), "what is known so far"),
        (following(url, "doctor", name), "whether all is well"),
        *(
            [(following(url, "add-policy", name, "POLICY"), "somebody to compare it with")]
            if len(policies) == 1
            else []
        ),
    )
    return f"started {started.name!r}\n\n{rows}\n\nnext:\n{steps}"


@click.command("pause")
@name_argument
@_reason_option
@store_options
@as_json_option
def pause_command(
    name: str, reason: str, url: str, makers: tuple[str, ...], *, as_json: bool
) -> None:
    """Enrol nobody for now; rewards are taken all the same."""
    with one_experiment(url, name, makers) as live:
        live.pause(reason)
        again = following(url, "resume", shlex.quote(name))
        _show(live, f"users get the fallback arm; go on with: {again}", as_json=as_json)


@click.command("resume")
@name_argument
@store_options
@as_json_option
def resume_command(name: str, url: str, makers: tuple[str, ...], *, as_json: bool) -> None:
    """Go on after a pause; or after a failure, once the policies agree with the ledger again."""
    with one_experiment(url, name, makers) as live:
        live.resume()
        _show(live, "", as_json=as_json)


@click.command("stop")
@name_argument
@click.option("--now", is_flag=True, help="Stop at once; results are those of the complete prefix.")
@_reason_option
@store_options
@as_json_option
def stop_command(
    name: str, reason: str, url: str, makers: tuple[str, ...], *, now: bool, as_json: bool
) -> None:
    """End an experiment before the planned number of replications.

    Replications that were begun are finished first: how long one takes depends on how it goes, so leaving them out
    would bias the result.
    """
    with one_experiment(url, name, makers) as live:
        live.stop(drain=not now, reason=reason)
        status = live.status()
        left = status.opened - status.complete
        at_once = following(url, "stop", shlex.quote(name), "--now")
        begun = counted(left, "replication is", "replications are")
        said = f"{begun} finished first; to stop at once: {at_once}"
        _show(live, "" if now or not left else said, as_json=as_json)


def _show(live: LiveExperiment, said: str, *, as_json: bool) -> None:
    status = live.status()
    if as_json:
        click.echo(to_json(status._asdict()))
        return
    click.echo(f"{live.name}: {status.status}" + (f"; {said}" if said else ""))


@click.command(
    "add-policy", epilog='Example: sameluck live add-policy shop "ucb1(alpha=1)" --as bolder'
)
@name_argument
@click.argument("policy")
@click.option("--as", "policy_name", metavar="NAME", help="What to call it.  [default: its text]")
@click.option("--preview", is_flag=True, help="Only say what it would need; change nothing.")
@store_options
@as_json_option
def add_policy_command(
    name: str,
    policy: str,
    policy_name: str | None,
    url: str,
    makers: tuple[str, ...],
    *,
    preview: bool,
    as_json: bool,
) -> None:
    """Let a challenger join, even a finished experiment.

    It walks through what is known first and asks for users only where no policy has been before.
    """
    [(usual, parsed)] = named_policies([policy]).items()
    with one_experiment(url, name, makers, read_only=preview) as live:
        join = live.preview_policy if preview else live.add_policy
        joined = join(policy_name or usual, parsed)
    happened = (
        "Only a preview: nothing was changed." if preview else f"It takes part in {name} now."
    )
    click.echo(to_json(joined._asdict()) if as_json else wrapped(f"{joined} {happened}"))


@click.command(
    "import",
    epilog="Example: sameluck live import old shop.csv ucb=ucb1 thompson_bernoulli --arm variant --reward bought",
)
@name_argument
@click.argument("file")
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
@click.option("--arm", required=True, metavar="COLUMN", help="The column with the arm shown.")
@click.option("--reward", required=True, metavar="COLUMN", help="The column with the reward.")
@click.option("--replication", metavar="COLUMN", help="The column that tells replications apart.")
@click.option("--time", metavar="COLUMN", help="The column to sort by.  [default: as they stand]")
@click.option("--arms", help="The arms in order, e.g. red,green,blue.  [default: those found]")
@click.option("--logged-by", metavar="NAME", help="The policy that made the log, to be checked.")
@click.option("--options", metavar="FILE.toml", help="A file whose table [live] holds the options.")
@click.option("--horizon", type=int, help="Periods in a replication.  [default: the shortest]")
@click.option("--replications", type=int, help="How many are planned.  [default: the log's]")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the policies' own coins.")
@click.option("--skip-bad", is_flag=True, help="Leave bad rows out instead of refusing the log.")
@store_options
@as_json_option
def import_command(
    name: str,
    file: str,
    policies: tuple[str, ...],
    url: str,
    makers: tuple[str, ...],
    arms: str | None,
    options: str | None,
    *,
    as_json: bool,
    **words: Any,
) -> None:
    """Turn a production log of one policy (.csv, .jsonl, .parquet) into an experiment.

    The policies walk through what the log knows; the answer says how far each of them came without any user.
    """
    if not Path(file).is_file():
        raise Invalid(f"cannot read {file!r}: no such file")
    with naming(options):
        live = Live.from_dict(_live_table(options)) if options else None
    names = [one for one in re.split(r"\s*,\s*", arms.strip()) if one] if arms else None
    with (
        opened(url, new=True) as store,
        cautions_noted() as cautions,
        taking(url, name, "choose another name"),
    ):
        imported = store.import_log(
            name,
            file,
            policies=named_policies(policies),
            arms=names,
            live=live,
            makers=found_makers(makers),
            **words,
        )
    click.echo(_imported_json(imported, cautions) if as_json else _imported(imported, url))
    for caution in cautions:
        click.echo(wrapped(f"caution: {caution}"), err=True)


def _imported_json(imported: Imported, cautions: list[str]) -> str:
    joined = {name: one._asdict() for name, one in imported.policies.items()}
    plain = {"live": imported.live.name, "policies": joined, "cautions": cautions}
    return to_json({**imported._asdict(), **plain})


def _imported(imported: Imported, url: str) -> str:
    name = shlex.quote(imported.live.name)
    steps = next_steps(
        (following(url, "status", name), "how far it has come"),
        (following(url, "results", name), "what is known so far"),
        (following(url, "assign", name, "--unit", "USER"), "go on with real users"),
    )
    lines = "\n".join(
        textwrap.fill(line, 100, subsequent_indent="    " if line.startswith(" ") else "")
        for line in str(imported).splitlines()
    )
    return f"{lines}\n\nnext:\n{steps}"


def _live_table(path: str) -> dict[str, Any]:
    table = read_file(path).get("live", {})
    if not isinstance(table, dict):
        raise Invalid(f"live must be a table [live], got {table!r}")
    return {name: value for name, value in table.items() if name != "name"}
