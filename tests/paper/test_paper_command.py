"""`sameluck paper`: the files that it writes, how it continues after Ctrl-C, its messages for wrong input."""

import csv
import importlib.util
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import sameluck as sl
from sameluck import cli, paper
from sameluck.paper import chapters, published
from sameluck.paper import report as reports
from sameluck.paper import run as runs
from sameluck.reporting.tables import csv_table, latex_table

ROOT = Path(__file__).parent.parent.parent


def run(capsys, *words):
    code = cli.run(["paper", *words])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_it_succeeds_and_shows_the_published_row_under_ours(report):
    assert report.code == 0
    lines = report.out.splitlines()
    ours = next(place for place, line in enumerate(lines) if line.startswith("replay "))
    assert re.match(r"replay, published +10\.46 +102\.44 +1,027\.08 +10,092\.58", lines[ours + 1])
    assert "12 of 12 checks of theorems hold." in report.out


def test_the_count_of_published_numbers_says_how_many_are_tests(report):
    kinds = Counter(match["kind"] for match in report.results["published"])
    assert kinds == {"test": 9, "construction": 8, "illustration": 3, "axis": 4}
    sentence = (
        "24 of 24 published numbers are within 4 standard errors (tests: 9, 2T by construction: 8, "
        "from the printed illustration: 3, below the end of an axis: 4)."
    )
    assert sentence in report.out
    for page in ("paper.md", "report.html"):
        assert sentence in (report.folder / page).read_text()
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert "all 24 numbers that the paper prints. Nine are simulated results" in readme
    assert "15 hold by construction or only bound an axis" in readme


def test_the_page_says_that_two_readings_of_the_slope_fit_and_which_directions_are_open(report):
    page = (report.folder / "paper.md").read_text()
    assert "Two of the six readings fit" in page
    rise = report.parts["example3"]["slopes"][-1]
    assert (rise["explore"], rise["reading"]) == ("others", "rise from T = 5,000 to 10,000")
    assert abs(rise["value"] - 1.09) < 0.005 + 5 * rise["error"]
    assert "contextual bandits" in page
    assert "reinforcement learning" in page


def test_results_have_every_number_and_its_published_counterpart(report):
    results = report.results
    assert set(results) == {
        "schema", "sameluck", "stream_version", "settings", "ok", "far", "published", "failing", "parts",
    }  # fmt: skip
    assert results["schema"] == 1
    assert results["settings"] == {"replications": 300, "seed": 7}
    assert (results["ok"], results["failing"], results["far"]) == (True, [], 4.0)
    assert set(results["parts"]) == {part.name for part in runs.CHAPTERS}
    assert len(results["published"]) == 24
    for match in results["published"]:
        assert set(match) == {"part", *published.Match._fields}
        assert match["z"] is None or isinstance(match["z"], float)
    printed = {
        (match["part"], match["name"], match["horizon"]): match["published"]
        for match in results["published"]
    }
    assert printed["example1", "interactions, replay", 10_000] == 10_092.58
    assert printed["example2", "interactions, replay", 100] == 109.52
    assert printed["example3", "slope", 10_000] == 1.09
    assert printed["illustration", "real interactions", 10] == 12


def test_json_is_strict_and_the_same_as_the_file(report, tmp_path, capsys):
    folder = shutil.copytree(report.folder, tmp_path / "report")
    some = ("--only", "illustration,canonical", "--json")
    code, out, _ = run(capsys, "--replications", "300", "--out", str(folder), *some)

    def refuse(word):
        raise AssertionError(word)

    results = json.loads(out, parse_constant=refuse)
    assert code == 0
    assert results == json.loads((folder / "results.json").read_text())
    assert list(results["parts"]) == ["illustration", "canonical"]
    assert results["parts"]["canonical"] == report.parts["canonical"]


def test_the_page_is_self_contained(report):
    page = (report.folder / "report.html").read_text()
    assert page.count('class="figure"') == 14
    assert not re.search(r'(src|href)="(?!#)', page.replace('xlink:href="#', ""))
    assert "<script" not in page
    for part in runs.CHAPTERS[1:]:
        assert part.title.split(":")[0] in page


def test_figures_tables_and_data_are_there_in_all_forms(report):
    figures = sorted(path.stem for path in (report.folder / "figures").glob("*.svg"))
    assert len(figures) == 14
    for name in figures:
        assert (report.folder / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert len((report.folder / "data" / f"{name}.csv").read_text().splitlines()) > 7
    written = sorted(path.stem for path in (report.folder / "tables").glob("*.csv"))
    assert written == sorted(path.stem for path in (report.folder / "tables").glob("*.tex"))
    assert {
        "example1-interactions",
        "example2-interactions",
        "example3-slopes",
        "theorems",
        "beyond-1",
    } <= set(written)


def test_a_figures_data_are_the_numbers_found(report):
    rows = list(
        csv.DictReader((report.folder / "data" / "example1-intervals.csv").read_text().splitlines())
    )
    drawn = [float(row["low"]) for row in rows if row["design"] == "replay"]
    assert drawn == [point["low"] for point in report.parts["example1"]["intervals"]["replay"]]


def test_a_table_in_its_forms():
    table = chapters.ReportTable(
        "t", ("a_b", "n", "x"), [("p & q", 1_234, 0.5), ("r|s", None, 0.0123)]
    )
    assert csv_table(table.header, table.rows) == "a_b,n,x\np & q,1234,0.5\nr|s,,0.0123\n"
    latex = latex_table(table.header, reports.formatted_rows(table))
    assert r"a\_b & n & x \\" in latex
    assert r"p \& q & 1,234 & 0.50 \\" in latex
    assert r"r\textbar{}s &  & 0.012 \\" in latex
    assert reports.as_markdown_table(table).splitlines()[-1] == "| r&#124;s |  | 0.012 |"


@pytest.mark.slow
def test_the_same_settings_give_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        paper.reproduce(replications=100, only="illustration,efficiency", out=tmp_path / name)
    files = [
        path.relative_to(tmp_path / "one")
        for path in (tmp_path / "one").rglob("*")
        if path.is_file()
    ]
    assert len(files) > 10
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), (
            file
        )


@pytest.mark.slow
def test_a_number_that_is_off_is_exit_code_1(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(published, "TABLE_1", {**published.TABLE_1, 100: 120.0})
    code, out, _ = run(
        capsys, "--replications", "100", "--only", "example1", "--out", str(tmp_path / "x")
    )
    assert code == 1
    assert "Not met: example1, interactions, replay" in out


def test_a_theorem_that_fails_is_exit_code_1():
    result = reports.summarise(
        {"symmetry": {"passes": False}, "solo": {"passes": True}}, chapters.Settings()
    )
    assert (result["ok"], result["failing"]) == (False, ["symmetry"])
    assert reports.verdict(result) == "1 of 2 checks of theorems hold. Not met: symmetry."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--replications", "0"], "--replications must be from 100 to 1,000,000, got 0"),
        (["--replications", "-5"], "got -5"),
        (["--replications", "99"], "got 99"),
        (["--replications", "many"], "'many' is not a valid integer"),
        (["--replications", "1e9"], "not a valid integer"),
        (["--seed", "-1"], "--seed must be from 0"),
        (["--only", "exampel1"], "did you mean 'example1'?"),
        (["--only", "example1,nothing"], "unknown part 'nothing'; known: illustration, example1"),
        (["--only", " , "], "--only names no part"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(words, message, tmp_path, capsys):
    code, out, err = run(capsys, "--out", str(tmp_path / "report"), *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["file", "file/below", "file/deep/below"])
def test_a_folder_that_cannot_be_written_is_one_line_and_leaves_nothing(out, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    code, shown, err = run(capsys, "--out", str(tmp_path / out))
    assert (code, shown, err.count("\n")) == (2, "", 1)
    assert "cannot write to" in err
    assert "name another --out" in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


# A background job of a shell ignores Ctrl-C, and the tests may be one.
INTERRUPTIBLE = """
import signal, sys
from sameluck.__main__ import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


def interrupted(folder, parts, after):
    """Start the command, send SIGINT once a part is on disk; returns exit code and standard error."""
    words = ["paper", "--replications", "2000", "--only", parts, "--out", str(folder)]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 120
        while not (folder / "parts" / f"{after}.json").exists() and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.slow
def test_ctrl_c_keeps_finished_parts_and_a_second_run_continues(tmp_path, monkeypatch, capsys):
    parts, folder = "illustration,efficiency,ucb", tmp_path / "report"
    code, err = interrupted(folder, parts, after="efficiency")
    assert code == 130
    assert "interrupted; 2 of 3 parts are finished" in err.splitlines()[-1]
    assert "run the same command again" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert sorted(path.name for path in folder.iterdir()) == ["parts"]
    kept = {path: path.stat().st_mtime_ns for path in (folder / "parts").iterdir()}
    assert sorted(path.name for path in kept) == ["efficiency.json", "illustration.json"]

    played, simulate = [], sl.simulate
    monkeypatch.setattr(
        sl, "simulate", lambda one, *_, **how: played.append(one) or simulate(one, *_, **how)
    )
    code, _, _ = run(capsys, "--replications", "2000", "--only", parts, "--out", str(folder))
    assert code == 0
    assert len(played) == 5  # what is missing, and nothing of what was there
    assert all(path.stat().st_mtime_ns == before for path, before in kept.items())
    assert (folder / "report.html").exists()


def test_an_interruption_before_anything_is_finished_leaves_nothing(tmp_path, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sl, "simulate", stop)
    code, _, err = run(capsys, "--only", "example1", "--out", str(tmp_path / "a" / "b"))
    assert code == 130
    assert "nothing was written" in err
    assert not (tmp_path / "a" / "b").exists()


@pytest.mark.slow
def test_other_settings_or_a_broken_file_are_run_anew(tmp_path, monkeypatch):
    once = {"only": "efficiency", "out": tmp_path}
    paper.reproduce(replications=100, **once)
    played, simulate = [], sl.simulate
    monkeypatch.setattr(
        sl, "simulate", lambda one, *_, **how: played.append(one) or simulate(one, *_, **how)
    )
    paper.reproduce(replications=100, **once)
    assert played == []
    paper.reproduce(replications=100, seed=8, **once)
    assert len(played) == 3
    (tmp_path / "parts" / "efficiency.json").write_text('{"digest": "')
    paper.reproduce(replications=100, seed=8, **once)
    assert len(played) == 6


@pytest.mark.slow
def test_progress_names_what_is_running_and_ends_at_its_total(tmp_path):
    seen = []
    paper.reproduce(
        replications=100,
        only="efficiency,symmetry",
        out=tmp_path,
        progress=lambda *now: seen.append(now),
    )
    assert {what.partition(":")[0] for what, _, _ in seen} == {
        "efficiency",
        "symmetry",
        "writing the report",
    }
    done = [now[1] for now in seen]
    assert done == sorted(done)
    assert seen[-1][1] == seen[-1][2] == 100 * 2 * 1_000 * 9


def test_the_documentation_page_is_the_one_the_command_writes(report):
    """Run `sameluck paper && python scripts/paper_docs.py` after changing what the page says."""
    spec = importlib.util.spec_from_file_location("paper_docs", ROOT / "scripts" / "paper_docs.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert masked(script.page(report.folder)) == masked((ROOT / "docs" / "paper.md").read_text())
    names = {path.name for path in (report.folder / "figures").glob("*.svg")}
    assert {path.name for path in (ROOT / "docs" / "paper").iterdir()} == names


def masked(page):
    """Return the page without its numbers."""
    return re.sub(r"-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?%?", "#", page).splitlines()
