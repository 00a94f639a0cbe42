"""`--env log.csv:arm,reward`: what is a log, and its columns."""

import pytest

import sameluck as sl
from sameluck import cli
from sameluck.cli.experiment_options import is_log, log_columns


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("log.csv:arm,reward", ("log.csv", "arm", "reward")),
        ("a/b (1).CSV: arm , reward", ("a/b (1).CSV", "arm", "reward")),
        (r"C:\logs\log.parquet:arm,reward", (r"C:\logs\log.parquet", "arm", "reward")),
        ('log.csv:"my:arm","paid, net"', ("log.csv", "my:arm", "paid, net")),
        ("log.jsonl:shown.csv:x,paid", ("log.jsonl", "shown.csv:x", "paid")),
        ("log.csv.gz:arm,reward", ("log.csv.gz", "arm", "reward")),
        ("folder:arm,reward", ("folder", "arm", "reward")),
    ],
)
def test_the_path_and_its_columns(text, parts):
    assert is_log(text)
    assert log_columns(text) == parts


@pytest.mark.parametrize("text", ["log.csv", "log.csv:", "log.csv:arm", "log.csv:a,b,c", "a/b"])
def test_a_log_without_two_columns_is_refused(text):
    assert is_log(text)
    with pytest.raises(
        sl.Invalid, match=r"nor a log with its columns .* such as log.csv:arm,reward"
    ):
        log_columns(text)


@pytest.mark.parametrize(
    "text", ["", "uniform", "bernoulli(0.7, 0.3)", " gaussian (1,2", "x(a.b:c)"]
)
def test_text_forms_are_no_logs(text):
    assert not is_log(text)


def test_bad_rows_are_skipped_where_that_is_recommended(tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_text("arm;paid\n" + "a;1\nb;0\na;1\nb;1\n" * 5 + "a;\n")
    words = ["ucb1", "epsilon_greedy", "--env", f"{path}:arm,paid", "--horizon", "20"]
    for command in (
        ["compare", "--replications", "5"],
        ["designs", "--replications", "5"],
        ["plan", "--effect", "1"],
        ["race", "--tolerance", "20"],
    ):
        assert cli.run([command[0], *words, *command[1:]]) == 2
        assert "--skip-bad" in capsys.readouterr().err
        assert cli.run([command[0], *words, *command[1:], "--skip-bad"]) == 0
        capsys.readouterr()
