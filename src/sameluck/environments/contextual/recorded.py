"""Users from tables: `FromContexts`, recorded contexts, and `Classification`, a labelled data set as a bandit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.context import Features
from sameluck.environments.base import (
    CONTEXT_FUNCTIONS,
    ENVIRONMENTS,
    Environment,
    draw,
    draws,
    prepared_parameters,
)
from sameluck.environments.checks import MAX_REWARD
from sameluck.environments.contextual.base import (
    ContextualEnvironment,
    contexts,
    expected,
    expects,
    write_context,
)
from sameluck.errors import Invalid, Missing, shown
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import Bits, Key, at
from sameluck.validation import require_name

MAX_SHOWN = 100  # numbers in a repr


class _Table(NamedTuple):
    values: Floats  # (row, number)


class _TablePerArm(NamedTuple):
    values: Floats  # (row, arm, feature)


def _copy_row(table: _Table, row: int, period: int, noise: Key, context: Floats) -> None:
    index = int(uniform(at(noise, period, 0)) * table.values.shape[0])
    for number in range(context.size):
        context[number] = table.values[index, number]


def _copy_row_per_arm(
    table: _TablePerArm, row: int, period: int, noise: Key, context: Floats
) -> None:
    index = int(uniform(at(noise, period, 0)) * table.values.shape[0])
    for arm in range(context.shape[0]):
        for feature in range(context.shape[1]):
            context[arm, feature] = table.values[index, arm, feature]


CONTEXT_FUNCTIONS[_Table] = _copy_row
CONTEXT_FUNCTIONS[_TablePerArm] = _copy_row_per_arm


class _FromContextsFields(NamedTuple):
    contexts: Sequence[Sequence[float] | Sequence[Sequence[float]]]
    environment: text_forms.Parameters | str


class FromContexts(_FromContextsFields, ContextualEnvironment):
    """Users whose features are rows of a table, such as recorded contexts, drawn with replacement.

    Rewards come from an environment with features, in place of the features that it would draw itself.

    Args:
        contexts: One row of features per recorded user; with features per arm, one list of features per arm in each
            row. An array or a list.
        environment: An environment with features, such as `Linear`, or its text form. It does not drift or switch;
            `Switching` may have several `FromContexts`.
    """

    __slots__ = ()
    sample = "from_contexts([1, 0.5], [0, -1], [1, 1], environment=linear([0.5, 0.1], [0.2, 0.3]))"

    def __init__(self, *_values: object, **_named: object) -> None:
        self.check(self.inner.arms or 2)

    def __repr__(self) -> str:
        table = self.table()
        rows = f"{self.contexts!r}" if table.size <= MAX_SHOWN else f"<{len(table):,} rows>"
        return f"FromContexts(contexts={rows}, environment={self.environment!r})"

    @property
    def inner(self) -> Environment:
        """Environment of the rewards."""
        inner: Any = self.environment
        if isinstance(inner, str):
            inner = text_forms.parse(inner, ENVIRONMENTS, "environment")
        fits = type(inner) in ENVIRONMENTS.values() and isinstance(inner.context, Features)
        if not fits or inner.hidden or inner.is_moving or isinstance(inner, FromContexts):
            raise Invalid(
                "FromContexts.environment must be an environment with features, such as linear or logistic, not "
                f"drifting or switching and without a table of its own, got {shown(self.environment)}"
            )
        checked: Environment = inner
        return checked

    def table(self) -> Floats:
        """Return the contexts as an array (row, feature), or (row, arm, feature) with features per arm."""
        return _as_table("FromContexts.contexts", self.contexts)

    @property
    def moves_between(self) -> tuple[Environment, ...]:
        return (self.inner,)

    @property
    def arms(self) -> int | None:
        return self.inner.arms

    @property
    def arm_names(self) -> Sequence[str]:
        return self.inner.arm_names

    @property
    def context(self) -> Features:
        return cast(Features, self.inner.context)  # checked by `inner`

    @property
    def binary(self) -> bool:
        """Whether rewards are 0 and 1 only."""
        return self.inner.binary

    @property
    def is_prior(self) -> bool:
        """Whether each replication draws its own parameters."""
        return self.inner.is_prior

    @property
    def standard_deviations(self) -> Floats | None:
        return self.inner.standard_deviations

    def check(self, arms: int) -> None:
        inner = self.inner
        inner.check(arms)
        table, shape = self.table(), self.context.shape(arms)
        is_open = inner.arms is None and len(shape) > 1  # then a row may have any number of arms
        if table.shape[1:] != shape and not (is_open and table.shape[2:] == shape[1:]):
            expected_shape = " x ".join(map(str, shape))
            raise Invalid(
                f"FromContexts.contexts has rows of {' x '.join(map(str, table.shape[1:]))} numbers, and "
                f"{text_forms.write_short(inner)} needs {expected_shape}; give one number per feature"
            )

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> CompiledFromContexts:
        table = self.table()
        rows = _Table(table) if table.ndim == 2 else _TablePerArm(table)
        return CompiledFromContexts(rows, prepared_parameters(self.inner, seed, replications, arms))


def _as_table(name: str, rows: object) -> Floats:
    try:
        table = np.ascontiguousarray(np.asarray(rows, float))
    except (TypeError, ValueError):
        raise Invalid(
            f"{name} must be rows of numbers, all of one length, got {shown(rows)}"
        ) from None
    if table.ndim not in (2, 3) or table.size == 0:
        raise Invalid(f"{name} must be a table with a row per user, got {shown(rows)}")
    wrong = np.argwhere(~(np.abs(table) <= MAX_REWARD))
    if len(wrong):
        index = tuple(wrong[0].tolist())
        place = "".join(f"[{position}]" for position in index)
        raise Invalid(
            f"{name}{place} must be a finite number up to {MAX_REWARD:g}, got {table[index]}; leave out rows with "
            "missing features, or fill them in"
        )
    return table


class CompiledFromContexts(NamedTuple):
    """Recorded contexts, and the parameters of the rewards."""

    table: _Table | _TablePerArm
    inner: text_forms.Parameters


@contexts(CompiledFromContexts)
def _recorded(
    parameters: CompiledFromContexts, row: int, period: int, noise: Key, context: Floats
) -> None:
    write_context(parameters.table, row, period, noise, context)


@draws(CompiledFromContexts)
def _draw_inner(
    parameters: CompiledFromContexts, row: int, context: Floats, arm: int, bits: Bits
) -> float:
    return draw(parameters.inner, row, context, arm, bits)


@expects(CompiledFromContexts)
def _expect_inner(parameters: CompiledFromContexts, row: int, context: Floats, arm: int) -> float:
    return expected(parameters.inner, row, context, arm)


class _LabelledRows(NamedTuple):
    table: Floats  # (row, feature), and the index of the label as the last number
    labels: tuple[str, ...]


_data: dict[
    str, _LabelledRows
] = {}  # by digest; not a field, because text forms hold the digest only
_BUNDLED = ("breast_cancer", "digits", "iris", "wine")  # in scikit-learn
_DECIMALS = (
    6  # of standardised features, so that rounding errors of a machine do not change the digest
)


class _ClassificationFields(NamedTuple):
    name: str
    digest: str = ""


class Classification(_ClassificationFields, ContextualEnvironment):
    """A labelled data set as a bandit: a user is a row, an arm is a label, and the right label pays 1, others 0.

    Rows are drawn with replacement, and policies see the row's features but not its label. Regret is against the
    right label. The text form has the name and a digest of the data. So saved runs are opened, and text forms read,
    where the same data have been given before. scikit-learn's data sets are read again.

    Args:
        name: A name for the data.
        X: One row of features per user.
        y: The label of each row.
        digest: In text forms: the data's digest.
    """

    __slots__ = ()
    binary = True
    hidden = 1  # the label
    sample = "classification(iris)"

    def __new__(
        cls,
        name: str,
        X: object = None,  # noqa: N803 as in scikit-learn
        y: object = None,
        *,
        digest: str = "",
    ) -> Classification:
        require_name("Classification.name", name)
        if X is not None or y is not None:
            rows = _labelled_rows(X, y)
        elif digest in _data:
            rows = _data[digest]
        elif name in _BUNDLED:
            rows = _bundled_rows(name)
        else:
            raise Invalid(
                f"the data of classification({name}) are not known here: give them first, as in "
                f"sl.Classification({name!r}, X, y); only {', '.join(_BUNDLED)} come with scikit-learn"
            )
        found = _digest(rows)
        if digest not in ("", found):
            raise Invalid(
                f"Classification {name!r}: these data have the digest {found}, and {digest} is needed; give the "
                "same rows, in the same order"
            )
        _data[found] = rows
        return tuple.__new__(cls, (name, found))

    def __init__(self, *_values: object, **_named: object) -> None:
        pass  # `__new__` has checked the data

    def __reduce__(self) -> tuple[Callable[..., Classification], tuple[object, ...]]:
        return _with_rows, (self.name, self._rows)  # another process does not have the data

    @classmethod
    def digits(cls) -> Classification:
        """Return 1,797 handwritten digits: 64 features, 10 arms. Needs scikit-learn, as do the others.

        Features of all these data sets are standardised and rounded to six decimals; constant features are 0.
        """
        return cls("digits")

    @classmethod
    def breast_cancer(cls) -> Classification:
        """Return 569 tumours: 30 features, 2 arms."""
        return cls("breast_cancer")

    @classmethod
    def iris(cls) -> Classification:
        """Return 150 flowers: 4 features, 3 arms."""
        return cls("iris")

    @classmethod
    def wine(cls) -> Classification:
        """Return 178 wines: 13 features, 3 arms."""
        return cls("wine")

    @property
    def _rows(self) -> _LabelledRows:
        return _data[self.digest]

    @property
    def arms(self) -> int | None:
        return len(self._rows.labels)

    @property
    def arm_names(self) -> Sequence[str]:
        return self._rows.labels

    @property
    def context(self) -> Features:
        return Features(self._rows.table.shape[1] - 1)

    def check(self, arms: int) -> None:
        if arms != self.arms:
            raise Invalid(
                f"Classification {self.name!r} has {self.arms} labels, but there are {arms} arms; leave out arms, "
                f"or give arms={self.arms}"
            )

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> CompiledClassification:
        return CompiledClassification(_Table(self._rows.table))


def _with_rows(name: str, rows: _LabelledRows) -> Classification:
    digest = _digest(rows)
    _data[digest] = rows
    return Classification(name, digest=digest)


def _labelled_rows(features: object, labels: object) -> _LabelledRows:
    table = _as_table("Classification.X", features)
    if table.ndim != 2:
        raise Invalid(
            f"Classification.X must have a row of features per user, got {shown(features)}"
        )
    values = np.asarray(labels)
    if values.ndim != 1 or len(values) != len(table):
        raise Invalid(
            f"Classification.y must have one label per row of X, {len(table):,}, got {shown(labels)}"
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise Invalid("Classification.y has a label that is not a finite number; leave its row out")
    try:
        distinct, indices = np.unique(values, return_inverse=True)
    except TypeError:
        raise Invalid(
            f"Classification.y must be labels of one type, numbers or text, got {shown(labels)}"
        ) from None
    if len(distinct) < 2:
        raise Invalid(
            f"Classification.y has {len(distinct)} different labels, and a bandit needs 2 or more"
        )
    whole = np.column_stack([table, indices.astype(float)])
    return _LabelledRows(np.ascontiguousarray(whole), tuple(map(str, distinct.tolist())))


def _digest(rows: _LabelledRows) -> str:
    head = repr((rows.table.shape, rows.labels)).encode()
    return hashlib.sha256(head + rows.table.astype("<f8").tobytes()).hexdigest()[:16]


def _bundled_rows(name: str) -> _LabelledRows:
    try:
        datasets = import_module("sklearn.datasets")
    except ModuleNotFoundError as error:
        raise Missing(
            f"classification({name}) needs scikit-learn; run: pip install scikit-learn"
        ) from error
    bunch = getattr(datasets, f"load_{name}")()
    features: NDArray[np.float64] = np.asarray(bunch.data, float)
    sds = features.std(axis=0)
    standardised = (features - features.mean(axis=0)) / np.where(sds > 0, sds, 1.0)
    labels = np.asarray(bunch.target_names).astype(str)[bunch.target]
    return _labelled_rows(np.round(standardised, _DECIMALS) + 0.0, labels)  # no -0.0


class CompiledClassification(NamedTuple):
    """Features and labels of the rows."""

    rows: _Table


@contexts(CompiledClassification)
def _labelled(
    parameters: CompiledClassification, row: int, period: int, noise: Key, context: Floats
) -> None:
    write_context(parameters.rows, row, period, noise, context)


@expects(CompiledClassification)
def _is_right(parameters: CompiledClassification, row: int, context: Floats, arm: int) -> float:
    return 1.0 if int(context[context.size - 1]) == arm else 0.0


@draws(CompiledClassification)
def _pay_right_label(
    parameters: CompiledClassification, row: int, context: Floats, arm: int, bits: Bits
) -> float:
    return expected(parameters, row, context, arm)
