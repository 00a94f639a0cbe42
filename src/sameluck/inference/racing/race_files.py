"""The file that holds a race, so that it can be continued."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sameluck import text_forms
from sameluck.environments.base import Environment
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.files import write_whole


class KeptRace(NamedTuple):
    """The content of a race's file."""

    replications: int
    rewards: dict[str, list[float]]
    dropped: dict[str, str]
    users: int
    undropped_users: list[int]
    certified: bool
    vetoed: list[str]
    decides_at: int


class RaceFile:
    """The file of a race with some settings."""

    def __init__(
        self, path: Path, experiment: Experiment, environment: Environment, rules: tuple[float, ...]
    ) -> None:
        self.path = path
        # Without `most`: an undecided race may be continued with more.
        digest = experiment.replace(replications=1).digest
        self.settings = f"{digest} {text_forms.write(environment)} {rules!r}"

    def write(self, state: dict[str, object]) -> None:
        """Write the state of the race, whole or not at all."""
        write_whole(self.path, json.dumps({"settings": self.settings, **state}).encode())

    def read(self, names: Sequence[str]) -> KeptRace | None:
        """The race in the file, None if there is no file; raises `Invalid` for one of other settings."""
        if not self.path.exists():
            return None
        try:
            state = dict(json.loads(self.path.read_text()))
            settings = str(state["settings"])
            kept = KeptRace(
                int(state["played"]),
                {name: [float(x) for x in state["rewards"][name]] for name in names},
                {str(name): str(by) for name, by in dict(state["dropped"]).items()},
                int(state["users"]),
                [int(x) for x in state["everybody"]],
                bool(state["certified"]),
                [str(x) for x in state.get("vetoed", [])],
                int(state.get("decides_at", 0)),
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise Invalid(f"{str(self.path)!r} does not hold a race; name another file") from None
        if settings != self.settings:
            raise Invalid(
                f"{str(self.path)!r} holds a race with other settings; name another file or remove it"
            )
        return kept
