"""`simulate(keep=...)`: replications in parts, so that those that are complete outlive an interruption."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from sameluck.arrays import Floats, Ints
from sameluck.errors import Invalid
from sameluck.files import check_writable
from sameluck.runs import Runs, check_runs_path
from sameluck.simulation.tasks import Assembly, Work

_FIRST = 32  # replications of the first part; of Python objects, which may be slow, one
_SHORT, _LONG = 2.0, 8.0  # seconds of a part: the next is twice as large, or half


class PartRunner(Protocol):
    """Runs some of the replications, as `simulate` does."""

    def __call__(  # noqa: D102
        self, *, replications: range, progress: Callable[[int, int], object] | None
    ) -> Runs: ...


class KeptRuns:
    """The file that keeps the replications of a simulation, from the first on."""

    def __init__(self, path: str | os.PathLike[str], work: Work) -> None:
        check_runs_path(path)
        check_writable(path)
        self.path = Path(path)
        self.work = work
        self.replications = work.replications
        self.nothing = Assembly(work._replace(replications=work.replications[:0])).runs()

    def known(self, run: PartRunner) -> Runs:
        """The replications in the file; raises `Invalid` unless they are of this simulation.

        The last of them is run again: the code of a policy of a user may have changed.
        """
        if not self.path.exists():
            return replace(self.nothing, seconds=0.0)
        kept = Runs.load(self.path)
        if self.work.detail and kept.totals is None:
            raise self._other("they are without detail")
        try:
            known = Runs.concat([self.nothing, kept.part(0, len(self.replications))])
        except Invalid as error:
            raise self._other(str(error)) from None
        last = known.part(known.replications - 1, 1)
        if known.replications:
            again = run(replications=range(last.first, last.first + 1), progress=None)
            if any((one != other).any() for one, other in _arrays(last, again)):
                raise self._other(f"replication {last.first} is another when it is run again")
        seconds = None if known.replications else 0.0
        return replace(known, experiment=self.work.experiment, seconds=seconds)

    def _other(self, reason: str) -> Invalid:
        return Invalid(
            f"{str(self.path)!r} holds other runs ({reason}); name another file or remove it"
        )

    def complete(
        self, run: PartRunner, known: Runs, progress: Callable[[int, int], object] | None
    ) -> Runs:
        """Run what is missing, in parts, and write all to the file; after an interruption what is complete."""
        parts, stop = [known], self.replications.stop
        start, size = known.first + known.replications, 1 if self.work.makers else _FIRST
        policies = len(self.work.experiment.policies)

        def tell(done: int, _: int) -> None:
            if progress is not None:
                before = (start - self.replications.start) * policies
                progress(before + done, len(self.replications) * policies)

        try:
            while start < stop:
                some = range(start, min(start + size, stop))
                parts.append(run(replications=some, progress=tell))
                start = some.stop
                size = _next_size(size, parts[-1].seconds or 0.0)
        except BaseException as error:
            if len(parts) > 1:
                Runs.concat(parts).save(self.path)
            if start > self.replications.start:
                done = f"{start - self.replications.start:,} of {len(self.replications):,}"
                error.add_note(
                    f"{done} replications are kept in {str(self.path)!r}; run the same again to continue"
                )
            raise
        runs = Runs.concat(parts)
        if len(parts) > 1:
            runs.save(self.path)
        return runs


def _next_size(size: int, seconds: float) -> int:
    if seconds < _SHORT:
        return 2 * size
    return max(1, size // 2) if seconds > _LONG else size


def _arrays(one: Runs, other: Runs) -> list[tuple[Floats | Ints, Floats | Ints]]:
    names = ("rewards", "pulls", "interactions", "totals", "luck")
    both = [(getattr(one, name), getattr(other, name)) for name in names]
    return [(first, second) for first, second in both if first is not None and second is not None]
