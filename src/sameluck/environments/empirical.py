"""`Empirical`: rewards drawn from observed values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.environments.base import Environment, draws
from sameluck.environments.checks import MAX_REWARD, REWARD_LIMITS, check_length
from sameluck.errors import Invalid, shown
from sameluck.logs.rows import read_log, refuse_problems, rewards_by_arm
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import Bits
from sameluck.validation import is_listed, require_flag, require_number

MOST_SHOWN = 100  # values


class _Parameters(NamedTuple):
    samples: Sequence[Sequence[float]]


class Empirical(_Parameters, Environment):
    """Each arm's rewards are drawn with replacement from values observed for it."""

    __slots__ = ()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "empirical([0, 1, 1], [2.5, 0])"

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
        """The rewards that a log has for each arm: those of users to whom arms were assigned at random.

        Args:
            source: A path ending in .csv, .jsonl, .ndjson or .parquet, a pandas or polars DataFrame, or records.
            arm: The column of arms.
            reward: The column of rewards.
            arm_names: All arms, in their order; those in the log by name if not given, a2 before a10.
            skip_bad: Leave out rows that cannot be used; otherwise `Invalid` names them.
        """
        require_flag("skip_bad", skip_bad)
        log = read_log(source, arm=arm, reward=reward, arm_names=arm_names)
        if not skip_bad:
            refuse_problems(log)
        return cls(rewards_by_arm(log))

    def __repr__(self) -> str:
        """The values, or of many values how many there are."""
        counts = [len(values) for values in self.samples]
        if sum(counts) <= MOST_SHOWN:
            return super().__repr__()
        return f"Empirical(<{sum(counts):,} values of {len(counts):,} arms>)"

    @property
    def arms(self) -> int | None:
        return len(self.samples)

    @property
    def binary(self) -> bool:  # type: ignore[override]  # it depends on the values
        """Whether every observed value is 0 or 1."""
        return all(value in (0, 1) for values in self.samples for value in values)

    @property
    def means(self) -> tuple[float, ...]:
        """The average of each arm's values."""
        return tuple(float(np.mean(values)) for values in self.samples)

    def check(self, arms: int) -> None:
        """Raise `Invalid` for an arm without values and for values that are not finite."""
        if not is_listed(self.samples):
            raise Invalid(
                f"Empirical.samples must be a list of rewards per arm, got {shown(self.samples)}; for a log there "
                "is Empirical.from_log(log, arm=..., reward=...)"
            )
        check_length("Empirical.samples", self.samples, arms)
        for arm, values in enumerate(self.samples):
            if not is_listed(values) or len(values) == 0:
                raise Invalid(
                    f"Empirical.samples[{arm}] must be a list of rewards, got {shown(values)}"
                )
            if _all_within_limits(values):
                continue
            for row, value in enumerate(values):
                require_number(f"Empirical.samples[{arm}][{row}]", value, **REWARD_LIMITS)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledEmpirical:
        """The same instance in all replications."""
        sizes = [len(values) for values in self.samples]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return CompiledEmpirical(
            np.concatenate([np.asarray(v, float) for v in self.samples]), start
        )


def _all_within_limits(values: Sequence[object]) -> bool:
    # Millions of values are not checked one by one unless one of them is wrong and must be named.
    an_array = isinstance(values, np.ndarray) and values.dtype == np.float64
    floats = an_array or set(map(type, values)) == {float}
    return floats and bool((np.abs(np.array(values)) <= MAX_REWARD).all())


class CompiledEmpirical(NamedTuple):
    """The observed values of all arms, one arm after another."""

    values: Floats
    start: Ints  # (arm + 1,): where each arm's values begin


@draws(CompiledEmpirical)
def _empirical(parameters: CompiledEmpirical, row: int, arm: int, bits: Bits) -> float:
    first = parameters.start[arm]
    return parameters.values[first + np.int64(uniform(bits) * (parameters.start[arm + 1] - first))]
