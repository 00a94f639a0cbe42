"""Before the tasks of a simulation are run: a user's code is checked, and everything is compiled."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from functools import partial

from sameluck import text_forms
from sameluck.compilation.decorators import announcing, load_compiler
from sameluck.simulation.function_checks import Probe, probe_bodies
from sameluck.simulation.object_checks import check_object, with_bodies
from sameluck.simulation.object_runner import ObjectRunner
from sameluck.simulation.tasks import Work

log = logging.getLogger("sameluck")


def check_bodies(work: Work) -> list[Probe]:
    """The user's bodies that are not checked yet, run in plain Python; they are to be compared with compiled ones."""
    return probe_bodies(with_bodies(work.experiment), work.environment, detail=work.detail)


def check_objects(work: Work) -> dict[str, float]:
    """Check the Python objects; the seconds that a period of each takes."""
    measured = {}
    for name in work.makers:
        runner = ObjectRunner(work.experiment, work.environment, name, work.makers[name])
        with _announced(work, name):
            runner.compile(recorded=False)
        measured[name] = check_object(runner)
    return measured


def compile_loops(work: Work) -> None:
    """Compile what the tasks run; in the threads, each would wait for the others."""
    load_compiler()
    for name in work.experiment.policies:
        with _announced(work, name):
            work.runner(name).compile(recorded=work.recorded)


def _announced(work: Work, policy: str) -> AbstractContextManager[None]:
    kinds = [type(work.experiment.policies[policy]), type(work.environment)]
    how = ", period by period," if work.recorded else ""
    pair = " with ".join(map(text_forms.name_of, kinds))
    message = f"sameluck: compiling {pair}{how} for this machine (once) ..."
    # A warning, because that is what reaches the terminal when logging is not set up.
    return announcing(partial(log.warning, message))
