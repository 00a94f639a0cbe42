"""`Runs`: the outcome of an experiment, simulated or live. Estimates, figures and reports are made from it alone."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sameluck import text_forms
from sameluck.environments.base import Environment
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.files import write_whole


@dataclass(frozen=True, eq=False)
class Runs:
    """The outcome of an experiment. Array axes are always replication, policy, checkpoint, arm.

    Args:
        experiment: What was run.
        checkpoints: The horizons at which everything is reported, ascending (checkpoint,).
        rewards: Cumulative reward (replication, policy, checkpoint).
        pulls: Pulls of each arm (replication, policy, checkpoint, arm).
        interactions: Real users the design spends up to each checkpoint (replication, checkpoint).
        environment: The simulated environment (or its text form); None for real traffic.
        first: The number of the first replication; the others follow it.
        totals: What each arm paid (replication, policy, checkpoint, arm); with `simulate(detail=True)`.
        luck: By how much the policy's random choices exceeded their expectation (replication, policy, checkpoint);
            likewise.
    """

    experiment: Experiment
    checkpoints: NDArray[np.int64]
    rewards: NDArray[np.float64]
    pulls: NDArray[np.int64]
    interactions: NDArray[np.int64]
    environment: Environment | None = None
    first: int = 0
    totals: NDArray[np.float64] | None = None
    luck: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        """Raise `Invalid` for arrays whose shapes do not agree."""
        if isinstance(self.environment, str):
            object.__setattr__(self, "environment", as_environment(self.environment))
        many = len(self.checkpoints)
        shape = (self.rewards.shape[0], len(self.policies), many)
        fits = (
            self.rewards.shape == shape
            and self.pulls.shape == (*shape, self.experiment.n_arms)
            and self.interactions.shape == (shape[0], many)
            and (self.totals is None or self.totals.shape == self.pulls.shape)
            and (self.luck is None or self.luck.shape == shape)
        )
        if not fits:
            raise Invalid(
                f"Runs arrays do not agree: {len(self.policies)} policies, {many} checkpoints, rewards "
                f"{self.rewards.shape}, pulls {self.pulls.shape}, interactions {self.interactions.shape}"
            )

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies' names, in the order of the policy axis."""
        return tuple(self.experiment.policies)

    @property
    def replications(self) -> int:
        """How many replications are complete."""
        return int(self.rewards.shape[0])

    @property
    def replayed(self) -> NDArray[np.int64]:
        """Rewards that cost no real user: N T minus the interactions (replication, checkpoint)."""
        return len(self.policies) * self.checkpoints - self.interactions

    def __repr__(self) -> str:
        last = self.checkpoints[-1]
        if self.replications == 0:
            return f"Runs(no complete replication yet of {', '.join(self.policies)})"
        return (
            f"Runs({self.replications:,} replications of {', '.join(self.policies)}; "
            f"{len(self.checkpoints)} checkpoints up to {last:,}; "
            f"{self.interactions[:, -1].mean():,.2f} interactions per replication)"
        )

    def at(self, checkpoints: Sequence[int]) -> Runs:
        """The same runs, reported at some of their checkpoints only."""
        places = np.flatnonzero(np.isin(self.checkpoints, list(checkpoints)))
        if not (places.size == len(set(checkpoints)) > 0):
            raise Invalid(
                f"these runs report at {self.checkpoints.tolist()}, not at all of {list(checkpoints)}"
            )
        return Runs(
            self.experiment,
            self.checkpoints[places],
            self.rewards[:, :, places],
            self.pulls[:, :, places],
            self.interactions[:, places],
            self.environment,
            self.first,
            None if self.totals is None else self.totals[:, :, places],
            None if self.luck is None else self.luck[:, :, places],
        )

    @classmethod
    def concat(cls, parts: Sequence[Runs]) -> Runs:
        """One `Runs` from several of the same experiment whose replications follow one another."""
        if len(parts) <= 0:
            raise Invalid("Runs.concat needs at least one part")
        first, following = parts[0], parts[0].first
        for part in parts:
            same = part.experiment == first.experiment and part.environment == first.environment
            if not same or not np.array_equal(part.checkpoints, first.checkpoints):
                raise Invalid("Runs.concat: the parts belong to different experiments")
            if part.first != following:
                raise Invalid(
                    f"Runs.concat: replication {following} should follow, but a part starts at {part.first}"
                )
            following += part.replications
        return cls(
            first.experiment,
            first.checkpoints,
            np.concatenate([part.rewards for part in parts]),
            np.concatenate([part.pulls for part in parts]),
            np.concatenate([part.interactions for part in parts]),
            first.environment,
            first.first,
            _joined([part.totals for part in parts]),
            _joined([part.luck for part in parts]),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.npz` file (arrays and JSON, no pickle), whole or not at all."""
        target = Path(path)
        about = {
            "experiment": self.experiment.to_dict(),
            "environment": self.environment and text_forms.write(self.environment),
            "first": self.first,
        }
        names = ("checkpoints", "rewards", "pulls", "interactions", "totals", "luck")
        arrays: dict[str, Any] = {name: getattr(self, name) for name in names}
        arrays = {name: array for name, array in arrays.items() if array is not None}
        content = io.BytesIO()
        np.savez_compressed(content, about=np.array(json.dumps(about)), **arrays)
        write_whole(target, content.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Runs:
        """Read what `save` wrote."""
        try:
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as data:
                arrays = {name: data[name] for name in data.files}
            about = json.loads(str(arrays.pop("about")))
            experiment = Experiment.from_dict(about["experiment"])
            return cls(experiment, environment=about["environment"], first=about["first"], **arrays)
        except FileNotFoundError:
            raise Invalid(f"no file {str(path)!r}") from None
        except Exception as error:
            message = f"{str(path)!r} is not a file that Runs.save wrote: {error}"
            if isinstance(error, Invalid) and "unknown" in str(error):
                message = f"cannot read {str(path)!r}: {error}; import the module that registers it"
            raise Invalid(message) from None


def _joined(arrays: Sequence[NDArray[np.float64] | None]) -> NDArray[np.float64] | None:
    known = [array for array in arrays if array is not None]
    return np.concatenate(known) if len(known) == len(arrays) else None
