"""Policies that are Python objects: played as a literal loop and `simulate` play them, and checked."""

import itertools
import json
import math
import random
from typing import NamedTuple

import numpy as np
import pytest
from contract.scenario import ENVIRONMENT, TWO, Scenario, assert_same, options, simulated

import literal
import sameluck as sl
from nonempty import nonempty
from sameluck.live.databases.rows import HistoryRow
from sameluck.policies.external import makers_for
from sameluck.randomness.streams import ALL_POLICIES, DECISION, owner_of, stream, word


class Bound:
    """Upper confidence bounds; `select` takes the period."""

    def __init__(self, _):
        self.pulls, self.totals = [0] * 3, [0.0] * 3

    def select(self, period):
        def bound(arm):
            if self.pulls[arm] == 0:
                return math.inf
            mean = self.totals[arm] / self.pulls[arm]
            return mean + math.sqrt(2 * math.log(period) / self.pulls[arm])

        return max(range(3), key=bound)

    def update(self, arm, reward):
        self.pulls[arm] += 1
        self.totals[arm] += reward


class Randomised:
    """All its randomness comes from the seed; `select` takes no period and returns NumPy's numbers."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.best, self.least = 0, -math.inf

    def select(self):
        return np.int64(self.chance.randrange(3) if self.chance.random() < 0.5 else self.best)

    def update(self, arm, reward):
        if reward > self.least:
            self.best, self.least = arm, reward


class Pulling(Randomised):
    """In river's words; does as it likes with the list of arms."""

    select = None

    def pull(self, arms):
        assert arms == [0, 1, 2]
        arm = Randomised.select(self)
        arms.clear()
        return arm


MAKERS = {"bound": Bound, "randomised": Randomised, "pulling": Pulling}
ALL = {"a": sl.External("bound"), "b": sl.External("randomised"), "c": sl.External("pulling")}


@pytest.fixture
def scenario(tmp_path):
    url = f"sqlite:///{tmp_path}/ledger.db?synchronous=normal"
    opened = Scenario(lambda clock: sl.open(url, clock=clock))
    yield opened
    opened.close()


class Played(NamedTuple):
    arms: list
    rewards: list


def by_hand(experiment, name, replication, makers=MAKERS):
    """One external policy through one replication, as one would write it down."""
    seed, policy = np.uint64(experiment.seed), experiment.policies[name]
    alone = isinstance(experiment.design, sl.Naive)
    users = literal.RealUsers(
        experiment, ENVIRONMENT, replication, owner_of(name) if alone else ALL_POLICIES
    )
    made = makers[policy.name](
        int(word(stream(seed, DECISION, replication, np.uint64(owner_of(name))), 0))
    )
    arms, rewards = [], []
    while len(arms) < experiment.horizon:
        batch = []
        for _ in range(min(policy.batch, experiment.horizon - len(arms))):
            period = len(arms) + len(batch) + 1
            if isinstance(made, Pulling):
                batch.append(int(made.pull([0, 1, 2])))
            elif isinstance(made, Randomised):
                batch.append(int(made.select()))
            else:
                batch.append(int(made.select(period)))
        for arm in batch:
            reward = users.pull(arm)
            made.update(arm, reward)
            arms.append(arm)
            rewards.append(reward)
    return Played(arms, rewards)


def assert_by_hand(live, names, makers=MAKERS):
    """The live experiment is over and did what the literal loop does."""
    assert live.status().status == "complete"
    for replication in range(live.experiment.replications):
        trace = live.trace(replication)
        for name in names:
            expected = by_hand(live.experiment, name, replication, makers)
            assert trace[name].arms.tolist() == expected.arms
            assert trace[name].rewards.tolist() == expected.rewards
    pulls = live.runs().pulls[:, :, -1]
    alone = isinstance(live.experiment.design, sl.Naive)
    users = pulls.sum() if alone else pulls.max(axis=1).sum()
    assert live.status().users == users
    assert live.verify() == live.experiment.replications
    external = {name: live.experiment.policies[name] for name in names}
    experiment, used = live.experiment.replace(policies=external), makers_for(external, makers)
    expected = sl.simulate(experiment, ENVIRONMENT, makers=used, workers=1)
    assert_same(live.runs(policies=list(external)), expected)


class TestPlay:
    @pytest.mark.slow
    @pytest.mark.parametrize("order", ["lockstep", "phase"])
    @pytest.mark.parametrize("design", ["replay", "naive"])
    @pytest.mark.parametrize("batch", [1, 3, 100])
    def test_as_a_literal_loop_does(self, scenario, design, order, batch):
        live = scenario.start(
            ALL, makers=MAKERS, design=design, horizon=10, options=options(order=order, batch=batch)
        )
        scenario.finish(live)
        assert_by_hand(live, ALL)

    def test_batches_of_their_own(self, scenario):
        policies = {"a": sl.External("bound", batch=4), "b": 'external("randomised", batch=2)'}
        live = scenario.start(policies, makers=MAKERS, horizon=10)
        scenario.finish(live)
        assert_by_hand(live, policies)

    @pytest.mark.slow
    @pytest.mark.parametrize("design", ["replay", "naive"])
    def test_beside_compiled_ones(self, scenario, design):
        live = scenario.start({**TWO, **ALL}, makers=MAKERS, design=design)
        scenario.finish(live)
        assert_by_hand(live, ALL)
        compiled = simulated(live.experiment.replace(policies=TWO))
        assert_same(live.runs(policies=list(TWO)), compiled)

    @pytest.mark.slow
    def test_through_restarts(self, scenario):
        live = scenario.start({**TWO, **ALL}, makers=MAKERS)
        while live.status().status == "running":
            waiting = list(scenario.enrol_all(live))
            live = scenario.reopen(live, makers=MAKERS)
            for id in reversed(waiting):
                scenario.pay(live, id)
        assert_by_hand(live, ALL)

    def test_as_a_late_challenger(self, scenario):
        live = scenario.start()
        scenario.finish(live)
        live.add_policy("late", sl.External("randomised"), make=Randomised)
        live = scenario.reopen(live, makers=MAKERS)
        scenario.finish(live)
        assert_by_hand(live, ["late"])
        assert_same(live.runs(policies=list(TWO)), simulated(live.experiment.replace(policies=TWO)))

    def test_checkpoints(self, scenario):
        live = scenario.start(ALL, makers=MAKERS, horizon=10)
        scenario.finish(live)
        runs = live.runs([3, 10])
        for replication, (column, name) in nonempty(itertools.product(range(3), enumerate(ALL))):
            played = by_hand(live.experiment, name, replication)
            for index, end in enumerate([3, 10]):
                earned = 0.0
                for reward in played.rewards[:end]:
                    earned += reward
                assert runs.rewards[replication, column, index] == earned
                counts = np.bincount(played.arms[:end], minlength=3)
                assert runs.pulls[replication, column, index].tolist() == counts.tolist()

    def test_a_rehearsal_lets_all_play_the_same_object(self, scenario):
        live = scenario.start(ALL, makers=MAKERS, options=options(aa=True))
        assert set(live.experiment.policies.values()) == {sl.External("bound")}
        scenario.finish(live)
        assert_by_hand(live, ALL)


class TestMakers:
    @pytest.mark.parametrize(
        ("makers", "message"),
        [
            (
                None,
                r"'a' is external\('randomised'\); pass makers={'randomised': make} .*no makers were passed",
            ),
            ({}, "no makers were passed"),
            ({"Randomised": Randomised}, "did you mean 'Randomised'"),
            ({"randomised": None}, "pass makers="),
            ({"randomised": 7}, "the maker 'randomised' must be a function of a seed, got 7"),
            ({"randomised": Randomised(1)}, "must be a function of a seed"),
            (
                {"randomised": lambda: Randomised(1)},
                "'a': its maker failed: .* positional argument",
            ),
            (
                {"randomised": lambda _: 1 / 0},
                "'a': its maker failed: ZeroDivisionError: division by zero",
            ),
            (
                {"randomised": lambda _: None},
                "'a': NoneType has neither select.period. nor pull.arms.",
            ),
            ({"randomised": lambda _: object()}, "'a': object has neither select"),
            ({"randomised": lambda _: Deaf()}, r"'a': Deaf has no update\(arm, reward\)"),
        ],
    )
    def test_refused_at_the_start(self, scenario, makers, message):
        with pytest.raises(sl.Invalid, match=message):
            scenario.start({"a": sl.External("randomised")}, makers=makers)
        assert scenario.store.names() == []

    @pytest.mark.slow
    @pytest.mark.parametrize("makers", [None, {"randomised": 7}, {"bound": Bound}])
    def test_needed_to_load(self, scenario, makers):
        live = scenario.start({"a": sl.External("randomised")}, makers=MAKERS)
        with pytest.raises(sl.Invalid, match="randomised"):
            scenario.store.load("trial", makers=makers)
        assert live.status().status == "running"
        live = scenario.reopen(live, makers=MAKERS)
        scenario.finish(live)
        assert_by_hand(live, ["a"])

    def test_a_challenger_needs_one(self, scenario):
        live = scenario.start()
        with pytest.raises(sl.Invalid, match=r"makers={'randomised': make}"):
            live.add_policy("late", sl.External("randomised"))
        assert tuple(live.experiment.policies) == tuple(TWO)


class Deaf:
    def select(self):
        return 0


def doing(choose, update=lambda *_: None):
    """A maker of objects that do what the functions say."""

    class Doing:
        def select(self, period):
            return choose(period)

        def update(self, arm, reward):
            return update(arm, reward)

    return lambda _: Doing()


def failing(*_):
    raise RuntimeError("no idea")


class TestFaults:
    @pytest.mark.parametrize(
        ("arm", "message"),
        [
            (3, "policy 'a' chose 3 in period 1; it must return an arm's index, 0 to 2"),
            (-1, "chose -1 in period 1"),
            (10**30, "chose 1000"),
            (None, "policy 'a' chose None in period 1; it must return an arm's index"),
            (1.0, "chose 1.0 in period 1"),
            ("1", "chose '1' in period 1"),
        ],
    )
    def test_an_arm_that_is_none(self, scenario, arm, message):
        with pytest.raises(sl.Invalid, match=message):
            scenario.start({"a": sl.External("mine")}, makers={"mine": doing(lambda _: arm)})
        assert scenario.store.names() == []

    @pytest.mark.parametrize(
        ("broken", "message"),
        [
            (
                doing(lambda period: period > 2 and failing()),
                "failed in period 3: [A-Z][A-Za-z]+: no idea",
            ),
            (doing(lambda period: 7 * (period > 2)), "chose 7 in period 3"),
            (doing(lambda _: 0, failing), r"failed in update\(0, .*\): [A-Z][A-Za-z]+: no idea"),
        ],
    )
    def test_code_that_fails_loses_nothing(self, scenario, broken, message):
        """The reward is not acknowledged; once the code is mended it can be reported again."""
        live = scenario.start({"a": sl.External("mine")}, makers={"mine": broken}, replications=1)
        with pytest.raises(sl.Invalid, match=message):
            scenario.finish(live)
        settled, (waiting, value) = live.status().settled, pending(scenario, live)
        with pytest.raises(sl.Invalid, match=message):
            live.reward(waiting, value)
        assert (live.status().settled, live.status().status) == (settled, "failed")
        assert scenario.events(live, waiting) == []
        assert live.assign("anybody").reason == "NOT_RUNNING"

        mended = {"mine": doing(lambda _: 0)}
        live = scenario.reopen(live, makers=mended)
        live.resume()
        assert live.reward(waiting, value).applied
        scenario.finish(live)
        assert live.status().status == "complete"
        assert live.trace(0)["a"].arms.tolist() == [0] * 8


def pending(scenario, live):
    """The assignment that waits for its reward, and what that is."""
    rows = scenario.rows(live, HistoryRow, "history")
    ((id,),) = [
        [cell for cell in row if str(cell).startswith("asg_")]
        for row in rows
        if row[4] == "assigned"
    ]
    return id, scenario.reward_of(live, id)


class TestDeterminism:
    @pytest.fixture
    def fickle(self):
        """Made twice, it agrees with itself for two periods only."""
        counter = itertools.count()
        return {"mine": doing(lambda period: next(counter) % 2 if period > 2 else 0)}

    def test_chance_from_elsewhere_is_refused(self, scenario, fickle):
        live = scenario.start({"a": sl.External("mine")}, makers=fickle, replications=1)
        with pytest.raises(
            sl.Diverged, match=r"'a' is not deterministic: .* in period 3\. Derive all"
        ):
            scenario.finish(live)
        status = live.status()
        assert status.status == "failed"
        assert "not deterministic" in status.reason
        assert live.assign("ann").reason == "NOT_RUNNING"
        with pytest.raises(sl.Invalid, match="the experiment's status is failed"):
            live.add_policy("late", "uniform")
        waiting, value = pending(scenario, live)
        live.resume()  # what is in the ledger is as the object would do it, so far
        with pytest.raises(sl.Diverged, match="in period 3"):
            live.reward(waiting, value)
        assert live.status().status == "failed"
        assert scenario.events(live, waiting) == []

    def test_at_the_start_nothing_is_kept(self, scenario):
        counter = itertools.count()
        with pytest.raises(sl.Diverged, match="in period 1"):
            scenario.start(
                {"a": sl.External("mine")}, makers={"mine": doing(lambda _: next(counter) % 3)}
            )
        assert scenario.store.names() == []

    def test_continues_with_a_deterministic_maker(self, scenario, fickle):
        live = scenario.start({"a": sl.External("mine")}, makers=fickle, replications=1)
        with pytest.raises(sl.Diverged):
            scenario.finish(live)
        waiting, value = pending(scenario, live)

        live = scenario.reopen(live, makers={"mine": doing(lambda period: 0 if period <= 2 else 1)})
        assert live.status().status == "failed"
        live.resume()
        assert live.status()[:3] == ("trial", "running", "")
        assert live.reward(waiting, value).applied
        scenario.finish(live)
        assert live.status().status == "complete"
        assert live.trace(0)["a"].arms.tolist() == [0, 0] + [1] * 6

    def test_other_code_under_the_same_version_fails_the_experiment(self, scenario):
        """Nobody can tell which process is right."""
        live = scenario.start({"a": sl.External("mine")}, makers={"mine": versioned(lambda _: 0)})
        for _ in range(9):
            scenario.serve(live)
        with pytest.raises(
            sl.Diverged,
            match=r"replication 0: position \d of arm '0' is settled, but no policy reads it",
        ):
            scenario.reopen(live, makers={"mine": versioned(lambda period: int(period > 2))})
        assert scenario.store.peek("trial", makers=MAKERS_OF_ZERO).status().status == "failed"

        live = scenario.store.load("trial", makers=MAKERS_OF_ZERO)
        live.resume()
        scenario.finish(live)
        assert live.status().status == "complete"


def versioned(choose, version="1"):
    """A maker that declares a version."""
    make = doing(choose)
    make.version = version
    return make


MAKERS_OF_ZERO = {"mine": versioned(lambda _: 0)}


class TestDefinition:
    def test_json_and_back(self):
        experiment = sl.Experiment(
            policies={"a": sl.External("my own", batch=3)}, arms=3, horizon=8, replications=2
        )
        assert (
            json.loads(experiment.to_json())["policies"]["a"] == 'external(name="my own", batch=3)'
        )
        again = sl.Experiment.from_json(experiment.to_json())
        assert again == experiment
        assert again.policies["a"] == sl.External("my own", batch=3)

    @pytest.mark.parametrize("name", ["", "x" * 201, 7])
    def test_bad_names(self, name):
        with pytest.raises(
            sl.Invalid, match=r"External\.name must be 1 to 200 printable characters"
        ):
            sl.External(name)

    @pytest.mark.parametrize("batch", [0, -1, 1.5, True, "2", None])
    def test_bad_batches(self, batch):
        with pytest.raises(sl.Invalid, match=r"External\.batch must be a whole number from 1"):
            sl.External("x", batch)
