"""The command line: the words of the Python surface as commands. Every command has `--json`.

Results go to standard output, progress and errors to standard error. Exit code 2 is bad input, with one line that
says what was wrong and what to do.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sameluck import distribute, grammar, plots
from sameluck.comparison import Comparison, compare
from sameluck.design import Naive, Replay
from sameluck.environments import ENVIRONMENTS, Bernoulli, as_environment
from sameluck.errors import Invalid, SameluckError, did_you_mean, optional, require
from sameluck.estimates import Request, check_request
from sameluck.experiment import Experiment, read_toml
from sameluck.policies import POLICIES, UCB1
from sameluck.runs import write_whole
from sameluck.sidebyside import designs
from sameluck.simulation import simulate

SETTINGS = ("environment", "checkpoints", "level", "pairs")  # what a file may say beside the experiment


def run(arguments: list[str]) -> int:
    """Run one command; returns the exit code. The only place where errors become lines."""
    try:
        code = commands.main(arguments, prog_name="sameluck", standalone_mode=False)
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except SameluckError as error:
        return _complain(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return _complain("interrupted; nothing was written", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader (`| head`) has gone; Python would complain once more on exit
        return 0
    except MemoryError:
        return _complain("out of memory; ask for fewer replications, checkpoints or arms", 2)
    return code if isinstance(code, int) else 0


def _complain(message: str, code: int) -> int:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return code


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.version_option(version("sameluck"), message="sameluck %(version)s")
@click.pass_context
def commands(context: click.Context) -> None:
    """Compare bandit algorithms on the same luck, for the price of one."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@commands.command("compare")
@click.argument("policies", nargs=-1, metavar="POLICY... | FILE.toml")
@click.option("--env", "environment", help='Where rewards come from, e.g. "bernoulli(0.7, 0.3)".')
@click.option("--arms", type=int, help="Number of arms, where the environment does not say.")
@click.option("--horizon", type=int, help="Periods in a replication.  [default: 1000]")
@click.option("--replications", type=int, help="Independent repetitions.  [default: 100]")
@click.option("--design", help="naive, replay, replay(share_noise=true), time_coupled.  [default: replay]")
@click.option("--control", help="The policy to compare with.  [default: the first]")
@click.option("--seed", type=int, help="Same seed, same bits.  [default: 0]")
@click.option("--checkpoints", help="Horizons to report, e.g. 100,1000,10000.  [default: the horizon]")
@click.option("--level", type=float, help="Confidence of the intervals.  [default: 0.95]")
@click.option("--pairs", help="control or all.  [default: control]")
@click.option("--workers", type=int, help="Threads.  [default: all cores]")
@click.option("--dask", metavar="ADDRESS", help="Run on the Dask cluster at tcp://host:port.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--csv", "csv_path", metavar="FILE", help="Write the effects as CSV.")
@click.option("--plot", "plot_path", metavar="FILE", help="Draw the effects: .svg, .pdf or .png.")
@click.option("--report", "report_path", metavar="FILE", help="Write a self-contained HTML page.")
@click.option("--save", "runs_path", metavar="FILE", help="Keep the runs (.npz) for sameluck.Runs.load.")
def compare_command(policies: tuple[str, ...], **options: Any) -> None:
    r"""Compare policies by simulation.

    Policies are written as in `sameluck policies`; `NAME=POLICY` gives one a name. All settings may stand in a
    TOML file instead, with the same words (environment, horizon, ... and a table [policies]); options given
    here override it.

    \b
      sameluck compare "ucb1(alpha=2.5)" "ucb1(alpha=3)" --env "bernoulli(0.9,0.7,0.5)"
    """
    outputs = {kind: options.pop(f"{kind}_path") for kind in ("csv", "plot", "report", "runs")}
    _check_outputs(outputs)
    as_json, workers, dask = (options.pop(name) for name in ("as_json", "workers", "dask"))
    experiment, settings = _experiment(policies, options)
    checkpoints = _checkpoints(settings.get("checkpoints"), experiment, outputs)
    wanted = {name: settings[name] for name in ("level", "pairs") if name in settings}
    check_request(experiment, experiment.replications, Request(**wanted))
    with _cluster(dask) as map_like, _progress("simulating") as progress:
        runs = simulate(
            experiment,
            settings["environment"],
            checkpoints=checkpoints,
            workers=workers,
            progress=progress,
            map=map_like,
        )
    result = compare(runs, **wanted)
    written = _write_outputs(result, outputs)
    click.echo(_as_json(result) if as_json else _summary(result, settings.get("checkpoints")))
    for path in written:
        click.echo(f"wrote {path}", err=True)


def _experiment(policies: tuple[str, ...], options: dict[str, Any]) -> tuple[Experiment, dict[str, Any]]:
    values = _file_or_policies(policies)
    values.update({name: value for name, value in options.items() if value is not None})
    settings = {name: values.pop(name) for name in SETTINGS if name in values}
    if "environment" not in settings:
        raise Invalid('say where rewards come from: --env "bernoulli(0.7, 0.3)"; see sameluck environments')
    environment = settings["environment"] = as_environment(settings["environment"])
    if environment.arms is not None:
        values.setdefault("arms", environment.arms)
    require("arms" in values, f"say how many arms: --arms N ({grammar.write(environment)} fits any)")
    values.setdefault("horizon", 1_000)
    values.setdefault("replications", 100)
    return Experiment.from_dict(values), settings


def _file_or_policies(words: tuple[str, ...]) -> dict[str, Any]:
    if len(words) == 1 and words[0].endswith(".toml"):
        return _read_file(words[0])
    if not words:
        raise Invalid("name at least two policies, or a TOML file; see sameluck policies")
    policies: dict[str, Any] = {}
    for word in words:
        named = re.match(r"\s*([^=()\[\]]+?)\s*=(.*)", word, re.DOTALL)
        policy = grammar.parse(named[2] if named else word, POLICIES, "policy")
        name = named[1] if named else grammar.write(grammar.normal_form(policy), brief=True)
        require(name not in policies, f"two policies are called {name!r}; name one: 'other={word}'")
        policies[name] = policy
    return {"policies": policies}


def _read_file(path: str) -> dict[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Invalid(f"cannot read {path!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Invalid(f"cannot read {path!r}: it is not UTF-8 text") from None
    values = read_toml(text)
    known = [*Experiment.__dataclass_fields__, *SETTINGS]
    for name in values:
        if name not in known:
            raise Invalid(f"{path}: unknown {name!r}; {did_you_mean(name, known)}")
    return values


def _checkpoints(given: Any, experiment: Experiment, outputs: Mapping[str, Any]) -> list[int] | None:
    if given is None:
        drawn = outputs["plot"] or outputs["report"]
        return horizon_grid(experiment.horizon) if drawn else None
    if isinstance(given, list):
        return given
    words = [word for word in re.split(r"[\s,]+", str(given).strip()) if word]
    whole = bool(words) and all(re.fullmatch(r"\d[\d_]*", word) for word in words)
    require(whole, f"--checkpoints must be whole numbers such as 100,1000, got {given!r}")
    return [int(word) for word in words]


def horizon_grid(horizon: int, points: int = 40) -> list[int]:
    """Evenly spaced horizons for a curve, the last of them the horizon itself."""
    return sorted({max(1, round(horizon * k / points)) for k in range(1, points + 1)})


def _check_outputs(outputs: Mapping[str, str | None]) -> None:
    for kind, path in outputs.items():
        if path is None:
            continue
        folder = Path(path).parent
        require(folder.is_dir(), f"cannot write {path!r}: no folder {str(folder)!r}")
        require(not Path(path).is_dir(), f"cannot write {path!r}: it is a folder")
        if kind == "plot":
            plots.checked_path(path)
    drawn = outputs.get("plot") or outputs.get("report")
    if drawn:
        optional("matplotlib", "plots")


def _write_outputs(result: Comparison, outputs: Mapping[str, str | None]) -> list[str]:
    writers: dict[str, Callable[[Path], Any]] = {
        "csv": lambda path: write_whole(path, _as_csv(result).encode()),
        "plot": result.plot,
        "report": result.to_html,
        "runs": result.runs.save,
    }
    written = []
    for kind, path in outputs.items():
        if path is not None:
            writers[kind](Path(path))
            written.append(path)
    return written


def _summary(result: Comparison, asked: Any) -> str:
    if asked is not None:
        return str(result)
    # The grid behind a figure is not a table anybody asked for.
    end = result.runs.checkpoints[-1]
    last = tuple(one for one in result.effects if one.checkpoint == end)
    return str(dataclasses.replace(result, effects=last))


def _as_json(result: Comparison) -> str:
    return _json(
        {
            "experiment": result.runs.experiment.to_dict(),
            "digest": result.runs.experiment.digest,
            "environment": result.runs.environment,
            "effects": result.to_dicts(),
            "verdict": result.verdict,
        }
    )


def _json(value: Any) -> str:
    return json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    """JSON has no infinity: a variance ratio without variance is null."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _as_csv(result: Comparison) -> str:
    records = result.to_dicts()
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    if address is None:
        yield None
        return
    client = distribute.connect(address)
    try:
        yield distribute.on(client)
    finally:
        client.close()


@contextmanager
def _progress(what: str, unit: str = "replications of a policy") -> Iterator[Callable[..., None]]:
    """A bar on standard error, once the work has proved long and if somebody watches."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit},"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
        console=console,
        transient=True,
    )
    started = time.monotonic()
    task = bar.add_task(what, total=None)

    def advance(done: int, total: int, now: str = what) -> None:
        if console.is_terminal and not bar.live.is_started and time.monotonic() - started > 1:
            bar.start()
        bar.update(task, completed=done, total=total, description=now)

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()


@commands.command("policies")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a list.")
def policies_command(*, as_json: bool) -> None:
    """List the policies and their parameters, as `compare` takes them."""
    _list_kinds(POLICIES, as_json=as_json)


@commands.command("environments")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a list.")
def environments_command(*, as_json: bool) -> None:
    """List the environments and their parameters, as `--env` takes them."""
    _list_kinds(ENVIRONMENTS, as_json=as_json)


def _list_kinds(kinds: Mapping[str, type], *, as_json: bool) -> None:
    rows = [
        {"name": name, "example": grammar.example(kind), "about": (kind.__doc__ or "").split("\n")[0]}
        for name, kind in kinds.items()
    ]
    if as_json:
        click.echo(_json(rows))
        return
    for row in rows:
        click.echo(f"{row['example']}\n    {row['about']}")


@commands.command("demo")
@click.option("--out", default="sameluck-demo", show_default=True, help="Folder for figure and report.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
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
    with _progress("both designs") as progress:
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
        click.echo(_json(both.to_dicts()))
        return
    click.echo("Which earns more on five coins (0.9, 0.7, 0.5, 0.3, 0.1) in 10,000 periods:")
    click.echo("UCB1 with alpha 3 or with alpha 2.5? 10 replications, 99% intervals.\n")
    click.echo(f"{both}\n")
    click.echo(f"figure  {plot}\nreport  {report}")


@commands.command("paper")
@click.option("--replications", default=10_000, show_default=True, help="Of every simulation.")
@click.option("--out", default="paper-report", show_default=True, help="Folder for report, figures and tables.")
@click.option("--only", metavar="PARTS", help="Some parts, e.g. example1,theorems.  [default: all]")
@click.option("--seed", default=7, show_default=True, help="Same seed, same bits.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def paper_command(*, as_json: bool, **options: Any) -> int:
    """Reproduce the paper: its tables, figures and theorems beside the published numbers.

    Finished parts are kept in the folder, so an interrupted run goes on where it was. Exit code 1 if a published
    number is off by more than 4 standard errors or the check of a theorem fails.
    """
    from sameluck import paper  # noqa: PLC0415  other commands need not wait for it

    with _progress("starting", "million decisions") as advance:

        def report(what: str, done: int, total: int) -> None:
            advance(done // 1_000_000, total // 1_000_000, what)

        made = paper.reproduce(progress=report, **options)
    click.echo(_json(made.result) if as_json else made.text)
    click.echo(f"report  {Path(options['out']) / 'report.html'}", err=as_json)
    return 0 if made.ok else 1
