"""Count the calls, functions, files and file switches of one `live.reward` on SQLite.

A reader who follows a reward through the source changes files at each switch. Usage:

    python scripts/count_file_switches.py [--show]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import sameluck as sl

SOURCE = Path(sl.__file__).parent
EXPERIMENT = sl.Experiment(
    policies={"ucb": "ucb1", "thompson": "thompson_bernoulli"}, arms=2, horizon=50, replications=4
)
OPTIONS = sl.LiveOptions(reward=sl.Reward(min=0, max=1))


class Call(NamedTuple):
    """A call of a function of sameluck."""

    file: str
    function: str


def record_calls(work: Callable[[], object]) -> list[Call]:
    """Return the calls of sameluck's functions that some work makes, in order."""
    calls: list[Call] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE):
            calls.append(Call(str(path.relative_to(SOURCE)), frame.f_code.co_qualname))

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def calls_of_reward() -> list[Call]:
    """Return the calls that one reward makes."""
    with sl.open("sqlite://") as store:
        live = store.start("switches", EXPERIMENT, options=OPTIONS)
        for unit in range(20):  # compile, and fill the caches
            live.reward(live.assign(unit).id, 1.0)
        assignment = live.assign("the unit whose reward is followed")
        return record_calls(lambda: live.reward(assignment.id, 1.0))


def count_switches(calls: list[Call]) -> int:
    return sum(before.file != after.file for before, after in pairwise(calls))


def main() -> None:
    """Print the counts; with --show, each call with its file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print each call with its file")
    show = parser.parse_args().show
    calls = calls_of_reward()
    if show:
        for call in calls:
            print(f"{call.file:45} {call.function}")
    files = {call.file for call in calls}
    print(
        f"live.reward on SQLite: {len(calls)} calls of {len(set(calls))} functions in {len(files)} files, "
        f"{count_switches(calls)} file switches"
    )


if __name__ == "__main__":
    main()
