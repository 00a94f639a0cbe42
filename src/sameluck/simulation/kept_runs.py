"""`simulate(keep=...)`: replications in parts, so that those that are complete outlive an interruption."""

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
from sameluck.files import check_writable
from sameluck.runs import Runs, check_runs_path
from sameluck.simulation.tasks import Assembly, Work, seconds_of_period

_FIRST = 32  # replications of the first part; of Python objects, which may be slow, one
_SHORT, _LONG = 2.0, 8.0  # seconds of a part: the next is twice as large, or half
_PAUSE = 20.0  # seconds from one writing of the file to the next, at least
_SHARE = 20  # by which this pause is longer than the writing
log = logging.getLogger("sameluck")


Progress: TypeAlias = Callable[[int, int], object]
PartRunner: TypeAlias = Callable[[range, Progress | None], Runs]  # runs some of the replications


class KeptRuns:
    """The file that keeps the replications of a simulation, from the first on."""

    def __init__(self, path: str | os.PathLike[str], work: Work, workers: int = 1) -> None:
        check_runs_path(path)
        check_writable(path)
        self.path = Path(path)
        self.work = work
        self.workers = workers
        self.replications = work.replications
        self.nothing = Assembly(work._replace(replications=work.replications[:0])).runs()
        self._seen = _state(self.path)
        self._kept = 0  # replications of this simulation that the file holds
        self._failure = ""  # of the last attempt to write it

    def saved(self, run: PartRunner) -> Runs:
        """The replications in the file; raises `Invalid` unless they are of this simulation.

        The last of them is run again: the code of a policy of a user may have changed.
        """
        if not self.path.exists():
            return replace(self.nothing, seconds=0.0)
        kept = Runs.load(self.path)
        try:
            known = self._of_this(kept)
        except Invalid as error:
            raise self._other(str(error)) from None
        last = known.part(known.replications - 1, 1)
        if known.replications:
            again = run(range(last.first, last.first + 1), None)
            if any((one != other).any() for one, other in _arrays(last, again)):
                raise self._other(f"replication {last.first} is another when it is run again")
        self._kept = kept.replications
        seconds = None if known.replications else 0.0
        return replace(known, experiment=self.work.experiment, seconds=seconds)

    def _of_this(self, kept: Runs) -> Runs:
        if self.work.detail and kept.totals is None:
            raise Invalid("they are without detail")
        more = kept.replications < len(self.replications)
        if more and kept.totals is not None and not self.work.detail:
            raise Invalid("they have detail, and those that follow would not")
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

        def tell(done: int, _: int) -> None:
            if progress is not None:
                before = (start - self.replications.start) * policies
                progress(before + done, len(self.replications) * policies)

        try:
            while start < stop:
                some = range(start, min(start + size, stop))
                parts.append(run(some, tell))
                start = some.stop
                size = self._next_size(size, parts[-1].seconds or 0.0)
                if start < stop and (began := time.monotonic()) > due:
                    parts = [self._save(parts)]
                    pause = max(pause, _SHARE * (time.monotonic() - began))
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
        return min(_FIRST, max(self.workers, int(_SHORT / seconds)))

    def _next_size(self, size: int, seconds: float) -> int:
        if seconds < _SHORT:
            return 2 * size
        return max(min(size, self.workers), size // 2) if seconds > _LONG else size

    def _save(self, parts: list[Runs]) -> Runs:
        runs = Runs.concat(parts)
        with _ctrl_c_afterwards():
            if (state := _state(self.path)) != self._seen:
                self._look_again(state)
            if runs.replications > self._kept:
                self._write(runs)
        return runs

    def _write(self, runs: Runs) -> None:
        try:
            runs.save(self.path)
            self._seen, self._kept, self._failure = _state(self.path), runs.replications, ""
        except Invalid as error:  # a full disk, say: the runs are more than their file
            self._failure = str(error)
            log.warning("sameluck: %s; the runs are in memory only", error)

    def _look_again(self, state: tuple[int, ...]) -> None:
        """Another process has written to the file, or removed it: its runs stay, unless they are fewer of these."""
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
            return f"replications that are complete are not kept: {self._failure}"
        done = f"{min(self._kept, len(self.replications)):,} of {len(self.replications):,}"
        return f"{done} replications are kept in {str(self.path)!r}; run the same again to continue"


@contextmanager
def _ctrl_c_afterwards() -> Iterator[None]:
    """If Ctrl-C is pressed meanwhile, it takes effect at the end; it reaches the main thread only."""
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


def _state(path: Path) -> tuple[int, ...]:
    """What changes when a file is replaced; nothing if there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _arrays(one: Runs, other: Runs) -> list[tuple[Floats | Ints, Floats | Ints]]:
    names = ("rewards", "pulls", "interactions", "totals", "exploration_excess")
    both = [(getattr(one, name), getattr(other, name)) for name in names]
    return [(first, second) for first, second in both if first is not None and second is not None]
