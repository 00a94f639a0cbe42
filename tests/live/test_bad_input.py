"""Bad input: refused with a message, nothing half-applied, and the experiment continues as if it had not come."""

import contextlib
import math
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pytest
from contract.scenario import FIVE, TWO, WINDOW, Scenario, assert_finished, options
from tables import TABLES, reading

import sameluck as sl

BAD_IDS = [
    "nothing",
    "",
    "asg_" + "0" * 32,
    "' OR 1=1 --",
    "a\0b",
    "a\nb",
    "é",
    "\ud800",
    "x" * 101,
    "x" * 100_000,
    7,
    0,
    1.5,
    True,
    False,
    b"asg_00",
    ["asg"],
    {},
    object(),
]
NOT_REWARDS = [
    math.nan,
    math.inf,
    -math.inf,
    None,
    "1",
    "",
    1j,
    b"1",
    [1],
    {},
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("1e999"),
    np.array([1.0]),
    np.nan,
    10**400,
    -(10**400),
    1e51,
    -1e51,
    object(),
]
BAD_UNITS = [
    "",
    "x" * 1_001,
    b"ann",
    "\ud800",
    None,
    1.5,
    math.nan,
    True,
    [1],
    (),
    {},
    10**1_000,
    -(10**5_000),
]
BAD_NAMES = ["", "x" * 201, "a\0b", "a\nb", "a\tb", "\x7f", "\ud800", None, 7, b"x", ["x"]]
ODD_NAMES = [
    'it\'s "quoted" `and` \\escaped\\',
    "'; DROP TABLE experiment; --",
    "100%s of %(name)s and {name} :name ?1 $1",
    "🎲 größer 比較 مقارنة",
    " ",
    "..",
    "x" * 200,
    "NULL",
    "0",
]


@pytest.fixture
def scenario(url):
    opened = Scenario(lambda clock: sl.open(url, clock=clock))
    yield opened
    opened.close()


@pytest.fixture
def dump(url, scenario):
    """Every row of every table, once the store has made them."""
    with reading(url) as rows:
        yield rows


@pytest.fixture
def unchanged(dump):
    """Calls that must each be refused in one line of words; afterwards the database is as it was."""

    @contextlib.contextmanager
    def check(kind):
        before = dump()

        def refused(call, *arguments, **options):
            with pytest.raises(kind) as caught:
                call(*arguments, **options)
            message = str(caught.value)
            assert len(message) > 20, message
            assert "Traceback" not in message

        yield refused
        assert dump() == before

    return check


def test_the_dump_sees_every_table_and_every_change(scenario, dump):
    before = dump()
    live = scenario.start()
    assert dump() != before
    before = dump()
    scenario.enrol(live)
    assert dump() != before
    assert set(before) == set(TABLES)


class TestIds:
    def test_unknown_ones(self, scenario, unchanged):
        live = scenario.start()
        waiting = scenario.enrol(live)
        with unchanged(sl.Unknown) as refused:
            for id in BAD_IDS:
                refused(live.reward, id, 0.5)
                refused(live.expose, id)
                refused(live.void, id)
                refused(live.describe, id)
            refused(live.describe, None)

        scenario.finish(live, waiting=[waiting])
        assert_finished(live)

    def test_those_of_another_experiment(self, scenario, unchanged):
        live, other = scenario.start(name="one"), scenario.start(name="other")
        waiting, foreign = scenario.enrol(live), scenario.enrol(other)
        with unchanged(sl.Unknown) as refused:
            refused(live.reward, foreign, 0.5)
            refused(live.expose, foreign)
            refused(live.void, foreign)
            refused(live.describe, foreign)

        for row, id in ((live, waiting), (other, foreign)):
            scenario.finish(row, waiting=[id])
            assert_finished(row)

    def test_none_is_who_does_not_take_part(self, scenario, dump):
        live = scenario.start()
        before = dump()
        assert not live.reward(None, 0.5).applied
        live.expose(None)
        live.void(None)
        assert dump() == before

    def test_those_of_numpy_are_ids_like_any_other(self, scenario):
        live = scenario.start()
        ids = [np.str_(scenario.enrol(live)) for _ in range(2)]
        assert [row.applied for row in live.reward_many([(id, 0.5) for id in ids])] == [True, True]
        assert live.reward(ids[0], 0.5).duplicate
        assert live.describe(ids[1]).status == "settled"

    def test_the_message_names_the_id_and_the_experiment(self, scenario):
        live = scenario.start()
        with pytest.raises(sl.Unknown, match="no assignment 'nothing' in experiment 'trial'; use"):
            live.reward("nothing", 1.0)


class TestRewards:
    def test_those_that_are_no_number(self, scenario, unchanged):
        live = scenario.start()
        waiting = scenario.enrol(live)
        with unchanged(sl.Invalid) as refused:
            for value in NOT_REWARDS:
                refused(live.reward, waiting, value)
                refused(live.reward, None, value)

        scenario.finish(live, waiting=[waiting])
        assert_finished(live)

    def test_a_negative_zero_is_zero_in_every_store(self, url):
        live = sl.LiveOptions(reward=sl.Reward(min=-1, max=1, default=-0.0, window_seconds=60))
        experiment = sl.Experiment(policies=TWO, arms=2, horizon=5, replications=2)
        clock = sl.VirtualClock()
        with sl.open(url, clock=clock) as store:
            trial = store.start("zero", experiment, options=live)
            first, second = trial.assign("a"), trial.assign("b")
            assert math.copysign(1, trial.reward(first.id, -0.0).value) == 1
            assert trial.reward(first.id, 0.0).duplicate
            clock.advance(61)
            assert trial.tick() == 1
            assert math.copysign(1, trial.describe(second.id).value) == 1
        with sl.open(url, clock=clock) as store:
            audit = [row for row in store.load("zero").diagnostics() if row.name == "audit log"]
            assert [row.verdict for row in audit] == ["fine"]

    def test_those_out_of_range(self, scenario, unchanged):
        live = scenario.start(
            options=options(reward=sl.Reward(min=-9, max=9, window_seconds=WINDOW))
        )
        waiting = scenario.enrol(live)
        with unchanged(sl.Invalid) as refused:
            for value in (9.000001, -9.000001, 10, np.float32(9.5)):
                refused(live.reward, waiting, value)

        scenario.finish(live, waiting=[waiting])
        assert_finished(live)

    def test_the_ends_of_the_range_are_in_it(self, scenario):
        live = scenario.start(
            options=options(reward=sl.Reward(min=-9, max=9, window_seconds=WINDOW))
        )
        assert live.reward(scenario.enrol(live), 9).value == 9.0
        assert live.reward(scenario.enrol(live), -9).value == -9.0

    def test_those_that_a_policy_cannot_count(self, scenario, unchanged):
        live = scenario.start({"beta": "thompson_bernoulli", "ucb": "ucb1"})
        waiting = scenario.enrol(live)
        with unchanged(sl.Invalid) as refused:
            for value in (0.5, 2, -1, 1.0000001):
                refused(live.reward, waiting, value)

        bernoulli = sl.Bernoulli((0.2, 0.5, 0.8))
        scenario.finish(live, bernoulli, waiting=[waiting])
        assert_finished(live, bernoulli)

    @pytest.mark.parametrize(
        "value",
        [1, 1.0, np.int64(1), np.float32(1), np.float64(1), -0.0, True, False, np.True_, np.False_],
    )
    def test_numbers_of_any_kind_are_fine(self, scenario, value):
        live = scenario.start({"beta": "thompson_bernoulli"})
        receipt = live.reward(scenario.enrol(live), value)
        assert (receipt.applied, receipt.value) == (True, float(value))
        assert type(receipt.value) is float


class TestUnits:
    def test_bad_ones(self, scenario, unchanged):
        live = scenario.start(options=options(traffic_share=0.5))
        with unchanged(sl.Invalid) as refused:
            for unit in BAD_UNITS:
                refused(live.assign, unit)

        scenario.finish(live)
        while live.status().status == "running":  # some users are outside the traffic share
            scenario.finish(live)
        assert_finished(live)

    def test_odd_ones_are_different_units(self, scenario):
        live = scenario.start(replications=20, options=options(open_replications=20))
        units = ["a", "A", "a ", " a", "a\0", "a\n", "é", "e\u0301", "🎲", "x" * 1_000, 0, -1, "00"]
        ids = [live.assign(unit).id for unit in units]
        assert len(set(ids)) == len(units)
        assert [live.assign(unit).id for unit in units] == ids


class TestNames:
    def test_bad_ones(self, scenario, unchanged):
        live = scenario.start()
        experiment = live.experiment
        with unchanged(sl.Invalid) as refused:
            for name in BAD_NAMES:
                refused(scenario.store.start, name, experiment)
        with unchanged(sl.Unknown) as refused:
            for name in [*BAD_NAMES, "trail", "Trial", "trial "]:
                refused(scenario.store.load, name)

        scenario.finish(live)
        assert_finished(live)

    def test_odd_ones_are_names_like_any_other(self, scenario):
        for name in ODD_NAMES:
            scenario.enrol(scenario.start(name=name, horizon=2))
        assert scenario.store.names() == ODD_NAMES
        for name in ODD_NAMES:
            live = scenario.store.load(name)
            assert (live.name, live.status().name, live.status().users) == (name, name, 1)

    @pytest.mark.slow
    def test_odd_names_of_arms_and_policies(self, scenario):
        policies = dict(zip(ODD_NAMES, [*FIVE.values(), *["uniform"] * 4], strict=True))
        live = scenario.start(policies, arms=tuple(ODD_NAMES[:3]), design="naive")
        answer = live.assign(ODD_NAMES[0])
        assert answer.arm in ODD_NAMES[:3]
        assert live.describe(answer.id).policy in ODD_NAMES
        scenario.finish(live, waiting=[answer.id])
        assert_finished(live)
        assert_finished(scenario.reopen(live))

    def test_a_near_miss_is_pointed_out(self, scenario):
        with pytest.raises(sl.Unknown, match="it is empty; start an experiment"):
            scenario.store.load("trial")
        scenario.start()
        with pytest.raises(sl.Unknown, match=r"no experiment 'trail' .* did you mean 'trial'\?"):
            scenario.store.load("trail")

    def test_a_name_that_is_taken(self, scenario, unchanged):
        live = scenario.start()
        with unchanged(sl.Conflict) as refused:
            refused(scenario.start)
            refused(scenario.start, FIVE, horizon=3)

        scenario.finish(live)
        assert_finished(live)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        (lambda store, _: store.start("b", small(), makers=3), "makers must map names .* got 3"),
        (lambda store, _: store.load("a", makers=3), "makers must map names .* got 3"),
        (
            lambda store, _: store.start("b", small(), makers={"u": 3}),
            "the maker 'u' must be a function of a seed, got 3",
        ),
        (
            lambda _, live: sl.rehearse(live, [0.1, 0.2], traffic=np.zeros(3)),
            r"traffic must be an object, got array",
        ),
        (
            lambda _, live: sl.rehearse(live, [0.1, 0.2], seed="x"),
            "seed must be a whole number >= 0, got 'x'",
        ),
        (
            lambda _, live: sl.rehearse(live, [0.1, 0.2], progress=3),
            "progress must be a function, got 3",
        ),
        (lambda _, live: live.export(None), "export: the path of a file is text .* got None"),
        (lambda _, live: live.export(3, format="csv"), "the path of a file is text .* got 3"),
        (lambda *_: sl.open("sqlite://", clock=3), "clock must be a function .* got 3"),
        (lambda *_: sl.open("sqlite://", clock=None), "clock must be a function .* got None"),
        (
            lambda *_: sl.open("sqlite://", connections="x"),
            "connections must be a whole number >= 1, got 'x'",
        ),
        (lambda _, live: live.runs(policies=["c"]), "unknown policy 'c'; known: ucb, thompson"),
        (lambda _, live: live.void_units("ann"), "void_units: units must be a list, got 'ann'"),
        (lambda _, live: live.runs(policies=3), "policies must be a list, got 3"),
        (lambda _, live: live.trace(True), "replication .* from 0 to 1, got True"),
    ],
)
def test_arguments_of_another_kind(bad, rule):
    with sl.open("sqlite://", clock=sl.VirtualClock(1.0)) as store:
        live = store.start("a", small())
        with pytest.raises(sl.Invalid, match=rule):
            bad(store, live)
        assert store.names() == ["a"]


def small():
    return sl.Experiment(policies=TWO, arms=2, horizon=3, replications=2)


class TestSteering:
    def test_bad_challengers(self, scenario, unchanged):
        live = scenario.start()
        live.reward(scenario.enrol(live), 0.5)
        with unchanged(sl.Invalid) as refused:
            for name in [*BAD_NAMES, "ucb"]:
                refused(live.add_policy, name, "uniform")
            for policy in ("", "nonsense", "ucb1(alpha=-1)", None, 7, "always(3)", object()):
                refused(live.add_policy, "late", policy)
            refused(live.add_policy, "late", "thompson_bernoulli")
            refused(live.add_policy, "late", sl.External("mine"))
            refused(live.add_policy, "late", sl.External("mine"), make=7)
        assert tuple(live.experiment.policies) == ("ucb", "thompson")
        assert live.add_policy("late", "uniform").policy == "late"

    def test_bad_reasons(self, scenario, unchanged):
        live = scenario.start()
        with unchanged(sl.Invalid) as refused:
            for reason in ("a\0b", "\ud800", "x" * 201, 7, b"x"):
                refused(live.pause, reason)
                refused(live.stop, reason=reason)
        live.pause(ODD_NAMES[0])
        assert live.status().reason == ODD_NAMES[0]

    def test_bad_numbers_to_stop_after(self, scenario, unchanged):
        live = scenario.start()
        with unchanged(sl.Invalid) as refused:
            for number in (0, -1, 2, 4, 1 << 70, 3.0, "3", True):
                refused(live.stop, after_replications=number)
            refused(live.stop, after_replications=3, drain=False)

    def test_looking_where_nothing_is(self, scenario, unchanged):
        live = scenario.start()
        scenario.serve(live)
        with unchanged(sl.Invalid) as refused:
            for number in (-1, 3, 1 << 70, 0.0, "0", None, True):
                refused(live.trace, number)
            for checkpoints in ([0], [-1], [9], [], "8", [1.5], [True], [[1]], 8):
                refused(live.runs, checkpoints)
            for policies in (["nobody"], ["ucb", "UCB"], [None], "ucb"):
                refused(live.runs, policies=policies)

        scenario.finish(live)
        assert_finished(live)


class Hostile:
    def __repr__(self):
        raise RuntimeError("no")


HUGE = {"text": "x" * 1_000_000, "object": Hostile(), "list": [0] * 100_000, "number": 10**5_000}


@pytest.mark.slow
@pytest.mark.parametrize("value", HUGE.values(), ids=HUGE)
def test_what_is_refused_is_shown_shortened(value):
    with sl.open("sqlite://") as store:
        live = store.start(
            "x", sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=2, replications=1)
        )
        id = live.assign("ann").id
        for call in (
            lambda: live.assign(value),
            lambda: live.reward(id, value),
            lambda: live.reward(value, 1.0),
            lambda: live.describe(value),
            lambda: live.disable_arm(value),
            lambda: live.pause(value),
            lambda: live.trace(value),
            lambda: store.load(value),
            lambda: store.start(value, live.experiment),
            lambda: live.reward_many([value])[0].missing,
            lambda: live.remove_policy(value),
            lambda: live.replace_policy_code(value),
            lambda: live.replace_policy_code("a", makers=value),
            lambda: live.add_policy("b", value),
            lambda: live.export("x.csv", what=value),
            lambda: live.runs(value),
            lambda: live.runs(policies=value),
            lambda: store.delete("x", reason=value),
        ):
            with pytest.raises((sl.SameluckError, AttributeError)) as caught:
                call()
            assert len(str(caught.value)) < 1_000  # with the names of all policies


def test_of_many_experiments_some_are_listed():
    with sl.open("sqlite://") as store:
        experiment = sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=2, replications=1)
        for number in range(60):
            store.start(f"trial {number}", experiment)
        with pytest.raises(
            sl.Unknown, match=r"did you mean 'trial 7'\?.* \(60 in all\)$"
        ) as caught:
            store.load("trail 7")
        assert "trial 59" not in str(caught.value)


@pytest.mark.parametrize(
    ("unit", "same"),
    [(np.int64(7), "7"), (np.uint8(7), 7), (UUID(int=1), str(UUID(int=1))), (-3, "-3")],
)
def test_units_of_other_types(unit, same):
    with sl.open("sqlite://") as store:
        live = store.start(
            "x", sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=2, replications=1)
        )
        assert live.assign(unit).id == live.assign(same).id


@pytest.mark.parametrize(
    "value", [Decimal("0.25"), np.float32(0.25), Fraction(1, 4), np.float64(0.25)]
)
def test_rewards_of_other_types(value):
    with sl.open("sqlite://") as store:
        live = store.start(
            "x", sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=2, replications=1)
        )
        assert live.reward(live.assign("ann").id, value) == (True, False, 0.25)
        assert type(live.describe(live.assign("ann").id).value) is float


@pytest.mark.parametrize("moment", [math.nan, math.inf, None, "now", 1.7e12, -1e30])
def test_a_clock_that_is_wrong(moment):
    with sl.open("sqlite://", clock=lambda: moment) as store:
        with pytest.raises(sl.Invalid, match="clock must return seconds since 1970"):
            store.start(
                "x", sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=2, replications=1)
            )
        assert store.names() == []
