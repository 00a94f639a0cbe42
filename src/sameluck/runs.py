"""`Runs`: the outcome of an experiment, simulated or live, from which estimates, figures and reports are made."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats, Ints
from sameluck.environments.base import Environment
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid, optional, shown
from sameluck.experiment import Capabilities, Experiment, capabilities_of
from sameluck.files import file_state, write_whole
from sameluck.frames import Frames

CONTEXTUAL = ("visits", "level_rewards", "regret", "best_pulls")
POLICY_ARRAYS = ("rewards", "pulls", "totals", *CONTEXTUAL)  # with an axis of policies
_BY_REPLICATION = (*POLICY_ARRAYS, "interactions", "observed")


class KeptFile(NamedTuple):
    """File of `simulate(keep=...)`, as it was left."""

    path: Path
    state: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Runs(Frames):
    """Outcome of an experiment. Array axes are always replication, policy, checkpoint, arm.

    Args:
        experiment: What was run.
        checkpoints: The horizons at which everything is reported, ascending (checkpoint,).
        rewards: Cumulative reward (replication, policy, checkpoint).
        pulls: Pulls of each arm (replication, policy, checkpoint, arm).
        interactions: Real users the design spends up to each checkpoint (replication, checkpoint).
        environment: The simulated environment (or its text form); None for real traffic.
        first: The number of the first replication; the others follow it.
        totals: Sum of rewards of each arm (replication, policy, checkpoint, arm); in simulations.
        observed: Every reward of a real user up to the last checkpoint, in the order replication, stack owner
            (see `Design.depths`), cell, position; with live runs. Rewards of a simulation can be read again from
            their addresses.
        seconds: Duration of the simulation; None if unknown. Not saved.
        notes: Cautions about these runs from a live experiment: what its results wait for, arms that moved.
        visits: Reads of each cell, a pair of level and arm (replication, policy, checkpoint, cell); with levels or
            states.
        level_rewards: Cumulative reward from users of each level (replication, policy, checkpoint, level); with
            levels.
        regret: Pseudo-regret against the best arm in each context (replication, policy, checkpoint); with contexts.
        best_pulls: Plays of an arm that is best in its context (replication, policy, checkpoint); with contexts.
        looks: Numbers of the first replication after each comparison of these runs. `compare` adds to them; `at`
            shares them, `concat` and files keep them, so that runs that were compared and then extended are noticed.
        kept: The file of `simulate(keep=...)`, to which looks are added too. Not saved.
    """

    experiment: Experiment
    checkpoints: Ints
    rewards: Floats
    pulls: Ints
    interactions: Ints
    environment: Environment | None = None
    first: int = 0
    totals: Floats | None = None
    observed: Floats | None = None
    seconds: float | None = None
    notes: tuple[str, ...] = ()
    visits: Ints | None = None
    level_rewards: Floats | None = None
    regret: Floats | None = None
    best_pulls: Ints | None = None
    looks: set[int] = field(default_factory=set)
    kept: KeptFile | None = None

    def __post_init__(self) -> None:
        """Raise `Invalid` for arrays whose shapes do not agree."""
        if isinstance(self.environment, str):
            object.__setattr__(self, "environment", as_environment(self.environment))
        checkpoints = len(self.checkpoints)
        shape = (self.rewards.shape[0], len(self.policies), checkpoints)
        fits = (
            self.rewards.shape == shape
            and self.pulls.shape == (*shape, self.experiment.n_arms)
            and self.interactions.shape == (shape[0], checkpoints)
            and (self.totals is None or self.totals.shape == self.pulls.shape)
            and all(array is None or array.shape[:3] == shape for array in self._contextual)
            and (self.observed is None or self.observed.shape == (self.depths.sum(),))
        )
        if not fits:
            raise Invalid(
                f"Runs arrays do not agree: {len(self.policies)} policies, {checkpoints} checkpoints, rewards "
                f"{self.rewards.shape}, pulls {self.pulls.shape}, interactions {self.interactions.shape}"
            )

    @property
    def _contextual(self) -> list[Floats | Ints | None]:
        return [getattr(self, name) for name in CONTEXTUAL]

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies, in the order of the policy axis."""
        return tuple(self.experiment.policies)

    @property
    def replications(self) -> int:
        """Number of complete replications."""
        return int(self.rewards.shape[0])

    @property
    def earlier_looks(self) -> list[int]:
        """Numbers of replications at which these runs were compared before they were extended."""
        counts = (look - self.first for look in self.looks)
        return sorted(count for count in counts if 0 < count < self.replications)

    def add_look(self) -> None:
        """Note that these replications are compared now; also in the file that keeps them, unless it has changed."""
        look = self.first + self.replications
        if look in self.looks:
            return
        self.looks.add(look)
        if self.kept is not None and file_state(self.kept.path) == self.kept.state:
            with suppress(Invalid):  # a full disk, say: the look is noted in memory
                in_file = Runs.load(self.kept.path)
                in_file.looks.add(look)
                in_file.save(self.kept.path)

    @property
    def replayed(self) -> Ints:
        """Rewards that cost no real user: N T minus the interactions (replication, checkpoint)."""
        return len(self.policies) * self.checkpoints - self.interactions

    @property
    def capabilities(self) -> Capabilities:
        """Return what may be asked of these runs' rewards."""
        return capabilities_of(self.environment, self.experiment.design)

    @property
    def depths(self) -> Ints:
        """Depth to which each stack was read up to the last checkpoint (replication, stack owner, cell)."""
        return self.experiment.design.depths(self._reads[:, :, -1])

    @property
    def _reads(self) -> Ints:
        """Reads of each cell (replication, policy, checkpoint, cell); without levels a cell is an arm."""
        return self.pulls if self.visits is None else self.visits

    def to_dicts(self) -> list[dict[str, object]]:
        """Return one record for each replication, policy and checkpoint; a column of pulls for each arm.

        With contexts also regret, pulls of the best arm and the reward of each level.
        """
        return self._records()

    @property
    def _levels(self) -> tuple[str, ...]:
        """Names of the levels or states; none with features or without contexts."""
        context = self.experiment.context
        return () if context is None or context.indexed_by_period else context.names

    def _columns(self) -> dict[str, Any]:
        shape = self.rewards.shape
        replications = np.arange(self.first, self.first + shape[0])
        columns = {
            "replication": replications[:, None, None],
            "policy": np.array(self.policies, object)[:, None],
            "checkpoint": self.checkpoints,
            "reward": self.rewards,
            "interactions": self.interactions[:, None],
        }
        for arm, name in enumerate(self.experiment.arm_names):
            columns[f"pulls_{name}"] = self.pulls[..., arm]
        if self.regret is not None and self.best_pulls is not None:
            columns |= {"regret": self.regret, "best_pulls": self.best_pulls}
        if self.level_rewards is not None:
            for level, name in enumerate(self._levels):
                columns[f"reward_of_level_{name}"] = self.level_rewards[..., level]
        return {name: np.broadcast_to(column, shape).ravel() for name, column in columns.items()}

    def to_xarray(self) -> Any:
        """Return the arrays as an xarray Dataset, with the experiment in its attributes. Needs `sameluck[data]`."""
        axes = ("replication", "policy", "checkpoint", "arm")
        names = ("rewards", "pulls", "totals", "regret", "best_pulls")
        arrays = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        data = {name: (axes[: array.ndim], array) for name, array in arrays.items()}
        data["interactions"] = (("replication", "checkpoint"), self.interactions)
        coordinates = {
            "replication": np.arange(self.first, self.first + self.replications),
            "policy": list(self.policies),
            "checkpoint": self.checkpoints,
            "arm": list(self.experiment.arm_names),
        }
        if self.visits is not None:
            by_level = (*self.rewards.shape, len(self._levels), -1)
            data["visits"] = ((*axes[:3], "level", "arm"), self.visits.reshape(by_level))
            coordinates["level"] = list(self._levels)
        if self.level_rewards is not None:
            data["level_rewards"] = ((*axes[:3], "level"), self.level_rewards)
        about = {
            "experiment": self.experiment.to_json(),
            "environment": text_forms.write(self.environment) if self.environment else "",
        }
        return optional("xarray", "data").Dataset(data, coordinates, about)

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
        """Return the same runs at some of their checkpoints only."""
        indices = np.flatnonzero(np.isin(self.checkpoints, list(checkpoints)))
        if not (indices.size == len(set(checkpoints)) > 0):
            raise Invalid(
                f"these runs report at {self.checkpoints.tolist()}, not at all of {list(checkpoints)}"
            )
        present = {name: getattr(self, name) for name in POLICY_ARRAYS}
        return replace(
            self,
            checkpoints=self.checkpoints[indices],
            interactions=self.interactions[:, indices],
            observed=self._observed_at(int(indices[-1])),
            **{name: array[:, :, indices] for name, array in present.items() if array is not None},
        )

    def _observed_at(self, index: int) -> Floats | None:
        """Return the observed rewards up to the checkpoint with this index: the beginning of each stack."""
        if self.observed is None:
            return None
        depths = self.depths.ravel()
        kept = self.experiment.design.depths(self._reads[:, :, index]).ravel()
        positions = np.arange(self.observed.size) - np.repeat(np.cumsum(depths) - depths, depths)
        return self.observed[positions < np.repeat(kept, depths)]

    def part(self, start: int, count: int) -> Runs:
        """Return `count` replications from index `start` on."""
        rows = slice(start, start + count)
        arrays = {name: getattr(self, name) for name in _BY_REPLICATION}
        changes = {name: array[rows] for name, array in arrays.items() if array is not None}
        if self.observed is not None:
            ends = np.concatenate([[0], np.cumsum(self.depths.sum(axis=(1, 2)))])
            first, stop, _ = rows.indices(self.replications)
            changes["observed"] = self.observed[ends[first] : ends[max(first, stop)]]
        first = self.first + start
        looks = {look for look in self.looks if first < look <= first + count}
        return replace(self, first=first, looks=looks, kept=None, **changes)

    @classmethod
    def concat(cls, parts: Iterable[Runs]) -> Runs:
        """Join runs of the same experiment whose replications follow one another.

        Their experiments may differ in the number of replications; the result has the largest.
        """
        parts = list(parts)
        if not parts or not all(isinstance(part, Runs) for part in parts):
            raise Invalid(
                f"Runs.concat needs at least one part, each of them Runs, got {shown(parts)}"
            )
        first, following = parts[0], parts[0].first
        longest = max(parts, key=lambda part: part.experiment.replications).experiment
        definition = _definition(first)
        for part in parts:
            other = definition if part is first else _definition(part)
            different = [name for name, value in other.items() if definition.get(name) != value]
            if different:
                raise Invalid(
                    f"Runs.concat: the parts belong to different experiments: they differ in {', '.join(different)}"
                )
            if part.first != following:
                raise Invalid(
                    f"Runs.concat: replication {following} should follow, but a part starts at {part.first}; give "
                    "the parts in their order, without gaps"
                )
            following += part.replications
        arrays: dict[str, Any] = {}
        filled = [part for part in parts if part.replications] or parts
        for name in _BY_REPLICATION:
            present = [getattr(part, name) for part in filled if getattr(part, name) is not None]
            arrays[name] = np.concatenate(present) if len(present) == len(filled) else None
        times = [part.seconds for part in parts if part.seconds is not None]
        seconds = sum(times) if len(times) == len(parts) else None
        notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
        arrays["looks"] = set().union(*(part.looks for part in parts))
        return replace(first, experiment=longest, seconds=seconds, notes=notes, kept=None, **arrays)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.npz` file (arrays and JSON, no pickle), whole or not at all."""
        check_runs_path(path)
        about = {
            "experiment": self.experiment.to_dict(),
            "environment": self.environment and text_forms.write(self.environment),
            "first": self.first,
            "notes": self.notes,
            **({"looks": sorted(self.looks)} if self.looks else {}),
        }
        names = ("checkpoints", *_BY_REPLICATION)
        named = {name: getattr(self, name) for name in names}
        arrays = {name: array for name, array in named.items() if array is not None}
        content = io.BytesIO()
        text = np.array(json.dumps(about).encode())  # as bytes: characters would take four each
        np.savez_compressed(content, about=text, **arrays)
        write_whole(Path(path), content.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Runs:
        """Read a file that `save` wrote."""
        try:
            arrays = _read_arrays(Path(path))
            about = json.loads(arrays.pop("about").item())
            experiment = Experiment.from_dict(about["experiment"])
            arrays |= {name: about[name] for name in ("environment", "first")}
            for former in ("luck", "exploration_excess"):  # arrays that versions up to 0.2 saved
                arrays.pop(former, None)
            arrays |= {"notes": tuple(about.get("notes", ())), "looks": set(about.get("looks", ()))}
            return cls(experiment, **arrays)
        except FileNotFoundError:
            raise Invalid(f"no file {str(path)!r}") from None
        except Exception as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            message = f"{str(path)!r} is not a file that Runs.save wrote: {reason}"
            if isinstance(error, Invalid) and "unknown" in str(error):
                message = (
                    f"cannot read {str(path)!r}: {error}; import the module that registers it, or name its file with "
                    "--import"
                )
            raise Invalid(message) from None


def _read_arrays(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):  # NumPy would advise to unpickle it
            raise Invalid("it is not a complete .npz archive")
        file.seek(0)
        with np.load(file, allow_pickle=False) as data:
            return {name: data[name] for name in data.files}


def _definition(runs: Runs) -> dict[str, str]:
    """Return everything that defines the runs but the number of replications; JSON keeps the order of policies."""
    values = {
        **runs.experiment.to_dict(),
        "environment": runs.environment and text_forms.write(runs.environment),
        "checkpoints": runs.checkpoints.tolist(),
        "replications": None,
    }
    return {name: json.dumps(value) for name, value in values.items()}


def check_runs_path(path: object) -> None:
    """Raise `Invalid` unless `Runs.save` writes to this path: it has the suffix `.npz`, or none."""
    if not isinstance(path, str | os.PathLike):
        raise Invalid(f"Runs.save needs the path of a file, such as 'runs.npz', got {shown(path)}")
    suffix = Path(path).suffix
    if suffix.lower() not in ("", ".npz"):
        raise Invalid(
            f"Runs.save writes .npz files, not {suffix} ({str(path)!r}); for others there is runs.to_pandas()"
        )
