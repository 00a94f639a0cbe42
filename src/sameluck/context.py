"""Contexts: what a policy knows of a user before it chooses an arm: `Features`, `Levels` or `States`.

A context decides the cell of a reward, the unit whose rewards form one stack. For levels and states a cell is a pair
of level and arm. Users with features are all different, so their rewards are indexed by arm and period.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from sameluck import text_forms
from sameluck.errors import Invalid, did_you_mean, shown
from sameluck.validation import is_whole, require_flag, require_name, require_whole

MAX_FEATURES, MAX_LEVELS, MAX_EPISODE = 10_000, 100_000, 1 << 40


class Context:
    """Base class of contexts: a NamedTuple whose field `size` is a count or the names."""

    __slots__ = ()
    indexed_by_period = False  # whether every user is a cell of its own
    size: int | Sequence[str]
    _noun, _max_size = "", 0

    @property
    def number(self) -> int:
        """Number of features, levels or states."""
        return self.size if isinstance(self.size, int) else len(self.size)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, levels or states; their indices as text if only a count was given."""
        return tuple(map(str, range(self.size))) if isinstance(self.size, int) else tuple(self.size)

    @property
    def text(self) -> str:
        """Text form, such as `levels(3)`."""
        return text_forms.write(self)

    def check(self) -> None:
        """Raise `Invalid` for an invalid number of features, levels or states, or for invalid names."""
        name, least = f"{type(self).__name__}.size", 1
        if is_whole(self.size):
            require_whole(name, self.size, least, self._max_size)
            return
        if isinstance(self.size, str) or not isinstance(self.size, Sequence):
            raise Invalid(
                f"{name} must be how many {self._noun}s, or their names, got {shown(self.size)}"
            )
        for entry in self.size:
            require_name(f"the name of a {self._noun}", entry)
        if len(set(self.size)) < len(self.size):
            raise Invalid(f"{name} has a name twice: {shown(self.size)}; names must differ")
        require_whole(f"the number of names in {name}", len(self.size), least, self._max_size)

    def agrees_with(self, other: Context) -> bool:
        """Return whether two contexts are equal, up to names where one of them has none."""
        unnamed = isinstance(self.size, int) or isinstance(other.size, int)
        same_size = self.number == other.number if unnamed else self.names == other.names
        return type(self) is type(other) and same_size and tuple(self)[1:] == tuple(other)[1:]  # type: ignore[arg-type]

    @property
    def segments(self) -> int:
        """Number of levels whose rewards are also summed apart."""
        return 0

    def cells(self, arms: int) -> int:
        """Return the number of stacks of rewards."""
        return self.number * arms

    def shape(self, arms: int) -> tuple[int, ...]:
        """Return the shape of `Tally.context`."""
        raise NotImplementedError

    def columns(self, arms: int) -> tuple[str, ...]:
        """Return names for the numbers of `Tally.context`, as in the records of a trace."""
        raise NotImplementedError


class _FeaturesFields(NamedTuple):
    size: int | Sequence[str]
    per_arm: bool = False


class Features(Context, _FeaturesFields):
    """Numbers that describe a user, such as age and visits.

    Args:
        size: How many features, or their names.
        per_arm: Whether each arm has its own features of a user, for models with shared weights. Then
            `Tally.context` has the shape (arms, features).
    """

    __slots__ = ()
    indexed_by_period = True
    omits_defaults = True
    _noun, _max_size = "feature", MAX_FEATURES

    def check(self) -> None:
        super().check()
        require_flag("Features.per_arm", self.per_arm)

    def cells(self, arms: int) -> int:
        return arms

    def shape(self, arms: int) -> tuple[int, ...]:
        return (arms, self.number) if self.per_arm else (self.number,)

    def columns(self, arms: int) -> tuple[str, ...]:
        names = [f"feature_{name}" for name in self.names]
        if self.per_arm:
            names = [f"{name}_arm_{arm}" for arm in range(arms) for name in names]
        return tuple(names)


class _LevelsFields(NamedTuple):
    size: int | Sequence[str]


class Levels(Context, _LevelsFields):
    """One of finitely many levels, such as a segment or a device; `Tally.level` is its index.

    Args:
        size: How many levels, or their names.
    """

    __slots__ = ()
    _noun, _max_size = "level", MAX_LEVELS

    @property
    def segments(self) -> int:
        return self.number

    def shape(self, arms: int) -> tuple[int, ...]:
        return (1,)

    def columns(self, arms: int) -> tuple[str, ...]:
        return ("level",)


class _StatesFields(NamedTuple):
    size: int | Sequence[str]
    episode: int


class States(Context, _StatesFields):
    """State of a Markov decision process, which the policy's actions change; `Tally.level` is its index.

    Args:
        size: How many states, or their names.
        episode: Largest number of periods in an episode; the next episode begins in an initial state.
    """

    __slots__ = ()
    _noun, _max_size = "state", MAX_LEVELS

    def check(self) -> None:
        super().check()
        require_whole("States.episode", self.episode, 1, MAX_EPISODE)

    def shape(self, arms: int) -> tuple[int, ...]:
        return (3,)  # the state, the step in the episode and the episode's number

    def columns(self, arms: int) -> tuple[str, ...]:
        return ("state", "step", "episode")


ContextLike: TypeAlias = Context | str  # itself or its text form
CONTEXTS: dict[str, type[Context]] = {
    text_forms.name_of(context_class): context_class for context_class in (Features, Levels, States)
}


def as_context(value: object) -> Context:
    """Return a context from itself or from its text form: `features(3)`, `levels([mobile, desktop])`."""
    context = text_forms.parse(value, CONTEXTS, "context") if isinstance(value, str) else value
    if not isinstance(context, Context):
        hint = did_you_mean(str(value), CONTEXTS)
        raise Invalid(
            f"{shown(value)} is not a context; write sl.Features(3) or sl.Levels(2); {hint}"
        )
    context = text_forms.normal_form(context)
    context.check()
    return context
