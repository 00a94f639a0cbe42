"""Commands `compare`, `demo`, `policies` and `environments`: every option, every invalid input."""

import contextlib
import csv
import json
import os
import pty
import re
import subprocess
import sys
from datetime import UTC, date, datetime

import numpy as np
import pytest

import sameluck as sl
from nonempty import nonempty
from sameluck import cli
from sameluck.simulation.simulate import Simulation

COMPARE = ["compare", "ucb1(alpha=2.5)", "ucb1(alpha=3)", "--env", "bernoulli(0.9,0.7,0.5,0.3,0.1)"]


def run(capsys, *words: str) -> tuple[int, str, str]:
    code = cli.run(list(words))
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.mark.slow
def test_a_command_imports_no_other_command():
    """Nor what it does not need: live experiments, the progress bar, the compiler."""
    script = (
        "import sys; from sameluck import cli; cli.run(['compare', '--help']);"
        "unneeded = {'sameluck.live', 'sameluck.paper', 'sameluck.cli.plan_commands', 'rich', 'numba'};"
        "sys.exit(str(unneeded & set(sys.modules)) if unneeded & set(sys.modules) else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_names_are_read_as_utf8_in_any_locale(capsys):
    """With LC_ALL=C and without Python's UTF-8 mode, their bytes arrive as surrogates."""
    undecoded = "\u00fc".encode().decode("ascii", "surrogateescape")
    words = ["compare", f"{undecoded}=ucb1", "b=epsilon_greedy", "--control", undecoded]
    code, out, err = run(
        capsys, *words, "--env", "bernoulli(0.7,0.3)", "--horizon", "9", "--replications", "3"
    )
    assert (code, err) == (0, "")
    assert "b and \u00fc" in out or "than \u00fc" in out


def test_a_comparison_is_a_table_and_a_sentence(capsys):
    code, out, err = run(
        capsys,
        *COMPARE,
        "--horizon",
        "2000",
        "--replications",
        "10",
        "--level",
        "0.99",
        "--seed",
        "7",
    )
    assert (code, err) == (0, "")
    assert "99% interval" in out
    assert "ucb1(alpha=3) earned" in out
    assert "users per replication instead of 4,000." in " ".join(out.split())


def test_json_is_the_same_answer_as_the_python_surface(capsys):
    words = (
        "--horizon",
        "500",
        "--replications",
        "8",
        "--seed",
        "3",
        "--checkpoints",
        "50,500",
        "--json",
    )
    code, out, _ = run(capsys, *COMPARE, *words)
    answer = json.loads(out)

    experiment = sl.Experiment.from_dict(answer["experiment"])
    result = sl.compare(sl.simulate(experiment, answer["environment"], checkpoints=[50, 500]))
    assert code == 0
    assert answer["effects"] == result.to_dicts()
    assert answer["verdict"] == result.verdict
    assert answer["digest"] == experiment.digest
    assert answer["sameluck"] == sl.__version__
    assert date.fromisoformat(answer["date"]) <= datetime.now(UTC).date()
    assert answer["checkpoints"] == [50, 500]
    assert (answer["level"], answer["interval"], answer["pairs"]) == (0.95, "t", "control")


def test_json_has_no_infinity(capsys):
    _, out, _ = run(capsys, "compare", "a=ucb1", "b=ucb1", "--env", "bernoulli(0.7,0.3)", "--json")
    assert json.loads(out)["effects"][0]["variance_ratio"] is None


@pytest.mark.slow
def test_a_twin_needs_one_replication(capsys):
    words = ("--horizon", "50", "--replications", "1")
    assert run(capsys, *COMPARE, *words)[0] == 2
    code, out, _ = run(capsys, *COMPARE, *words, "--twin", "--json")
    twin = json.loads(out)["twin"]

    assert code == 0
    assert twin["replications"] == 1
    assert twin["effects"][0]["guaranteed_low"] < twin["effects"][0]["effect"]


def test_files_are_written_to_the_named_paths(capsys, tmp_path):
    paths = {kind: tmp_path / f"out.{kind}" for kind in ("csv", "svg", "html", "npz")}
    flags = zip(("--csv", "--plot", "--report", "--save"), paths.values(), strict=True)
    words = [str(word) for pair in flags for word in pair]
    code, out, err = run(capsys, *COMPARE, "--horizon", "300", "--replications", "5", *words)

    assert code == 0
    rows = [line.split() for line in out.splitlines() if line.startswith("ucb1(alpha=3)  ")]
    assert {row[2] for row in rows} == {"300"}  # the grid behind the figure stays out of the table
    assert err.count("wrote ") == 4
    rows = list(csv.DictReader(paths["csv"].read_text().splitlines()))
    assert [row["checkpoint"] for row in rows] == ["300"]
    assert list(rows[0]) == list(sl.Effect._fields)
    assert paths["svg"].read_text().lstrip().startswith("<?xml")
    assert "ucb1(alpha=3) minus ucb1(alpha=2.5)" in paths["html"].read_text()
    assert sl.Runs.load(paths["npz"]).replications == 5


def test_a_file_with_the_same_settings_gives_the_same_result_and_options_override_it(
    capsys, tmp_path
):
    file = tmp_path / "shop.toml"
    file.write_text(
        'environment = "bernoulli(0.9,0.7,0.5,0.3,0.1)"\nhorizon = 400\nreplications = 6\nseed = 3\n'
        'checkpoints = [100, 400]\nlevel = 0.9\n\n[policies]\n"ucb1(alpha=2.5)" = "ucb1(alpha=2.5)"\n'
        '"ucb1(alpha=3)" = "ucb1(alpha=3)"\n'
    )
    given = ("--horizon", "400", "--replications", "6", "--seed", "3", "--level", "0.9")
    _, by_words, _ = run(capsys, *COMPARE, *given, "--checkpoints", "100,400")
    _, by_file, _ = run(capsys, "compare", str(file))
    _, overridden, _ = run(capsys, "compare", str(file), "--level", "0.5")

    assert by_file == by_words
    assert "50% interval" in overridden


def test_policies_and_environments_are_listed_with_text_forms_that_parse(capsys):
    for command in ("policies", "environments"):
        _, listed, _ = run(capsys, command)
        _, out, _ = run(capsys, command, "--json")
        for row in nonempty(json.loads(out)):
            assert row["example"] in listed
            assert row["about"] in listed
    _, out, _ = run(capsys, "policies", "--json")
    for row in nonempty(json.loads(out)):
        assert sl.Experiment(policies={"p": row["example"]}, arms=2, horizon=1, replications=1)


@pytest.mark.slow
def test_a_figure_changes_no_number(capsys, tmp_path):
    """Table, JSON and intervals do not change with the horizons of a figure."""
    words = [*COMPARE, "--horizon", "200", "--replications", "12", "--simultaneous", "both"]
    for form in ([], ["--json"]):
        _, plain, _ = run(capsys, *words, *form)
        _, drawn, _ = run(capsys, *words, *form, "--plot", str(tmp_path / "a.svg"))
        assert drawn == plain


@pytest.mark.slow
def test_on_a_prior_the_variance_is_split_on_request(capsys, tmp_path):
    words = [
        "compare",
        "ucb1",
        "uniform",
        "--env",
        "bernoulli_prior",
        "--arms",
        "2",
        "--horizon",
        "50",
    ]
    page = tmp_path / "page.html"
    code, out, _ = run(capsys, *words, "--split", "--report", str(page))
    assert code == 0
    assert "of the variance of a replication's difference is between instances" in " ".join(
        out.split()
    )
    assert "Where the variance comes from" in page.read_text()
    _, out, _ = run(capsys, *words, "--split", "--json")
    assert json.loads(out)["split"]["instances"] == 100
    code, _, err = run(capsys, *COMPARE, "--split")
    assert (code, err) == (2, "error: --split needs a prior as --env, such as bernoulli_prior\n")


def test_the_version_is_the_packages(capsys):
    code, out, _ = run(capsys, "--version")
    assert code == 0
    assert out.startswith("sameluck 0.")


@pytest.mark.slow
def test_the_demo_shows_both_designs_and_writes_figure_and_report(capsys, tmp_path):
    code, out, _ = run(capsys, "demo", "--out", str(tmp_path / "demo"))

    assert code == 0
    table = out.partition("users for equal precision")[2].partition("\n\n")[0]
    naive, replay = table.splitlines()[1:]
    assert (naive.split()[0], replay.split()[0]) == ("naive", "replay")
    assert naive.endswith("undecided")
    # docs/paper.md measures the ratio of variances of this experiment: 1,092 naive replications for 10.
    low, high = (
        int(bound.replace(",", "")) for bound in re.search(r"\((\S+) to (\S+)\)", naive).groups()
    )
    assert low < 109.2 * 20 * 20_000 < high
    assert replay.endswith("ucb1(alpha=2.5) wins")
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {"effect.svg", "report.html"}
    _, out, _ = run(capsys, "demo", "--out", str(tmp_path / "demo"), "--json")
    assert [row["design"] for row in json.loads(out)] == ["naive", "replay"]


SAVED = ("compare", "a=ucb1", "b=uniform", "--env", "bernoulli(0.7,0.3)", "--horizon", "20")


def test_saved_runs_are_verified(tmp_path, capsys):
    """Equal from the file alone; an edited file is not, with exit code 1; the suffix is checked before the work."""
    path = str(tmp_path / "runs.npz")
    assert run(capsys, *SAVED, "--replications", "70", "--save", path)[0] == 0
    assert run(capsys, "verify", path)[:2] == (0, "equal: 70 replications of a, b, bit for bit\n")

    runs = sl.Runs.load(path)
    runs.rewards[3, 0, 0] += 1
    runs.save(path)
    code, out, _ = run(capsys, "verify", path, "--json")
    assert (code, json.loads(out)["equal"]) == (1, False)
    assert "replication 3 of policy 'a' at checkpoint 20" in json.loads(out)["difference"]
    assert run(capsys, *SAVED, "--save", "runs.csv")[2].startswith("error: Runs.save writes .npz")


def test_ctrl_c_keeps_what_is_complete(tmp_path, capsys, monkeypatch):
    """The first batch is saved; the same command continues, and another command overwrites the file."""
    simulate, path = Simulation.run, str(tmp_path / "runs.npz")

    def interrupted(simulation, replications, progress):
        if replications.start > 0:
            raise KeyboardInterrupt
        return simulate(simulation, replications, progress)

    def interrupted_anew(simulation, replications, progress):
        if replications == range(32, 70):
            raise KeyboardInterrupt
        return simulate(simulation, replications, progress)

    monkeypatch.setattr(Simulation, "run", interrupted)
    code, _, err = run(capsys, *SAVED, "--replications", "70", "--save", path)
    kept = sl.Runs.load(path)

    assert (code, kept.first, kept.replications) == (130, 0, 32)
    assert "32 of 70 replications are kept in" in err
    assert "run the same again to continue" in err
    asked = []

    def counted(simulation, replications, progress):
        asked.append(replications)
        return simulate(simulation, replications, progress)

    monkeypatch.setattr(Simulation, "run", counted)
    assert run(capsys, *SAVED, "--replications", "70", "--save", path)[0] == 0
    check = range(1_400)  # on other seeds
    assert asked == [range(31, 32), range(32, 64), range(64, 70), check]
    asked.clear()
    assert run(capsys, *SAVED, "--replications", "70", "--save", path)[0] == 0
    # The first to compare, then all anew.
    assert asked == [range(69, 70), range(32), range(32, 70), check]
    whole = sl.Runs.load(path)
    monkeypatch.setattr(Simulation, "run", simulate)
    expected = sl.simulate(whole.experiment, whole.environment)
    assert np.array_equal(whole.rewards, expected.rewards)
    monkeypatch.setattr(Simulation, "run", interrupted_anew)
    assert run(capsys, *SAVED, "--replications", "70", "--save", path)[0] == 130
    assert sl.Runs.load(path).replications == 70  # not fewer than there were
    monkeypatch.setattr(Simulation, "run", simulate)
    assert run(capsys, *SAVED, "--replications", "3", "--seed", "99", "--save", path)[0] == 0
    assert sl.Runs.load(path).experiment.seed == 99


def test_a_saved_comparison_that_is_extended_gets_a_caution(tmp_path, capsys):
    path = str(tmp_path / "runs.npz")
    _, first, _ = run(capsys, *SAVED, "--replications", "10", "--save", path)
    assert "then extended" not in first
    _, second, _ = run(capsys, *SAVED, "--replications", "20", "--save", path)
    assert "These runs were compared at 10 replications and then extended" in " ".join(
        second.split()
    )
    _, anew, _ = run(capsys, *SAVED, "--replications", "20", "--save", path)
    assert "then extended" not in anew


def test_the_environment_may_be_a_log(tmp_path, capsys):
    """Arms have the names of the log; a column that is missing is named."""
    log = tmp_path / "log.csv"
    log.write_text("shown,paid\nblue,1\nred,0\nblue,0\n")
    brief = ("--horizon", "5", "--replications", "2")
    code, out, _ = run(
        capsys, "compare", "a=ucb1", "b=ucb1", "--env", f"{log}:shown,paid", "--json", *brief
    )
    found = json.loads(out)

    assert code == 0
    origin = 'arm_names=[blue, red], source="log.csv:shown,paid", digest="'
    assert found["environment"].startswith(f"empirical([1, 0], [0], {origin}")
    assert found["experiment"]["arms"] == ["blue", "red"]
    code, _, err = run(capsys, "compare", "a=ucb1", "b=ucb1", "--env", f"{log}:shown,earned")
    assert (code, "has no column 'earned' for reward" in err) == (2, True)
    log.write_text("shown,paid\nblue,1\nred,none\n")
    code, _, err = run(capsys, "compare", "a=ucb1", "b=ucb1", "--env", f"{log}:shown,paid")
    assert (code, "line 3: reward is not a number" in err, "--skip-bad" in err) == (2, True, True)


ENV = ("--env", "bernoulli(0.7,0.3)")
BAD = [
    ((), "", "Usage"),
    (("compare",), "error: name at least two policies, or a TOML file", ""),
    (
        ("compare", "ucb1", "uniform"),
        "error: the environment is missing; add one, such as --env",
        "",
    ),
    (("compare", "ucb2", "uniform", *ENV), "unknown policy 'ucb2'; did you mean 'ucb1'?", ""),
    (
        ("compare", "ucb1(alpha=x)", "uniform", *ENV),
        "UCB1.alpha must be a finite number, got 'x'",
        "",
    ),
    (("compare", "ucb1(alpha=-1)", "uniform", *ENV), "UCB1.alpha must be >= 0, got -1.0", ""),
    (("compare", "ucb1(alfa=1)", "uniform", *ENV), "unknown 'alfa'; did you mean 'alpha'?", ""),
    (("compare", "ucb1(", "uniform", *ENV), "ends too early", ""),
    (
        ("compare", "ucb1", "ucb1", *ENV),
        "two policies are called 'ucb1'; give one another name",
        "",
    ),
    (("compare", "ucb1", *ENV), "at least two policies", ""),
    (
        ("compare", "ucb1", "uniform", "--env", "bernoulli(0.7,1.3)"),
        "Bernoulli.means[1] must be <= 1",
        "",
    ),
    (("compare", "ucb1", "uniform", "--env", "bernoulli(0.7)"), "from 2 to", ""),
    (
        ("compare", "ucb1", "uniform", "--env", "bernoulli_prior"),
        "takes any number; add --arms N",
        "",
    ),
    (
        ("compare", "ucb1", "thompson_bernoulli", "--env", "gaussian(1,2)"),
        "needs rewards 0 and 1",
        "",
    ),
    (
        ("compare", "ucb1", "uniform", *ENV, "--horizon", "0"),
        "horizon must be a whole number from 1",
        "",
    ),
    (("compare", "ucb1", "uniform", *ENV, "--horizon", "ten"), "'ten' is not a valid integer", ""),
    (("compare", "ucb1", "uniform", *ENV, "--replications", "-3"), "replications must be", ""),
    (("compare", "ucb1", "uniform", *ENV, "--replications", "1"), "at least 2 replications", ""),
    (("compare", "ucb1", "uniform", *ENV, "--design", "nave"), "did you mean 'naive'?", ""),
    (
        ("compare", "ucb1", "uniform", *ENV, "--checkpoints", "10,x"),
        "--checkpoints must be whole",
        "",
    ),
    (("compare", "ucb1", "uniform", *ENV, "--checkpoints", "5000"), "outside 1..1,000", ""),
    (("compare", "ucb1", "uniform", *ENV, "--level", "95"), "level must be between 0 and 1", ""),
    (("compare", "ucb1", "uniform", *ENV, "--control", "x"), "is not one of its policies", ""),
    (
        ("compare", "ucb1", "uniform", *ENV, "--workers", "0"),
        "workers must be a whole number >= 1",
        "",
    ),
    (
        ("compare", "ucb1", "uniform", *ENV, "--seed", "-1"),
        "seed must be a whole number from 0",
        "",
    ),
    (("compare", "ucb1", "uniform", *ENV, "--replications", "9999999999"), "would need about", ""),
    (("compare", "ucb1", "uniform", *ENV, "--plot", "x.gif"), "its ending must be", ""),
    (("compare", "ucb1", "uniform", *ENV, "--csv", "/no/where.csv"), "no folder '/no'", ""),
    (("compare", "ucb1", "uniform", *ENV, "--csv", "/tmp"), "it is a folder", ""),
    (("compare", "/no/such.toml"), "cannot read '/no/such.toml'", ""),
    (("compare", "ucb1", "uniform", *ENV, "--colour", "red"), "No such option '--colour'", ""),
    (("compair",), "No such command 'compair'", ""),
    (("demo", "--out", "/proc/nowhere"), "cannot make the folder", ""),
]


@pytest.mark.parametrize(("words", "fragment", "out_fragment"), BAD)
def test_bad_input_is_one_clear_line_and_exit_code_2(words, fragment, out_fragment, capsys):
    code, out, err = run(capsys, *words)
    assert fragment in err
    assert code == (2 if fragment else 0)
    if fragment:
        assert out == ""
        assert err.count("\n") == 1
    assert out_fragment in out


def test_a_bad_file_is_one_clear_line(capsys, tmp_path):
    cases = {
        "horizon = ": "not valid TOML",
        "horzon = 3": "unknown 'horzon'; did you mean 'horizon'?",
        'environment = "bernoulli(0.7,0.3)"': "an experiment needs policies",
        'environment = "bernoulli(0.7,0.3)"\npolicies = 3': "must map names to policies",
        'environment = 3\n[policies]\na = "ucb1"': "is not an environment",
        'environment = "bernoulli(0.7,0.3)"\nlevel = "x"\n[policies]\na="ucb1"\nb="uniform"': "level must be",
        'environment = "bernoulli(0.7,0.3)"\ncheckpoints = [1.5]\n[policies]\na="ucb1"\nb="uniform"': "whole",
    }
    file = tmp_path / "bad.toml"
    for text, fragment in cases.items():
        file.write_text(text)
        code, out, err = run(capsys, "compare", str(file))
        assert (code, out) == (2, "")
        assert fragment in err
        assert err.count("\n") == 1
    file.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in run(capsys, "compare", str(file))[2]


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error():
    program = [sys.executable, "-m", "sameluck", "policies"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.slow
def test_long_work_shows_a_bar_on_a_terminal():
    words = [*COMPARE, "--horizon", "10000", "--replications", "20000", "--workers", "1"]
    parent, child = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "sameluck", *words],
        stdout=subprocess.PIPE,
        stderr=child,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    ) as process:
        os.close(child)
        shown = _everything(parent)
        out = process.stdout.read()
    assert b"simulating" in shown
    assert b"replications of a policy" in shown
    assert b"earned" in out


def _everything(terminal: int) -> bytes:
    shown = b""
    with contextlib.suppress(OSError):  # Linux's way to say that the other side has closed
        while chunk := os.read(terminal, 4096):
            shown += chunk
    os.close(terminal)
    return shown
