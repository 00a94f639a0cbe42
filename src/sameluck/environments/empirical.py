"""`Empirical`: rewards drawn from observed values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.environments.base import Environment, draws
from sameluck.environments.checks import MAX_REWARD, REWARD_LIMITS, check_length
from sameluck.errors import Invalid, shown
from sameluck.logs.rows import read_log, refuse_problems, rewards_by_arm
from sameluck.logs.sources import csv_line
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import Bits
from sameluck.validation import is_listed, require_flag, require_number, require_whole

MAX_SHOWN = 100  # values in a repr


class _EmpiricalFields(NamedTuple):
    samples: Sequence[Sequence[float]]
    arm_names: Sequence[str] = ()
    source: str = ""  # the log's file and columns, as in --env
    digest: str = ""  # of the file
    skipped: int = 0  # rows of the log that were left out


class Empirical(_EmpiricalFields, Environment):
    """Empirical distribution: rewards drawn with replacement from the values observed for the arm."""

    __slots__ = ()
    sample = "empirical([0, 1, 1], [2.5, 0])"
    omits_defaults = True  # in its text form, where a log is named only if there is one

    @classmethod
    def from_log(
        cls,
        source: object,
        *,
        arm: str,
        reward: str,
        arm_names: Sequence[str] | None = None,
        skip_bad: bool = False,
    ) -> Empirical:
        """Return the environment of the rewards in a log, whose arms must have been assigned at random.

        An experiment without `arms` takes the arms' names from it. Reports name the file and its SHA-256 hash.

        Args:
            source: A path ending in .csv, .tsv, .jsonl, .ndjson or .parquet, a DataFrame of pandas or polars, or
                records.
            arm: The column of arms.
            reward: The column of rewards.
            arm_names: All arms, in their order; by default the arms in the log, sorted by name, a2 before a10.
            skip_bad: Leave out rows that cannot be used; otherwise `Invalid` names them.
        """
        require_flag("skip_bad", skip_bad)
        log = read_log(source, arm=arm, reward=reward, arm_names=arm_names)
        if not skip_bad:
            refuse_problems(log)
        is_file, columns = bool(log.digest), f":{csv_line([arm, reward])}"
        name = os.path.basename(log.name) if is_file else ""
        return cls(
            rewards_by_arm(log),
            log.arms,
            # With another order of the arms, --env would not repeat it.
            name + columns if is_file and arm_names is None else name,
            log.digest,
            len(log.problems),
        )

    def __repr__(self) -> str:
        counts = [len(values) for values in self.samples]
        samples = f"samples={self.samples!r}"
        if sum(counts) > MAX_SHOWN:
            samples = f"<{sum(counts):,} values of {len(counts):,} arms>"
        return f"Empirical({samples}{f', source={self.source!r}' if self.source else ''})"

    @property
    def arms(self) -> int | None:
        return len(self.samples)

    @property
    def binary(self) -> bool:
        """Whether every observed value is 0 or 1."""
        return all(value in (0, 1) for values in self.samples for value in values)

    @property
    def means(self) -> tuple[float, ...]:
        """Average of each arm's values."""
        return tuple(float(np.mean(values)) for values in self.samples)

    @property
    def standard_deviations(self) -> Floats:
        return np.array([np.std(values) for values in self.samples])

    def check(self, arms: int) -> None:
        if not is_listed(self.samples):
            raise Invalid(
                f"Empirical.samples must be a list of rewards per arm, got {shown(self.samples)}; read a log "
                "with Empirical.from_log(log, arm=..., reward=...)"
            )
        check_length("Empirical.samples", self.samples, arms)
        self._check_origin(arms)
        for arm, values in enumerate(self.samples):
            if not is_listed(values) or len(values) == 0:
                raise Invalid(
                    f"Empirical.samples[{arm}] must be a list of rewards, got {shown(values)}"
                )
            if _all_within_limits(values):
                continue
            for row, value in enumerate(values):
                require_number(f"Empirical.samples[{arm}][{row}]", value, **REWARD_LIMITS)

    def _check_origin(self, arms: int) -> None:
        names = self.arm_names if is_listed(self.arm_names) else (None,)
        if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
            raise Invalid(
                f"Empirical.arm_names must be different names, got {shown(self.arm_names)}"
            )
        if len(names) > 0:
            check_length("Empirical.arm_names", names, arms)
        for field in ("source", "digest"):
            if not isinstance(getattr(self, field), str):
                raise Invalid(f"Empirical.{field} must be text, got {shown(getattr(self, field))}")
        require_whole("Empirical.skipped", self.skipped, 0)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledEmpirical:
        sizes = [len(values) for values in self.samples]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return CompiledEmpirical(
            np.concatenate([np.asarray(v, float) for v in self.samples]), start
        )


def _all_within_limits(values: Sequence[object]) -> bool:
    # Checking millions of values in Python is slow, and needed only to name a value that is wrong.
    is_array = isinstance(values, np.ndarray) and values.dtype == np.float64
    are_floats = is_array or set(map(type, values)) == {float}
    return are_floats and bool((np.abs(np.array(values)) <= MAX_REWARD).all())


class CompiledEmpirical(NamedTuple):
    """Observed values of all arms, arm by arm."""

    values: Floats
    start: Ints  # (arm + 1,): where each arm's values begin


@draws(CompiledEmpirical)
def _empirical(parameters: CompiledEmpirical, row: int, arm: int, bits: Bits) -> float:
    first = parameters.start[arm]
    return parameters.values[first + np.int64(uniform(bits) * (parameters.start[arm + 1] - first))]
