"""`--import`: a user's policies and environments on the command line."""

import json
import sys

import pytest

import sameluck as sl
from sameluck import cli

OWN = """
from typing import NamedTuple

import sameluck as sl


class EveryOther(NamedTuple):
    \"\"\"Play the first arm, and another one every `gap` periods.\"\"\"

    gap: int = 2


@sl.selects(EveryOther)
def _(policy, tally, period, noise):
    return 1 if period % policy.gap == 0 else 0
"""
ENV = ["--env", "bernoulli(0.75,0.25)", "--horizon", "20", "--replications", "4"]


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own_rules_of_a_test.py"
    path.write_text(OWN)
    yield path
    sys.modules.pop(path.stem, None)


def run(capsys, *words):
    code = cli.run([str(word) for word in words])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_a_policy_of_a_named_file_is_compared_and_goes_through_toml(own, tmp_path, capsys):
    words = ["--import", own, "every_other(gap=3)", "ucb1", *ENV, "--json"]
    code, out, err = run(capsys, "compare", *words)
    assert (code, err) == (0, "")
    record = json.loads(out)

    experiment = sl.Experiment.from_dict(record["experiment"])  # the policy is registered by now
    file = tmp_path / "own.toml"
    file.write_text('environment = "bernoulli(0.75,0.25)"\n' + experiment.to_toml())
    sl.POLICIES.pop("every_other")  # as in another process
    code, out, _ = run(capsys, "compare", file, "--import", own, "--json")
    assert code == 0
    assert json.loads(out) == record


def test_what_the_file_prints_is_no_result(own, capsys):
    """So that `--json` stays JSON; `policies` lists what the file registers."""
    own.write_text(f"{OWN}print('loaded')")
    code, out, err = run(capsys, "policies", "--import", own, "--json")

    assert (code, err) == (0, "loaded\n")
    assert "every_other(gap=2)" in [row["example"] for row in json.loads(out)]


def test_without_the_file_the_message_says_how_to_name_it(capsys):
    code, _, err = run(capsys, "compare", "every_other(gap=3)", "ucb1", *ENV)

    assert code == 2
    assert "unknown policy 'every_other'" in err
    assert err.endswith("to use your own, name its file: --import FILE.py\n")


@pytest.mark.slow
def test_plan_and_verify_take_it_too(own, tmp_path, capsys):
    policies = ["--import", own, "every_other(gap=3)", "ucb1"]
    env = ENV[:4]
    assert run(capsys, "plan", *policies, *env, "--effect", "1", "--pilot", "20")[0] == 0
    saved = tmp_path / "runs.npz"
    assert run(capsys, "compare", *policies, *ENV, "--save", saved)[0] == 0
    sl.POLICIES.pop("every_other")
    assert "--import FILE.py" in run(capsys, "verify", saved)[2]
    assert run(capsys, "verify", saved, "--import", own)[0] == 0


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("my.txt", "", "takes a Python file such as my_policies.py"),
        ("json.py", "", "another module is called 'json'; rename the file"),
        ("broken_rules_of_a_test.py", "1 / 0", "ZeroDivisionError: division by zero"),
        ("ending_rules_of_a_test.py", "raise SystemExit(3)", "SystemExit: 3"),
        ("syntax_of_a_test.py", "def", "SyntaxError"),
        (
            "lonely_of_a_test.py",
            "import not_there",
            "'not_there'; install it; for a file in the same folder, set",
        ),
    ],
)
def test_a_file_that_cannot_be_imported_is_refused_in_a_line(name, text, message, tmp_path, capsys):
    (tmp_path / name).write_text(text)
    code, out, err = run(capsys, "compare", "--import", tmp_path / name, "ucb1", "uniform", *ENV)

    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_an_environment_without_an_example_is_listed_by_its_fields(tmp_path, capsys):
    path = tmp_path / "own_environment_of_a_test.py"
    path.write_text(
        "from typing import NamedTuple\nimport sameluck as sl\n"
        "class Halves(NamedTuple):\n    means: tuple\n"
        "@sl.draws(Halves)\ndef _(parameters, row, arm, bits):\n    return parameters.means[arm] / 2\n"
    )
    code, out, _ = run(capsys, "environments", "--import", path)
    assert (code, "halves(means=...)" in out) == (0, True)
    with pytest.raises(
        sl.Invalid, match=r"it is an environment class: write 'halves\(means=\.\.\.\)'"
    ):
        sl.simulate(
            sl.Experiment(policies={"a": "uniform"}, arms=2, horizon=1, replications=1),
            sys.modules[path.stem].Halves,
        )
    sys.modules.pop(path.stem)


def test_a_file_that_is_not_there_is_refused(capsys):
    assert "no such file" in run(capsys, "compare", "--import", "nowhere.py", "ucb1", *ENV)[2]
