"""Results of runs with contexts: effects by level, records, traces, figures, and what is refused with the reason."""

import itertools

import numpy as np
import pytest

import sameluck as sl
from nonempty import nonempty
from sameluck.inference.simultaneous import max_t_intervals
from sameluck.intervals import welch_interval
from sameluck.reporting import plots

SEGMENTS = sl.ByLevel(
    [sl.Bernoulli([0.6, 0.5]), sl.Bernoulli([0.3, 0.45]), sl.Bernoulli([0.2, 0.8])],
    frequencies=[0.5, 0.3, 0.2],
    levels=["mobile", "desktop", "tv"],
)
SHOP = sl.Linear([[0.5, 0.0, -0.2], [0.3, 0.4, 0.1]], sd=0.5)
BY_LEVEL = sl.Experiment(
    policies={
        "tree": sl.PerLevel(sl.UCB1()),
        "pooled": sl.ThompsonBernoulli(),
        "uniform": sl.Uniform(),
    },
    horizon=60,
    replications=12,
    seed=5,
)
BLIND = BY_LEVEL.replace(policies={"ucb": sl.UCB1(), "uniform": sl.Uniform()})


@pytest.fixture(scope="module")
def runs():
    return sl.simulate(BY_LEVEL, SEGMENTS, checkpoints=[20, 60])


@pytest.fixture(scope="module")
def shop_runs():
    return sl.simulate(BLIND, SHOP, checkpoints=[20, 60])


def compared(runs, **request):
    return sl.compare(runs, check=False, **request)


@pytest.mark.parametrize("request_", [{}, {"pairs": "all"}, {"interval": "anytime"}], ids=str)
def test_effects_by_level_add_up_to_the_effect(runs, request_):
    result = compared(runs, **request_)

    assert {row.checkpoint for row in result.by_level} == {60}
    for effect in result.last_effects:
        levels = [row for row in result.by_level if row[:2] == effect[:2]]
        assert [row.user_level for row in levels] == ["mobile", "desktop", "tv"]
        assert sum(row.effect for row in levels) == pytest.approx(effect.effect, abs=1e-9)
        assert sum(row.users for row in levels) == pytest.approx(60)


def test_intervals_by_level_hold_for_all_levels_and_pairs(runs):
    result = compared(runs, level=0.9)

    rewards = runs.level_rewards[:, :, -1]
    pairs = [(runs.policies.index(effect.policy), 0) for effect in result.last_effects]
    columns = np.column_stack(
        [
            rewards[:, policy, level] - rewards[:, control, level]
            for (policy, control), level in itertools.product(pairs, range(3))
        ]
    )
    expected = max_t_intervals(columns, 0.9)
    assert [row[6:8] for row in result.by_level] == [interval[:2] for interval in expected]
    assert [row.p_adjusted for row in result.by_level] == [interval[2] for interval in expected]
    assert [row.sd for row in result.by_level] == pytest.approx(columns.std(axis=0, ddof=1))


def test_intervals_by_level_of_a_pair_alone_hold_for_its_levels(runs):
    result = compared(runs, simultaneous="none")

    rewards = runs.level_rewards[:, :, -1]
    for effect in nonempty(result.last_effects):
        index = runs.policies.index(effect.policy)
        expected = max_t_intervals(rewards[:, index] - rewards[:, 0], 0.95)
        rows = [row for row in result.by_level if row.policy == effect.policy]
        assert [row[6:8] for row in rows] == [interval[:2] for interval in expected]


def test_levels_of_independent_policies_are_two_samples():
    naive = BY_LEVEL.replace(
        design="naive", policies={"tree": sl.PerLevel(sl.UCB1()), "uniform": sl.Uniform()}
    )
    runs = sl.simulate(naive, SEGMENTS)
    result = compared(runs)

    for level, row in nonempty(enumerate(result.by_level)):
        tree, uniform = runs.level_rewards[:, :, 0, level].T
        assert row[6:8] == welch_interval(uniform, tree, 1 - 0.05 / 3)[:2]
        assert row.sd**2 == pytest.approx(uniform.var(ddof=1) + tree.var(ddof=1))


def test_effects_by_level_cover_the_true_effects_of_all_levels():
    """120 experiments at 80%: fewer than 82 or more than 109 cover with probability below 2e-3 if the level holds.

    Intervals of each level alone would cover three independent levels in 51%, 61 experiments.
    """
    policies = {"tree": sl.PerLevel(sl.UCB1()), "uniform": sl.Uniform()}
    experiment = BY_LEVEL.replace(policies=policies, horizon=30, replications=120 * 20)
    whole = sl.simulate(experiment, SEGMENTS)
    truth = [row.effect for row in compared(whole).by_level]

    results = [compared(whole.part(20 * number, 20), level=0.8).by_level for number in range(120)]
    covered = sum(
        all(row.low <= mean <= row.high for row, mean in zip(rows, truth, strict=True))
        for rows in results
    )
    assert 82 <= covered <= 109


@pytest.mark.parametrize(
    "request_", [{"metric": "regret"}, {"metric": "quantile(0.5)"}, {"interval": "median"}], ids=str
)
def test_only_mean_rewards_are_split_by_level(runs, request_):
    assert compared(runs, **request_).by_level == ()


def test_nothing_is_split_without_levels(shop_runs):
    assert compared(shop_runs).by_level == ()
    plain = BLIND.replace(arms=2)
    assert compared(sl.simulate(plain, "bernoulli(0.6, 0.5)")).by_level == ()


def test_a_policy_that_is_compared_with_itself_has_no_difference_in_any_level():
    twice = BY_LEVEL.replace(policies={"a": sl.PerLevel("ucb1"), "b": sl.PerLevel("ucb1")})

    rows = compared(sl.simulate(twice, SEGMENTS)).by_level

    assert [(row.effect, row.low, row.high, row.p_value) for row in rows] == [(0, 0, 0, 1)] * 3


def test_text_notebook_and_page_show_each_level(runs):
    result = compared(runs)

    for shown in (str(result), result._repr_html_(), result.to_html()):
        assert "all levels and pairs together" in shown
        assert "desktop" in shown
    lines = [line.split() for line in str(result).splitlines()]
    for effect in result.last_effects:
        assert any(line[:3] == [effect.policy, "tree", "all"] for line in lines)


def test_many_levels_are_shown_by_their_number_of_users():
    many = sl.ByLevel([sl.Bernoulli([0.6, 0.5])] * 40)
    result = compared(sl.simulate(BLIND, many))

    rows = [line.split() for line in str(result).splitlines() if line.startswith("uniform")]
    assert len(result.by_level) == 40
    assert len(rows) == 1 + 12 + 1 + 1
    assert rows[-2][2:4] == ["28", "others"]


@pytest.mark.parametrize("metric", ["reward", "regret", "best_arm_share", "quantile(0.5)"])
@pytest.mark.parametrize("source", ["runs", "shop_runs"])
def test_every_form_of_a_comparison_is_made(source, metric, request, tmp_path):
    result = compared(request.getfixturevalue(source), metric=metric, simultaneous="both")

    result.plot(tmp_path / "effects.svg")
    result.plot_policies(tmp_path / "policies.svg")
    assert "tabular" in result.to_latex()
    assert "Policies" in result.to_html()
    assert result.to_pandas().shape[0] == len(result.effects)


@pytest.mark.parametrize("source", ["runs", "shop_runs"])
def test_regret_and_best_arm_of_each_policy_are_against_the_context(source, request):
    runs = request.getfixturevalue(source)
    summaries = {row[:2]: row for row in compared(runs).policies}

    for (column, name), (index, checkpoint) in nonempty(
        itertools.product(enumerate(runs.policies), enumerate(runs.checkpoints))
    ):
        summary = summaries[name, checkpoint]
        assert summary.regret == runs.regret[:, column, index].mean()
        assert summary.best_arm_share == runs.best_pulls[:, column, index].mean() / checkpoint


def test_records_and_datasets_of_runs_have_what_contexts_add(runs, shop_runs):
    record = runs.to_dicts()[1]
    assert record["reward_of_level_tv"] == runs.level_rewards[0, 0, 1, 2]
    assert record["regret"] == runs.regret[0, 0, 1]
    dataset = runs.to_xarray()
    chosen = dataset.visits.sel(policy="tree", checkpoint=60, level="desktop", arm="1")
    assert chosen.values.tolist() == runs.visits[:, 0, 1, 3].tolist()
    assert dataset.level_rewards.dims == ("replication", "policy", "checkpoint", "level")
    assert "level" not in shop_runs.to_xarray().coords
    assert "regret" in shop_runs.to_dicts()[0]


def test_runs_whose_contextual_arrays_do_not_fit_are_refused(runs):
    with pytest.raises(sl.Invalid, match="do not agree"):
        sl.Runs(
            runs.experiment,
            runs.checkpoints,
            runs.rewards,
            runs.pulls,
            runs.interactions,
            visits=runs.visits[:3],
        )


def test_a_trace_says_levels_and_features():
    levels = sl.trace(BY_LEVEL.replace(horizon=8), SEGMENTS)
    features = sl.trace(BLIND.replace(horizon=8), SHOP)

    record = levels.to_dicts()[2]
    assert record["level"] == int(levels["tree"].contexts[2, 0])
    assert f"tree: level/arm {record['level']}" not in repr(features)
    first = levels.to_dicts()[0]
    assert f"tree: level/arm {first['level']}/{first['arm']}" in repr(levels)
    values = [features.to_dicts()[3][f"feature_{name}"] for name in range(3)]
    assert values == features["ucb"].contexts[3].tolist()
    assert sl.Features(["a", "b"], per_arm=True).columns(2) == (
        "feature_a_arm_0",
        "feature_b_arm_0",
        "feature_a_arm_1",
        "feature_b_arm_1",
    )


def test_figures_of_a_trace_join_equal_cells_only():
    trace = sl.trace(BY_LEVEL.replace(horizon=20), SEGMENTS)

    visits = plots.visits(trace)
    replayed = [visit for visit in visits if visit.source is not None]
    assert len(visits) - len(replayed) == trace.interactions
    for visit in replayed:
        policy, period = visit.source
        assert trace[policy].contexts[period - 1] == trace[visit.policy].contexts[visit.period - 1]
        assert trace[policy].arms[period - 1] == visit.arm
        assert trace[policy].rewards[period - 1] == visit.reward
    assert plots.draw_trajectories(trace)
    with pytest.raises(sl.Invalid, match="a stack for each level"):
        plots.draw_stacks(trace)


@pytest.mark.parametrize("source", ["runs", "shop_runs"])
@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"adjust": "means"}, "adjust='means' needs one mean per arm, and with contexts"),
        ({"metric": "realised_regret"}, "not defined with contexts"),
        ({"interval": "twin"}, "have contexts: it covers neither the error in the frequencies"),
    ],
)
def test_requests_without_a_meaning_are_refused(source, request_, message, request):
    with pytest.raises(sl.Invalid, match=message):
        compared(request.getfixturevalue(source), **request_)


def test_twins_and_adjustments_are_refused(shop_runs):
    with pytest.raises(sl.Invalid, match="the users of Linear have contexts"):
        sl.twin(shop_runs)
    with pytest.raises(sl.Invalid, match="with contexts the mean depends on the user"):
        sl.compare(shop_runs, adjust="means")
