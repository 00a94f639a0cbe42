"""From the words of a command, or a TOML file with the same words, to an experiment."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from sameluck import grammar
from sameluck.environments import as_environment
from sameluck.errors import Invalid, did_you_mean, require
from sameluck.experiment import Experiment, read_toml
from sameluck.selection import POLICIES

# What a file may say beside the experiment.
SETTINGS = (
    "environment",
    "checkpoints",
    "level",
    "pairs",
    "interval",
    "simultaneous",
    "adjust",
    "best",
)

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.argument("policies", nargs=-1, metavar="POLICY... | FILE.toml"),
    click.option(
        "--env", "environment", help='Where rewards come from, e.g. "bernoulli(0.7, 0.3)".'
    ),
    click.option("--arms", type=int, help="Number of arms, where the environment does not say."),
    click.option("--horizon", type=int, help="Periods in a replication.  [default: 1000]"),
    click.option("--seed", type=int, help="Same seed, same bits.  [default: 0]"),
    click.option("--level", type=float, help="Confidence of the intervals.  [default: 0.95]"),
)


def experiment_options(command: Command) -> Command:
    """The words that say what to compare, for every command that does."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def experiment_of(
    policies: tuple[str, ...], options: dict[str, Any]
) -> tuple[Experiment, dict[str, Any]]:
    """The experiment and the settings beside it; what was typed overrides what a file says."""
    values = _file_or_policies(policies)
    values.update({name: value for name, value in options.items() if value is not None})
    settings = {name: values.pop(name) for name in SETTINGS if name in values}
    if "environment" not in settings:
        raise Invalid(
            'say where rewards come from: --env "bernoulli(0.7, 0.3)"; see sameluck environments'
        )
    require(isinstance(settings.get("best", False), bool), "best must be true or false")
    environment = settings["environment"] = as_environment(settings["environment"])
    if environment.arms is not None:
        values.setdefault("arms", environment.arms)
    require(
        "arms" in values, f"say how many arms: --arms N ({grammar.write(environment)} fits any)"
    )
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
        text = named[2] if named else word
        policy = grammar.parse(text, POLICIES, "policy")
        name = named[1] if named else grammar.write(grammar.normal_form(policy), brief=True)
        require(
            name not in policies,
            f"two policies are called {name!r}; name one: 'other={text}'",
        )
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
