"""The registered environments, and `as_environment`."""

from __future__ import annotations

from typing import TypeGuard

from sameluck import environments, text_forms
from sameluck.environments.base import ENVIRONMENTS, Environment, is_complete
from sameluck.errors import Invalid, did_you_mean, shown

for _name, _kind in text_forms.discover(environments).items():
    if is_complete(_kind):
        ENVIRONMENTS[_name] = _kind


def _is_environment(value: object) -> TypeGuard[Environment]:
    return type(value) in ENVIRONMENTS.values()


def as_environment(value: object) -> Environment:
    """An environment from itself or from its text form; `check` it against a number of arms next."""
    if isinstance(value, str):
        value = text_forms.parse(value, ENVIRONMENTS, "environment")
    if not _is_environment(value):
        raise Invalid(f"{shown(value)} is not an environment; {_remedy(value)}")
    return text_forms.normal_form(value)


def _remedy(value: object) -> str:
    if isinstance(value, type) and value in ENVIRONMENTS.values():
        return f"it is the class of one: write {text_forms.example(value)!r}, for example"
    if callable(value):
        return "for a function reward(arm, uniform) there is sameluck.python_environment"
    known = did_you_mean(type(value).__name__.lower(), ENVIRONMENTS)
    return f"{known}; or register your own with sameluck.draws"
