"""A race certifies a policy that is good enough, is rarely wrong, and can be continued."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy import stats

import budget
import sameluck as sl
from sameluck.inference.racing.race_results import Race, Runner
from sameluck.inference.racing.race_state import RaceState
from sameluck.inference.variance_ratios import variance_ratio
from sameluck.intervals import anytime_interval

FIELD = {
    "u0.2": sl.UCB1(0.2),
    "u1": sl.UCB1(1.0),
    "u3": sl.UCB1(3.0),
    "thompson": sl.ThompsonBernoulli(),
    "uniform": sl.Uniform(),
}
BERNOULLI = sl.Bernoulli((0.6, 0.5, 0.4))


def run(**changes: object) -> sl.Race:
    settings = {"tolerance": 0.5, "horizon": 300, "seed": 1, "min_replications": 5, "failures": 1}
    return sl.race(FIELD, BERNOULLI, **{**settings, **changes})


def test_the_leader_is_certified_and_the_beaten_have_left():
    race = run()
    assert race.certified
    assert race.best == race.runners[0].policy
    assert "uniform" not in race.remaining
    for runner in race.runners:
        assert runner.low <= runner.behind <= runner.high
        assert (runner.dropped_by is None) == (runner.policy in race.remaining)
        assert runner.replications <= race.replications
    assert race.policy_runs == sum(runner.replications for runner in race.runners)
    assert race.policy_runs < race.fixed_policy_runs == race.replications * 5
    assert race.users < race.naive_users
    assert race.fixed_users < race.naive_users


def test_every_policys_reward_equals_simulate():
    """Dropping a policy leaves the rewards of the others unchanged."""
    race = run()
    experiment = sl.Experiment(
        policies=FIELD, arms=3, horizon=300, replications=race.replications, seed=1
    )
    rewards = sl.simulate(experiment, BERNOULLI).rewards[:, :, 0]
    for column, name in enumerate(FIELD):
        runner = next(runner for runner in race.runners if runner.policy == name)
        assert runner.reward == pytest.approx(
            rewards[: runner.replications, column].mean(), rel=1e-12
        )


def test_every_number_of_a_race_follows_from_the_rewards_of_simulate():
    """Users, costs of the alternatives and intervals are recomputed from a simulation of all policies."""
    race = run()
    experiment = sl.Experiment(
        policies=FIELD, arms=3, horizon=300, replications=race.replications, seed=1
    )
    runs = sl.simulate(experiment, BERNOULLI)
    rewards = dict(zip(FIELD, runs.rewards[:, :, 0].T, strict=True))
    counts = {runner.policy: runner.replications for runner in race.runners}
    in_race = np.array([[row < counts[name] for name in FIELD] for row in range(race.replications)])
    users = (runs.pulls[:, :, 0] * in_race[:, :, None]).max(axis=1).sum()
    undropped = runs.interactions[: min(counts.values()), 0]
    best, second = (runner.policy for runner in race.runners[:2])
    a, b = (rewards[name][: counts[second]] for name in (best, second))
    ratio = (a.var(ddof=1) + b.var(ddof=1)) / (a - b).var(ddof=1)

    assert min(counts.values()) < race.replications
    assert ratio > 1
    assert race.users == users
    assert race.fixed_users == round(race.replications * undropped.mean())
    assert race.naive_users == math.ceil(race.replications * ratio) * 5 * 300
    costs = f"without dropping about {race.fixed_users:,} users and {race.replications * 5:,} policy runs"
    bounds = variance_ratio(a, b, race.level)[1:]
    low, high = (math.ceil(race.replications * ratio) * 5 * 300 for ratio in bounds)
    assert (race.naive_users_low, race.naive_users_high) == (low, high)
    naive = f"the naive design about {race.naive_users:,} users ({low:,} to {high:,})"
    assert f"{costs}; {naive} for the same precision." in race.verdict
    for runner in race.runners[1:]:
        other = rewards[runner.dropped_by or best][: runner.replications]
        values = other - rewards[runner.policy][: runner.replications]
        interval = anytime_interval(values, 1 - 2 * 0.05 / 4)  # one-sided, over four rivals
        assert (runner.low, runner.high) == pytest.approx((interval.low, interval.high), rel=1e-12)
        assert runner.behind == pytest.approx(values.mean(), rel=1e-12)
        assert runner.skewness == pytest.approx(stats.skew(values), rel=1e-9)
        assert (runner.low > 0) == (runner.dropped_by is not None)
    assert race.runners[0][2:6] == (0, 0, 0, 0)


def literal_race(rewards, level, tolerance, first):
    """Apply the rules of a race, replication by replication: return who was dropped by whom and when, and the end.

    Both ends of an interval are used, each at 1 - (1 - level) / (N - 1).
    """
    level, dropped, last = 1 - 2 * (1 - level) / (len(rewards) - 1), {}, len(rewards["u1"])

    def interval(policy, control, m):
        values = rewards[policy][:m] - rewards[control][:m]
        return anytime_interval(values, level) if values.std() > 0 else (-math.inf, math.inf, 1)

    for m in range(first, last + 1):
        names = [name for name in rewards if name not in dropped]
        for name in names:
            better = [other for other in names if other != name and interval(other, name, m)[0] > 0]
            if better:
                dropped[name] = max(better, key=lambda other: rewards[other][:m].mean()), m
        leader = max(names, key=lambda name: rewards[name][:m].mean())
        rivals = [name for name in names if name not in dropped and name != leader]
        if all(interval(rival, leader, m)[1] <= tolerance for rival in rivals):
            return dropped, m, True, leader
    return dropped, last, False, leader


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [0.5, 4.0])
@pytest.mark.parametrize(
    ("level", "min_replications", "failures", "first"),
    [(0.95, 5, 1, 5), (0.5, 12, 1, 12), (0.95, 5, 0.1, 29), (0.5, 5, 0.04, 17)],
)
def test_a_race_follows_its_rules_literally(tolerance, level, min_replications, failures, first):
    """40 replications in blocks of 16, three seeds; some races are certified and some are not.

    The first decision comes when failures would have been met: (1 - 0.1)^29 < 0.05 and (1 - 0.04)^17 < 0.5.
    """
    assert failures == 1 or (1 - failures) ** first <= 1 - level < (1 - failures) ** (first - 1)
    for seed in range(3):
        settings = {
            "horizon": 60,
            "seed": seed,
            "min_replications": min_replications,
            "max_replications": 40,
            "failures": failures,
        }
        race = sl.race(FIELD, BERNOULLI, tolerance=tolerance, level=level, **settings)
        whole = sl.Experiment(policies=FIELD, arms=3, horizon=60, replications=40, seed=seed)
        table = dict(zip(FIELD, sl.simulate(whole, BERNOULLI).rewards[:, :, 0].T, strict=True))
        dropped, replications, certified, leader = literal_race(table, level, tolerance, first)
        assert (race.certified, race.replications, race.best) == (certified, replications, leader)
        assert set(race.remaining) == set(FIELD) - set(dropped)
        for runner in race.runners:
            expected = dropped.get(runner.policy, (None, replications))
            assert (runner.dropped_by, runner.replications) == expected
        order = [
            (runner.dropped_by is not None, -runner.replications, runner.behind)
            for runner in race.runners
        ]
        assert order[1:] == sorted(order[1:])


@pytest.mark.slow
def test_the_certificate_is_rarely_wrong():
    """Of 60 races at 90%, 6 may certify a policy beyond the tolerance on average; 18 have probability below 1e-5.

    The true means come from 20,000 replications of each policy.
    """
    experiment = sl.Experiment(policies=FIELD, arms=3, horizon=100, replications=20_000, seed=77)
    means = sl.simulate(experiment, BERNOULLI).rewards[:, :, 0].mean(axis=0)
    truth = dict(zip(FIELD, means, strict=True))
    wrong = 0
    for seed in range(60):
        race = run(horizon=100, tolerance=3.0, level=0.9, seed=seed)
        wrong += race.certified and truth[race.best] < max(truth.values()) - 3.0
    assert wrong < 18


def test_near_ties_end_undecided_at_max_replications():
    twins = {"a": sl.ThompsonBernoulli(), "b": sl.ThompsonBernoulli()}
    race = sl.race(twins, BERNOULLI, tolerance=1e-6, horizon=50, max_replications=40, failures=0.1)
    assert not race.certified
    assert race.replications == 40
    assert "Undecided after 40 replications: " in race.verdict


def test_an_interrupted_race_that_continues_ends_as_an_uninterrupted_race(tmp_path):
    whole = run()
    path = tmp_path / "race.json"
    with pytest.raises(KeyboardInterrupt):
        run(keep=path, progress=_interrupt)
    assert json.loads(path.read_text())["played"] == 16 < whole.replications
    resumed = run(keep=path)
    assert resumed.to_dicts() == whole.to_dicts()
    assert (resumed.users, resumed.policy_runs) == (whole.users, whole.policy_runs)
    with pytest.raises(sl.Invalid, match="other settings"):
        run(keep=path, tolerance=11.0)
    path.write_text("not a race")
    with pytest.raises(sl.Invalid, match="does not hold a race"):
        run(keep=path)


def _interrupt(replications: int, names: tuple[str, ...]) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"tolerance": 0.0}, "tolerance must be > 0"),
        ({"tolerance": "x"}, "tolerance must be a finite number"),
        ({"level": 1.0}, "level must be between 0 and 1"),
        ({"progress": 3}, "progress must be a function"),
        ({"max_replications": 2}, r"max_replications \(--most\) must be >= 5"),
        ({"min_replications": 2}, r"min_replications \(--least\) must be >= 5"),
        ({"failures": 0}, "failures must be > 0"),
        ({"failures": 1.5}, "failures must be <= 1"),
        (
            {"failures": 0.01, "max_replications": 298},
            "298 replications cannot exclude failures in 0.01 of them at level 0.95: 299 can; allow 299",
        ),
        (
            {"failures": 0.001, "level": 0.9},
            "2,302 can; allow 2,302 with max_replications",
        ),
        ({"horizon": 0}, "horizon must be"),
    ],
)
def test_bad_requests_are_refused(changes, fragment):
    with pytest.raises(sl.Invalid, match=fragment):
        run(**changes)


def test_a_race_needs_rivals_and_arms():
    with pytest.raises(sl.Invalid, match="at least two policies"):
        sl.race({"a": "ucb1"}, BERNOULLI, tolerance=1.0)
    with pytest.raises(sl.Invalid, match="give the number of arms"):
        sl.race(FIELD, sl.BernoulliPrior(), tolerance=1.0)
    assert (
        sl.race(
            FIELD,
            sl.BernoulliPrior(),
            tolerance=20.0,
            arms=3,
            horizon=50,
            min_replications=5,
            max_replications=20,
            failures=1,
        ).replications
        <= 20
    )


def test_constant_differences_prove_nothing():
    """Differences without variance give a caution and no certificate: policies may still differ later."""
    twins = {"a": sl.UCB1(), "b": sl.UCB1()}
    race = sl.race(twins, BERNOULLI, tolerance=5.0, horizon=50, max_replications=40, failures=0.1)
    assert not race.certified
    assert "earned exactly what a did, in every replication" in race.cautions[0]
    _, rival = race.runners
    assert (rival.behind, rival.low, rival.high) == (0.0, -math.inf, math.inf)
    assert "no bounds" in str(race)


@pytest.mark.slow
def test_rare_and_bad_failures_are_not_decided_early():
    """Of 20 races with a policy that fails rarely, none is decided before 299 replications."""
    field = {"bold": sl.UCB1(0.05), "safe": sl.UCB1(0.5)}
    races = [
        sl.race(field, sl.Bernoulli((0.9, 0.6)), tolerance=5.0, horizon=500, seed=seed)
        for seed in range(20)
    ]
    assert all(race.replications >= 299 for race in races)
    assert any("skewed" in caution for race in races for caution in race.cautions)
    for race in races:
        if race.certified:
            share = 100 * (1 - 0.05 ** (1 / race.replications))
            assert f"failures in up to {share:.2g}% of replications not excluded." in race.verdict


@pytest.mark.slow
def test_a_policy_that_fails_rarely_and_badly_is_not_certified():
    """Greedy play earns 30 less on average: it loses 2,250 in 1 replication of 37, and is 30 ahead otherwise.

    It is certified if at most one of 299 replications fails, with probability 0.3%. So at most 3 of 15 races certify
    it (false alarm 1e-7). Decisions after 30 replications certified it in 31 of 60 races.
    """
    field = {"ucb": sl.UCB1(2.0), "greedy": sl.EpsilonGreedy(0.0)}
    settings = {"tolerance": 10.0, "horizon": 5_000, "max_replications": 299}
    races = [sl.race(field, sl.Bernoulli((0.95, 0.5)), seed=seed, **settings) for seed in range(15)]
    certified = sum(race.certified and race.best == "greedy" for race in races)
    assert stats.binom.sf(3, 15, 0.003) < budget.ALARM
    assert certified <= 3
    assert all(" are skewed: a policy may fail rarely and badly" in race.verdict for race in races)


def test_dropped_rivals_are_cautioned_like_the_others():
    """The rare failure of a dropped policy shows as skewness of its differences."""
    field = {"safe": sl.Always(0), "rare": sl.Always(1)}
    environment = sl.Empirical(((1.0, 0.9), (*(0.5,) * 39, -3.0)))
    race = sl.race(
        field,
        environment,
        tolerance=0.1,
        horizon=1,
        min_replications=30,
        max_replications=200,
        failures=0.1,
    )
    assert [runner.dropped_by for runner in race.runners] == [None, "safe"]
    assert race.runners[1].skewness > 2
    (caution,) = race.cautions
    assert caution.startswith("the differences from rare are skewed: a policy may fail rarely")


def test_an_undecided_race_continues_with_more_replications(tmp_path):
    path, whole = tmp_path / "race.json", run()
    assert not run(keep=path, max_replications=10).certified
    assert run(keep=path).to_dicts() == whole.to_dicts()


@pytest.mark.parametrize("text", ["[]", "{}", '{"settings": "x"}', '{"played": "no"}', "nothing"])
def test_a_damaged_file_is_refused(tmp_path, text):
    path = tmp_path / "race.json"
    path.write_text(text)
    with pytest.raises(sl.Invalid, match="does not hold a race"):
        run(keep=path)


def test_a_leader_without_rivals_is_certified_whatever_the_tolerance():
    """Differences of 5 with a standard deviation below 1 drop the worse policy; the better one remains alone."""
    arms = {"good": sl.Always(0), "bad": sl.Always(1)}
    environment = sl.Gaussian((1.0, 0.0), sd=0.1)
    race = sl.race(
        arms,
        environment,
        tolerance=1e-9,
        horizon=5,
        min_replications=5,
        max_replications=30,
        failures=1,
    )
    assert race.certified
    assert race.remaining == ("good",)
    assert race.replications < 30


def test_equal_policies_need_as_many_replications_under_naive():
    twins = {"a": sl.UCB1(), "b": sl.UCB1()}
    race = sl.race(twins, BERNOULLI, tolerance=5.0, horizon=50, max_replications=40, failures=1)
    assert race.naive_users == race.naive_users_low == race.naive_users_high == 40 * 2 * 50
    assert "without dropping" not in race.verdict
    assert str(race).splitlines()[1].split()[2:4] == ["-", "-"]  # the leader is not behind itself


def test_a_race_is_reported_to_the_digit():
    """A rival behind by 0 is equal only if its differences do not vary; a skewness of 2 is not large."""
    leader, tied = Runner("a", 10.0, 0.0, 0.0, 0.0, 0.0, 30, None), ("b", 10.0, 0.0)
    rivals = [
        Runner(*tied, -1.25, 1.25, 2.0, 30, None),
        Runner("c", 8.5, 1.5, 1.0, 2.0, -2.01, 20, "a"),
    ]
    experiment = sl.Experiment(
        policies={name: sl.UCB1() for name in "abc"}, arms=2, horizon=9, replications=30
    )
    race = Race(experiment, 1.5, 0.95, True, 0.1, 30, 400, 80, 90, 450, 1234.5, (leader, *rivals))
    assert race.to_dicts() == [runner._asdict() for runner in race.runners]
    assert str(race).splitlines()[:4] == [
        "policy  reward  behind     95% bounds  replications  dropped by",
        "a        10.00       -              -            30           -",
        "b        10.00    0.00  -1.25 to 1.25            30           -",
        "c         8.50    1.50   1.00 to 2.00            20           a",
    ]
    assert race.verdict == (
        "a is within 1.5 of the best with 95% confidence, failures in up to 9.5% of replications not excluded. "
        "It took 30 replications, 400 users and 80 policy runs; without dropping about 450 users and 90 policy runs; "
        "the naive design about 1,234 users (0 to no bound) for the same precision. "
        "Caution: the differences from c are skewed: a policy may fail rarely and badly. A smaller share than "
        "failures=0.1 takes more replications and shows rarer failures."
    )
    without_bounds = Runner(*tied, -math.inf, math.inf, 0.0, 30, None)
    (caution,) = dataclasses.replace(race, runners=(leader, without_bounds)).cautions
    assert caution.startswith("b earned exactly what a did")


def test_rare_failures_of_the_leader_are_a_veto(monkeypatch):
    """Greedy play leads the first replications and fails in one of 40: it is not certified, and the race says why."""
    field = {"ucb": sl.UCB1(2.0), "greedy": sl.EpsilonGreedy(0.0)}
    settings = {
        "tolerance": 5.0,
        "horizon": 5_000,
        "max_replications": 60,
        "failures": 0.1,
        "seed": 1,
    }
    race = sl.race(field, sl.Bernoulli((0.95, 0.5)), **settings)

    assert (race.best, race.certified) == ("greedy", False)
    assert "greedy ends" in race.vetoed[0]
    assert race.vetoed[0] in race.verdict
    monkeypatch.setattr(RaceState, "_reversing_failures", lambda *_: [])
    assert sl.race(field, sl.Bernoulli((0.95, 0.5)), **settings).certified


def greedy_object(seed: int) -> object:
    """Return greedy play as a Python object."""

    class Greedy:
        def __init__(self) -> None:
            self.pulls, self.totals = [0, 0], [0.0, 0.0]

        def select(self) -> int:
            means = [
                total / pulls if pulls else math.inf
                for total, pulls in zip(self.totals, self.pulls, strict=True)
            ]
            return means.index(max(means))

        def update(self, arm: int, reward: float) -> None:
            self.pulls[arm] += 1
            self.totals[arm] += reward

    return Greedy()


def test_the_leader_is_checked_on_other_seeds_whatever_the_field():
    """Twelve policies over 5,000 periods, Python objects and priors: the check was skipped without a word."""
    arms = sl.Bernoulli((0.95, 0.5))
    ucbs = {f"ucb {index}": sl.UCB1(2.0 + index / 10) for index in range(11)}
    settings = {"tolerance": 5.0, "max_replications": 60, "failures": 0.1, "seed": 1}
    race = sl.race({**ucbs, "greedy": sl.EpsilonGreedy(0.0)}, arms, horizon=5_000, **settings)
    assert (race.best, race.certified) == ("greedy", False)
    assert "average of 333:" in race.verdict

    field = {"ucb": sl.UCB1(2.0), "greedy": sl.External("greedy")}
    makers = {"greedy": greedy_object}
    seen = []
    original = RaceState._reversing_failures
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            RaceState, "_reversing_failures", lambda *a: seen.append(original(*a)) or seen[-1]
        )
        sl.race(field, arms, horizon=200, makers=makers, **settings)
        assert len(seen) == 1
        prior = {
            "tolerance": 20.0,
            "arms": 3,
            "horizon": 50,
            "failures": 0.1,
            "max_replications": 60,
        }
        sl.race({"a": sl.UCB1(), "b": sl.UCB1(3.0)}, sl.BernoulliPrior(), **prior)
        assert len(seen) == 2


def test_an_experiment_races_as_its_policies_do():
    """With its arms, horizon and seed; a race has its own replications."""
    policies = {"a": sl.UCB1(0.2), "b": sl.Uniform()}
    settings = {"tolerance": 5.0, "failures": 0.5}
    arms = sl.Bernoulli((0.7, 0.3))
    experiment = sl.Experiment(policies=policies, horizon=100, seed=3)
    expected = sl.race(policies, arms, horizon=100, seed=3, **settings)
    assert sl.race(experiment, arms, **settings).to_dicts() == expected.to_dicts()
    with pytest.raises(sl.Invalid, match="takes arms, horizon and seed from the experiment"):
        sl.race(experiment, arms, horizon=100, **settings)
    with pytest.raises(sl.Invalid, match="a race uses the design replay; pass experiment"):
        sl.race(experiment.replace(design="naive"), arms, **settings)
