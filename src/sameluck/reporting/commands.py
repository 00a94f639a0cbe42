"""Command lines that print a comparison again."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from sameluck import text_forms
from sameluck.environments.base import Environment
from sameluck.inference.requests import Request
from sameluck.policies.external import External

if TYPE_CHECKING:
    from sameluck.inference.comparison import Comparison

MAX_COMMAND_LENGTH = 2_000  # characters
DEFAULTS = Request(simultaneous="pairs")


def compare_command(result: Comparison) -> str:
    """Return `sameluck compare ...` with the same numbers; empty if a command line cannot express it."""
    runs, request = result.runs, result.request
    options = {}
    if runs.experiment.design.label != "replay":
        options["design"] = runs.experiment.design.label
    if runs.checkpoints.size > 1:
        options["checkpoints"] = ",".join(map(str, runs.checkpoints))
    for name in ("pairs", "interval", "simultaneous", "metric"):
        if getattr(request, name) != getattr(DEFAULTS, name):
            options[name] = str(getattr(request, name))
    command = _command("compare", result, options)
    return f"{command} --best" if command and result.standings else command


def designs_command(result: Comparison) -> str:
    """Return `sameluck designs ...` for a comparison under one of the designs; empty if it cannot be expressed."""
    return _command("designs", result, {})


def _command(name: str, result: Comparison, more: dict[str, str]) -> str:
    runs, request = result.runs, result.request
    experiment = runs.experiment
    policies = [_policy(name, policy) for name, policy in experiment.policies.items()]
    if runs.environment is None or not all(policies) or runs.first or request.adjust:
        return ""
    options = {
        "env": _environment(runs.environment),
        "horizon": str(experiment.horizon),
        "replications": str(runs.replications),
        "seed": str(experiment.seed),
    }
    context = runs.environment.context
    if experiment.context is not None and experiment.context != context:  # it has names of its own
        options["context"] = experiment.context.text
    if request.control not in (None, next(iter(experiment.policies))):
        options["control"] = str(request.control)
    if request.level != DEFAULTS.level:
        options["level"] = str(request.level)
    pairs = [(f"--{option}", value) for option, value in (options | more).items()]
    words = [word for pair in pairs for word in pair]
    if getattr(runs.environment, "skipped", 0):
        words.append("--skip-bad")
    command = shlex.join(["sameluck", name, *policies, *words])
    return command if len(command) <= MAX_COMMAND_LENGTH else ""


def _environment(environment: Environment) -> str:
    """Return the log that an environment was read from, or its text form."""
    source: str = getattr(environment, "source", "")
    return source if ":" in source else text_forms.write(environment)


def _policy(name: str, policy: object) -> str:
    """Return a policy as a command line names it; empty if it cannot."""
    if isinstance(policy, External):
        return ""
    text = text_forms.write(text_forms.normal_form(policy), brief=True)
    if name == text:
        return text
    return f"{name}={text}" if re.fullmatch(r"[^=()\[\]\s-][^=()\[\]]*", name) else ""
