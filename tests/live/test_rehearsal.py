"""Rehearsals: synthetic users, every kind of misfortune, and the simulation's runs to the bit."""

from random import Random

import numpy as np
import pytest
from scipy import stats

import budget
import sameluck as sl
from sameluck.live.rehearsal import Constant, days_text

POLICIES = {"ucb": "ucb1(alpha=0.5)", "thompson": "thompson_bernoulli"}
THREE = {"ucb": "ucb1", "thompson": "thompson_gaussian", "greedy": "epsilon_greedy"}
BERNOULLI = "bernoulli(0.7, 0.5, 0.3)"


def experiment_of(**changes):
    values = {"policies": POLICIES, "arms": 3, "horizon": 20, "replications": 6, "seed": 5}
    return sl.Experiment(**{**values, **changes})


@pytest.fixture
def start():
    """A function that starts an experiment in memory, on a virtual clock."""
    stores = []

    def new(experiment=None, **options):
        options.setdefault("reward", {"window_seconds": 3600})
        store = sl.open("sqlite://", clock=sl.VirtualClock())
        stores.append(store)
        return store.start("x", experiment or experiment_of(), options=sl.LiveOptions(**options))

    yield new
    for store in stores:
        store.close()


def assert_simulated(live, environment, experiment=None):
    expected = sl.simulate(experiment or live.experiment, environment, checkpoints=[5, 20])
    outcome = live.runs([5, 20])
    assert np.array_equal(outcome.rewards, expected.rewards)
    assert np.array_equal(outcome.pulls, expected.pulls)
    assert np.array_equal(outcome.interactions, expected.interactions)


CALM = {"delay": 30}
ROUGH = {
    "delay": "exponential(120)",
    "arrivals_per_day": 50_000,
    "duplicates": 0.3,
    "returning": 0.3,
    "unexposed": 0.2,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("design", "order", "environment", "policies", "rough", "at_once"),
    [
        (sl.Replay(), "lockstep", BERNOULLI, POLICIES, CALM, 1),
        (sl.Naive(), "lockstep", BERNOULLI, POLICIES, ROUGH, 4),
        (sl.Replay(), "phase", "bernoulli_prior(1, 2)", POLICIES, ROUGH, 6),
        (sl.Replay(), "lockstep", "gaussian(0.1, 0.2, 0.3)", THREE, ROUGH, 4),
        (sl.Naive(), "phase", "gaussian_prior", THREE, CALM, 2),
        (sl.Replay(), "lockstep", "empirical([0, 1], [0.5, 2], [1])", THREE, ROUGH, 3),
    ],
)
def test_without_lost_or_late_rewards_the_runs_are_the_simulations(
    design, order, environment, policies, rough, at_once, start
):
    experiment = experiment_of(design=design, policies=policies)
    exposure = "explicit" if "unexposed" in rough else "implicit"
    live = start(experiment, order=order, exposure=exposure, open_replications=at_once)

    outcome = sl.rehearse(live, environment, traffic=rough, seed=3)

    assert outcome.finished
    assert (outcome.status.complete, outcome.late, outcome.status.defaulted) == (6, 0, 0)
    assert_simulated(live, environment)
    control, *copies = policies
    means = dict(zip(policies, live.runs().rewards[:, :, -1].mean(axis=0), strict=True))
    assert outcome.effects == pytest.approx({row: means[row] - means[control] for row in copies})
    if rough is ROUGH:
        assert min(outcome.duplicates, outcome.status.voided, outcome.status.answers["STICKY"]) > 0


@pytest.mark.slow
def test_the_same_seed_brings_the_same_traffic_and_another_one_another(start):
    records = [
        sl.rehearse(start(exposure="explicit"), BERNOULLI, traffic=ROUGH, seed=seed)
        for seed in (1, 1, 2)
    ]
    assert records[0] == records[1]
    assert records[0] != records[2]
    assert records[0].effects == records[2].effects


def test_it_stops_after_the_days_and_continues_where_it_was(start):
    live = start()
    first = sl.rehearse(live, BERNOULLI, traffic={"arrivals_per_day": 1000}, days=0.02)
    assert not first.finished
    assert first.days == pytest.approx(0.02)
    assert first.effects == {}
    assert "the experiment has not ended" in str(first)

    second = sl.rehearse(live, BERNOULLI, traffic={"arrivals_per_day": 1000}, seed=1)
    assert second.finished
    assert second.status.users > first.status.users
    assert second.status.defaulted == first.status.waiting  # their rewards are never reported


@pytest.mark.slow
def test_calls_come_at_the_given_rate(start):
    live = start(experiment_of(horizon=1000, replications=100), open_replications=1)
    outcome = sl.rehearse(
        live, BERNOULLI, traffic={"arrivals_per_day": 2000, "delay": 3000}, days=1, seed=budget.SEED
    )
    assert abs(outcome.calls - 2000) < budget.z_bound() * np.sqrt(2000)
    assert outcome.units == outcome.calls
    assert outcome.turned_away + outcome.status.users == outcome.calls
    assert outcome.turned_away_share > 0.9


@pytest.mark.slow
def test_a_lost_reward_is_the_default_and_the_given_share_is_lost(start):
    live = start(experiment_of(horizon=100), reward={"default": 1.0, "window_seconds": 600})
    outcome = sl.rehearse(
        live, "bernoulli(0, 0, 0)", traffic={"loss": 0.3, "delay": 10}, seed=budget.SEED
    )

    budget.assert_count(outcome.status.defaulted, outcome.status.users, 0.3)
    trace = live.trace(0)
    assert {float(value) for row in trace.values() for value in row.rewards} == {0.0, 1.0}


def test_a_reward_after_its_window_is_late_and_the_default_counts(start):
    live = start(
        experiment_of(policies={"a": "ucb1", "b": "uniform"}),
        reward={"default": 0.5, "window_seconds": 60},
    )
    outcome = sl.rehearse(live, "gaussian(1, 2, 3)", traffic={"delay": 61, "duplicates": 0.5})
    assert outcome.status.defaulted == outcome.status.users == outcome.late
    assert (live.runs().rewards[:, :, -1] == 10.0).all()


@pytest.mark.slow
def test_users_who_never_see_their_arm_are_replaced(start):
    live = start(experiment_of(horizon=100), exposure="explicit", lease_seconds=30)
    outcome = sl.rehearse(
        live, BERNOULLI, traffic={"unexposed": 0.25, "delay": 10}, seed=budget.SEED
    )
    voided, users = outcome.status.voided, outcome.status.users
    budget.assert_count(voided, voided + users, 0.25)
    assert outcome.status.defaulted == 0


@pytest.mark.slow
def test_arms_drift_with_the_users_and_rewards_0_and_1_stay_so(start):
    """The middle third of the users, of two thirds that drift, meets the mean of the ends on average."""
    experiment = experiment_of(policies={"a": "uniform"}, horizon=300, replications=5)
    live = start(experiment, open_replications=1)
    drifting = "drifting(bernoulli(0.9, 0.5, 0.1), bernoulli(0.1, 0.5, 0.9), over=500)"
    sl.rehearse(live, drifting, traffic={"delay": 0}, seed=budget.SEED)
    row = [live.trace(number)["a"] for number in range(5)]
    arms, rewards = (np.concatenate([getattr(o, n) for o in row]) for n in ("arms", "rewards"))
    assert {*rewards} == {0.0, 1.0}
    users = np.arange(1, 1501)
    for share, mean in ((users <= 500, 0.5), (users > 500, 0.1)):
        paid = rewards[share & (arms == 0)]
        spread = 0.5 * (paid.size**-0.5)
        assert abs(paid.mean() - mean) < 5.4 * spread  # false alarm 1e-7


def test_arms_switch_with_the_users_and_all_that_is_shown_names_the_claims_that_fall(start):
    """A reward has the law of the moment at which its user was asked; who replays it later gets the same."""
    experiment = experiment_of(
        policies={"a": "always(0)", "b": "always(0)"}, horizon=25, replications=2
    )
    live = start(experiment, reward={"max": 3.0, "window_seconds": 60}, open_replications=1)
    switching = "switching(empirical([1], [2], [2]), empirical([1.5], [2], [2]), every=20)"
    outcome = sl.rehearse(live, switching, traffic={"delay": 0})

    for policy in "ab":
        paid = np.concatenate([live.trace(number)[policy].rewards for number in range(2)])
        assert paid.tolist() == [1.0] * 20 + [1.5] * 20 + [1.0] * 10
    assert "not i.i.d." in outcome.caution
    assert "a replayed reward comes from another time" in outcome.caution
    assert outcome.caution in str(outcome)
    assert outcome.to_dict()["caution"] == outcome.caution
    assert live.runs().notes == (outcome.caution,)
    result = sl.compare(live.runs())
    assert result.cautions[0] == outcome.caution
    assert "not i.i.d." in result.to_html()
    (check,) = (row for row in live.diagnostics() if row.name == "moving arms")
    assert (check.verdict, check.sentence) == ("alarm", outcome.caution)
    assert [(row.what, row.subject) for row in live.history()][1] == (
        "rehearsed on",
        "switching(empirical([1], [2], [2]), empirical([1.5], [2], [2]), every=20, repeat=true)",
    )


def test_a_rehearsal_that_is_continued_goes_on_counting_users(start):
    experiment = experiment_of(policies={"a": "always(0)"}, horizon=40, replications=1)
    live = start(experiment.replace(design="naive"), reward={"window_seconds": 60})
    switching = "switching(bernoulli(1, 1, 1), bernoulli(0, 0, 0), every=30, repeat=false)"
    calm = {"delay": 0, "arrivals_per_day": 1_000}
    first = sl.rehearse(live, switching, traffic=calm, days=0.01)
    second = sl.rehearse(live, switching, traffic=calm, seed=1)
    assert 0 < first.status.users < 30
    assert live.trace(0)["a"].rewards.tolist() == [1.0] * 30 + [0.0] * 10
    assert "Replications do not have the same distribution" in second.caution
    assert len(live.runs().notes) == 1


def test_arms_that_stand_still_have_no_caution(start):
    live = start()
    outcome = sl.rehearse(live, BERNOULLI, traffic=CALM)
    assert outcome.caution is None
    assert "caution" not in str(outcome)
    assert live.runs().notes == ()
    assert "moving arms" not in [row.name for row in live.diagnostics()]


@pytest.mark.slow
def test_an_audit_is_a_new_draw_and_changes_no_result(start):
    live = start(experiment_of(replications=20), audit_share=0.5)
    outcome = sl.rehearse(live, BERNOULLI, traffic=CALM)
    runs = sl.simulate(live.experiment, BERNOULLI)
    assert outcome.status.users > int(runs.interactions.sum())
    assert_simulated(live, BERNOULLI)


@pytest.mark.slow
def test_a_late_challenger_is_rehearsed_too(start):
    live = start()
    sl.rehearse(live, BERNOULLI, traffic=CALM)
    live.add_policy("late", "epsilon_greedy")
    again = sl.rehearse(live, BERNOULLI, traffic=CALM, seed=1)
    assert again.finished
    assert_simulated(
        live, BERNOULLI, experiment_of(policies={**POLICIES, "late": "epsilon_greedy"})
    )


@pytest.mark.slow
def test_progress_is_the_record_so_far(start, monkeypatch):
    monkeypatch.setattr("sameluck.live.rehearsal.REPORT_SECONDS", 0.0)
    seen = []
    outcome = sl.rehearse(start(), BERNOULLI, traffic=CALM, progress=seen.append)
    assert [row.calls for row in seen] == sorted(row.calls for row in seen)
    assert seen[-1]._replace(effects=outcome.effects) == outcome
    text = str(outcome)
    assert "until the experiment ended" in text
    assert f"{outcome.status.users:,} took part" in text
    assert outcome.to_dict()["status"]["complete"] == 6


def test_real_time_is_refused():
    with sl.open("sqlite://") as store:
        live = store.start("x", experiment_of())
        with pytest.raises(sl.Invalid, match="VirtualClock"):
            sl.rehearse(live, BERNOULLI)


def test_what_cannot_be_rehearsed_is_refused(start):
    live = start()
    with pytest.raises(sl.Invalid, match="exposure='explicit'"):
        sl.rehearse(live, BERNOULLI, traffic={"unexposed": 0.1})
    with pytest.raises(sl.Invalid, match="needs rewards 0 and 1"):
        sl.rehearse(live, "gaussian(1, 2, 3)")
    with pytest.raises(sl.Invalid, match="3 arms"):
        sl.rehearse(live, "bernoulli(0.5, 0.5)")
    with pytest.raises(sl.Invalid, match="days must be > 0"):
        sl.rehearse(live, BERNOULLI, days=0)
    assert live.status().users == 0
    live.pause()
    with pytest.raises(sl.Invalid, match="is paused"):
        sl.rehearse(live, BERNOULLI)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"loss": 1.5}, "Traffic.loss must be <= 1"),
        ({"returning": 1}, "Traffic.returning must be <= 0.99"),
        ({"arrivals_per_day": 0}, "Traffic.arrivals_per_day must be > 0"),
        ({"delay": -1}, "Constant.seconds must be >= 0"),
        ({"delay": "exponential(0)"}, "Exponential.mean must be > 0"),
        ({"delay": "lognormal(sigma=99)"}, "Lognormal.sigma must be <= 10"),
        ({"delay": "weibull(1)"}, "unknown delay 'weibull'"),
        ({"delay": None}, "Traffic.delay must be a number or one of constant"),
        ({"drift": 0.1}, "unknown field 'drift' in traffic"),
        ({"delay": True}, "Traffic.delay must be a number or one of constant"),
        ({"delay": "nan"}, "Constant.seconds must be a finite number"),
        ({"los": 0.1}, "unknown field 'los' in traffic; did you mean 'loss'"),
    ],
)
def test_bad_traffic_is_refused_with_a_message(values, message):
    with pytest.raises(sl.Invalid) as caught:
        sl.Traffic.from_dict(values)
    assert message in str(caught.value)


def test_traffic_comes_back_from_its_plain_values():
    rough = sl.Traffic(delay="lognormal(60, 2)", loss=0.1)
    assert sl.Traffic.from_dict(rough.to_dict()) == rough
    assert sl.Traffic(delay="90").delay == Constant(90.0)


@pytest.mark.parametrize(
    ("delay", "law"),
    [
        ("exponential(90)", stats.expon(scale=90).cdf),
        ("lognormal(median=20, sigma=1.5)", stats.lognorm(s=1.5, scale=20).cdf),
    ],
)
def test_delays_follow_their_law(delay, law):
    generator, delays = Random(budget.SEED), sl.Traffic(delay=delay).delay
    sample = [delays.draw(generator) for _ in range(20_000)]
    budget.assert_distribution(sample, law, looks=2)


@pytest.mark.parametrize(
    ("days", "message"),
    [(3, "3.0 days"), (0.5, "12.0 hours"), (0.01, "14.4 minutes"), (0, "0 seconds")],
)
def test_a_duration_is_written_in_a_fitting_unit(days, message):
    assert days_text(days) == message


def test_only_a_live_experiment_is_rehearsed():
    with pytest.raises(sl.Invalid, match="rehearse needs a live experiment first, got 3"):
        sl.rehearse(3, "bernoulli(0.5, 0.5)")
