"""The documentation is run, and compared with the code."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

import sameluck as sl
from sameluck import cli

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "docs"}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)


COMMANDS = [
    line
    for page in PAGES
    for block in blocks(page, "sh")
    for line in block.splitlines()
    if line.startswith("sameluck ")
]


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_of_a_page_work_as_written(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.run(shlex.split(line)[1:]) == 0
    assert capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "console")], ids=lambda p: p.name)
def test_the_session_of_a_page_works_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    """Its files, each with its name in the first line, then its commands, all in one folder."""
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "toml"):
        name = re.match(r"# (\S+\.toml)\n", block)
        Path(name[1]).write_text(block)
    for line in "".join(blocks(page, "console")).splitlines():
        prompt, word, *rest = shlex.split(line)
        assert prompt == "$"
        if word == "export":
            monkeypatch.setenv(*rest[0].split("=", 1))
            continue
        assert word == "sameluck"
        assert cli.run(rest) == 0, line
        assert capsys.readouterr().out, line


def test_the_command_line_page_is_the_current_help():
    """Run `make docs` after changing a command."""
    path = ROOT / "scripts" / "cli_docs.py"
    spec = importlib.util.spec_from_file_location("cli_docs", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "cli.md").read_text() == module.page()


def test_every_public_name_is_in_the_documentation():
    text = "\n".join(page.read_text() for page in PAGES)
    assert [name for name in sl.__all__ if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_a_page_has_a_title_and_no_empty_section(page):
    text = re.sub(r"^```.*?^```", "code", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    before, *sections = re.split(r"^(?=#)", text, flags=re.MULTILINE)
    assert before == ""
    assert [one[:2] == "# " for one in sections] == [True] + [False] * (len(sections) - 1)
    assert [one for one in sections if len(one.split("\n", 1)[1].split()) == 0] == []


def test_the_readme_example_is_short():
    (example,) = blocks(ROOT / "README.md", "python")
    assert len(example.strip().splitlines()) <= 12


def test_make_bench_runs_every_benchmark_that_can_be_run():
    scripts = sorted((ROOT / "benchmarks").glob("*.py"))
    runnable = [one.name for one in scripts if 'if __name__ == "__main__":' in one.read_text()]
    recipe = (ROOT / "Makefile").read_text().split("\nbench:")[1].split("\n\n")[0]
    assert sorted(re.findall(r"benchmarks/(\w+\.py)", recipe)) == runnable
