"""`Twin`: effects on a copy of the measured arms, as records, a table with sentences, a figure and a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sameluck.environments.base import Environment
from sameluck.frames import Frames
from sameluck.inference.effects import Effect
from sameluck.inference.twins import pages, sentences
from sameluck.inference.twins.long_run import LongRun
from sameluck.inference.twins.records import Failure, Guaranteed, Stability
from sameluck.reporting import plots
from sameluck.reporting.pages.page import Card
from sameluck.runs import Runs


@dataclass(frozen=True, eq=False, repr=False)
class Twin(Frames):
    """What `twin` returns: `print` it, or read `effects`.

    Args:
        effects: The effect on the copy with an interval of the true effect, every pair and checkpoint: the mean of
            the effects on draws of the arms. If it is withheld the interval has no bounds, and the effect is that of
            the long run, as `reward` and `control_reward` always are.
        observed: The observed mean with an interval of the spread that the copy shows, likewise.
        guaranteed: Intervals that hold at every look, for all pairs and horizons at once: of rewards 0 and 1, and of
            others whose bounds were given.
        failures: Rare failures on the copy, whether or not a replication has met them.
        stability: Whether the arms stood still.
        withheld: Why the effects have no interval, as sentences; empty if they have.
        long_run: The ledger, the copy and the long run on it.
        level: Confidence of the intervals, each for one pair at one horizon.
    """

    effects: tuple[Effect, ...]
    observed: tuple[Effect, ...]
    guaranteed: tuple[Guaranteed, ...]
    failures: tuple[Failure, ...]
    stability: Stability
    withheld: tuple[str, ...]
    long_run: LongRun
    level: float

    _index = ("policy", "control", "checkpoint")

    @property
    def environment(self) -> Environment:
        """The copy of the arms."""
        return self.long_run.copy.environment

    @property
    def runs(self) -> Runs:
        """The long run on the copy."""
        return self.long_run.runs

    @property
    def source(self) -> Runs:
        """The runs whose arms were copied."""
        return self.long_run.observed

    @property
    def last_effects(self) -> list[Effect]:
        """The effects at the last checkpoint, one for each pair."""
        return [one for one in self.effects if one.checkpoint == self.source.checkpoints[-1]]

    @property
    def verdict(self) -> str:
        """The effects at the last checkpoint, rare failures and what all this assumes, as sentences."""
        parts = [
            *sentences.findings(self.last_effects, self.withheld),
            *sentences.about_failures(self.failures),
            sentences.assumption(
                self.stability, self.source.replications, guaranteed=bool(self.guaranteed)
            ),
        ]
        return " ".join(parts)

    @property
    def suggestion(self) -> str | None:
        """Whether a live experiment could be stopped, if the arms stand still; None if it is not running."""
        return sentences.suggestion(
            self.source, self.last_effects, self.withheld, self.failures, self.guaranteed
        )

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences to read before relying on the twin."""
        return tuple(sentences.cautions(self.source, self.long_run.stacks.users))

    @property
    def title(self) -> str:
        """What was copied and simulated, on one line."""
        return sentences.title(self.source, self.runs, self.long_run.stacks.users)

    def __str__(self) -> str:
        return pages.text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return pages.fragment(self)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The effects as plain records, with the observed mean and the other intervals."""
        return pages.records(self)

    def to_record(self) -> dict[str, Any]:
        """Everything but the long run as values that JSON can hold."""
        return {
            "arms": list(self.environment.means),
            "replications": self.source.replications,
            "users": self.long_run.stacks.users.tolist(),
            "effects": self.to_dicts(),
            "failures": [one._asdict() for one in self.failures],
            "stability": {**self.stability._asdict(), "p_value": self.stability.p_value},
            "withheld": list(self.withheld),
            "verdict": self.verdict,
            "suggestion": self.suggestion,
            "cautions": list(self.cautions),
        }

    def to_latex(self) -> str:
        """The printed table as a LaTeX tabular (booktabs)."""
        return pages.latex(self)

    def plot(self, path: str | Path | None = None, *, ax: plots.Axes | None = None) -> plots.Figure:
        """The law of one replication's difference, the intervals and the tail of losses, at the last checkpoint.

        Written to `path` if given; on `ax`, the law of the first pair's difference alone.
        """
        return plots.saved(pages.figure(self, ax), path)

    def card(self) -> Card:
        """Verdict, figure and table for a page."""
        return pages.card(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """A self-contained page: verdict, figure, table, definition. Written to `path` if given."""
        return pages.page(self, path)
