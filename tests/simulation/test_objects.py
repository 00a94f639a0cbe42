"""Policies that are Python objects in `simulate` and `trace`: the same bits as compiled ones, live and everywhere."""

import itertools
import logging
import math
import multiprocessing
import os
import random
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

import cases
import sameluck as sl
from nonempty import nonempty
from sameluck.policies.external import object_seed
from sameluck.randomness.streams import DECISION, owner_of, stream, word
from sameluck.simulation import workers
from sameluck.simulation.rewards import reward_at
from sameluck.simulation.runners import object_runner
from sameluck.simulation.runners.object_runner import ObjectRunner

ARMS = 3
BERNOULLI = sl.Bernoulli((0.6, 0.5, 0.4))
ARRAYS = ("checkpoints", "rewards", "pulls", "interactions")


class Bound:
    """UCB1(2), written as an object."""

    def __init__(self, seed):
        self.pulls, self.totals = [0] * ARMS, [0.0] * ARMS

    def select(self, period):
        if period <= ARMS:
            return period - 1
        growth = math.sqrt(math.log(period - 1))
        bounds = [
            total / pulled + growth * math.sqrt(2 / pulled) if pulled else math.inf
            for total, pulled in zip(self.totals, self.pulls, strict=True)
        ]
        return bounds.index(max(bounds))

    def update(self, arm, reward):
        self.pulls[arm] += 1
        self.totals[arm] += reward


class Greedy:
    """Randomised by its seed; in river's words, with NumPy's numbers."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.best, self.most = 0, -math.inf

    def pull(self, arms):
        explores = self.chance.random() < 0.3
        arm = self.chance.choice(arms) if explores else self.best
        arms.clear()
        return np.int64(arm)

    def update(self, arm, reward):
        if reward >= self.most:
            self.best, self.most = arm, reward


MAKERS = {"bound": Bound, "greedy": Greedy}
POLICIES = {
    "ucb": sl.UCB1(),
    "bound": sl.External("bound"),
    "greedy": sl.External("greedy", batch=4),
}


def experiment_with(policies=POLICIES, **changes):
    usual = {"arms": ARMS, "horizon": 60, "replications": 7, "seed": 3}
    return sl.Experiment(**{"policies": policies, **usual, **changes})


def alone(make, **changes):
    """An experiment with one object, and its maker."""
    return experiment_with({"mine": sl.External("mine")}, **changes), {"mine": make}


def assert_same(one, other, names=ARRAYS):
    for name in names:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.fixture
def forked(monkeypatch):
    """However little there is to do, it is done in processes."""
    monkeypatch.setattr(workers, "_MIN_FORK_SECONDS", 0.0)


class TestSameLuck:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("design", "environment"),
        [
            *((design, BERNOULLI) for design in cases.ALL_DESIGNS),
            (sl.Replay(), sl.GaussianPrior()),
        ],
        ids=cases.name,
    )
    def test_ucb1_as_an_object_is_ucb1(self, design, environment):
        compiled = {"ucb": sl.UCB1(), "batched": sl.Batched(sl.UCB1(), 7), "any": sl.Uniform()}
        objects = {"ucb": sl.External("bound"), "batched": sl.External("bound", batch=7)}
        experiment = experiment_with(compiled, design=design, horizon=1_500)
        options = {"checkpoints": [1, 5, 700, 1_500]}
        expected = sl.simulate(experiment, environment, **options)
        experiment = experiment.replace(policies=compiled | objects)
        runs = sl.simulate(experiment, environment, makers={"bound": Bound}, **options)

        assert_same(runs, expected, (*ARRAYS, "totals"))

    def test_a_function_of_the_past_needs_no_object(self):
        """It gets the arms it has played and their rewards; without state, one function may be returned to all."""

        def bound(arms, rewards):
            written = Bound(0)
            for arm, reward in zip(arms, rewards, strict=True):
                written.update(arm, reward)
            return written.select(len(arms) + 1)

        experiment = experiment_with({"ucb": sl.UCB1(), "it": sl.External("it")})
        objects = experiment_with({"ucb": sl.UCB1(), "it": sl.External("bound")})
        runs = sl.simulate(experiment, BERNOULLI, makers={"it": lambda _: bound}, workers=1)
        assert_same(runs, sl.simulate(objects, BERNOULLI, makers={"bound": Bound}, workers=1))

    def test_a_function_with_state_outside_is_refused(self):
        calls = itertools.count()
        experiment, makers = alone(lambda _: lambda arms, rewards: next(calls) % ARMS)
        with pytest.raises(sl.Invalid, match="not deterministic"):
            sl.simulate(experiment, BERNOULLI, makers=makers)

    def test_a_trace_is_the_compiled_one(self):
        for design in nonempty(cases.ALL_DESIGNS):
            experiment = experiment_with({"b": sl.Uniform(), "a": sl.UCB1()}, design=design)
            objects = experiment.replace(policies={"b": sl.Uniform(), "a": sl.External("bound")})
            compiled = sl.trace(experiment, BERNOULLI, 2)
            traced = sl.trace(objects, BERNOULLI, 2, makers={"bound": Bound}, guard=True)
            for ours, theirs in nonempty(zip(traced["a"], compiled["a"], strict=True)):
                np.testing.assert_array_equal(ours, theirs)

    def test_the_seed_is_the_first_number_of_the_decision_noise(self):
        seeds = []

        def make(seed):
            seeds.append(seed)
            return Bound(seed)

        experiment, makers = alone(make)
        sl.simulate(experiment, BERNOULLI, makers=makers, workers=1, check=False)
        owner = np.uint64(owner_of("mine"))
        expected = [int(word(stream(np.uint64(3), DECISION, r, owner), 0)) for r in range(7)]
        assert seeds == expected
        assert object_seed(3, 6, owner_of("mine")) == expected[-1]

    def test_objects_that_share_noise_and_rewards_do_the_same(self):
        twins = {"a": sl.External("greedy"), "b": sl.External("greedy")}
        experiment = experiment_with(twins, design=sl.Replay(share_noise=True))
        runs = sl.simulate(experiment, BERNOULLI, makers={"greedy": Greedy})
        assert (runs.rewards[:, 0] == runs.rewards[:, 1]).all()
        apart = sl.simulate(
            experiment.replace(design="replay"), BERNOULLI, makers={"greedy": Greedy}
        )
        assert (apart.pulls[:, 0] != apart.pulls[:, 1]).any()

    def test_many_arms_and_long_runs(self):
        """Blocks of rewards end at 32, 96, 224 ... positions of an arm."""

        class InTurn:
            def __init__(self, seed):
                self.sums = 0.0

            def select(self, period):
                return period % 2 if period % 3 else period % 40

            def update(self, arm, reward):
                self.sums += reward

        for design in ("replay", "time_coupled"):
            experiment, makers = alone(
                InTurn, arms=40, horizon=6_000, replications=1, design=design
            )
            environment = sl.Gaussian(tuple(range(40)))
            traced = sl.trace(experiment, environment, makers=makers)["mine"]
            for period in (1, 31, 32, 33, 500, 3_333, 5_999):
                arm, position = int(traced.arms[period]), int(traced.positions[period])
                expected = reward_at(experiment, environment, 0, "mine", arm, position)
                assert traced.rewards[period] == expected


class Poor(NamedTuple):
    means: tuple = (1.0, 2.0, 3.0)


class TestAnyWay:
    @pytest.mark.slow
    @pytest.mark.parametrize("design", ["replay", "time_coupled"])
    def test_of_running_gives_the_same_bits(self, forked, design):
        experiment = experiment_with(design=design)
        call = {"checkpoints": [7, 60], "makers": MAKERS}
        names = (*ARRAYS, "totals")
        expected = sl.simulate(experiment, sl.BernoulliPrior(), workers=1, **call)
        for count in (2, 5):
            runs = sl.simulate(experiment, sl.BernoulliPrior(), workers=count, **call)
            assert_same(runs, expected, names)
        with ThreadPoolExecutor(2) as pool:
            runs = sl.simulate(experiment, sl.BernoulliPrior(), map=pool.map, **call)
        assert_same(runs, expected, names)
        parts = [
            sl.simulate(experiment, sl.BernoulliPrior(), replications=range(*part), **call)
            for part in ((0, 3), (3, 7))
        ]
        assert_same(sl.Runs.concat(parts), expected, names)

    def test_runs_are_saved_and_loaded(self, tmp_path):
        runs = sl.simulate(experiment_with(), BERNOULLI, makers=MAKERS)
        runs.save(tmp_path / "runs.npz")
        assert sl.Runs.load(tmp_path / "runs.npz").experiment == runs.experiment
        assert "bound" in str(sl.compare(runs))

    @pytest.mark.slow
    def test_another_process_gives_the_same_bits(self):
        expected = sl.simulate(experiment_with(), BERNOULLI, makers=MAKERS, workers=1)
        spawn = multiprocessing.get_context("spawn")
        local = {**MAKERS, "bound": doing(lambda _: 0)}
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            with pytest.raises(sl.Invalid, match=r"cannot be sent .* top level of a module"):
                sl.simulate(experiment_with(), BERNOULLI, makers=local, map=pool.map)
            runs = sl.simulate(experiment_with(), BERNOULLI, makers=MAKERS, map=pool.map)
        assert_same(runs, expected)

    def test_results_in_any_order(self):
        def backwards(function, tasks):
            return [function(task) for task in reversed(tasks)]

        def forgetful(function, tasks):
            return [function(task) for task in tasks[1:]]

        expected = sl.simulate(experiment_with(), BERNOULLI, makers=MAKERS)
        assert_same(
            sl.simulate(experiment_with(), BERNOULLI, makers=MAKERS, map=backwards), expected
        )
        with pytest.raises(sl.Invalid, match=r"map returned no result for 1 of \d+ tasks"):
            sl.simulate(experiment_with(), BERNOULLI, makers=MAKERS, map=forgetful)

    def test_progress_counts_up_to_everything(self, forked):
        calls = []
        experiment = experiment_with()
        sl.simulate(
            experiment,
            BERNOULLI,
            makers=MAKERS,
            workers=2,
            progress=lambda *call: calls.append(call),
        )
        assert [done for done, _ in calls] == sorted({done for done, _ in calls})
        assert calls[-1] == (21, 21)

    @pytest.mark.slow
    def test_an_environment_of_ones_own(self):
        sl.draws(Poor)(lambda parameters, row, arm, bits: parameters.means[arm])
        experiment, makers = alone(Bound, replications=2)
        runs = sl.simulate(experiment, Poor(), makers=makers)
        assert (runs.rewards[:, 0, 0] == (runs.pulls[:, 0, 0] * (1, 2, 3)).sum(axis=-1)).all()

        def broken(parameters, row, arm, bits):
            return parameters.means[arm + 7]

        sl.draws(Poor)(broken)
        for check in (True, False):
            with pytest.raises(sl.Invalid, match=r"environment Poor cannot be run.*\(line \d+\)"):
                sl.simulate(experiment, Poor(), makers=makers, check=check)
        sl.draws(Poor)(lambda parameters, row, arm, bits: parameters.means[arm] / 0.0)
        with pytest.raises(sl.Invalid, match="environment Poor gave a reward that is not a finite"):
            sl.simulate(experiment, Poor(), makers=makers, check=False)

    @pytest.mark.slow
    def test_inference_takes_makers(self):
        """UCB1 as an object is planned, raced and compared as UCB1 is; the maker of a third policy is not used."""
        objects = {"any": "uniform", "ucb": sl.External("bound"), "third": sl.External("greedy")}
        experiment = experiment_with(objects, replications=10)
        compiled = experiment.replace(policies={**objects, "ucb": sl.UCB1()})
        for function, options in (
            (sl.plan, {"effect": 5, "power": 0.8, "pilot": 20}),
            (sl.coverage, {"experiments": 10}),
            (sl.designs, {}),
        ):
            ours = function(experiment, BERNOULLI, makers=MAKERS, **options)
            theirs = function(compiled, BERNOULLI, makers={"greedy": Greedy}, **options)
            assert getattr(ours, "rows", ours) == getattr(theirs, "rows", theirs)
        options = {"tolerance": 20, "horizon": 60, "failures": 1, "max_replications": 40}
        ours = sl.race(objects, BERNOULLI, makers=MAKERS, **options)
        theirs = sl.race(compiled.policies, BERNOULLI, makers={"greedy": Greedy}, **options)
        assert ours.runners == theirs.runners
        for function, options in (
            (sl.plan, {"effect": 5, "power": 0.8}),
            (sl.coverage, {}),
            (sl.designs, {}),
            (lambda e, env, **more: sl.race(e.policies, env, tolerance=1, **more), {}),
        ):
            with pytest.raises(sl.Invalid, match="makers has 'more', but no policy"):
                function(experiment, BERNOULLI, makers={**MAKERS, "more": Bound}, **options)
            with pytest.raises(sl.Invalid, match="makers must map names"):
                function(experiment, BERNOULLI, makers=3, **options)


def doing(choose, update=lambda *_: None, start=lambda _: None):
    """A maker of objects that do what the functions say."""

    class Doing:
        def __init__(self, seed):
            self.seed, self.state = seed, start(seed)

        def select(self, period):
            return choose(period)

        def update(self, arm, reward):
            return update(arm, reward)

    return Doing


def failing(*_):
    raise RuntimeError("no idea")


class TestRefused:
    def run(self, make, **options):
        experiment, makers = alone(make)
        return sl.simulate(experiment, BERNOULLI, makers=makers, **options)

    @pytest.mark.parametrize(
        ("makers", "message"),
        [
            (
                None,
                r"'mine' is external\('mine'\); pass makers={'mine': make} .*no makers were passed",
            ),
            (
                {"Mine": Bound},
                r"makers has 'Mine', but no policy is external\('Mine'\).*known: mine",
            ),
            ({"mine": Bound, "x": Bound}, r"makers has 'x'.*leave it out or add the policy"),
            ({"mine": 7}, "the maker 'mine' must be a function of a seed, got 7"),
            (7, "makers must map names to functions of a seed, got 7"),
        ],
    )
    def test_makers(self, makers, message):
        experiment, _ = alone(Bound)
        calls = (
            lambda: sl.simulate(experiment, BERNOULLI, makers=makers),
            lambda: sl.trace(experiment, BERNOULLI, makers=makers),
        )
        for call in calls:
            with pytest.raises(sl.Invalid, match=message):
                call()

    def test_makers_without_an_external_policy(self):
        with pytest.raises(sl.Invalid, match=r"makers has 'mine'.*no policy is external"):
            sl.simulate(experiment_with({"a": "ucb1"}), BERNOULLI, makers={"mine": Bound})

    @pytest.mark.parametrize("check", [True, False])
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Bound(1), "'mine': its maker failed: .* positional argument"),
            (failing, "'mine': its maker failed: RuntimeError: no idea"),
            (lambda _: None, r"'mine': NoneType has neither select\(period\) nor pull\(arms\)"),
            (
                doing(lambda _: 3),
                "chose 3 in period 1( of replication 0)?; it must return an arm's index, 0 to 2",
            ),
            (doing(lambda _: -1), "chose -1 in period 1"),
            (doing(lambda _: 1.0), "chose 1.0 in period 1"),
            (doing(lambda _: np.float64(1)), r"chose np.float64\(1.0\)"),
            (doing(lambda _: None), "chose None in period 1"),
            (doing(lambda _: [0]), r"chose \[0\] in period 1"),
            (doing(lambda p: failing() if p > 2 else 0), "failed in period 3.*RuntimeError: no i"),
            (doing(lambda _: 0, failing), r"failed in update\(0, [01].0\).*RuntimeError: no idea"),
        ],
    )
    def test_faults(self, make, message, check):
        with pytest.raises(sl.Invalid, match=message):
            self.run(make, check=check, workers=1)

    @pytest.mark.parametrize("arm", [True, np.True_ + 0, np.int8(1), np.uint64(1), np.array(1)])
    def test_whatever_is_an_index_is_an_arm(self, arm):
        told = []
        runs = self.run(doing(lambda _: arm, lambda arm, _: told.append(arm)), workers=1)
        assert (runs.pulls[:, 0, 0] == (0, 60, 0)).all()
        assert {type(one) for one in told} == {int}

    def test_chance_from_elsewhere(self):
        """With 3 arms at random, two objects agree for 60 periods with probability 3^-60."""
        with pytest.raises(sl.Invalid, match=r"'mine' is not deterministic: .*Derive all random"):
            self.run(doing(lambda _: random.randrange(3)))
        with pytest.raises(sl.Invalid, match="is not deterministic"):
            self.run(doing(lambda _: random.randrange(3), start=random.seed))

    def test_state_that_outlives_a_replication(self):
        seen = []
        with pytest.raises(sl.Invalid, match=r"something outlives a replication. Keep all state"):
            self.run(doing(lambda _: int(len(seen) > 150), lambda *_: seen.append(1)))

    def test_a_maker_of_one_object(self):
        one = Bound(0)
        with pytest.raises(sl.Invalid, match=r"returned the same object twice; .* a new object"):
            self.run(lambda _: one)

    def test_late_chance_is_found_by_the_guard(self):
        counter = itertools.count()
        late = doing(lambda period: next(counter) % 2 if period > 250 else 0)
        experiment, makers = alone(late, horizon=300)
        assert sl.trace(experiment, BERNOULLI, makers=makers)["mine"].arms[:250].sum() == 0
        with pytest.raises(sl.Invalid, match=r"is not deterministic: .* in period 251"):
            sl.trace(experiment, BERNOULLI, makers=makers, guard=True)

    def test_a_batch_is_a_parameter_of_external(self):
        with pytest.raises(sl.Invalid, match=r"write External\('mine', batch=5\)"):
            experiment_with({"a": sl.Batched(sl.External("mine"), 5)})

    def test_once_checked_a_maker_is_not_checked_again(self):
        made = []

        def make(seed):
            made.append(seed)
            return Bound(seed)

        experiment, makers = alone(make, replications=2)
        counts = []
        for changes in ({}, {}, {"horizon": 61}):
            made.clear()
            sl.simulate(experiment.replace(**changes), BERNOULLI, makers=makers, workers=1)
            counts.append(len(made))
        assert counts == [6, 2, 6]

    def test_the_check_of_a_slow_object_is_short(self):
        periods = []
        slow = doing(lambda period: periods.append(period) or time.sleep(0.02) or 0)
        experiment, makers = alone(slow, horizon=1_000)
        runner = ObjectRunner(experiment, BERNOULLI, "mine", makers["mine"])
        seconds = object_runner.check_object(runner)
        assert len(periods) < 500
        assert seconds >= 0.02


class TestProcesses:
    """Forked processes: faults, ends and Ctrl-C."""

    def run(self, make, **options):
        experiment, makers = alone(make)
        options = {"workers": 2, "check": False} | options
        return sl.simulate(experiment, BERNOULLI, makers=makers, **options)

    def test_an_error_arrives_with_its_traceback(self, forked):
        with pytest.raises(sl.Unplayable, match="failed in period 1 of replication") as caught:
            self.run(doing(failing))
        assert "in failing" in caught.value.__notes__[0]
        assert multiprocessing.active_children() == []

    def test_an_error_that_cannot_be_pickled(self, forked):
        class Local(Exception):
            pass

        def leave(*_):
            raise KeyboardInterrupt(Local())

        with pytest.raises(sl.Unplayable):
            self.run(doing(leave))

    def test_a_process_that_dies_is_an_error(self, forked):
        with pytest.raises(
            sl.Unplayable, match=r"ran mine in replications \d to \d ended with code 7.*workers=1"
        ):
            self.run(doing(lambda _: os._exit(7)))
        assert multiprocessing.active_children() == []

    @pytest.mark.slow
    def test_an_object_that_forks(self, forked):
        """The second process of the two that come back does not answer."""

        def fork(period):
            if period == 3 and os.fork() == 0:
                time.sleep(0.05)
            return 0

        runs = self.run(doing(fork))
        assert (runs.pulls[:, 0, 0, 0] == 60).all()

    @pytest.mark.slow
    def test_blocked_processes_are_given_up(self, forked, monkeypatch):
        monkeypatch.setattr("sameluck.simulation.workers._IDLE", 0.3)
        held = threading.Lock()
        held.acquire()
        with pytest.raises(sl.Unplayable, match=r"no process has run for .*workers=1"):
            self.run(doing(lambda _: held.acquire() or 0))
        assert multiprocessing.active_children() == []

    @pytest.mark.slow
    def test_sleeping_processes_are_not(self, forked, monkeypatch):
        monkeypatch.setattr("sameluck.simulation.workers._IDLE", 1.0)
        parts = {"replications": range(2)}
        runs = self.run(doing(lambda _: time.sleep(0.03) or 0), **parts)
        assert runs.replications == 2

    @pytest.mark.slow
    def test_an_interruption_ends_them(self, forked):
        def interrupt(*_):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            self.run(doing(lambda _: time.sleep(0.001) or 0), progress=interrupt)
        assert multiprocessing.active_children() == []

    def test_where_processes_cannot_be_forked(self, forked, monkeypatch, caplog):
        monkeypatch.setattr(workers, "can_fork", lambda: False)
        monkeypatch.setattr(workers, "_WARNING_SECONDS", 0.0)
        with caplog.at_level(logging.WARNING, "sameluck"):
            runs = self.run(Bound)
        assert "run in one process here" in caplog.text
        assert_same(runs, self.run(Bound, workers=1))
