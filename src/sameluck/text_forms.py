"""The text form of a policy, an environment or a design: `ucb1(alpha=2.5)`, `bernoulli(0.9, 0.7)`, `replay`.

Names ignore case, `-` and `_`. A class whose first field holds one value for each arm takes them one after another:
`bernoulli(0.9, 0.7)` is `Bernoulli(means=(0.9, 0.7))`. One whose first field holds another object of its registry, or
a list of them, takes their text forms: `batched(ucb1(alpha=2), size=10)`.
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
from typing import (
    Any,
    Protocol,
    TypeGuard,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from sameluck.errors import Invalid, did_you_mean, shown
from sameluck.grammar import WORDS, Call, read_call
from sameluck.validation import is_listed


class Parameters(Protocol):
    """A NamedTuple of parameters: a policy, an environment or a design."""

    @property
    def _fields(self) -> tuple[str, ...]: ...

    def _asdict(self) -> dict[str, object]: ...

    def __iter__(self) -> Iterator[object]: ...


Kind = TypeVar("Kind")


def name_of(kind: type) -> str:
    """The word for a class: `ThompsonBernoulli` is `thompson_bernoulli`, `UCB1` is `ucb1`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind.__name__).lower()


def discover(package: ModuleType) -> dict[str, type]:
    """The public NamedTuple classes that the modules of a package define, by the name of their text form."""
    found: dict[str, type] = {}
    for file in pkgutil.iter_modules(package.__path__):
        if file.name in ("base", "observations", "registry"):
            continue
        module = import_module(f"{package.__name__}.{file.name}")
        for name, kind in vars(module).items():
            is_own = getattr(kind, "__module__", "") == module.__name__
            if not is_own or not hasattr(kind, "_fields") or name.startswith("_"):
                continue
            other = found.setdefault(name_of(kind), kind)
            if other is not kind:
                both = f"{other.__module__} and {kind.__module__}"
                raise Invalid(f"{both} both define {name_of(kind)}; give one another name")
    return found


def parse(text: str, kinds: Mapping[str, type[Kind]], what: str) -> Kind:
    """The object that a text form describes, of the class with its name."""
    return _build(read_call(text, what), kinds, what, text)


def write(value: object, *, brief: bool = False) -> str:
    """The text form of a policy, an environment or a design; `parse` gives the same object back.

    In brief, parameters at their defaults are left out, so that equal objects have equal texts.
    """
    parameters: Any = value  # a NamedTuple
    kind, fields = type(value), parameters._asdict()
    if brief:
        usual = _defaults(kind)
        fields = {n: f for n, f in fields.items() if n not in usual or f != usual[n]}
    items = [_write_item(kind, name, field, brief=brief) for name, field in fields.items()]
    return name_of(kind) + (f"({', '.join(items)})" if items else "")


def write_short(value: object, length: int = 60) -> str:
    """The text form, cut to a length; only what is shown of it is written."""
    parameters: Any = value  # a NamedTuple
    text = write(type(value)(*(_beginning(field, length) for field in parameters)))
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _beginning(field: object, items: int) -> object:
    if is_parameters(field):
        return type(field)(*(_beginning(one, items) for one in field))
    if not is_listed(field):
        return field
    return tuple(_beginning(item, items) for item in field[:items])


def _write_item(kind: type, name: str, field: object, *, brief: bool) -> str:
    if name == _spread_field(kind) and field:
        return _write_value(field)[1:-1]
    if name == _nested_field(kind) and is_parameters(field):
        return write(field, brief=brief)
    return f"{name}={_write_value(field)}"


def normal_form(value: Kind, kinds: Mapping[str, type] | None = None) -> Kind:
    """The same object with numbers as its annotations say (2 becomes 2.0) and lists as tuples.

    An object that it holds is brought to its normal form too; with `kinds`, it may also be a text form.
    """
    parameters: Any = value
    kind: type = type(value)
    hints, nested = _hints(kind), _nested_field(kind)
    changes = {
        name: _as_hinted(field, takes_float=_mentions_float(hints.get(name)))
        for name, field in parameters._asdict().items()
        if name != nested
    }
    if nested:
        inner = getattr(value, nested)
        if isinstance(inner, str) and kinds is not None:
            inner = parse(inner, kinds, nested)
        changes[nested] = normal_form(inner, kinds) if is_parameters(inner) else inner
    return parameters._replace(**changes)


def is_parameters(value: object) -> TypeGuard[Parameters]:
    """Whether a value is a NamedTuple."""
    return isinstance(value, tuple) and hasattr(value, "_asdict")


def _defaults(kind: type) -> dict[str, object]:
    return getattr(kind, "_field_defaults", {})


def _mentions_float(hint: object) -> bool:
    return hint is float or any(_mentions_float(argument) for argument in get_args(hint))


def _as_hinted(field: object, *, takes_float: bool) -> object:
    if is_parameters(field):
        return normal_form(field)
    if hasattr(field, "tolist"):
        field = field.tolist()
    if isinstance(field, list | tuple):
        if takes_float and (kinds := set(map(type, field))) <= {float, int}:
            with suppress(OverflowError):
                return tuple(field if kinds == {float} else map(float, field))
        return tuple(_as_hinted(item, takes_float=takes_float) for item in field)
    if takes_float and isinstance(field, int) and not isinstance(field, bool):
        try:
            return float(field)
        except OverflowError:
            raise Invalid(f"{shown(field)} is too large for a number") from None
    return field


def _plain_word(name: str) -> str:
    return re.sub(r"[-_]", "", name).lower()


def _spread_field(kind: type) -> str | None:
    """The first field, if it holds one value per arm."""
    return _first_field(kind, lambda hint: get_origin(hint) is Sequence)


def _nested_field(kind: type) -> str | None:
    """The first field, if it holds another object with a text form."""
    return _first_field(
        kind, lambda hint: _holds_objects(hint) and get_origin(hint) is not Sequence
    )


def _field_of_objects(kind: type) -> str | None:
    """The first field, if it holds several objects with text forms."""
    return _first_field(kind, lambda hint: _holds_objects(hint) and get_origin(hint) is Sequence)


def _holds_objects(hint: object) -> bool:
    return any(Parameters in getattr(one, "__mro__", ()) for one in get_args(hint))


@lru_cache(maxsize=256)
def _hints(kind: type) -> dict[str, object]:
    return get_type_hints(kind)


def _first_field(kind: type, fits: Callable[[object], bool]) -> str | None:
    first: tuple[str, ...] = getattr(kind, "_fields", ())[:1]
    return next((name for name in first if fits(_hints(kind).get(name))), None)


def _build(call: Call, kinds: Mapping[str, type[Kind]], what: str, text: str) -> Kind:
    by_word = {_plain_word(word): kind for word, kind in kinds.items()}
    kind = by_word.get(_plain_word(call.name))
    if kind is None:
        raise Invalid(f"unknown {what} {shown(call.name)}; {did_you_mean(call.name, kinds)}")
    fields, nested = _by_name(kind, call, text), _nested_field(kind) or ""
    inner = fields.get(nested)
    if isinstance(inner, Call):
        fields[nested] = _build(inner, kinds, what, text)
    elif isinstance(inner, str):
        fields[nested] = parse(inner, kinds, what)
    listed = _field_of_objects(kind) or ""
    if is_listed(given := fields.get(listed)):
        fields[listed] = tuple(
            _build(one, kinds, what, text) if isinstance(one, Call) else one for one in given
        )
    for field, value in fields.items():
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Call):
                raise Invalid(
                    f"{text!r}: {field} of {name_of(kind)} takes numbers or words, not {one.name}(...)"
                )
    return kind(**fields)


def _by_name(kind: type, call: Call, text: str) -> dict[str, object]:
    """The arguments of a call by the fields of its class."""
    known: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]  # a NamedTuple
    spread, named = _spread_field(kind), dict[str, object](call.named)
    positional: dict[str, object] = dict(zip(known, call.positional, strict=False))
    if spread and call.positional:
        positional = {spread: tuple(call.positional)}
    elif len(call.positional) > len(known):
        raise Invalid(
            f"{text!r} has {len(call.positional)} values; {name_of(kind)} takes {len(known)}"
        )
    for field in named:
        if field in positional:
            raise Invalid(f"{text!r} gives {field} twice")
        if field not in known:
            raise Invalid(f"{text!r}: unknown {field!r}; {did_you_mean(field, known)}")
    fields = {**positional, **named}
    missing = [field for field in known if field not in fields and field not in _defaults(kind)]
    if missing:
        hint = f"; for example {kind.sample()}" if hasattr(kind, "sample") else ""
        raise Invalid(f"{text!r} lacks {', '.join(missing)}{hint}")
    return fields


def example(kind: type) -> str:
    """A short text form that parses, for messages and listings; of a user's class without one its fields."""
    if hasattr(kind, "sample"):
        return str(kind.sample())
    missing = [name for name in getattr(kind, "_fields", ()) if name not in _defaults(kind)]
    if missing and kind.__module__.partition(".")[0] != "sameluck":
        return f"{name_of(kind)}({', '.join(f'{name}=...' for name in missing)})"
    if missing:
        raise Invalid(
            f"{kind.__module__}.{kind.__name__} needs a default for every field or a static method `sample`; if it "
            "is a helper, such as the tables of a policy, start its name with an underscore"
        )
    return write(kind())


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
    # -0.0 equals 0.0, and equal parameters have one text form
    return repr(value or 0).removesuffix(".0")
