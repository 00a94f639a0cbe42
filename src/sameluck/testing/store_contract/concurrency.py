"""Rules for many callers at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from sameluck.errors import Conflict
from sameluck.live import records
from sameluck.live.experiment import LiveExperiment
from sameluck.testing.scenario import FIVE, Scenario, assert_finished, options

THREADS = 8


def together(calls: Sequence[Callable[[], object]]) -> list[Any]:
    """Make the calls at once, one thread each; what each returned or raised."""

    def outcome(call: Callable[[], object]) -> object:
        try:
            return call()
        except Exception as error:  # the caller checks it
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(outcome, calls))


class ConcurrencyRules:
    """Rules for many callers at once."""

    def test_a_unit_that_many_callers_assign_is_enrolled_once(self, scenario: Scenario) -> None:
        """All callers get the same assignment."""
        live = scenario.start(live=options(open_replications=3))
        for number in range(5):
            unit = f"ann {number}"
            answers = together([partial(live.assign, unit)] * THREADS)
            assert len({answer.id for answer in answers}) == 1
        assert live.status().users == live.status().waiting <= 5

    def test_of_many_values_one_is_applied(self, scenario: Scenario) -> None:
        """The others raise `Conflict`, and all of them are in the reward log."""
        live = scenario.start()
        for _ in range(5):
            id = scenario.enrol(live)
            answers = together([partial(live.reward, id, value) for value in range(THREADS)])
            receipts = [one for one in answers if not isinstance(one, Conflict)]
            assert [receipt.applied for receipt in receipts] == [True]
            assert live.describe(id).value == receipts[0].value
            logged = sorted(outcome for _, outcome in scenario.events(live, id))
            assert logged == ["applied"] + ["conflict"] * (THREADS - 1)

    @pytest.mark.parametrize("design", ["replay", "naive"])
    def test_many_callers_run_an_experiment_to_its_end(
        self, scenario: Scenario, design: str
    ) -> None:
        """With the runs of the simulation."""
        live = scenario.start(FIVE, design=design, live=options(open_replications=3))
        self._serve_together(scenario, live)
        assert_finished(live)

    def test_a_challenger_joins_while_many_callers_are_served(self, scenario: Scenario) -> None:
        """No call fails because of it, and nothing is lost."""
        live = scenario.start(replications=6, live=options(open_replications=3))

        serving = [partial(self._serve_until, scenario, live, 25)] * THREADS
        *served, joining = together([*serving, partial(live.add_policy, "late", "uniform")])
        assert served == [None] * THREADS
        assert joining.policy == "late"
        live = scenario.reopen(live)
        self._serve_together(scenario, live)
        assert_finished(live)

    def _serve_together(self, scenario: Scenario, live: LiveExperiment) -> None:
        served = together([partial(self._serve_until, scenario, live, 10_000)] * THREADS)
        assert served == [None] * THREADS

    def _serve_until(self, scenario: Scenario, live: LiveExperiment, users: int) -> None:
        for _ in range(users):
            if scenario.serve(live).reason == records.NOT_RUNNING:
                return
