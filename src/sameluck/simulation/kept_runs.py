"""`KeptRuns`: the file of `simulate(keep=...)`, which keeps complete replications after an interruption."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import current_thread, main_thread
from typing import TypeAlias

from sameluck.arrays import Floats, Ints
from sameluck.errors import Invalid
from sameluck.files import check_writable, file_state
from sameluck.runs import POLICY_ARRAYS, KeptFile, Runs, check_runs_path
from sameluck.simulation.tasks import Assembly, Work, seconds_of_period

_FIRST_PART = 32  # replications; Python objects, which may be slow, begin with one
_MIN_PART_SECONDS, _MAX_PART_SECONDS = 2.0, 8.0  # outside, the next part is twice as large, or half
_PAUSE = 20.0  # seconds at least between two writes of the file
_PAUSE_PER_WRITE = 20  # the pause is at least this many times as long as writing takes
log = logging.getLogger("sameluck")


Progress: TypeAlias = Callable[[int, int], object]
PartRunner: TypeAlias = Callable[[range, Progress | None], Runs]  # runs some of the replications


class KeptRuns:
    """File that keeps the replications of a simulation, from the first on."""

    def __init__(self, path: str | os.PathLike[str], work: Work, workers: int = 1) -> None:
        check_runs_path(path)
        check_writable(path)
        self.path = Path(path)
        self.work = work
        self.workers = workers
        self.replications = work.replications
        self.nothing = Assembly(work._replace(replications=work.replications[:0])).runs()
        self._seen = file_state(self.path)
        self._kept = 0  # replications of this simulation that the file holds
        self._failure = ""  # of the last attempt to write it

    def run(self, run: PartRunner, progress: Progress | None) -> Runs:
        """Return all replications, from the file and simulated. The file will keep the comparisons of them."""
        runs = self.complete(run, self.saved(run), progress)
        return replace(runs, kept=KeptFile(self.path, self._seen))

    def saved(self, run: PartRunner) -> Runs:
        """Return the replications in the file; raise `Invalid` unless they belong to this simulation.

        The last replication is run again: the code of a user's policy may have changed.
        """
        if not self.path.exists():
            return replace(self.nothing, seconds=0.0)
        kept = Runs.load(self.path)
        try:
            earlier = self._of_this(kept)
        except Invalid as error:
            raise self._other(str(error)) from None
        last = earlier.part(earlier.replications - 1, 1)
        if earlier.replications:
            again = run(range(last.first, last.first + 1), None)
            if any(old.tobytes() != new.tobytes() for old, new in _arrays(last, again)):
                raise self._other(f"replication {last.first} differs when it is run again")
        self._kept = kept.replications
        seconds = None if earlier.replications else 0.0
        return replace(earlier, experiment=self.work.experiment, seconds=seconds)

    def _of_this(self, kept: Runs) -> Runs:
        return Runs.concat([self.nothing, kept.part(0, len(self.replications))])

    def _other(self, reason: str) -> Invalid:
        return Invalid(
            f"{str(self.path)!r} holds other runs ({reason}); name another file or remove it"
        )

    def complete(self, run: PartRunner, saved: Runs, progress: Progress | None) -> Runs:
        """Run the missing replications in parts; write the file from time to time and at the end, however it ends."""
        parts, stop = [saved], self.replications.stop
        start, size = saved.first + saved.replications, self._first_size()
        policies, pause = len(self.work.experiment.policies), _PAUSE
        due = time.monotonic() + pause

        def report(done: int, _: int) -> None:
            if progress is not None:
                before = (start - self.replications.start) * policies
                progress(before + done, len(self.replications) * policies)

        try:
            while start < stop:
                numbers = range(start, min(start + size, stop))
                parts.append(run(numbers, report))
                start = numbers.stop
                size = self._next_size(size, parts[-1].seconds or 0.0)
                if start < stop and (began := time.monotonic()) > due:
                    parts = [self._save(parts)]
                    pause = max(pause, _PAUSE_PER_WRITE * (time.monotonic() - began))
                    due = time.monotonic() + pause
            return self._save(parts)
        except BaseException as error:
            with suppress(KeyboardInterrupt):  # pressed again
                self._save(parts)
            if start > self.replications.start:
                error.add_note(self._outcome())
            raise

    def _first_size(self) -> int:
        if self.work.makers:
            return 1
        policies, horizon = self.work.experiment.policies, int(self.work.checkpoints[-1])
        seconds = horizon * sum(seconds_of_period(self.work, name) for name in policies)
        return min(_FIRST_PART, max(self.workers, int(_MIN_PART_SECONDS / seconds)))

    def _next_size(self, size: int, seconds: float) -> int:
        if seconds < _MIN_PART_SECONDS:
            return 2 * size
        return max(min(size, self.workers), size // 2) if seconds > _MAX_PART_SECONDS else size

    def _save(self, parts: list[Runs]) -> Runs:
        runs = Runs.concat(parts)
        with _ctrl_c_afterwards():
            if (state := file_state(self.path)) != self._seen:
                self._look_again(state)
            if runs.replications > self._kept:
                self._write(runs)
        return runs

    def _write(self, runs: Runs) -> None:
        try:
            runs.save(self.path)
            self._seen, self._kept, self._failure = file_state(self.path), runs.replications, ""
        except Invalid as error:  # a full disk, say: the runs are still in memory
            self._failure = str(error)
            log.warning("sameluck: %s; the runs are in memory only", error)

    def _look_again(self, state: tuple[int, ...]) -> None:
        """Keep the runs that another process has written to the file, unless they are fewer of this simulation.

        If they belong to another simulation, these runs go to another file.
        """
        self._seen, self._kept = state, 0
        if not state:
            return
        try:
            kept = Runs.load(self.path)
            self._of_this(kept)
            self._kept = kept.replications
        except Invalid:
            self.path = self.path.with_stem(f"{self.path.stem}-{secrets.token_hex(4)}")
            self._seen = ()
            log.warning("sameluck: the file holds other runs now; these are in %r", str(self.path))

    def _outcome(self) -> str:
        if self._failure:
            return f"complete replications are not kept: {self._failure}"
        done = f"{min(self._kept, len(self.replications)):,} of {len(self.replications):,}"
        return f"{done} replications are kept in {str(self.path)!r}; run the same again to continue"


@contextmanager
def _ctrl_c_afterwards() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block; it reaches the main thread only."""
    if current_thread() is not main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            signal.raise_signal(signal.SIGINT)


def _arrays(runs: Runs, other: Runs) -> list[tuple[Floats | Ints, Floats | Ints]]:
    names = (*POLICY_ARRAYS, "interactions")
    pairs = [(getattr(runs, name), getattr(other, name)) for name in names]
    return [(first, second) for first, second in pairs if first is not None and second is not None]
