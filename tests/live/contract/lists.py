"""Rules of lists: `assign_many` and `reward_many` do what single calls do, item by item."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar
from unittest import mock

import pytest

from contract.control import THREADS, together
from contract.scenario import FIVE, LEASE, TWO, WINDOW, Scenario, assert_finished, explicit, options
from sameluck.errors import Conflict, Invalid, SameluckError, Unknown
from sameluck.live import records
from sameluck.live.calls.call_queue import MAX_BATCH
from sameluck.live.databases.rows import EventRow, HistoryRow
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import LiveOptions
from sameluck.live.records import Assignment, Receipt
from sameluck.policies.external import External

T = TypeVar("T")
Item: TypeAlias = Any  # a unit or a pair, valid or not, or the answer to one

LISTS = ("lists", "singles")
BAD_UNITS = ("", b"ann", None, 1.5, "\ud800")
BAD_PAIRS = (("nothing", 1.0), (["x"], 1.0), (None, 0.5), (None, "1"), 7, "ab", (), (1, 2, 3))


def all_of(kind: type[T], answers: Sequence[object]) -> list[T]:
    """Return the answers, after asserting the class of each."""
    assert {type(answer) for answer in answers} <= {kind}
    return [answer for answer in answers if isinstance(answer, kind)]


def codes_of(answers: Iterable[object]) -> list[str]:
    """Return the code of each error, and the reason of each assignment."""
    return [str(getattr(answer, "code", getattr(answer, "reason", ""))) for answer in answers]


class Caller:
    """An experiment that is called with lists, or with one item after the other; two callers must agree."""

    def __init__(self, scenario: Scenario, name: str, **arguments: Any) -> None:
        self.scenario = scenario
        # The same key of unit hashes, so that the same units are inside the traffic share
        with mock.patch("secrets.token_hex", lambda size: "00" * size):
            self.live = scenario.start(name=name, **arguments)
        self.numbers: dict[str, int] = {}  # of assignments, in the order of their first answers
        self.lists = name == "lists"

    def assign(self, units: list[Item]) -> list[object]:
        """Return the answers, with numbers for ids."""
        many, one = self.live.assign_many, self.live.assign
        answers: list[Item] = many(units) if self.lists else [_outcome(one, unit) for unit in units]
        for answer in answers:
            if isinstance(answer, Assignment) and answer.id is not None:
                self.numbers.setdefault(answer.id, len(self.numbers))
        return [self.comparable(answer) for answer in answers]

    def reward(self, pairs: list[Item]) -> list[object]:
        """Return the answers to pairs; a number from 100 on stands for an assignment."""
        ids = list(self.numbers)
        reports = [(ids[pair[0] - 100], pair[1]) if _is_numbered(pair) else pair for pair in pairs]
        answers: list[Item] = (
            self.live.reward_many(reports)
            if self.lists
            else [_outcome(self.reward_one, report) for report in reports]
        )
        return [self.comparable(answer) for answer in answers]

    def reward_one(self, pair: Item) -> object:
        """`reward`, with the error of `reward_many` for what is not a pair."""
        if not isinstance(pair, tuple) or len(pair) != 2:
            return self.live.reward_many([pair])[0]
        return self.live.reward(*pair)

    def comparable(self, answer: object) -> object:
        """An answer or a row without what differs between equal experiments."""
        text = f"{type(answer).__name__} {answer}"
        for id, number in self.numbers.items():
            text = text.replace(id, f"#{number}")
        return text.replace(self.live.name, "NAME")

    def ledger(self) -> list[object]:
        """Every entry and assignment with its times, every event in its order, and the counts."""
        history = self.scenario.rows(self.live, HistoryRow, "history")
        voided = self.scenario.rows(self.live, HistoryRow, "voided")
        voided.sort(key=lambda row: self.numbers[str(row.id)])
        events = self.scenario.rows(self.live, EventRow, "events")
        rows: list[object] = [*history, *voided, *events, self.live.status()]
        return [*map(self.comparable, rows), self.trajectories()]

    def trajectories(self) -> list[object]:
        """Return the arm and the reward of every period of every policy."""
        traces = [self.live.trace(number) for number in range(self.live.status().opened)]
        names = self.live.experiment.policies
        return [
            (trace[name].arms.tolist(), trace[name].rewards.tolist())
            for trace in traces
            for name in names
        ]


def _is_numbered(pair: object) -> bool:
    return isinstance(pair, tuple) and len(pair) == 2 and type(pair[0]) is int and pair[0] >= 100


def _outcome(call: Callable[[Item], object], item: object) -> object:
    try:
        return call(item)
    except SameluckError as error:
        return error


class ListRules:
    """Rules about lists of units and of rewards."""

    @pytest.mark.parametrize(
        ("policies", "design", "live"),
        [
            (TWO, "replay", explicit(open_replications=2)),
            (FIVE, "replay", options(audit_share=0.3, traffic_share=0.7)),
            (TWO, "naive", options(batch=3, order="phase", open_replications=3)),
        ],
        ids=["explicit", "audits", "batches"],
    )
    def test_a_list_does_what_single_calls_do(
        self, scenario: Scenario, policies: Mapping[str, str], design: str, live: LiveOptions
    ) -> None:
        """Answers, ledger, trajectories and audit log are equal, whatever is in the list."""
        generator = random.Random(5)
        callers = [
            Caller(scenario, name, policies=policies, design=design, options=live) for name in LISTS
        ]
        for _ in range(30):
            units: list[Item] = [generator.randrange(60) for _ in range(generator.randrange(9))]
            units += generator.choices(BAD_UNITS, k=generator.randrange(2))
            generator.shuffle(units)
            answers, expected = (caller.assign(list(units)) for caller in callers)
            assert answers == expected
            some = list(range(100, 100 + len(callers[0].numbers)))[-20:] or [0]
            pairs: list[Item] = [
                (generator.choice(some), generator.choice([0.0, 0.5, 1.0, float("nan")]))
                for _ in range(generator.randrange(12))
            ]
            pairs += generator.choices(BAD_PAIRS, k=generator.randrange(3))
            generator.shuffle(pairs)
            scenario.clock.advance(generator.choice([0.0] * 4 + [0.4, 0.4, LEASE - 0.5, WINDOW]))
            answers, expected = (caller.reward(list(pairs)) for caller in callers)
            assert answers == expected
        ledger, expected = (caller.ledger() for caller in callers)
        assert ledger == expected
        assert callers[0].live.status().settled > 10

    def test_a_bad_item_does_not_affect_the_others(self, scenario: Scenario) -> None:
        """It has its own error in its place, with a code that a program can test."""
        live = scenario.start(options=options(open_replications=3))
        answers = live.assign_many(["ann", "", "ann", "bob"])
        assert codes_of(answers) == [records.ASSIGNED, "invalid", records.STICKY, records.ASSIGNED]
        assert isinstance(answers.pop(1), Invalid)
        ids = [str(answer.id) for answer in all_of(Assignment, answers)]
        assert ids[0] == ids[1] != ids[2]
        pairs: list[Item] = [(ids[0], 1.0), (ids[0], 1.0), (ids[0], 0.5), ("x", 1.0), (ids[2], "1")]
        pairs += [(None, 1.0), (ids[2], 0.5), 3]
        receipts = live.reward_many(pairs)
        assert receipts[:2] == [(True, False, 1.0), (False, True, 1.0)]
        assert codes_of(receipts[2:5]) == ["reward_conflict", "unknown", "invalid"]
        assert receipts[5:7] == [(False, False, 1.0), (True, False, 0.5)]
        assert [type(receipt) for receipt in receipts[2:5]] == [Conflict, Unknown, Invalid]
        assert codes_of(receipts[7:]) == ["invalid"]
        assert scenario.events(live, ids[0]) == [
            (1.0, "applied"),
            (1.0, "duplicate"),
            (0.5, "conflict"),
        ]

    def test_late_and_voided_rewards_have_their_codes(self, scenario: Scenario) -> None:
        """And a unit whose assignment was voided is enrolled again by the next list."""
        live = scenario.start(options=explicit(open_replications=3))
        late, gone = (
            str(assignment.id) for assignment in all_of(Assignment, live.assign_many([1, 2]))
        )
        live.expose(late)
        scenario.clock.advance(WINDOW)
        answers = live.reward_many([(late, 1.0), (gone, 1.0)])
        assert codes_of(answers) == ["reward_late", "assignment_voided"]
        (again,) = all_of(Assignment, live.assign_many(["2"]))
        assert again.reason == records.ASSIGNED
        assert again.id != gone

    def test_an_entry_that_is_due_is_offered_within_the_list(self, scenario: Scenario) -> None:
        """The first unit without an assignment gets it, and a later unit loses it, as with single calls."""
        policies, live = {"ucb": "ucb1"}, explicit()
        callers = [Caller(scenario, name, policies=policies, options=live) for name in LISTS]
        for seconds, units in ((LEASE - 0.5, ["ann"]), (0.5, ["ann"]), (0, ["bob", "ann", "bob"])):
            answers, expected = (caller.assign(list(units)) for caller in callers)
            assert answers == expected
            scenario.clock.advance(seconds)
        reasons = [str(answer).partition("reason=")[2] for answer in answers]
        assert reasons == ["'ASSIGNED')", "'NO_OPEN_SLOT')", "'STICKY')"]

    def test_a_long_list_is_several_transactions(self, scenario: Scenario) -> None:
        """With an answer for each item all the same."""
        live = scenario.start(replications=40, options=options(open_replications=40))
        units = [f"ann {number % 90}" for number in range(2 * MAX_BATCH + 5)]
        answers = all_of(Assignment, live.assign_many(iter(units)))
        first = dict(zip(units[:90], answers[:90], strict=True))
        assert [answer.id for answer in answers] == [first[unit].id for unit in units]
        receipts = all_of(Receipt, live.reward_many([(answer.id, 0.5) for answer in answers]))
        enrolled = [answer.id is not None for answer in answers]
        assert (
            sum(receipt.applied for receipt in receipts)
            == live.status().settled
            == sum(enrolled[:90])
        )
        assert sum(receipt.duplicate for receipt in receipts) == sum(enrolled[90:])

    def test_lists_run_an_experiment_to_its_end(self, scenario: Scenario) -> None:
        """With the runs of the simulation; the last lists complete several replications."""
        live = scenario.start(FIVE, replications=9, options=options(open_replications=4))
        while self._serve_list(scenario, live, 8):
            pass
        assert_finished(live)

    def _serve_list(self, scenario: Scenario, live: LiveExperiment, size: int) -> bool:
        units = [scenario.unit() for _ in range(size)]
        answers = all_of(Assignment, live.assign_many(units))
        ids = [answer.id for answer in answers if answer.id is not None]
        receipts = live.reward_many([(id, scenario.reward_of(live, id)) for id in ids])
        assert all(receipt.applied for receipt in all_of(Receipt, receipts))
        return answers[-1].reason != records.NOT_RUNNING

    def test_many_callers_with_lists_run_an_experiment_to_its_end(self, scenario: Scenario) -> None:
        """Beside callers of single calls."""
        live = scenario.start(FIVE, replications=6, options=options(open_replications=4))

        def serve_lists() -> None:
            while self._serve_list(scenario, live, 5):
                pass

        def serve_singles() -> None:
            while scenario.serve(live).reason != records.NOT_RUNNING:
                pass

        assert together([serve_lists, serve_singles] * 3) == [None] * 6
        assert_finished(live)

    def test_lists_of_the_same_items_in_any_order(self, scenario: Scenario) -> None:
        """Many callers at once: one enrolment per unit, one applied reward per assignment, and no error."""
        live = scenario.start(replications=20, options=options(open_replications=20))
        units, generator = [scenario.unit() for _ in range(30)], random.Random(2)
        orders = [generator.sample(units, len(units)) for _ in range(THREADS)]
        answers = together([partial(live.assign_many, order) for order in orders])
        ids = [
            {unit: one.id for unit, one in zip(order, own, strict=True)}
            for order, own in zip(orders, answers, strict=True)
        ]
        enrolled = [id for id in ids[0].values() if id is not None]
        assert [{unit: own[unit] for unit in units} for own in ids[1:]] == [
            {unit: ids[0][unit] for unit in units}
        ] * (THREADS - 1)
        reports = [
            [(own[unit], 0.5) for unit in order] for own, order in zip(ids, orders, strict=True)
        ]
        receipts = together([partial(live.reward_many, report) for report in reports])
        assert sum(receipt.applied for batch in receipts for receipt in batch) == len(enrolled) > 5
        assert live.verify() == 20

    def test_a_policy_that_fails_affects_its_replication_alone(self, scenario: Scenario) -> None:
        """The error stands at the item's index, other rewards count, the status is failed, as with single calls."""

        def make(_: int) -> object:
            return _Fragile()

        policies, makers = {"fragile": External("fragile")}, {"fragile": make}
        live = options(open_replications=3)
        callers = [
            Caller(scenario, name, policies=policies, makers=makers, options=live) for name in LISTS
        ]
        for caller in callers:
            caller.assign(["ann", "bob", "carl"])
        pairs = [(100, 1.0), (101, 13.0), (102, 1.0), (101, 13.0), (100, 1.0)]
        answers, expected = (caller.reward(list(pairs)) for caller in callers)
        assert answers == expected
        kinds = [str(answer).split()[0] for answer in answers]
        assert kinds == ["Receipt", "Unplayable", "Receipt", "Unplayable", "Receipt"]
        ledger, expected_ledger = (caller.ledger() for caller in callers)
        assert ledger == expected_ledger
        assert callers[0].live.status().status == "failed"

    def test_what_is_not_a_list_is_refused(self, scenario: Scenario) -> None:
        """Text would be a list of its letters. An empty list is a list."""
        live = scenario.start()
        calls: list[Callable[[Item], list[Item]]] = [live.assign_many, live.reward_many]
        for call in calls:
            for wrong in ("ann", b"ann", {"ann": 1.0}, None, 7):
                with pytest.raises(Invalid, match=r"must be a list"):
                    call(wrong)
            assert call([]) == []
        assert live.status().users == 0


class _Fragile:
    """A policy that raises an error for one reward."""

    def select(self, _: int) -> int:
        return 0

    def update(self, _: int, reward: float) -> None:
        if reward == 13:
            raise ValueError("thirteen")
