"""Experiments from a command's options, or from a TOML file with the same names."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click

from sameluck import text_forms
from sameluck.cli.import_option import import_option, mention_import
from sameluck.environments.base import Environment
from sameluck.environments.empirical import Empirical
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid, did_you_mean, shown
from sameluck.experiment import Experiment, checked_checkpoints, read_toml
from sameluck.policies.base import POLICIES, Policy

OptionValues: TypeAlias = dict[str, Any]  # options or the values of a TOML file, by name
Command = TypeVar("Command", bound=Callable[..., object])

# Settings of a file that are not fields of the experiment.
FOR_RESULTS = (
    "checkpoints",
    "level",
    "pairs",
    "interval",
    "simultaneous",
    "adjust",
    "best",
    "metric",
)
SETTINGS = ("name", "environment", "skip_bad", *FOR_RESULTS, "live", "traffic")


def experiment_options(
    *, horizon: int = 1_000, replications: int | None = None
) -> Callable[[Command], Command]:
    """Return a decorator that adds the options of an experiment; the help states these defaults.

    `--replications` is left out if it has no default.
    """
    options = [
        click.argument("policies", nargs=-1, metavar="POLICY... | FILE.toml"),
        click.option(
            "--env",
            "environment",
            help='Environment that draws the rewards, e.g. "bernoulli(0.7, 0.3)", or a log and its columns of arms '
            'and rewards: "log.csv:arm,reward".',
        ),
        click.option(
            "--skip-bad",
            is_flag=True,
            default=None,
            help="Leave out rows of the log that cannot be used.",
        ),
        click.option(
            "--arms", type=int, help="Number of arms, if the environment does not determine it."
        ),
        click.option(
            "--context",
            help='Context of the users, e.g. "levels([mobile, desktop])"; it must be the environment\'s.  [default: '
            "the environment's]",
        ),
        click.option("--horizon", type=int, help=f"Periods per replication.  [default: {horizon}]"),
        click.option("--seed", type=int, help="The same seed gives the same bits.  [default: 0]"),
        click.option(
            "--level", type=float, help="Confidence level of the intervals.  [default: 0.95]"
        ),
    ]
    if replications is not None:
        about = f"Independent replications.  [default: {replications}]"
        options.append(click.option("--replications", type=int, help=about))

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return import_option(command)

    return decorate


control_option = click.option(
    "--control",
    callback=lambda _context, _option, name: name and decoded(name),
    help="The policy to compare with.  [default: the first]",
)


def read_experiment(
    policies: tuple[str, ...],
    options: OptionValues,
    *,
    horizon: int = 1_000,
    replications: int = 100,
) -> tuple[Experiment, OptionValues]:
    """Return the experiment and its other settings; options override the file."""
    with prefix_errors(toml_file(policies), options), mention_import():
        values, settings = _values_and_settings(policies, options)
        if "environment" not in settings:
            raise Invalid(
                'the environment is missing; add one, such as --env "bernoulli(0.7, 0.3)"; see sameluck environments'
            )
        if "arms" not in values:
            environment = text_forms.write(settings["environment"])
            message = f"the number of arms is missing: {environment} takes any number; add --arms N"
            raise Invalid(message)
        values.setdefault("horizon", horizon)
        values.setdefault("replications", replications)
        return Experiment.from_dict(values), settings


def read_experiment_file(path: str) -> tuple[Experiment, OptionValues]:
    """Return the experiment of a file and its other settings; the environment may be missing."""
    if not path.endswith(".toml"):
        raise Invalid(f"an experiment is a TOML file, got {path!r}")
    with prefix_errors(path), mention_import():
        values, settings = _values_and_settings((path,), {})
        return Experiment.from_dict(values), settings


@contextmanager
def prefix_errors(file: str | None, options: OptionValues | None = None) -> Iterator[None]:
    """Begin the message of `Invalid` with the file and the options that override it, if there is a file."""
    try:
        yield
    except Invalid as error:
        message = str(error)
        if file is None or file in message:
            raise
        names = [
            f"--{name.replace('environment', 'env').replace('_', '-')}"
            for name, value in (options or {}).items()
            if value is not None and value is not False
        ]
        source = f"{file} with {', '.join(names)}" if names else file
        raise type(error)(f"{source}: {message}") from error


def toml_file(words: tuple[str, ...]) -> str | None:
    """Return the file that was typed in place of policies, if any."""
    return words[0] if len(words) == 1 and words[0].endswith(".toml") else None


def _values_and_settings(
    policies: tuple[str, ...], options: OptionValues
) -> tuple[OptionValues, OptionValues]:
    file = toml_file(policies)
    if not policies:
        raise Invalid("name at least two policies, or a TOML file; see sameluck policies")
    values = read_settings_file(file) if file else OptionValues(policies=parse_policies(policies))
    values.update({name: value for name, value in options.items() if value is not None})
    settings = {name: values.pop(name) for name in SETTINGS if name in values}
    if not isinstance(settings.get("best", False), bool):
        raise Invalid("best must be true or false")
    if "environment" in settings:
        environment, arms = _environment_and_arms(
            settings["environment"], skip_bad=bool(settings.get("skip_bad"))
        )
        settings["environment"] = environment
        if arms is not None:
            values.setdefault("arms", arms)
        if environment.context is not None:
            values.setdefault("context", environment.context)
    return values, settings


def _environment_and_arms(
    text: object, *, skip_bad: bool
) -> tuple[Environment, int | tuple[str, ...] | None]:
    """Return an environment from its text form or a log (`log.csv:arm,reward`), and its number of arms or names."""
    if not isinstance(text, str) or not is_log(text):
        environment = as_environment(text)
        return environment, environment.arms
    path, arm, reward = log_columns(text)
    log = Empirical.from_log(path, arm=arm, reward=reward, skip_bad=skip_bad)
    return log, tuple(log.arm_names)


def decoded(word: str) -> str:
    """Decode a word of the command line as UTF-8; in other locales Python leaves its bytes undecoded."""
    try:
        return os.fsencode(word).decode()
    except UnicodeError:
        return word


def parse_policies(words: Iterable[str]) -> dict[str, Policy]:
    """Parse policies, typed as POLICY or NAME=POLICY; return them by name."""
    policies: dict[str, Policy] = {}
    for word in map(decoded, words):
        named = re.match(r"\s*([^=()\[\]]+?)\s*=(.*)", word, re.DOTALL)
        text = named[2] if named else word
        policy = text_forms.parse(text, POLICIES, "policy")
        name = named[1] if named else text_forms.write(text_forms.normal_form(policy), brief=True)
        if name in policies:
            message = f"two policies are called {name!r}; give one another name: 'other={text}'"
            raise Invalid(message)
        policies[name] = policy
    return policies


def read_settings_file(path: str) -> OptionValues:
    """Return the values of a TOML file; raise `Invalid` for an unknown name or a value that must be a table."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Invalid(f"cannot read {path!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Invalid(f"cannot read {path!r}: it is not UTF-8 text") from None
    values = read_toml(text)
    allowed = [*Experiment.__dataclass_fields__, *SETTINGS]
    for name in values:
        if name not in allowed:
            raise Invalid(f"{path}: unknown {name!r}; {did_you_mean(name, allowed)}")
    for name in ("live", "traffic"):
        if not isinstance(values.get(name, {}), dict):
            raise Invalid(f"{name} must be a table [{name}], got {values[name]!r}")
    return values


def parse_checkpoints(checkpoints: object, experiment: Experiment) -> list[int]:
    """Return the horizons to report: as typed, as in the file, or the experiment's horizon."""
    if checkpoints is None:
        return [experiment.horizon]
    if not isinstance(checkpoints, list):
        words = [word for word in re.split(r"[\s,]+", str(checkpoints).strip()) if word]
        if not words or not all(re.fullmatch(r"\d[\d_]*", word) for word in words):
            message = f"--checkpoints must be whole numbers such as 100,1000, got {checkpoints!r}"
            raise Invalid(message)
        checkpoints = [int(word) for word in words]
    return [int(horizon) for horizon in checked_checkpoints(experiment, checkpoints)]


_TEXT_FORM = re.compile(r"\s*\w*\s*(\(.*)?", re.DOTALL)  # a name, with or without parameters
_LOG = re.compile(r"(?P<path>.+?\.(?:csv|tsv|jsonl|ndjson|parquet))(?::(?P<columns>.*))?", re.I)


def is_log(text: str) -> bool:
    """Return whether the text is the path of a log, with or without columns, and no text form of an environment."""
    return _LOG.fullmatch(text) is not None or _TEXT_FORM.fullmatch(text) is None


def log_columns(text: str) -> tuple[str, str, str]:
    """Return a log's path and its columns of arms and rewards, which are separated as in CSV.

    Raises:
        Invalid: The text does not name two columns.
    """
    path, _, columns = text.partition(":")
    if log := _LOG.fullmatch(text):
        path, columns = log["path"], log["columns"] or ""
    names = [name.strip() for name in next(csv.reader([columns], skipinitialspace=True), [])]
    if len(names) != 2 or "" in names:
        raise Invalid(
            f"{shown(text)} is neither an environment, such as bernoulli(0.7, 0.3), nor a log with its columns of "
            'arms and rewards, such as log.csv:arm,reward or log.csv:arm,"paid, net"'
        )
    return path, names[0], names[1]
