"""Rewards that depend on a level, such as a segment: `ByLevel`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, groupby
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.compilation.decorators import likely
from sameluck.context import MAX_LEVELS, Levels
from sameluck.environments.base import (
    ENVIRONMENTS,
    Environment,
    check_environments,
    draw,
    draws,
    is_stationary,
    prepared_parameters,
)
from sameluck.environments.by_family import CompiledByFamily
from sameluck.environments.checks import SUM_TOLERANCE, check_row
from sameluck.environments.contextual.base import ContextualEnvironment, contexts, expects, gaps
from sameluck.environments.empirical import Empirical
from sameluck.errors import Invalid, shown
from sameluck.logs.rows import natural_order, read_log, refuse_problems, rewards_by_arm
from sameluck.randomness.streams import Bits, Key, at
from sameluck.validation import is_listed, require_flag

_PARTS = 4  # of [0, 1) for each level, or up to twice as many
_11 = np.uint64(11)
_MAX_GROUPS = 10  # of levels with different distributions: each combination is compiled


class _ByLevelFields(NamedTuple):
    environments: Sequence[text_forms.Parameters]
    frequencies: Sequence[float] | None = None
    levels: Sequence[str] | None = None


class ByLevel(_ByLevelFields, ContextualEnvironment):
    """Users of several levels, such as segments or devices, with an environment for each level.

    A user has level i with probability `frequencies[i]`. A reward of an arm in a level comes from the environment of
    the level. In `PerLevel` policies each level has a policy of its own.

    Args:
        environments: One environment per level, all with the same arms. A prior draws the means of each level and
            arm independently; then all levels have priors of one class.
        frequencies: Probabilities of the levels; equal if not given.
        levels: Names of the levels; their indices if not given.
    """

    __slots__ = ()
    sample = "by_level(bernoulli(0.6, 0.5), bernoulli(0.3, 0.45), frequencies=[0.8, 0.2])"

    def __init__(self, *_values: object, **_named: object) -> None:
        self.check(self._checked_arms() or 2)

    @classmethod
    def from_log(
        cls,
        source: object,
        *,
        level: str,
        arm: str,
        reward: str,
        arm_names: Sequence[str] | None = None,
        skip_bad: bool = False,
    ) -> ByLevel:
        """Return the environment of the rewards in a log: each level has its share of rows and its observed rewards.

        In each level the arms must have been assigned at random. An experiment takes the names of arms and levels
        from it.

        Args:
            source: A path ending in .csv, .tsv, .jsonl, .ndjson or .parquet, a DataFrame of pandas or polars, or
                records.
            level: The column of levels, such as segments; sorted by name, a2 before a10.
            arm: The column of arms.
            reward: The column of rewards.
            arm_names: All arms, in their order; by default the arms in the log, sorted by name.
            skip_bad: Leave out rows that cannot be used; otherwise `Invalid` names them.
        """
        require_flag("skip_bad", skip_bad)
        if not isinstance(level, str):
            raise Invalid(f"level must be the name of a column, got {shown(level)}")
        log = read_log(
            source, arm=arm, reward=reward, replication=level, arm_names=arm_names, group="level"
        )
        if not skip_bad:
            refuse_problems(log)
        source_name = os.path.basename(log.name) if log.digest else ""
        names = sorted(log.replications, key=natural_order)
        environments, counts = [], []
        for name in names:
            rows = log.replication == log.replications.index(name)
            rewards = rewards_by_arm(log._replace(arm=log.arm[rows], reward=log.reward[rows]))
            for index, values in enumerate(rewards):
                if not values:
                    raise Invalid(
                        f"{log.name}: level {name!r} has no reward of arm {log.arms[index]!r}; merge levels that "
                        "have few users, or leave the level or the arm out"
                    )
            environments.append(
                Empirical(rewards, log.arms, source_name, log.digest, len(log.problems))
            )
            counts.append(int(rows.sum()))
        return cls(
            tuple(environments), tuple((np.array(counts) / sum(counts)).tolist()), tuple(names)
        )

    @property
    def _by_level(self) -> Sequence[Environment]:
        return cast(Sequence[Environment], self.environments)  # checked by `_checked_arms`

    @property
    def arms(self) -> int | None:
        return next((level.arms for level in self._by_level if level.arms), None)

    @property
    def arm_names(self) -> Sequence[str]:
        return self._by_level[0].arm_names

    @property
    def context(self) -> Levels:
        return Levels(self.levels or len(self.environments))

    @property
    def binary(self) -> bool:
        """Whether all levels pay 0 and 1 only."""
        return all(level.binary for level in self._by_level)

    @property
    def is_prior(self) -> bool:
        """Whether the means of the levels are drawn per replication."""
        return self._by_level[0].is_prior

    def level_means(self) -> Floats:
        """Return the mean reward of each arm in each level (level, arm); of a prior, its mean."""
        return np.array([level.means for level in self._by_level], float)

    def check(self, arms: int) -> None:
        count = self._checked_arms() or arms
        if count != arms:
            raise Invalid(
                f"ByLevel.environments have {count} arms, but there are {arms}; give environments with {arms} arms"
            )
        for level in self._by_level:
            level.check(arms)
        self._check_frequencies()
        if self.levels is not None:
            Levels(self.levels).check()
            if len(self.levels) != len(self.environments):
                raise Invalid(
                    f"ByLevel.levels has {len(self.levels)} names, but there are {len(self.environments)} "
                    "environments; give one name per environment"
                )
        groups = self._groups(arms)
        if len(groups) > _MAX_GROUPS:
            raise Invalid(
                f"ByLevel.environments change their distribution {len(groups)} times from level to level, at most "
                f"{_MAX_GROUPS} times are compiled; sort the levels by distribution"
            )

    def _checked_arms(self) -> int | None:
        name = "ByLevel.environments"
        rule = "an environment without contexts, not drifting or switching"
        check_environments(name, self.environments, 1, _fits, rule, MAX_LEVELS)
        classes = {type(level) for level in self._by_level if level.is_prior}
        if classes and (len(classes) > 1 or not all(level.is_prior for level in self._by_level)):
            raise Invalid(
                f"{name}: where a level has a prior, all levels have a prior of its class"
            )
        counts = [level.arms for level in self._by_level if level.arms]
        for index, count in enumerate(counts):
            if count != counts[0]:
                raise Invalid(
                    f"{name}[{index}] has {count} arms, and the first has {counts[0]}; give all the same arms"
                )
        return counts[0] if counts else None

    def _check_frequencies(self) -> None:
        if self.frequencies is None:
            return
        check_row(
            "ByLevel.frequencies", self.frequencies, len(self.environments), at_least=0, at_most=1
        )
        if abs(sum(self.frequencies) - 1) > SUM_TOLERANCE:
            raise Invalid(
                f"ByLevel.frequencies must sum to 1, got {shown(self.frequencies)} with the sum "
                f"{sum(self.frequencies):g}; divide each by their sum"
            )

    def _groups(self, arms: int) -> tuple[Environment, ...]:
        """Return environments whose arms are the cells (level, arm), merged where levels have one class."""
        levels = tuple(self._by_level)
        try:
            hash(levels)
        except TypeError:  # lists among the parameters
            levels = tuple(text_forms.normal_form(self)._by_level)
        # With the classes, because NamedTuples of different classes compare equal.
        return _merged_groups(tuple(map(type, levels)), levels, arms)

    def instance(self, seed: int, replication: int, arms: int) -> ByLevel:
        """Return the levels of a replication, drawn from their priors."""
        prior: Any
        (prior,) = self._groups(arms)  # priors of one class are merged
        cells = prior.instance(seed, replication, len(self.environments) * arms)
        levels = [
            type(cells)(*(values[first : first + arms] for values in cells))
            for first in range(0, len(self.environments) * arms, arms)
        ]
        return self._replace(environments=levels)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledByLevel:
        count = len(self.environments)
        groups = self._groups(arms)
        sizes = [group.arms or count * arms for group in groups]
        *before, parameters = (
            prepared_parameters(group, seed, replications, size)
            for group, size in zip(groups, sizes, strict=True)
        )
        # A linked list, because Numba cannot index a tuple of different types by a variable.
        for first, size in zip(reversed(before), reversed(sizes[:-1]), strict=True):
            parameters = CompiledByFamily(first, parameters, size)
        means = [
            group.instance_means(seed, replications, size)
            for group, size in zip(groups, sizes, strict=True)
        ]
        cumulative = np.cumsum(self.frequencies or np.full(count, 1 / count))
        cumulative[-1] = 1.0
        limits = np.ceil(cumulative * 2.0**53).astype(np.uint64)
        digits = (_PARTS * count - 1).bit_length()
        parts = np.arange(1 << digits, dtype=np.uint64) << np.uint64(53 - digits)
        guide = np.searchsorted(limits, parts, side="right").astype(np.uint32)
        shift = np.uint64(64 - digits)
        cell_means = np.concatenate(means, axis=1)
        by_level = cell_means.reshape(len(cell_means), count, arms)
        cell_gaps = (by_level.max(axis=-1, keepdims=True) - by_level).reshape(cell_means.shape)
        return CompiledByLevel(parameters, limits, guide, shift, cell_means, cell_gaps, arms)


def _fits(value: object) -> bool:
    environment = cast(Environment, value)
    if is_stationary(environment):
        return environment.context is None
    is_environment = type(environment) in ENVIRONMENTS.values()
    return is_environment and environment.is_prior and environment.context is None


@lru_cache(maxsize=8)  # every task asks for them, and checking the merged cells takes milliseconds
def _merged_groups(
    classes: tuple[type, ...], levels: tuple[Environment, ...], arms: int
) -> tuple[Environment, ...]:
    groups: list[Environment] = []
    for _, same_class in groupby(levels, type):
        group = list(same_class)
        merged = _merged(group, arms)
        if merged is None and group[0].is_prior:
            raise Invalid("ByLevel.environments: these priors cannot be drawn per level")
        groups.extend([merged] if merged is not None else group)
    return tuple(groups)


def _merged(group: Sequence[Environment], arms: int) -> Environment | None:
    """Return one environment with the arms of all; None if the class does not allow it."""
    parameters: Any = group[0]
    first, *_ = fields = parameters._fields
    # Levels may share a parameter, or each arm has its own. A wrong guess is noticed by the means and deviations.
    for shares in (True, False):
        values = {}
        names = (
            fields if group[0].arm_names == () else [name for name in fields if name != "arm_names"]
        )
        for name in names:
            by_level = [getattr(level, name) for level in group]
            if shares and name != first and all(value == by_level[0] for value in by_level):
                values[name] = by_level[0]
            else:
                values[name] = tuple(
                    chain.from_iterable(_per_arm(value, arms) for value in by_level)
                )
        try:
            merged: Environment = type(group[0])(**values)
            merged.check(len(group) * arms)
        except Invalid:
            continue
        if all(_equal(merged, group, name) for name in ("means", "standard_deviations")):
            return merged
    return None


def _per_arm(value: object, arms: int) -> tuple[object, ...]:
    return tuple(value) if is_listed(value) else (value,) * arms


def _equal(merged: Environment, group: Sequence[Environment], name: str) -> bool:
    expected_values = [getattr(level, name) for level in group]
    if expected_values[0] is None:
        return getattr(merged, name) is None
    arms = (merged.arms or 0) // len(group)
    by_arm = [np.broadcast_to(value, arms) for value in expected_values]
    return np.array_equal(
        np.broadcast_to(getattr(merged, name), merged.arms or 0), np.concatenate(by_arm)
    )


class CompiledByLevel(NamedTuple):
    """Parameters of the cells (level, arm), whose index is level * arms + arm."""

    cells: text_forms.Parameters
    limits: NDArray[
        np.uint64
    ]  # how many of the 2^53 values of `uniform` draw a level or one before it
    guide: NDArray[np.uint32]  # the lowest level in each of 2^k equal parts of [0, 1)
    shift: np.uint64  # 64 - k
    cell_means: Floats  # (replication, cell)
    cell_gaps: Floats  # to the best arm of the level (replication, cell)
    arms: int


@contexts(CompiledByLevel)
def _level(parameters: CompiledByLevel, row: int, period: int, noise: Key, context: Floats) -> None:
    # From the lowest level that is possible. The first step is a sum, because no processor predicts a branch here;
    # few parts have more levels.
    bits = at(noise, period, 0)
    drawn, level = bits >> _11, parameters.guide[bits >> parameters.shift]
    level = np.uint32(level + np.uint32(parameters.limits[level] <= drawn))
    while not likely(parameters.limits[level] > drawn):
        level = np.uint32(level + np.uint32(1))
    context[0] = level


@draws(CompiledByLevel)
def _draw_in_level(
    parameters: CompiledByLevel, row: int, context: Floats, arm: int, bits: Bits
) -> float:
    return draw(parameters.cells, row, None, int(context[0]) * parameters.arms + arm, bits)


@gaps(CompiledByLevel)
def _gap_in_level(
    parameters: CompiledByLevel, row: int, context: Floats, arm: int, arms: int
) -> float:
    return parameters.cell_gaps[row, int(context[0]) * arms + arm]


@expects(CompiledByLevel)
def _mean_in_level(parameters: CompiledByLevel, row: int, context: Floats, arm: int) -> float:
    return parameters.cell_means[row, int(context[0]) * parameters.arms + arm]
