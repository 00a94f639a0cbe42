"""Plans, races, designs, coverage, kept files, other processes, commands and the service with contexts."""

import json
import pickle
import re

import pytest

import sameluck as sl
from nonempty import nonempty
from sameluck import cli
from sameluck.inference.unseen import simulated_again
from sameluck.live.options import LiveOptions, check_fit
from sameluck.runs import CONTEXTUAL
from sameluck.service.dashboard.page_responses import templates
from sameluck.simulation.verification import difference_from_rerun

SEGMENTS = sl.ByLevel([sl.Bernoulli([0.6, 0.5]), sl.Bernoulli([0.3, 0.45])], frequencies=[0.7, 0.3])
SHOP = sl.Linear([[0.5, 0.0, -0.2], [0.3, 0.4, 0.1]], sd=0.5)
LEVELS = sl.Experiment(
    policies={"tree": sl.PerLevel(sl.UCB1()), "uniform": sl.Uniform()},
    horizon=40,
    replications=12,
    seed=2,
)
FEATURES = LEVELS.replace(policies={"ucb": sl.UCB1(), "uniform": sl.Uniform()})
CASES = pytest.mark.parametrize(
    ("experiment", "environment"),
    [(LEVELS, SEGMENTS), (FEATURES, SHOP)],
    ids=["levels", "features"],
)
ENV = ["--env", "by_level(bernoulli(0.6, 0.5), bernoulli(0.3, 0.45), frequencies=[0.7, 0.3])"]
SMALL = ["--horizon", "40", "--seed", "2"]


def assert_same(runs, other):
    for name in ("rewards", "pulls", "interactions", *CONTEXTUAL):
        first, second = getattr(runs, name), getattr(other, name)
        assert (first is None) == (second is None), name
        assert first is None or first.tobytes() == second.tobytes(), name


def pickled(function, tasks):
    """Run tasks as another process would."""
    function, tasks = pickle.loads(pickle.dumps((function, list(tasks))))
    return [pickle.loads(pickle.dumps(function(task))) for task in tasks]


@CASES
def test_another_process_gives_the_same_bits(experiment, environment):
    whole = sl.simulate(experiment, environment, checkpoints=[7, 40])

    assert_same(whole, sl.simulate(experiment, environment, checkpoints=[7, 40], map=pickled))


@CASES
def test_kept_runs_continue_with_the_same_bits(experiment, environment, tmp_path):
    path = tmp_path / "kept.npz"
    sl.simulate(experiment.replace(replications=5), environment, keep=path)
    kept = sl.simulate(experiment, environment, keep=path)

    assert_same(kept, sl.simulate(experiment, environment))
    assert_same(sl.Runs.load(path), kept)
    assert difference_from_rerun(sl.Runs.load(path)) is None


def test_a_rerun_notices_changed_arrays_of_contexts():
    runs = sl.simulate(LEVELS, SEGMENTS)
    runs.level_rewards[3, 1, 0, 1] += 1

    assert "level rewards differ, first in replication 3" in difference_from_rerun(runs)


@CASES
def test_parts_and_checkpoints_keep_the_arrays_of_contexts(experiment, environment):
    runs = sl.simulate(experiment, environment, checkpoints=[7, 40])

    assert_same(sl.Runs.concat([runs.part(0, 5), runs.part(5, 7)]), runs)
    assert_same(runs.at([7]), sl.simulate(experiment, environment, checkpoints=[7]))
    assert runs.replayed.tolist() == (2 * runs.checkpoints - runs.interactions).tolist()


@CASES
def test_the_replications_of_a_check_are_those_of_its_seed(experiment, environment):
    other = simulated_again(experiment, environment, 40, range(6))

    assert other.experiment.seed != experiment.seed
    assert other.experiment.context == environment.context
    assert_same(other, sl.simulate(other.experiment, environment))
    check = sl.compare(sl.simulate(experiment, environment)).check
    assert check.replications >= 1_000


@CASES
def test_designs_are_those_of_single_comparisons(experiment, environment):
    result = sl.designs(experiment, environment)

    for row in result.to_dicts():
        runs = sl.simulate(experiment.replace(design=row["design"]), environment)
        effect = sl.compare(runs, check=False).last_effects[0]
        assert (row["effect"], row["low"], row["high"]) == effect[3:6]
    assert "undecided" in str(result) or "wins" in str(result)


@CASES
def test_a_plan_finds_the_spread_and_the_users_of_its_pilot(experiment, environment):
    plan = sl.plan(experiment, environment, effect=3, pilot=100)

    pilot = {row["design"]: row for row in plan.to_dicts()}
    assert pilot["replay"]["sd"] < pilot["naive"]["sd"]
    assert pilot["naive"]["interactions"] == 80
    assert 40 <= pilot["replay"]["interactions"] < 80


@CASES
def test_a_race_has_the_replications_of_simulate(experiment, environment):
    race = sl.race(
        experiment, environment, tolerance=0.5, failures=1, min_replications=10, max_replications=40
    )

    runs = sl.simulate(experiment.replace(replications=40), environment)
    for row in nonempty(race.to_dicts()):
        column = runs.policies.index(row["policy"])
        rewards = runs.rewards[: row["replications"], column, 0]
        assert row["reward"] == pytest.approx(rewards.mean())


@CASES
def test_coverage_is_of_the_same_experiments(experiment, environment):
    coverage = sl.coverage(experiment, environment, experiments=30)

    assert coverage.covered > 0.7  # false alarm below 1e-4 at a level of 95%


def test_the_variance_of_priors_of_levels_is_split():
    priors = sl.ByLevel([sl.BernoulliPrior(), sl.BernoulliPrior(a=2.0)])
    experiment = LEVELS.replace(arms=2)
    drawn = priors.instance(2, 5, 2)

    split = sl.split_variance(experiment, priors, instances=10, repeats=4)
    assert (split.instances, split.policy) == (10, "uniform")
    key = priors.compiled_parameters(2, range(5, 6), 2)
    assert drawn.level_means().ravel().tolist() == key.cell_means[0].tolist()
    with pytest.raises(sl.Invalid, match="split_variance needs a prior"):
        sl.split_variance(LEVELS, SEGMENTS)


def run(capsys, *words):
    code = cli.run(list(words))
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_compare_takes_levels_with_names_on_the_command_line(capsys, tmp_path):
    report = tmp_path / "report.html"
    words = ["compare", "tree=per_level(ucb1)", "uniform", *ENV, *SMALL, "--replications", "12"]
    code, out, _ = run(
        capsys, *words, "--context", "levels([mobile, tv])", "--json", "--report", str(report)
    )

    record = json.loads(out)
    expected = sl.compare(sl.simulate(LEVELS, SEGMENTS), check=False)
    assert code == 0
    assert record["experiment"]["context"] == "levels(size=[mobile, tv])"
    assert [row["user_level"] for row in record["by_level"]] == ["mobile", "tv"]
    assert [row["effect"] for row in record["by_level"]] == [
        row.effect for row in expected.by_level
    ]
    assert "--context" in report.read_text()
    code, out, _ = run(capsys, *words, "--save", str(tmp_path / "runs.npz"))
    assert "all levels together" in out
    assert run(capsys, "verify", str(tmp_path / "runs.npz"))[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "--effect", "5", "--pilot", "50"],
        ["designs", "--replications", "8"],
        ["race", "--tolerance", "9", "--failures", "1", "--least", "10", "--most", "20"],
    ],
    ids=lambda words: words[0],
)
def test_other_commands_take_contexts(words, capsys):
    command, *options = words
    policies = ["tree=per_level(ucb1)", "uniform", *ENV, *SMALL]
    code, out, err = run(capsys, command, *policies, *options)
    assert (code, "tree" in out) == (0, True), err
    code, _, err = run(capsys, command, *policies, *options, "--context", "features(2)")
    assert code != 0
    assert "Experiment.context is features(size=2)" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["per_level(ucb1)", "ucb1", "--env", "bernoulli(0.6, 0.5)"], "PerLevel needs users with"),
        (["ucb1", "uniform", *ENV, "--adjust", "means"], "needs one mean per arm"),
        (["ucb1", "uniform", *ENV, "--twin", "--horizon", "9"], "have contexts"),
        (["ucb1", "uniform", *ENV, "--context", "levels(3)"], "have levels(size=2)"),
    ],
)
def test_commands_refuse_what_has_no_meaning(words, message, capsys):
    code, _, err = run(capsys, "compare", *words)

    assert code != 0
    assert message in err


def test_listings_say_the_context(capsys):
    for command, name, word in (
        ("policies", "per_level", "needs users with levels or states"),
        ("environments", "linear", "has users with features"),
    ):
        _, out, _ = run(capsys, command)
        assert f"It {word}." in out.split(f"\n{name}(")[1].split("\n")[2]
        rows = {row["name"]: row for row in json.loads(run(capsys, command, "--json")[1])}
        assert rows[name]["context"] in word
        assert rows["ucb1" if command == "policies" else "bernoulli"]["context"] is None


def test_live_experiments_refuse_contexts_by_name():
    live = LEVELS.replace(arms=2)

    with pytest.raises(sl.Invalid, match="policy 'tree' uses contexts, which live experiments do"):
        check_fit(live, LiveOptions())
    with pytest.raises(
        sl.Invalid, match=r"a live experiment takes no contexts, got context=levels"
    ):
        check_fit(FEATURES.replace(arms=2, context=sl.Levels(2)), LiveOptions())


def test_the_dashboard_offers_no_policy_that_needs_a_context():
    text = templates().from_string("{% for e in policy_examples() %}{{ e }};{% endfor %}").render()

    assert "ucb1(alpha=2)" in text
    assert not re.search("per_level|lin_ucb|q_learning", text)
