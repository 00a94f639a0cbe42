"""Text forms of policies, environments and designs: `ucb1(alpha=2.5)`, `bernoulli(0.9, 0.7)`, `replay`.

Names ignore case, `-` and `_`. A class whose first field holds one value per arm takes the values one after another:
`bernoulli(0.9, 0.7)` is `Bernoulli(means=(0.9, 0.7))`. A class with a field that holds another object of its
registry, or whose first field holds a list of such objects, takes their text forms:
`batched(ucb1(alpha=2), size=10)`.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol, TypeGuard, TypeVar, get_args, get_origin, get_type_hints

from sameluck.errors import Invalid, did_you_mean, shown
from sameluck.grammar import WORDS, Call, read_call
from sameluck.validation import is_listed


class Parameters(Protocol):
    """A NamedTuple of parameters: a policy, an environment or a design."""

    @property
    def _fields(self) -> tuple[str, ...]: ...

    def _asdict(self) -> dict[str, object]: ...

    def __iter__(self) -> Iterator[object]: ...


T = TypeVar("T")


def name_of(parameters_class: type) -> str:
    """Return the name of a class in text forms: `ThompsonBernoulli` is `thompson_bernoulli`, `UCB1` is `ucb1`."""
    return re.sub(
        r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", parameters_class.__name__
    ).lower()


def discover(package: ModuleType) -> dict[str, type]:
    """Return the public NamedTuple classes that the modules of a package define, by the name in text forms."""
    classes: dict[str, type] = {}
    for file in pkgutil.iter_modules(package.__path__):
        if file.name in ("base", "observations", "registry"):
            continue
        module = import_module(f"{package.__name__}.{file.name}")
        for name, value in vars(module).items():
            is_imported = getattr(value, "__module__", "") != module.__name__
            if is_imported or not hasattr(value, "_fields") or name.startswith("_"):
                continue
            other = classes.setdefault(name_of(value), value)
            if other is not value:
                modules = f"{other.__module__} and {value.__module__}"
                raise Invalid(f"{modules} both define {name_of(value)}; rename one of them")
    return classes


def parse(text: str, classes: Mapping[str, type[T]], subject: str) -> T:
    """Return the object that a text form describes; `subject` is what messages call it."""
    return _build(read_call(text, subject), classes, subject, text)


def write(value: object, *, brief: bool = False) -> str:
    """Return the text form of a policy, an environment or a design; `parse` returns the same object.

    With `brief`, parameters at their defaults are left out, so that equal objects have equal texts.
    """
    parameters: Any = value  # a NamedTuple
    parameters_class, fields = type(value), parameters._asdict()
    if brief or getattr(parameters_class, "omits_defaults", False):
        usual = _defaults(parameters_class)
        fields = {n: f for n, f in fields.items() if n not in usual or f != usual[n]}
    items = [
        _write_item(parameters_class, name, field, brief=brief) for name, field in fields.items()
    ]
    return name_of(parameters_class) + (f"({', '.join(items)})" if items else "")


def write_short(value: object, length: int = 60) -> str:
    """Return the text form, cut to a length without writing all of a long list."""
    text = write(_beginning(value, length))
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _beginning(field: Any, items: int) -> object:
    if is_parameters(field):
        # By `_make`, which checks nothing: the first of many probabilities do not sum to 1.
        return field._make(_beginning(value, items) for value in field)  # type: ignore[attr-defined]
    return tuple(_beginning(item, items) for item in field[:items]) if is_listed(field) else field


def _write_item(parameters_class: type, name: str, field: object, *, brief: bool) -> str:
    if name == _spread_field(parameters_class) and field:
        return _write_value(field)[1:-1]
    if name == _nested_field(parameters_class) and is_parameters(field):
        is_first = name == parameters_class._fields[0]  # type: ignore[attr-defined]  # a NamedTuple
        return ("" if is_first else f"{name}=") + write(field, brief=brief)
    return f"{name}={_write_value(field)}"


def normal_form(value: T, classes: Mapping[str, type] | None = None) -> T:
    """Return the same object with numbers as annotated (2 becomes 2.0) and lists as tuples.

    A nested object is brought to its normal form too; with `classes` it may be a text form.
    """
    parameters: Any = value
    parameters_class: type = type(value)
    hints, nested = _hints(parameters_class), _nested_field(parameters_class)
    changes = {
        name: _as_hinted(field, takes_float=_mentions_float(hints.get(name)))
        for name, field in parameters._asdict().items()
        if name != nested
    }
    if nested:
        inner = getattr(value, nested)
        if isinstance(inner, str) and classes is not None:
            inner = parse(inner, classes, nested)
        changes[nested] = normal_form(inner, classes) if is_parameters(inner) else inner
    return parameters._replace(**changes)


def is_parameters(value: object) -> TypeGuard[Parameters]:
    return isinstance(value, tuple) and hasattr(value, "_asdict")


def _defaults(parameters_class: type) -> dict[str, object]:
    return getattr(parameters_class, "_field_defaults", {})


def _mentions_float(hint: object) -> bool:
    return hint is float or any(_mentions_float(argument) for argument in get_args(hint))


def _as_hinted(field: object, *, takes_float: bool) -> object:
    if is_parameters(field):
        return normal_form(field)
    if hasattr(field, "tolist"):
        field = field.tolist()
    if isinstance(field, list | tuple):
        if takes_float and (types := set(map(type, field))) <= {float, int}:
            with suppress(OverflowError):
                return tuple(field if types == {float} else map(float, field))
        return tuple(_as_hinted(item, takes_float=takes_float) for item in field)
    if takes_float and isinstance(field, int) and not isinstance(field, bool):
        try:
            return float(field)
        except OverflowError:
            raise Invalid(f"{shown(field)} is too large for a floating-point number") from None
    return field


def _plain_word(name: str) -> str:
    return re.sub(r"[-_]", "", name).lower()


def _spread_field(parameters_class: type) -> str | None:
    """Return the first field, if it holds one value per arm."""
    return _first_field(parameters_class, lambda hint: get_origin(hint) is Sequence)


def _nested_field(parameters_class: type, *, several: bool = False) -> str | None:
    """Return the field that holds another object with a text form, or the first field if it holds several."""

    def fits(hint: object) -> bool:
        return _holds_objects(hint) and (get_origin(hint) is Sequence) is several

    return _first_field(parameters_class, fits, among=1 if several else None)


def _holds_objects(hint: object) -> bool:
    return any(Parameters in getattr(argument, "__mro__", ()) for argument in get_args(hint))


@lru_cache(maxsize=256)
def _hints(parameters_class: type) -> dict[str, object]:
    return get_type_hints(parameters_class)


def _first_field(
    parameters_class: type, fits: Callable[[object], bool], among: int | None = 1
) -> str | None:
    """Return the first field whose annotation fits, among the first so many fields."""
    names: tuple[str, ...] = getattr(parameters_class, "_fields", ())[:among]
    return next((name for name in names if fits(_hints(parameters_class).get(name))), None)


def _build(call: Call, classes: Mapping[str, type[T]], subject: str, text: str) -> T:
    by_word = {_plain_word(word): parameters_class for word, parameters_class in classes.items()}
    parameters_class = by_word.get(_plain_word(call.name))
    if parameters_class is None:
        raise Invalid(f"unknown {subject} {shown(call.name)}{_remedy(call.name, classes)}")
    fields, nested = _by_name(parameters_class, call, text), _nested_field(parameters_class) or ""
    inner = fields.get(nested)
    if isinstance(inner, Call):
        fields[nested] = _build(inner, classes, subject, text)
    elif isinstance(inner, str):
        fields[nested] = parse(inner, classes, subject)
    listed = _nested_field(parameters_class, several=True) or ""
    if is_listed(items := fields.get(listed)):
        fields[listed] = tuple(
            _build(item, classes, subject, text) if isinstance(item, Call) else item
            for item in items
        )
    for field, value in fields.items():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Call):
                raise Invalid(
                    f"{text!r}: {field} of {name_of(parameters_class)} takes numbers or words, not {item.name}(...)"
                )
    return parameters_class(**fields)


# Problems that sameluck does not cover, by words in the names of their policies.
_NOT_COVERED = {
    "contexts in neural networks, kernels, trees or expert advice": r"neural|deep|kernel|tree|forest|exp4",
    "best-arm identification": r"best.?arm|^bai|halving|^lucb|track.?and.?stop|simple.?regret",
    "slates and rankings": r"slate|cascad|rank|combinatorial|cucb|top.?k",
    "budgets": r"knapsack|budget|^bwk|cost",
    "duelling bandits": r"duel|^d?rucb|interleav|condorcet|preference",
    "infinitely many arms": r"^gp|lipschitz|continu.*arm|^hoo|zooming",
    "restless bandits, and states that are not listed": r"restless|mortal|sleeping|whittle|dqn|reinforce|actor",
}


def _remedy(name: str, classes: Mapping[str, type]) -> str:
    word = name.lower()
    for problem, pattern in _NOT_COVERED.items():
        if re.search(pattern, word):
            return f": sameluck does not cover {problem}; see docs/limits.md"
    family = [other for other in classes if _plain_word(word) in _plain_word(other)]
    if len(family) > 1:
        return f"; did you mean one of {', '.join(family)}?"
    return f"; {did_you_mean(name, classes)}"


def _by_name(parameters_class: type, call: Call, text: str) -> dict[str, object]:
    """Return the arguments of a call by the fields of its class."""
    names: tuple[str, ...] = parameters_class._fields  # type: ignore[attr-defined]  # a NamedTuple
    spread, named = _spread_field(parameters_class), dict[str, object](call.named)
    positional: dict[str, object] = dict(zip(names, call.positional, strict=False))
    if spread and call.positional:
        positional = {spread: tuple(call.positional)}
    elif len(call.positional) > len(names):
        raise Invalid(
            f"{text!r} has {len(call.positional)} values; {name_of(parameters_class)} takes {len(names)}"
        )
    for field in named:
        if field in positional:
            raise Invalid(f"{text!r} gives {field} twice")
        if field not in names:
            raise Invalid(f"{text!r}: unknown {field!r}; {did_you_mean(field, names)}")
    fields = {**positional, **named}
    missing = [
        field for field in names if field not in fields and field not in _defaults(parameters_class)
    ]
    if missing:
        sample = _sample_of(parameters_class)
        hint = f"; for example {sample}" if sample else ""
        raise Invalid(f"{text!r} lacks {', '.join(missing)}{hint}")
    return fields


_SAMPLES: dict[type, str] = {}


def with_sample(text: str) -> Callable[[type[T]], type[T]]:
    """Give a class the text form that messages and listings show, where its fields have no defaults."""

    def give(parameters_class: type[T]) -> type[T]:
        _SAMPLES[parameters_class] = text
        return parameters_class

    return give


def _sample_of(parameters_class: type) -> str | None:
    sample = _SAMPLES.get(parameters_class, getattr(parameters_class, "sample", None))
    return sample if isinstance(sample, str) else None


def example(parameters_class: type) -> str:
    """Return a short text form for messages and listings: the class's `sample`, or its defaults or fields."""
    if sample := _sample_of(parameters_class):
        return sample
    defaults = _defaults(parameters_class)
    missing = [name for name in getattr(parameters_class, "_fields", ()) if name not in defaults]
    if missing and parameters_class.__module__.partition(".")[0] != "sameluck":
        return f"{name_of(parameters_class)}({', '.join(f'{name}=...' for name in missing)})"
    if missing:
        name = f"{parameters_class.__module__}.{parameters_class.__name__}"
        raise Invalid(
            f"{name} needs a default for every field or a text `sample`; if it is a helper, such as "
            "the rule of a policy, start its name with an underscore"
        )
    return write(parameters_class())


def _write_value(value: object) -> str:
    if is_parameters(value):
        return write(value)
    if isinstance(value, tuple | list):
        numbers = set(map(type, value)) <= {float, int}
        return f"[{', '.join(map(_write_number if numbers else _write_value, value))}]"
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z][\w-]*", value) and value.lower() not in WORDS
        return value if plain else json.dumps(value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return _write_number(value)


def _write_number(value: object) -> str:
    # -0.0 is written as 0, because equal parameters have equal text forms.
    return repr(value or 0).removesuffix(".0")
