"""pytest plugin: a run fails if two tests share an id, or if a collected test did not run.

With `--dist loadfile`, pytest-xdist runs tests that share an id once and reports success for all of them.
"""

from collections import Counter

import pytest


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # the workers of pytest-xdist report to the controller
        config.pluginmanager.register(RunGuard(config), "run_guard_of_the_controller")


class RunGuard:
    """Comparison of the tests that were collected with the tests that ran."""

    def __init__(self, config):
        self.only_collects = config.option.collectonly
        self.collected = Counter()
        self.ran = set()
        self.problems = []

    def pytest_collection_finish(self, session):
        self.collected = Counter(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        self.collected = Counter(ids)

    def pytest_runtest_logreport(self, report):
        self.ran.add(report.nodeid)

    def pytest_sessionfinish(self, session, exitstatus):
        if session.shouldfail or session.shouldstop:  # `-x`: the tests after a failure need not run
            return
        shared = [id for id, count in self.collected.items() if count > 1]
        missed = [] if self.only_collects else sorted(self.collected.keys() - self.ran)
        self.problems = [
            *(f"{id}: {self.collected[id]} tests share this id; give them ids" for id in shared),
            *(f"{id}: collected, and did not run" for id in missed),
        ]
        if exitstatus == pytest.ExitCode.OK and self.problems:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.problems:
            terminalreporter.section("tests that did not run on their own", red=True)
            terminalreporter.write("".join(f"{problem}\n" for problem in self.problems[:20]))
