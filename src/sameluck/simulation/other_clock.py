"""`OtherClock`: another date and time for an object that is checked, to see whether it reads the clock.

Two calls of an object in the same second, or on the same day, read the same clock unless it is a fine one. So the
names `time` and `datetime`, and what was imported from these modules, are replaced in the module of the object while
it is checked. The replacements tell the true time except to the thread that is within `ahead`. Clocks that count from
an unspecified start (`time.monotonic`), `time.clock_gettime`, those of other modules and imports within functions
stay as they are.
"""

from __future__ import annotations

import datetime
import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

# Another year, month, day of the week, hour, minute and second.
_AHEAD = 400 * 86_400 + 5 * 3_600 + 7 * 60 + 11
_one_at_a_time = threading.Lock()


class OtherClock:
    """Replaces the clock in some modules, until `restore`."""

    def __init__(self) -> None:
        self._thread = 0  # that is ahead
        self._before: list[tuple[dict[str, object], str, object]] = []
        self._owns = False  # whether no other thread replaces clocks meanwhile
        self._others = {id(true): other for true, other in self._replacements()}

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """In this thread, it is more than a year later."""
        self._thread = threading.get_ident()
        try:
            yield
        finally:
            self._thread = 0

    def replace_for(self, *things: object) -> None:
        """Replace the clock in the modules that define functions, or the classes of objects and of what they hold."""
        self._owns = self._owns or _one_at_a_time.acquire(blocking=False)
        held = (value for one in things for value in getattr(one, "__dict__", {}).values())
        for names in _modules([*things, *held]) if self._owns else ():
            for name, value in [*names.items()]:
                if id(value) in self._others:
                    self._before.append((names, name, value))
                    names[name] = self._others[id(value)]

    def restore(self) -> None:
        """Undo all replacements."""
        while self._before:
            names, name, value = self._before.pop()
            names[name] = value
        if self._owns:
            self._owns = False
            _one_at_a_time.release()

    def _seconds(self) -> int:
        return _AHEAD if self._thread == threading.get_ident() else 0

    def _replacements(self) -> Iterator[tuple[object, object]]:
        for true, others in ((time, self._functions()), (datetime, self._classes())):
            module = ModuleType(true.__name__)
            vars(module).update({**vars(true), **others})
            yield true, module
            yield from ((getattr(true, name), other) for name, other in others.items())

    def _functions(self) -> dict[str, Callable[..., object]]:
        def now() -> float:
            return time.time() + self._seconds()

        def of_now(true: Callable[..., object]) -> Callable[..., object]:
            return lambda seconds=None: true(now() if seconds is None else seconds)

        def of_parts(true: Callable[..., object], form: tuple[str, ...], *given: object) -> object:
            return true(*form, *(given or (time.localtime(now()),)))

        return {
            "time": now,
            "time_ns": lambda: time.time_ns() + self._seconds() * 10**9,
            "strftime": lambda form, *given: of_parts(time.strftime, (form,), *given),
            "asctime": lambda *given: of_parts(time.asctime, (), *given),
            **{name: of_now(getattr(time, name)) for name in ("gmtime", "localtime", "ctime")},
        }

    def _classes(self) -> dict[str, type]:
        return {name: self._class(getattr(datetime, name)) for name in ("datetime", "date")}

    def _class(self, true: type) -> type:
        def later(name: str) -> object:
            def moment(*values: object, **named: object) -> object:
                return getattr(true, name)(*values, **named) + datetime.timedelta(
                    seconds=self._seconds()
                )

            return staticmethod(moment)

        class Other(type):  # stands for the true class in everything else
            def __instancecheck__(cls, value: object) -> bool:
                return isinstance(value, true)

            def __subclasscheck__(cls, kind: type) -> bool:
                return issubclass(vars(kind).get("true", kind), true)

            def __getattr__(cls, name: str) -> object:
                return getattr(true, name)

            def __call__(cls, *values: object, **named: object) -> object:
                return true(*values, **named)

        names = [name for name in ("now", "utcnow", "today") if hasattr(true, name)]
        return Other(true.__name__, (), {"true": true, **{name: later(name) for name in names}})


def _modules(things: Sequence[object]) -> list[dict[str, object]]:
    """The global names of the modules that define functions, or the classes of objects."""
    functions = [inspect.unwrap(one) for one in things if inspect.isroutine(one)]
    kinds = [kind for one in things for kind in type(one).__mro__]
    named = (sys.modules.get(kind.__module__) for kind in kinds if kind.__module__ != "builtins")
    found = [vars(one) for one in named if one is not None]
    found += [one.__globals__ for one in functions if hasattr(one, "__globals__")]
    return list({id(one): one for one in found}.values())
