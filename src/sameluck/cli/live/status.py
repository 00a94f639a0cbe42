"""`sameluck live status`, `results`, `doctor`, `trace`, `export`: they change nothing and disturb no server."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import click

from sameluck.cli.comparison_output import json_of, read_checkpoints, text_of, write_outputs
from sameluck.cli.live.store_options import (
    following,
    found_makers,
    name_argument,
    one_experiment,
    opened,
    store_options,
)
from sameluck.cli.output import as_json_option, check_outputs, horizon_grid
from sameluck.errors import Invalid
from sameluck.files import to_json
from sameluck.inference.comparison import compare
from sameluck.inference.effects import Request, check_request
from sameluck.live.diagnostics import Check
from sameluck.live.diagnostics.database import examine
from sameluck.live.experiment import LiveExperiment
from sameluck.live.records import Status
from sameluck.live.replications import GOING
from sameluck.live.store import without_password
from sameluck.reporting.tables import text_table
from sameluck.reporting.wording import counted, sentence
from sameluck.trajectories import Trace

ASKED = ("level", "control", "pairs", "interval", "simultaneous")
ENDED = ("stopped", "complete")


@click.command("status")
@click.argument("name", required=False)
@store_options
@as_json_option
def status_command(name: str | None, url: str, makers: tuple[str, ...], *, as_json: bool) -> None:
    """Say how far an experiment has come; without a name, all of them."""
    with opened(url, read_only=True) as store:
        names = [name] if name else store.names()
        found = [store.peek(one, makers=found_makers(makers)).status() for one in names]
    records = [status._asdict() for status in found]
    if as_json:
        click.echo(to_json(records[0] if name else records))
    elif name:
        click.echo(str(found[0]))
    elif found:
        click.echo(_overview(found))
    else:
        click.echo(f"no experiments yet; begin with: {following(url, 'start', 'FILE.toml')}")


def _overview(found: Sequence[Status]) -> str:
    header = ("experiment", "status", "complete", "open", "users", "awaited", "wanted")
    rows = [
        (
            one.name,
            one.status,
            f"{one.complete:,} of {one.planned:,}",
            f"{one.opened - one.complete:,}",
            f"{one.users:,}",
            f"{one.waiting:,}",
            "0" if one.status in ENDED else f"{one.wanted:,}",
        )
        for one in found
    ]
    return text_table(header, rows)


@click.command("results")
@name_argument
@click.option("--checkpoints", help="Horizons to report, e.g. 10,100.  [default: the horizon]")
@click.option(
    "--policies", metavar="NAMES", help="Only these, e.g. a,b; others need not have come as far."
)
@click.option("--level", type=float, help="Confidence of the intervals.  [default: 0.95]")
@click.option("--control", help="The policy to compare with.  [default: the experiment's]")
@click.option("--pairs", help="control, all or best.  [default: control]")
@click.option(
    "--interval", help="t, bootstrap or anytime.  [default: anytime while it runs, then t]"
)
@click.option("--simultaneous", help="Let intervals hold together over pairs, checkpoints or both.")
@click.option("--best", is_flag=True, help="Say which policies may be the best of all.")
@store_options
@as_json_option
@click.option("--csv", "csv_path", metavar="FILE", help="Write the effects as CSV.")
@click.option("--plot", "plot_path", metavar="FILE", help="Draw the effects: .svg, .pdf or .png.")
@click.option("--report", "report_path", metavar="FILE", help="Write a self-contained HTML page.")
@click.option(
    "--save", "runs_path", metavar="FILE", help="Keep the runs (.npz) for sameluck.Runs.load."
)
def results_command(
    name: str, url: str, makers: tuple[str, ...], *, as_json: bool, best: bool, **options: Any
) -> None:
    """Compare the policies on what is known so far.

    Results use the complete prefix of replications. With lock-step order earlier horizons are known sooner:
    --checkpoints 10,50.
    """
    outputs = {kind: options.pop(f"{kind}_path") for kind in ("csv", "plot", "report", "runs")}
    check_outputs(outputs)
    wanted = {word: options[word] for word in ASKED if options[word] is not None}
    with one_experiment(url, name, makers, read_only=True) as live:
        _check_wanted(live, wanted)
        policies = chosen(options["policies"], live)
        asked = read_checkpoints(options["checkpoints"], live.experiment)
        drawn = (outputs["plot"] or outputs["report"]) and len(asked) == 1
        # A figure wants a curve; what is printed and written as numbers is what was asked for.
        grid = horizon_grid(asked[-1]) if drawn else []
        runs = live.runs(sorted({*asked, *grid}), policies=policies)
        if runs.replications < 2:
            raise _too_early(live, policies, runs.replications, asked[-1])
    result = compare(runs.at(asked), best=best, **wanted)
    curve = compare(runs, best=best, **wanted) if grid else result
    written = write_outputs(result, curve, None, outputs)
    click.echo(json_of(result) if as_json else text_of(result))
    for path in written:
        click.echo(f"wrote {path}", err=True)


def _check_wanted(live: LiveExperiment, wanted: dict[str, Any]) -> None:
    """Refuse what can never be shown, before saying that it is too early."""
    if len(live.experiment.policies) < 2:
        raise Invalid(
            f"{live.name!r} has one policy, and a comparison needs two; let another join: sameluck live add-policy"
        )
    check_request(live.experiment, max(2, live.experiment.replications), Request(**wanted))


def _too_early(
    live: LiveExperiment, policies: list[str] | None, complete: int, horizon: int
) -> Invalid:
    planned = live.experiment.replications
    have = "has" if complete == 1 else "have"
    return Invalid(
        f"{complete} of {counted(planned, 'replication')} of {live.name!r} {have} come to "
        f"{counted(horizon, 'period')}, and a comparison needs the first 2; {_remedy(live, policies)}"
    )


def _remedy(live: LiveExperiment, policies: list[str] | None) -> str:
    if live.experiment.replications < 2:
        return "only one is planned, and the replication is the unit of inference: begin anew with more"
    reached, status = common_horizon(live, policies), live.status().status
    if reached:
        return f"for what is known so far: --checkpoints {reached}"
    return "wait for rewards" if status in GOING else f"it is {status}"


def common_horizon(live: LiveExperiment, policies: Sequence[str] | None = None) -> int:
    """The last horizon that all policies have reached in the first two replications."""
    if live.status().opened < 2:
        return 0
    traces = [live.trace(number) for number in (0, 1)]
    return min(one[name].arms.size for one in traces for name in policies or one)


def chosen(given: str | None, live: LiveExperiment) -> list[str] | None:
    """The policies that `--policies` names; commas within parentheses belong to a name."""
    if given is None:
        return None
    if given in live.experiment.policies:
        return [given]
    names = [name.strip() for name in re.split(r",(?![^()]*\))", given) if name.strip()]
    if len(names) <= 0:
        raise Invalid(f"--policies must name policies such as a,b, got {given!r}")
    return names


@click.command("trace")
@name_argument
@click.argument("replication", type=int, default=0)
@store_options
@as_json_option
def trace_command(
    name: str, replication: int, url: str, makers: tuple[str, ...], *, as_json: bool
) -> None:
    """Show every period of one replication, as far as it has come; arms marked * were replayed."""
    with one_experiment(url, name, makers, read_only=True) as live:
        found = live.trace(replication)
    click.echo(to_json(found.to_dicts()) if as_json else _trace(found))


def _trace(found: Trace) -> str:
    names, at_most = found.experiment.arm_names, 5_000
    header = ("period", *(word for name in found for word in (name, "reward")))
    periods = max(one.arms.size for one in found.values())
    rows: list[list[str]] = []
    for period in range(min(periods, at_most)):
        cells = [str(period + 1)]
        for one in found.values():
            if period < one.arms.size:
                mark = "*" if one.replayed[period] else " "
                cells += [f"{names[one.arms[period]]}{mark}", f"{one.rewards[period]:g}"]
            else:
                cells += ["", ""]
        rows.append(cells)
    played = sum(one.arms.size for one in found.values())
    title = (
        f"replication {found.replication}: {counted(found.interactions, 'user')} for "
        f"{counted(played, 'period')} played; * replayed, nobody was asked"
    )
    more = f"\n... {periods - at_most:,} periods more; --json has all" if periods > at_most else ""
    return f"{title}\n\n{text_table(header, rows)}{more}" if rows else title


@click.command("export")
@name_argument
@click.argument("file")
@click.option(
    "--what", default="ledger", show_default=True, help="ledger, or rewards: every one reported."
)
@click.option("--format", help="csv, jsonl or parquet.  [default: by the file's ending]")
@store_options
@as_json_option
def export_command(
    name: str,
    file: str,
    what: str,
    format: str | None,
    url: str,
    makers: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Write the ledger to a file: one row for each assignment; users as keyed hashes."""
    check_outputs({"export": file})
    with one_experiment(url, name, makers, read_only=True) as live:
        rows = live.export(file, what=what, format=format)
    click.echo(
        to_json({"file": file, "rows": rows})
        if as_json
        else f"wrote {counted(rows, 'row')} to {file}"
    )


@click.command("doctor")
@click.argument("name", required=False)
@click.option(
    "--silence-is-zero",
    is_flag=True,
    help="No reward is how the default one is reported (only purchases are sent, say).",
)
@store_options
@as_json_option
def doctor_command(
    name: str | None, url: str, makers: tuple[str, ...], *, silence_is_zero: bool, as_json: bool
) -> int:
    """Examine the database and every experiment in it (or the one named): all checks, each with a verdict.

    fine, watch (look into it), alarm (do not trust the result until you know), unknown (too little data yet).
    Exit code 1 if there is an alarm.
    """
    with opened(url, read_only=True) as store:
        names = [name] if name else store.names()
        found = {"": examine(store)}
        for one in names:
            try:
                live = store.peek(one, makers=found_makers(makers))
                found[one] = live.diagnostics(silence_is_zero=silence_is_zero)
            except (
                Invalid
            ) as error:  # its policies are not at hand, say; the others can be examined
                if name:
                    raise
                found[one] = (Check("policies", "unknown", sentence(str(error)), None, {}),)
    if as_json:
        store_checks = [check._asdict() for check in found.pop("")]
        each = {one: [check._asdict() for check in checks] for one, checks in found.items()}
        click.echo(to_json({"store": store_checks, "experiments": each}))
    else:
        click.echo(_examined(found, without_password(url)))
    verdicts = [check.verdict for checks in found.values() for check in checks]
    return int("alarm" in verdicts)


def _examined(found: dict[str, tuple[Check, ...]], url: str) -> str:
    parts = [f"{name or url}\n{checks_text(checks)}" for name, checks in found.items()]
    verdicts = [check.verdict for checks in found.values() for check in checks]
    counts = [(verdicts.count(word), word) for word in ("alarm", "watch", "unknown", "fine")]
    summary = ", ".join(f"{many} {word}" for many, word in counts if many)
    return "\n\n".join([*parts, summary])


def checks_text(checks: Iterable[Check]) -> str:
    """One check a paragraph: verdict, name, sentence."""
    rows = list(checks)
    width = max(len(check.name) for check in rows)
    return "\n".join(
        textwrap.fill(
            check.sentence,
            100,
            initial_indent=f"  {check.verdict:<7}  {check.name:<{width}}  ",
            subsequent_indent=" " * (width + 13),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for check in rows
    )
