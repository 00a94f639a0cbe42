"""Discovery of built-in environments, and `as_environment`."""

from __future__ import annotations

from typing import TypeGuard

from sameluck import environments, text_forms
from sameluck.compilation.functions import is_builtin
from sameluck.environments import contextual
from sameluck.environments.base import ENVIRONMENTS, Environment, is_complete
from sameluck.errors import Invalid, shown

for _package in (environments, contextual):
    for _name, _class in text_forms.discover(_package).items():
        if is_complete(_class):
            ENVIRONMENTS[_name] = _class


def _is_environment(value: object) -> TypeGuard[Environment]:
    return type(value) in ENVIRONMENTS.values()


def as_environment(value: object) -> Environment:
    """Return an environment from itself or from its text form; its number of arms is not checked."""
    if isinstance(value, str):
        value = text_forms.parse(value, ENVIRONMENTS, "environment")
    if not _is_environment(value):
        raise Invalid(f"{shown(value)} is not an environment; {_remedy(value)}")
    return text_forms.normal_form(value)


def _remedy(value: object) -> str:
    if isinstance(value, type) and value in ENVIRONMENTS.values():
        return f"it is an environment class: write {text_forms.example(value)!r}, for example"
    if callable(value):
        return "pass a function reward(arm, uniform) to sameluck.python_environment"
    if text_forms.is_parameters(value) and not is_builtin(type(value)):
        name = type(value).__name__
        return f"its class has no draw function: write @sameluck.draws({name}) above your function"
    return (
        "write 'bernoulli(0.7, 0.3)', for example (the command `sameluck environments` lists all), or register your "
        "own with sameluck.draws"
    )
