"""From the words of a command, or a TOML file with the same words, to an experiment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from sameluck import text_forms
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid, did_you_mean
from sameluck.experiment import Experiment, read_toml
from sameluck.policies.base import POLICIES

# What a file may say beside the experiment.
SETTINGS = (
    "name",
    "environment",
    "checkpoints",
    "level",
    "pairs",
    "interval",
    "simultaneous",
    "adjust",
    "best",
    "live",
    "traffic",
)

Command = TypeVar("Command", bound=Callable[..., Any])


def experiment_options(command: Command) -> Command:
    """The words that say what to compare, for every command that does."""
    return options_with(horizon=1_000)(command)


def options_with(*, horizon: int) -> Callable[[Command], Command]:
    """The same, with another usual horizon."""
    options = (
        click.argument("policies", nargs=-1, metavar="POLICY... | FILE.toml"),
        click.option(
            "--env", "environment", help='Where rewards come from, e.g. "bernoulli(0.7, 0.3)".'
        ),
        click.option(
            "--arms", type=int, help="Number of arms, where the environment does not say."
        ),
        click.option(
            "--horizon", type=int, help=f"Periods in a replication.  [default: {horizon}]"
        ),
        click.option("--seed", type=int, help="Same seed, same bits.  [default: 0]"),
        click.option("--level", type=float, help="Confidence of the intervals.  [default: 0.95]"),
    )

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def experiment_of(
    policies: tuple[str, ...],
    options: dict[str, Any],
    *,
    horizon: int = 1_000,
    replications: int = 100,
) -> tuple[Experiment, dict[str, Any]]:
    """The experiment and the settings beside it; what was typed overrides what a file says."""
    with naming(file_among(policies), options):
        return _experiment_of(policies, options, horizon, replications)


def _experiment_of(
    policies: tuple[str, ...], options: dict[str, Any], horizon: int, replications: int
) -> tuple[Experiment, dict[str, Any]]:
    values, settings = _values_and_settings(policies, options)
    if "environment" not in settings:
        raise Invalid(
            'say where rewards come from: --env "bernoulli(0.7, 0.3)"; see sameluck environments'
        )
    environment = settings["environment"]
    if "arms" not in values:
        raise Invalid(f"say how many arms: --arms N ({text_forms.write(environment)} fits any)")
    values.setdefault("horizon", horizon)
    values.setdefault("replications", replications)
    return Experiment.from_dict(values), settings


def experiment_in(path: str) -> tuple[Experiment, dict[str, Any]]:
    """The experiment in a file and the settings beside it; rewards may come from real users."""
    if not path.endswith(".toml"):
        raise Invalid(f"an experiment is a TOML file, got {path!r}")
    with naming(path):
        values, settings = _values_and_settings((path,), {})
        return Experiment.from_dict(values), settings


@contextmanager
def naming(file: str | None, options: Mapping[str, Any] | None = None) -> Iterator[None]:
    """What is wrong with a file begins with its name, and with the options that override it; None: no file."""
    try:
        yield
    except Invalid as error:
        said = str(error)
        if file is None or file in said:
            raise
        given = (options or {}).items()
        typed = [name for name, value in given if value is not None and value is not False]
        words = [f"--{name.replace('environment', 'env').replace('_', '-')}" for name in typed]
        source = f"{file} with {', '.join(words)}" if words else file
        raise type(error)(f"{source}: {said}") from error


def file_among(words: tuple[str, ...]) -> str | None:
    """The file that stands in place of policies, if one does."""
    return words[0] if len(words) == 1 and words[0].endswith(".toml") else None


def _values_and_settings(
    policies: tuple[str, ...], options: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    values = _file_or_policies(policies)
    values.update({name: value for name, value in options.items() if value is not None})
    settings = {name: values.pop(name) for name in SETTINGS if name in values}
    if not isinstance(settings.get("best", False), bool):
        raise Invalid("best must be true or false")
    for table in ("live", "traffic"):
        given = settings.get(table, {})
        if not isinstance(given, dict):
            raise Invalid(f"{table} must be a table [{table}], got {given!r}")
    if "environment" in settings:
        environment = settings["environment"] = as_environment(settings["environment"])
        if environment.arms is not None:
            values.setdefault("arms", environment.arms)
    return values, settings


def _file_or_policies(words: tuple[str, ...]) -> dict[str, Any]:
    file = file_among(words)
    if file is not None:
        return read_file(file)
    if not words:
        raise Invalid("name at least two policies, or a TOML file; see sameluck policies")
    return {"policies": named_policies(words)}


def named_policies(words: Iterable[str]) -> dict[str, Any]:
    """Policies by name, each written as POLICY or NAME=POLICY."""
    policies: dict[str, Any] = {}
    for word in words:
        named = re.match(r"\s*([^=()\[\]]+?)\s*=(.*)", word, re.DOTALL)
        text = named[2] if named else word
        policy = text_forms.parse(text, POLICIES, "policy")
        name = named[1] if named else text_forms.write(text_forms.normal_form(policy), brief=True)
        if name in policies:
            raise Invalid(f"two policies are called {name!r}; name one: 'other={text}'")
        policies[name] = policy
    return policies


def read_file(path: str) -> dict[str, Any]:
    """The values of a TOML file, every word of it known."""
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
