"""Options of a live experiment: what is refused, in which words, and what is warned about, before the first user."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import sameluck as sl
from sameluck.live.options import MAX_ARMS, MAX_PERIODS, MAX_POLICIES, MAX_REPLICATIONS

TWO = {"ucb": "ucb1", "uniform": "uniform"}
SECOND = sl.Reward(window_seconds=1)
NOT_NUMBERS = [None, "1", True, math.nan, math.inf, -math.inf, [1], 1j, 10**400]


@pytest.fixture(scope="module")
def store():
    with sl.open("sqlite://") as opened:
        yield opened


@pytest.fixture
def start(store, request):
    """Begin a small experiment, with some changes."""

    def begin(options=None, **changes):
        usual = {"policies": TWO, "arms": 3, "horizon": 5, "replications": 4}
        experiment = sl.Experiment(**{**usual, **changes})
        return store.start(request.node.name[:200], experiment, options=options)

    return begin


class TestReward:
    @pytest.mark.parametrize("name", ["min", "max", "default", "window_seconds"])
    @pytest.mark.parametrize("value", NOT_NUMBERS)
    def test_not_a_number(self, name, value):
        if value is None and name in ("min", "max"):
            return
        with pytest.raises(sl.Invalid, match=rf"Reward\.{name} must be a finite number, got"):
            sl.Reward(**{name: value})

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"min": 1, "max": 1}, "Reward.min must be below Reward.max, got 1 and 1"),
            ({"min": 2, "max": 1}, "Reward.min must be below Reward.max, got 2 and 1"),
            ({"min": 1}, "Reward.default must lie between min and max, got 0.0"),
            ({"max": 1, "default": 1.5}, "Reward.default must lie between min and max, got 1.5"),
            ({"min": -1e51}, "Reward.min must be >= -1e+50"),
            ({"default": 1e51}, "Reward.default must lie between"),
            ({"window_seconds": 0}, "Reward.window_seconds must be > 0, got 0"),
            ({"window_seconds": -1}, "Reward.window_seconds must be > 0, got -1"),
            ({"window_seconds": 1e9}, "Reward.window_seconds must be <= 3.1536e+08"),
        ],
    )
    def test_out_of_range(self, values, message):
        with pytest.raises(sl.Invalid) as caught:
            sl.Reward(**values)
        assert message in str(caught.value)

    def test_bounds(self):
        assert sl.Reward(min=0, max=1).bounds == (0, 1)
        assert sl.Reward().bounds == (-1e50, 1e50)


class TestLive:
    @pytest.mark.parametrize(
        "name", ["lease_seconds", "traffic_share", "audit_share", "arrivals_per_day", "days"]
    )
    @pytest.mark.parametrize("value", NOT_NUMBERS)
    def test_not_a_number(self, name, value):
        if value is None and name in ("arrivals_per_day", "days"):
            return
        with pytest.raises(sl.Invalid, match=rf"LiveOptions\.{name} must be a finite number, got"):
            sl.LiveOptions(**{name: value})

    @pytest.mark.parametrize("name", ["open_replications", "batch"])
    @pytest.mark.parametrize("value", [0, -1, 1.0, "1", True, math.nan, 1 << 41])
    def test_not_a_whole_number(self, name, value):
        with pytest.raises(
            sl.Invalid, match=rf"LiveOptions\.{name} must be a whole number from 1 to 2\^40, got"
        ):
            sl.LiveOptions(**{name: value})
        if name == "batch":
            with pytest.raises(
                sl.Invalid, match=r"LiveOptions\.batch must be a whole number from 1 to 2\^40, got"
            ):
                sl.LiveOptions(batch={"ucb": value})

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (
                {"order": "lock-step"},
                "unknown LiveOptions.order 'lock-step'; did you mean 'lockstep'? known: ",
            ),
            ({"order": ["phase"]}, "unknown LiveOptions.order ['phase']; "),
            ({"exposure": None}, "unknown LiveOptions.exposure None; known: implicit, explicit"),
            ({"lease_seconds": 0}, "LiveOptions.lease_seconds must be > 0"),
            ({"lease_seconds": 1e9}, "LiveOptions.lease_seconds must be <= "),
            ({"traffic_share": 0}, "LiveOptions.traffic_share must be > 0"),
            ({"traffic_share": 1.01}, "LiveOptions.traffic_share must be <= 1"),
            ({"audit_share": -0.1}, "LiveOptions.audit_share must be >= 0"),
            ({"audit_share": 1.1}, "LiveOptions.audit_share must be <= 1"),
            ({"arrivals_per_day": 0}, "LiveOptions.arrivals_per_day must be > 0"),
            ({"days": -3}, "LiveOptions.days must be > 0"),
            ({"aa": 1}, "LiveOptions.aa must be true or false, got 1"),
            ({"aa": None}, "LiveOptions.aa must be true or false, got None"),
            ({"reward": 3}, "LiveOptions.reward must be a Reward, got 3"),
            ({"reward": None}, "LiveOptions.reward must be a Reward, got None"),
            ({"reward": {"default": 2, "max": 1}}, "Reward.default must lie between"),
            (
                {"reward": {"defualt": 2}},
                "unknown field 'defualt' in reward; did you mean 'default'?",
            ),
        ],
    )
    def test_refused(self, values, message):
        with pytest.raises(sl.Invalid) as caught:
            sl.LiveOptions(**values)
        assert message in str(caught.value)

    def test_cannot_be_changed(self):
        with pytest.raises(AttributeError):
            sl.LiveOptions().order = "phase"


class TestPlainForm:
    @pytest.mark.parametrize(
        "live",
        [
            sl.LiveOptions(),
            sl.LiveOptions(
                fallback="old",
                reward=sl.Reward(min=0, max=5, default=1, window_seconds=9.5),
                exposure="explicit",
                lease_seconds=30,
                order="phase",
                open_replications=3,
                traffic_share=0.25,
                batch={"ucb": 4},
                audit_share=0.1,
                aa=True,
                arrivals_per_day=100,
                days=30,
            ),
        ],
    )
    def test_json_and_back(self, live):
        assert sl.LiveOptions.from_dict(json.loads(json.dumps(live.to_dict()))) == live

    def test_numbers_of_any_kind(self, start):
        live = sl.LiveOptions(
            reward=sl.Reward(min=np.int64(0), default=Fraction(1, 2), window_seconds=np.float32(8)),
            traffic_share=np.float32(0.5),
        )
        assert json.loads(json.dumps(live.to_dict()))["reward"]["default"] == 0.5
        assert start(live).options == live

    def test_a_mapping_will_do(self, start):
        argument = {"order": "phase", "reward": {"window_seconds": 5}}
        assert start(argument).options == sl.LiveOptions(
            order="phase", reward=sl.Reward(window_seconds=5)
        )

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"ordre": "phase"}, "unknown field 'ordre' in options; did you mean 'order'?"),
            ({"W": 3}, "unknown field 'W' in options; known: fallback, reward"),
            ({7: 3}, "unknown field 7 in options"),
            ([], "options must be an object, got []"),
            ("phase", "options must be an object, got 'phase'"),
            (0, "options must be an object, got 0"),
        ],
    )
    def test_refused(self, start, values, message):
        with pytest.raises(sl.Invalid) as caught:
            start(values)
        assert message in str(caught.value)

    def test_what_was_chosen_is_kept(self, store):
        live = sl.LiveOptions(order="phase", batch={"ucb": 2}, fallback="1")
        experiment = sl.Experiment(policies=TWO, arms=3, horizon=5, replications=4)
        started = store.start("kept", experiment, options=live)
        loaded = store.load("kept")
        assert loaded.options == started.options == live
        assert loaded.experiment == started.experiment
        assert loaded.started_at == started.started_at


class TestFit:
    @pytest.mark.parametrize("given", ["old", 1, "1"])
    def test_fallback_by_name_or_number(self, start, given):
        names = ("new", "old", "1") if given == "1" else ("new", "old")
        live = start(sl.LiveOptions(fallback=given), arms=names)
        live.pause()
        assert live.assign("ann").arm == ("1" if given == "1" else "old")

    @pytest.mark.parametrize("given", ["odl", 2, -1, True, 1.0, ["old"]])
    def test_fallback_that_is_no_arm(self, start, given):
        with pytest.raises(
            sl.Invalid, match=r"LiveOptions\.fallback .* is not an arm; .*known: new, old"
        ):
            start(sl.LiveOptions(fallback=given), arms=("new", "old"))

    def test_near_miss_of_a_fallback(self, start):
        with pytest.raises(sl.Invalid, match=r"did you mean 'old'\?"):
            start(sl.LiveOptions(fallback="odl"), arms=("new", "old"))

    def test_more_open_replications_than_there_are(self, start):
        with pytest.raises(sl.Invalid, match=r"open_replications is 5, but the experiment has 4"):
            start(sl.LiveOptions(open_replications=5))

    def test_as_many_open_as_make_sense(self, start):
        assert start().status().opened == 4

    def test_time_coupled_is_for_simulation(self, start):
        with pytest.raises(
            sl.Invalid, match=r"time_coupled is for simulation; live use Replay\(\)"
        ):
            start(design="time_coupled")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"arms": MAX_ARMS + 1}, "at most 10,000 arms, got 10,001"),
            (
                {"policies": {str(n): "uniform" for n in range(MAX_POLICIES + 1)}},
                "at most 100 policies, got 101",
            ),
            ({"horizon": MAX_PERIODS + 1}, "at most 10,000,000 periods, got 10,000,001"),
            ({"replications": MAX_REPLICATIONS + 1}, "at most 1,000,000 replications"),
        ],
    )
    def test_too_large(self, start, changes, message):
        with pytest.raises(sl.Invalid) as caught:
            start(sl.LiveOptions(reward=SECOND), **changes)
        assert message in str(caught.value)

    @pytest.mark.parametrize(
        ("live", "changes"),
        [
            (sl.LiveOptions(open_replications=2_000), {"arms": 10_000, "replications": 2_000}),
            (sl.LiveOptions(batch=1 << 40), {"arms": 1_000, "horizon": 100_000}),
        ],
    )
    def test_too_much_to_remember(self, start, live, changes):
        with pytest.raises(sl.Invalid, match="need too much memory; open fewer replications"):
            start(live, **changes)

    @pytest.mark.parametrize(
        "reward", [sl.Reward(default=0.5), sl.Reward(max=2), sl.Reward(min=-1), sl.Reward(max=0.5)]
    )
    @pytest.mark.parametrize("rule", ["thompson_bernoulli", "batched(thompson_bernoulli, size=2)"])
    def test_policies_that_count_successes(self, start, reward, rule):
        with pytest.raises(sl.Invalid, match=r"'beta' .* needs rewards 0 and 1; set Reward\(min=0"):
            start(sl.LiveOptions(reward=reward), policies={"beta": rule})

    def test_an_experiment_is_needed(self, store):
        for argument in (None, {}, "ucb1", sl.Experiment):
            with pytest.raises(sl.Invalid, match="start needs an Experiment, got"):
                store.start("nothing", argument)

    def test_nothing_is_left_of_what_was_refused(self, start, store):
        before = store.names()
        with pytest.raises(sl.Invalid):
            start(sl.LiveOptions(fallback="nobody"))
        assert store.names() == before


class TestBatch:
    def test_for_all(self, start):
        policies = start(sl.LiveOptions(batch=3)).experiment.policies
        assert policies == {n: sl.Batched(policy, 3) for n, policy in plain(TWO).items()}

    def test_by_name(self, start):
        policies = start(sl.LiveOptions(batch={"ucb": 2})).experiment.policies
        assert policies == {**plain(TWO), "ucb": sl.Batched(sl.UCB1(), 2)}

    def test_of_one_changes_nothing(self, start):
        assert start(sl.LiveOptions(batch=1)).experiment.policies == plain(TWO)

    @pytest.mark.parametrize("name", ["UCB", "ucb1", 1, ""])
    def test_of_no_unit(self, start, name):
        with pytest.raises(sl.Invalid, match=r"LiveOptions\.batch names .*known: ucb, uniform"):
            start(sl.LiveOptions(batch={name: 2}))

    def test_twice(self, start):
        twice = {"ucb": "batched(ucb1, size=2)"}
        with pytest.raises(sl.Invalid, match="is batched already; leave it out of batch"):
            start(sl.LiveOptions(batch=2), policies=twice)
        assert start(sl.LiveOptions(batch=1), policies=twice).experiment.policies == plain(twice)

    def test_larger_than_the_horizon(self, start):
        live = start(sl.LiveOptions(batch=1_000), policies={"ucb": "ucb1"}, replications=1)
        assert sum(live.assign(n).enrolled for n in range(8)) == 5


def plain(policies):
    return sl.Experiment(policies=policies, arms=3, horizon=1, replications=1).policies


DAY = 86_400.0


class TestFeasibility:
    """A replication is a chain of batches, each of which may take a whole window."""

    def test_a_plan_that_can_finish_says_nothing(self, start):
        start(sl.LiveOptions(arrivals_per_day=1_000, days=30))

    def test_longer_than_two_years_is_warned_about(self, start):
        daily = sl.LiveOptions(reward=sl.Reward(window_seconds=DAY))
        with pytest.warns(
            UserWarning, match=r"of 800 periods in batches of 1 takes 800 days; shor"
        ):
            start(daily, horizon=800)

    def test_larger_batches_help(self, start):
        start(sl.LiveOptions(reward=sl.Reward(window_seconds=DAY), batch=2), horizon=800)

    def test_the_smallest_batch_counts(self, start):
        options = sl.LiveOptions(reward=sl.Reward(window_seconds=DAY), batch={"ucb": 100})
        with pytest.warns(UserWarning, match="in batches of 1 takes 800 days"):
            start(options, horizon=800)

    def test_batches_of_external_policies_count(self, store):
        made = {"mine": lambda _: Fixed()}
        experiment = sl.Experiment(
            policies={"a": sl.External("mine", batch=100)}, arms=2, horizon=800, replications=1
        )
        live = sl.LiveOptions(reward=sl.Reward(window_seconds=DAY))
        store.start("external", experiment, options=live, makers=made)

    @pytest.mark.parametrize(
        "live", [sl.LiveOptions(reward=sl.Reward(window_seconds=DAY)), sl.LiveOptions(days=1)]
    )
    def test_beyond_any_sense_is_refused(self, start, live):
        with pytest.raises(sl.Invalid, match="shorten the window, enlarge the batches, or lower"):
            start(live, horizon=40_000)

    def test_more_users_than_will_come_is_refused(self, start):
        """5 periods x 4 replications = 20 users, or 40 if each policy meets its own."""
        with pytest.raises(
            sl.Invalid, match=r"at least 20 users, .* 10 days, but LiveOptions\.days is 9"
        ):
            start(sl.LiveOptions(arrivals_per_day=2, days=9, reward=SECOND))
        with pytest.raises(
            sl.Invalid, match=r"at least 40 users, .* 20 days, but LiveOptions\.days is 10"
        ):
            start(sl.LiveOptions(arrivals_per_day=2, days=10, reward=SECOND), design="naive")
        start(sl.LiveOptions(arrivals_per_day=2, days=10, reward=SECOND))

    def test_the_traffic_share_counts(self, start):
        with pytest.raises(
            sl.Invalid, match=r"at 1 per day is 20 days, but LiveOptions\.days is 10"
        ):
            start(sl.LiveOptions(arrivals_per_day=2, days=10, traffic_share=0.5, reward=SECOND))

    def test_few_users_are_warned_about(self, start):
        with pytest.warns(UserWarning, match=r"which at 0\.02 per day is 1,000 days; choose fewer"):
            start(sl.LiveOptions(arrivals_per_day=0.02, reward=SECOND))

    def test_hardly_any_users_are_refused(self, start):
        with pytest.raises(sl.Invalid, match=r"200,000 days; choose fewer replications"):
            start(sl.LiveOptions(arrivals_per_day=0.0001, reward=SECOND))

    def test_the_warning_names_the_experiment_and_the_callers_line(self, store):
        experiment = sl.Experiment(policies=TWO, arms=2, horizon=800, replications=1)
        with pytest.warns(UserWarning, match="experiment 'long': ") as caught:
            store.start(
                "long", experiment, options=sl.LiveOptions(reward=sl.Reward(window_seconds=DAY))
            )
        assert caught[0].filename == __file__


class Fixed:
    def select(self):
        return 0

    def update(self, arm, reward):
        pass
