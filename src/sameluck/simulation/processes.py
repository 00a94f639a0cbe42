"""`run_forked`: a function of Python objects in forked processes.

Threads would not help, because Python code holds the interpreter's lock. A forked process has the function and its
items already: only the items' numbers and the results are sent, and the function need not be picklable. The processes
end with the iteration, however it ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sameluck.errors import Unplayable

Item = TypeVar("Item")
Result = TypeVar("Result")

_IDLE = 60.0  # seconds without any activity after which processes are taken to be blocked


class _Worker(NamedTuple):
    process: BaseProcess
    connection: Connection


def can_fork() -> bool:
    """Return whether processes may be forked here: on Linux, unless this is a daemon, which may not have children.

    System libraries of macOS do not survive a fork.
    """
    return sys.platform == "linux" and not multiprocessing.current_process().daemon


def run_forked(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int
) -> Iterator[Result]:
    """Yield the results of a function for items, each as soon as it is available."""
    waiting, team = list(range(len(items)))[::-1], _start(function, items, workers)
    busy: dict[Connection, int] = {}
    try:
        for worker in team:
            _assign(worker.connection, waiting, busy)
        while busy:
            for connection in _ready(team, busy):
                number = busy.pop(connection)
                result: Result = _receive(connection, items[number], team)
                _assign(connection, waiting, busy)
                yield result
    finally:
        for process, connection in team:
            connection.close()  # which ends a process that waits for an item
            if connection in busy:
                process.kill()
        for process, _ in team:
            process.join(1.0)
            process.kill()  # it may wait for threads of the object
            process.join()


def _start(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int
) -> list[_Worker]:
    context, team = multiprocessing.get_context("fork"), list[_Worker]()
    for _ in range(min(workers, len(items))):
        ours, theirs = context.Pipe()
        inherited = [ours, *(worker.connection for worker in team)]
        process = context.Process(target=_serve, args=(function, items, theirs, inherited))
        with warnings.catch_warnings():
            # The warning is of threads that a fork does not copy: NumPy's are idle, sameluck's not started yet.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        team.append(_Worker(process, ours))
    return team


def _serve(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    connection: Connection,
    inherited: Sequence[Connection],
) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches this process too; the first one ends it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in inherited:
        other.close()  # or the end of the first process would not be noticed
    here = os.getpid()
    while True:
        try:
            number = connection.recv()
        except EOFError:
            return
        try:
            answer: tuple[bool, object] = (True, function(items[number]))
        except BaseException as error:  # it is raised again in the first process
            error.add_note(traceback.format_exc())
            answer = (False, error)
        if os.getpid() != here:  # the object has forked: two processes must not answer
            os._exit(1)
        _send(connection, answer)


def _send(connection: Connection, answer: tuple[bool, object]) -> None:
    try:
        connection.send(answer)
    except OSError:  # the first process has ended
        os._exit(1)
    except Exception:  # an error that cannot be pickled
        connection.send((False, Unplayable(str(answer[1]))))


def _assign(connection: Connection, waiting: list[int], busy: dict[Connection, int]) -> None:
    if waiting:
        busy[connection] = waiting.pop()
        connection.send(busy[connection])


def _receive(connection: Connection, item: object, team: Sequence[_Worker]) -> Any:
    try:
        fine, answer = connection.recv()
    except (EOFError, OSError):
        process = next(worker.process for worker in team if worker.connection is connection)
        process.join(1.0)
        raise Unplayable(
            f"the process that ran {item} ended with code {process.exitcode}: a crash, too little memory, or threads "
            "that are not there after a fork; workers=1 runs it in this process"
        ) from None
    if not fine:
        raise answer
    return answer


def _ready(team: Sequence[_Worker], busy: dict[Connection, int]) -> list[Connection]:
    """Return the connections with an answer; raise `Unplayable` if every busy process is blocked."""
    pids = [process.pid for process, connection in team if connection in busy]
    while True:
        before = [_activity(pid) for pid in pids]
        if ready := wait(list(busy), timeout=_IDLE):
            return ready  # type: ignore[return-value]  # some of those that were passed
        if [_activity(pid) for pid in pids] == before:
            raise Unplayable(
                f"no process has run for {_IDLE:.0f} seconds: the policy waits for something that is not there "
                "after a fork, such as its threads; workers=1 runs it in this process"
            )


def _activity(pid: int | None) -> list[str]:
    """Return processor time and context switches of a process; they do not change while it is blocked."""
    folder = Path(f"/proc/{pid}")
    try:
        # After the name in brackets: the state is first, user and system time are 12th and 13th.
        seconds = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
        lines = (folder / "status").read_text().splitlines()
    except OSError:  # it has ended
        return []
    return [*seconds, *(line for line in lines if "ctxt_switches" in line)]
