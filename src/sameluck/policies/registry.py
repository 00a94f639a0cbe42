"""The registered policies, and `as_policy`."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from sameluck import policies, text_forms
from sameluck.errors import Invalid, did_you_mean, shown
from sameluck.policies import fast
from sameluck.policies.base import (
    POLICIES,
    Policy,
    check_complete,
    check_parameters,
    check_when_made,
    has_select_function,
)
from sameluck.policies.external import External

for _name, _kind in text_forms.discover(policies).items():
    if _kind is not External:  # the application has its body
        check_complete(_kind)
    check_when_made(_kind)
    POLICIES[_name] = _kind
for _module in pkgutil.iter_modules(fast.__path__, f"{fast.__name__}."):
    import_module(_module.name)  # it registers fast forms

_FEWEST = 2  # arms


def as_policy(value: object, arms: int | None) -> Policy:
    """A policy from itself or from its text form, checked for a number of arms if that is known."""
    policy = text_forms.parse(value, POLICIES, "policy") if isinstance(value, str) else value
    if not has_select_function(policy, arms or _FEWEST):
        raise Invalid(f"{shown(value)} is not a policy; {_remedy(value)}")
    policy = text_forms.normal_form(policy, POLICIES)
    if arms is not None:
        check_parameters(policy, arms)
    return policy


def _remedy(value: object) -> str:
    if isinstance(value, type) and value in POLICIES.values():
        return f"it is the class of one: write {value.__name__}()"
    known = did_you_mean(type(value).__name__.lower(), POLICIES)
    return (
        f"{known}; or register your own with sameluck.selects, or name a Python object: External('mine'), and "
        "makers={'mine': make} for simulate"
    )
