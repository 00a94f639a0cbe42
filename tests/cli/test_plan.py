"""Commands `plan`, `race` and `designs`, and the options of `compare`."""

import json
import time

import pytest

import sameluck as sl
from sameluck import cli

ENV = ("--env", "bernoulli(0.7,0.3)")
TWO = ("ucb1", "thompson_bernoulli", *ENV, "--horizon", "100", "--seed", "3")
NAMES = {"ucb1": "ucb1", "thompson_bernoulli": "thompson_bernoulli"}
ENVIRONMENT = sl.Bernoulli((0.7, 0.3))
PLAN = ("plan", *TWO, "--effect", "2", "--power", "0.9", "--pilot", "60")
RACE = ("race", "ucb1(0.2)", "uniform", "other=ucb1", *ENV, "--horizon", "100", "--seed", "3")
DESIGNS = ("designs", *TWO, "--replications", "12")
COMPARE = ("compare", *TWO, "--replications", "30")


def run(capsys, *words):
    code = cli.run([str(word) for word in words])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def experiment(**changes):
    settings = {"policies": NAMES, "arms": 2, "horizon": 100, "replications": 100, "seed": 3}
    return sl.Experiment(**{**settings, **changes})


def as_json(records):
    """Return the records as JSON would hold them: tuples become lists."""
    return json.loads(json.dumps(records))


PLANS = [
    ((), {"effect": 2.0, "power": 0.9}),
    (("--level", "0.8"), {"effect": 2.0, "power": 0.9, "level": 0.8}),
    (
        ("--arrivals-per-day", "40", "--reward-delay-seconds", "3600"),
        {"effect": 2.0, "power": 0.9, "arrivals_per_day": 40.0, "reward_delay_seconds": 3600.0},
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "arguments"), PLANS)
def test_a_plan_is_the_python_surfaces_as_text_and_as_json(words, arguments, capsys):
    expected = sl.plan(experiment(), ENVIRONMENT, pilot=60, **arguments)

    code, out, err = run(capsys, *PLAN, *words)
    _, answer, _ = run(capsys, *PLAN, *words, "--json")

    assert (code, out, err) == (0, f"{expected}\n", "")
    result = json.loads(answer)
    assert result["designs"] == as_json(expected.to_dicts())
    assert result["by_horizon"] == as_json([row._asdict() for row in expected.by_horizon])
    assert result["pilot_effect"] == expected.pilot_effect
    assert result["verdict"] == expected.verdict
    assert result["check"] is None
    assert (result["sameluck"], result["level"]) == (sl.__version__, expected.level)
    assert sl.Experiment.from_dict(result["experiment"]) == expected.experiment
    assert result["environment"] == "bernoulli(0.7, 0.3)"


def test_a_plan_finds_whichever_of_the_three_is_missing_and_takes_a_design(capsys):
    base = ("plan", *TWO, "--pilot", "60", "--json")
    arguments = {"effect": 2.0, "power": 0.9, "replications": 12}
    for missing in arguments:
        given = {name: value for name, value in arguments.items() if name != missing}
        words = [word for name, value in given.items() for word in (f"--{name}", value)]
        _, out, _ = run(capsys, *base, *words)
        expected = sl.plan(experiment(), ENVIRONMENT, pilot=60, **given)
        assert json.loads(out)["designs"][0][missing] == getattr(expected, missing)

    _, out, _ = run(capsys, *PLAN, "--design", "replay(share_noise=true)", "--json")
    assert [row["design"] for row in json.loads(out)["designs"]] == [
        "replay(share_noise=true)",
        "naive",
        "time_coupled",
        "replay",
    ]


def test_a_plan_takes_a_share_of_the_reward(capsys):
    words = ("plan", *TWO, "--pilot", "60", "--json")
    _, out, _ = run(capsys, *words, "--effect", "2%")
    expected = sl.plan(experiment(), ENVIRONMENT, pilot=60, effect="2%")
    result = json.loads(out)
    assert result["designs"] == as_json(expected.to_dicts())
    assert result["designs"][0]["effect"] == pytest.approx(0.02 * result["control_reward"])
    assert result["pair"] == ["thompson_bernoulli", "ucb1"]
    code, out, err = run(capsys, *words, "--effect", "2 percent")
    assert (code, out) == (2, "")
    assert "'2 percent' is not a valid float, nor a share such as 2%" in err


def test_a_verified_plan_says_what_simulation_found(capsys):
    code, out, _ = run(
        capsys, "plan", *TWO, "--effect", "2", "--replications", "5", "--verify", "--json"
    )
    check = json.loads(out)["check"]

    assert code == 0
    assert (check["experiments"], check["replications"], check["truth"]) == (500, 5, 2.0)
    assert 0 < check["power"] <= 1
    assert "Simulated 500 times" in json.loads(out)["verdict"]


def test_a_plan_from_a_file_is_that_of_the_options(capsys, tmp_path):
    file = tmp_path / "shop.toml"
    file.write_text(
        'environment = "bernoulli(0.7,0.3)"\nhorizon = 100\nseed = 3\nreplications = 5\nlevel = 0.9\n'
        '[policies]\nucb1 = "ucb1"\nthompson_bernoulli = "thompson_bernoulli"\n'
    )
    words = ("--effect", "2", "--power", "0.9", "--pilot", "60")
    _, by_file, _ = run(capsys, "plan", file, *words)
    _, by_words, _ = run(capsys, *PLAN, "--level", "0.9")
    _, overridden, _ = run(capsys, "plan", file, *words, "--level", "0.5")

    assert by_file == by_words
    assert "50% intervals" in overridden


def race_of(**changes):
    field = {"ucb1(alpha=0.2)": "ucb1(0.2)", "uniform": "uniform", "other": "ucb1"}
    settings = {"tolerance": 5.0, "horizon": 100, "seed": 3}
    return sl.race(field, ENVIRONMENT, **{**settings, **changes})


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ((), {}),
        (
            ("--least", "5", "--most", "8", "--failures", "0.5"),
            {"min_replications": 5, "max_replications": 8, "failures": 0.5},
        ),
    ],
)
def test_a_race_is_the_python_surfaces_as_text_and_as_json(words, arguments, capsys):
    expected = race_of(**arguments)

    code, out, err = run(capsys, *RACE, "--tolerance", "5", *words)
    _, answer, _ = run(capsys, *RACE, "--tolerance", "5", *words, "--json")

    assert (code, out, err) == (0, f"{expected}\n", "")
    result = json.loads(answer)
    assert result["runners"] == as_json(expected.to_dicts())
    for name in ("certified", "best", "replications", "users", "policy_runs", "naive_users"):
        assert result[name] == getattr(expected, name)
    assert result["verdict"] == expected.verdict


def test_a_kept_race_is_written_to_its_file_and_continued(capsys, tmp_path):
    kept = tmp_path / "race.json"
    words = (*RACE, "--tolerance", "5", "--keep", kept)
    _, first, _ = run(capsys, *words)
    written = kept.read_bytes()
    _, second, _ = run(capsys, *words)

    assert first == second == f"{race_of()}\n"
    assert kept.read_bytes() == written
    assert [path.name for path in tmp_path.iterdir()] == ["race.json"]
    code, out, err = run(capsys, *RACE, "--tolerance", "6", "--keep", kept)
    assert (code, out) == (2, "")
    assert "other settings" in err


@pytest.mark.parametrize("text", ["", "not JSON", '"text"', "{}", "null", "\udcff"])
def test_a_file_that_holds_no_race_is_refused_and_left_alone(text, capsys, tmp_path):
    file = tmp_path / "notes.txt"
    content = text.encode("utf-8", "surrogateescape")
    file.write_bytes(content)

    code, out, err = run(capsys, *RACE, "--tolerance", "5", "--keep", file)

    assert (code, out) == (2, "")
    assert "does not hold a race; name another file" in err
    assert err.count("\n") == 1
    assert file.read_bytes() == content


@pytest.mark.parametrize("text", ["[1]"])
def test_a_file_with_a_json_list_is_refused_too(text, capsys, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text(text)

    code, out, err = run(capsys, *RACE, "--tolerance", "5", "--keep", file)

    assert (code, out) == (2, "")
    assert "does not hold a race" in err


def test_designs_are_the_python_surfaces_as_text_and_as_json(capsys):
    expected = sl.designs(experiment(replications=12), ENVIRONMENT)

    code, out, err = run(capsys, *DESIGNS)
    _, answer, _ = run(capsys, *DESIGNS, "--json")
    _, one_worker, _ = run(capsys, *DESIGNS, "--json", "--workers", "1")

    assert (code, out, err) == (0, f"{expected}\n", "")
    assert json.loads(answer) == as_json(expected.to_dicts())
    assert one_worker == answer


def test_designs_take_a_control_and_a_level(capsys):
    _, out, _ = run(capsys, *DESIGNS, "--control", "thompson_bernoulli", "--level", "0.5", "--json")
    changed = experiment(replications=12, control="thompson_bernoulli")

    assert json.loads(out) == as_json(sl.designs(changed, ENVIRONMENT, level=0.5).to_dicts())
    assert {row["policy"] for row in json.loads(out)} == {"ucb1"}


ARGUMENTS = [
    (("--interval", "bootstrap"), {"interval": "bootstrap"}),
    (("--interval", "anytime"), {"interval": "anytime"}),
    (("--simultaneous", "pairs"), {"simultaneous": "pairs"}),
    (("--simultaneous", "checkpoints", "--pairs", "all"), None),
    (("--simultaneous", "both", "--interval", "anytime"), None),
    (("--adjust", "means"), {"adjust": "means"}),
    (("--adjust", "means", "--interval", "anytime"), None),
    (("--best",), {"best": True}),
    (("--pairs", "best", "--best", "--level", "0.8"), None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "arguments"), ARGUMENTS, ids=lambda x: " ".join(x) if x else "")
def test_compare_takes_the_arguments_of_the_python_function(words, arguments, capsys):
    if arguments is None:
        flags = [word for word in words if word != "--best"]
        arguments = {flag[2:]: value for flag, value in zip(flags[::2], flags[1::2], strict=True)}
        arguments = {name: float(v) if name == "level" else v for name, v in arguments.items()}
        arguments.update({"best": True} if "--best" in words else {})
    policies = {**NAMES, "epsilon_greedy": "epsilon_greedy"}
    runs = sl.simulate(
        experiment(policies=policies, replications=30),
        ENVIRONMENT,
        checkpoints=[50, 100],
    )
    expected = sl.compare(runs, **arguments)
    base = ("compare", *NAMES, "epsilon_greedy", *TWO[2:], "--replications", "30")
    base = (*base, "--checkpoints", "50,100", *words)

    code, out, err = run(capsys, *base)
    _, answer, _ = run(capsys, *base, "--json")

    assert (code, out, err) == (0, f"{expected}\n", "")
    assert json.loads(answer)["effects"] == as_json(expected.to_dicts())
    assert json.loads(answer)["verdict"] == expected.verdict


@pytest.mark.slow
def test_a_file_may_ask_the_same(capsys, tmp_path):
    file = tmp_path / "shop.toml"
    file.write_text(
        'environment = "bernoulli(0.7,0.3)"\nhorizon = 100\nseed = 3\nreplications = 30\n'
        'interval = "anytime"\nadjust = "means"\nsimultaneous = "both"\nbest = true\n'
        '[policies]\nucb1 = "ucb1"\nthompson_bernoulli = "thompson_bernoulli"\n'
    )
    words = ("--interval", "anytime", "--adjust", "means", "--simultaneous", "both", "--best")
    _, by_file, err = run(capsys, "compare", file)
    _, by_words, _ = run(capsys, *COMPARE, *words)

    assert err == ""
    assert by_file == by_words
    assert " by mean reward at 95% (one-sided)" in " ".join(by_file.split())


def test_json_says_who_may_be_best_and_what_to_be_careful_about(capsys):
    """JSON has as data what the text has as sentences: no program needs to parse a sentence."""
    _, out, _ = run(capsys, "compare", *TWO, "--replications", "5", "--best", "--json")
    runs = sl.simulate(experiment(replications=5), ENVIRONMENT)
    expected = sl.compare(runs, best=True)

    assert json.loads(out)["standings"] == as_json(
        [standing._asdict() for standing in expected.standings]
    )
    assert json.loads(out)["cautions"] == list(expected.cautions)


@pytest.mark.slow
def test_figures_and_pages_are_written_to_the_named_files(capsys, tmp_path):
    for ending in ("svg", "pdf", "png"):
        path = tmp_path / f"power.{ending}"
        code, out, _ = run(capsys, *PLAN, "--plot", path)
        assert code == 0
        assert path.stat().st_size > 1_000
        assert out == run(capsys, *PLAN)[1]
    figure, page = tmp_path / "designs.svg", tmp_path / "designs.html"
    code, _, _ = run(capsys, *DESIGNS, "--plot", figure, "--report", page)
    assert code == 0
    assert "<svg" in figure.read_text()
    assert "time_coupled design" in page.read_text()
    assert len(list(tmp_path.iterdir())) == 5


LONG = ("--horizon", "1000000")
COMMANDS_WITH_FILES = [
    ("plan", (*PLAN, *LONG, "--pilot", "20000"), "--plot", "x.svg"),
    ("designs", (*DESIGNS, *LONG, "--replications", "20000"), "--plot", "x.pdf"),
    ("designs", (*DESIGNS, *LONG, "--replications", "20000"), "--report", "x.html"),
    ("race", (*RACE, *LONG, "--tolerance", "1e-9", "--most", "20000"), "--keep", "x.json"),
    ("compare", (*COMPARE, *LONG, "--replications", "20000", "--best"), "--report", "x.html"),
]


@pytest.mark.parametrize(("command", "words", "flag", "name"), COMMANDS_WITH_FILES)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    command, words, flag, name, capsys, tmp_path
):
    """The refusal comes at once, before minutes of work."""
    (tmp_path / name).mkdir()
    endings = [(tmp_path / "no" / name, "no folder"), (tmp_path / name, "it is a folder")]
    if flag == "--plot":
        endings.append((tmp_path / "x.gif", "its ending must be"))
    for path, fragment in endings:
        started = time.monotonic()
        code, out, err = run(capsys, *words, flag, path)
        assert time.monotonic() - started < 60
        assert (code, out) == (2, "")
        assert fragment in err
        assert err.count("\n") == 1


def without(words, *names):
    """Return the words without these options and their values."""
    kept = list(words)
    for name in names:
        place = kept.index(name)
        del kept[place : place + 2]
    return kept


BAD = [
    (("plan",), "name at least two policies"),
    (("plan", "ucb1", "uniform", "--effect", "1", "--power", "0.9"), "the environment is missing"),
    (("plan", "ucb1", *ENV, "--effect", "1", "--power", "0.9"), "the experiment has one"),
    (("plan", "ucb9", "uniform", *ENV), "unknown policy 'ucb9'; did you mean 'ucb1'?"),
    (without(PLAN, "--effect"), "two of effect, power and replications"),
    ((*PLAN, "--replications", "5"), "two of effect, power and replications"),
    ((*PLAN, "--effect", "0"), "effect must not be 0"),
    ((*PLAN, "--effect", "nan"), "effect must be a finite number"),
    ((*PLAN, "--effect", "inf"), "effect must be a finite number"),
    ((*PLAN, "--effect", "1e-12"), "is too small for an sd of"),
    ((*PLAN, "--effect", "much"), "'much' is not a valid float"),
    ((*PLAN, "--power", "1"), "power must be < 1, got 1.0"),
    ((*PLAN, "--power", "90"), "power must be < 1, got 90.0"),
    ((*PLAN, "--power", "0.01"), "power must be above 1 - level"),
    ((*PLAN, "--level", "95"), "level must be"),
    ((*PLAN, "--level", "1"), "level must be between 0 and 1"),
    ((*PLAN, "--pilot", "3"), "pilot must be a whole number >= 10"),
    ((*PLAN, "--pilot", "99999999999"), "would need about"),
    ((*PLAN, "--horizon", "0"), "horizon must be"),
    ((*PLAN, "--design", "nave"), "did you mean 'naive'?"),
    (
        (*without(PLAN, "--power"), "--replications", "1"),
        "replications must be a whole number from 2 to 1,000,000,000",
    ),
    ((*PLAN, "--env", "bernoulli_prior"), "the number of arms is missing"),
    (
        ("race", *TWO),
        "the acceptable loss against the best policy is missing; name it, for example --tolerance",
    ),
    ((*RACE, "--tolerance", "0"), "tolerance must be > 0"),
    ((*RACE, "--tolerance", "-1"), "tolerance must be > 0"),
    ((*RACE, "--tolerance", "nan"), "tolerance must be a finite number"),
    ((*RACE, "--tolerance", "few"), "'few' is not a valid float"),
    ((*RACE, "--tolerance", "1", "--level", "1"), "level must be"),
    ((*RACE, "--tolerance", "1", "--most", "4"), "max_replications (--most) must be >= 30"),
    (("race", "ucb1", *ENV, "--tolerance", "1"), "a race needs at least two policies"),
    (("race", "ucb1", "uniform", "--tolerance", "1"), "the environment is missing"),
    (
        ("race", "thompson_bernoulli", "ucb1", "--env", "gaussian(1,2)", "--tolerance", "1"),
        "needs rewards 0 and 1",
    ),
    (("designs", "ucb1", *ENV), "at least two policies"),
    ((*DESIGNS, "--replications", "1"), "at least 2 replications"),
    ((*DESIGNS, "--level", "0"), "level must be between 0 and 1"),
    ((*DESIGNS, "--control", "x"), "is not one of its policies"),
    ((*DESIGNS, "--workers", "0"), "workers must be a whole number"),
    ((*DESIGNS, "--design", "naive"), "No such option"),
    ((*COMPARE, "--interval", "T"), "unknown interval 'T'; known: t, anytime, median"),
    ((*COMPARE, "--simultaneous", "pair"), "did you mean 'pairs'?"),
    ((*COMPARE, "--pairs", "every"), "unknown pairs 'every'; known: control, all, best"),
    ((*COMPARE, "--adjust", "mean"), "did you mean 'means'?"),
    (
        (*COMPARE, "--adjust", "means", "--replications", "19"),
        "needs 20 replications for 2 arms, got 19",
    ),
]


@pytest.mark.parametrize(("words", "fragment"), BAD)
def test_bad_input_is_one_clear_line_and_exit_code_2(words, fragment, capsys):
    code, out, err = run(capsys, *words)

    assert (code, out) == (2, "")
    assert fragment in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--arrivals-per-day", "0"),
        ("--arrivals-per-day", "-5"),
        ("--arrivals-per-day", "nan"),
        ("--reward-delay-seconds", "-1"),
        ("--reward-delay-seconds", "inf"),
    ],
)
def test_a_pace_that_makes_no_sense_is_refused(flag, value, capsys):
    code, out, err = run(capsys, *PLAN, "--arrivals-per-day", "10", flag, value)

    assert (code, out) == (2, "")
    assert err.count("\n") == 1
