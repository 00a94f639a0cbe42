"""Discovery of built-in policies, and `as_policy`."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from sameluck import policies, text_forms
from sameluck.compilation.functions import is_builtin
from sameluck.errors import Invalid, did_you_mean, shown
from sameluck.policies import base, contextual, fast
from sameluck.policies.external import External

_discovered = {**text_forms.discover(policies), **text_forms.discover(contextual)}
for _name, _class in _discovered.items():
    if _class is not External:  # the application makes its object
        base.check_complete(_class)
    base.check_when_made(_class)
    base.POLICIES[_name] = _class
for _module in pkgutil.iter_modules(fast.__path__, f"{fast.__name__}."):
    import_module(_module.name)  # it registers fast forms

_MIN_ARMS = 2


def as_policy(value: object, arms: int | None) -> base.Policy:
    """Return a policy from itself or from its text form, checked for a number of arms unless that is None."""
    policy = text_forms.parse(value, base.POLICIES, "policy") if isinstance(value, str) else value
    if not base.has_select_function(policy, arms or _MIN_ARMS):
        raise Invalid(f"{shown(value)} is not a policy; {_remedy(value)}")
    policy = text_forms.normal_form(policy, base.POLICIES)
    if arms is not None:
        base.check_parameters(policy, arms)
    return policy


def _remedy(value: object) -> str:
    if isinstance(value, type) and value in base.POLICIES.values():
        return f"it is a policy class: write {value.__name__}()"
    if text_forms.is_parameters(value) and not is_builtin(type(value)):
        name = type(value).__name__
        return (
            f"its class has no select function: write @sameluck.selects({name}) above your function"
        )
    hint = did_you_mean(type(value).__name__.lower(), base.POLICIES)
    return (
        f"{hint}; or register your own with sameluck.selects, or name a Python object: External('mine'), and "
        "makers={'mine': make} for simulate"
    )
