"""Run the documentation, and compare it with the code."""

import ast
import importlib.util
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cases
import sameluck as sl
from nonempty import nonempty
from sameluck import cli, randomness

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "sameluck"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


RECIPE_PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "extending.md"]
ELSEWHERE = [
    *(page.name for page in RECIPE_PAGES),
    "service.md",
]  # below; tests/service/test_page.py
RUN_FROM_TOP_TO_BOTTOM = [p for p in PAGES if blocks(p, "python") and p.name not in ELSEWHERE]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN_FROM_TOP_TO_BOTTOM, ids=lambda p: p.name)
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


SHOP = """
environment = "bernoulli(0.6, 0.5)"
horizon = 100
replications = 10
[policies]
ucb = "ucb1"
own = "perturbed_leader(scale=0.5)"
"""


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_of_a_page_work_as_written(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (own,) = (
        block for block in blocks(ROOT / "docs/guide.md", "python") if "@sl.selects(Pert" in block
    )
    Path("my_policies.py").write_text("import sameluck as sl\n" + own.partition("bandit =")[0])
    Path("shop.toml").write_text(SHOP)
    sys.modules.pop("my_policies", None)  # of another command
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
    for line in nonempty("".join(blocks(page, "console")).splitlines()):
        prompt, word, *rest = shlex.split(line)
        assert prompt == "$"
        if word == "export":
            monkeypatch.setenv(*rest[0].split("=", 1))
            continue
        if word in ("mkdir", "mv"):
            subprocess.run(line[2:], shell=True, check=True)
            continue
        assert word == "sameluck"
        assert cli.run(rest) == 0, line
        assert capsys.readouterr().out, line


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", cases.ENVIRONMENT_CLASSES, ids=lambda kind: kind.__name__)
def test_the_guide_lists_every_environment(kind):
    assert re.search(rf"[|,] `{kind.__name__}\(", (ROOT / "docs" / "guide.md").read_text())


def test_the_guide_says_what_a_body_may_use():
    """It lists the fields of a tally, the samplers, and the first period and arm."""
    guide = (ROOT / "docs" / "guide.md").read_text()
    rows = "".join(re.findall(r"^\| `.*", guide, re.MULTILINE))
    samplers = set(randomness.__all__) - {"at", "again"}

    assert [name for name in sl.Tally._fields if f"`{name}`" not in rows] == []
    assert [name for name in samplers if f"`{name}(bits" not in rows] == []
    assert "Periods count from 1, arms from 0." in guide


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cli", "glossary", "policies"])
def test_a_page_that_a_script_writes_is_current(name):
    """Run `make docs` after changing a command or a class."""
    assert (ROOT / "docs" / f"{name}.md").read_text() == script(f"{name}_docs").page()


def test_every_public_name_is_in_the_documentation():
    text = "\n".join(page.read_text() for page in PAGES)
    assert [name for name in sl.__all__ if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / ".github" / "pull_request_template.md"], ids=lambda p: p.name
)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\((?!http)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_a_page_has_a_title_and_no_empty_section(page):
    text = re.sub(r"^```.*?^```", "code", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    before, *sections = re.split(r"^(?=#)", text, flags=re.MULTILINE)
    assert before == ""
    assert [section[:2] == "# " for section in sections] == [True] + [False] * (len(sections) - 1)
    assert [section for section in sections if len(section.split("\n", 1)[1].split()) == 0] == []


def test_the_readme_example_is_short():
    (example,) = blocks(ROOT / "README.md", "python")
    assert len(example.strip().splitlines()) <= 12


def test_make_bench_runs_every_benchmark_that_can_be_run():
    scripts = sorted((ROOT / "benchmarks").glob("*.py"))
    runnable = [
        script.name for script in scripts if 'if __name__ == "__main__":' in script.read_text()
    ]
    recipe = (ROOT / "Makefile").read_text().split("\nbench:")[1].split("\n\n")[0]
    assert sorted(re.findall(r"benchmarks/(\w+\.py)", recipe)) == runnable


def test_the_picture_of_other_packages_is_drawn_from_its_figures():
    draw = runpy.run_path(str(ROOT / "benchmarks" / "peers_picture.py"))["picture"]
    record = json.loads((ROOT / "benchmarks" / "peers.json").read_text())
    assert (ROOT / "docs" / "peers.svg").read_text() == draw(record)


# The architecture


def names_defined(path: Path) -> set[str]:
    """Return a module's classes, functions, constants and `Class.method`; for SQL, its named statements."""
    if path.suffix == ".sql":
        return set(re.findall(r"^-- name: (\w+)", path.read_text(), re.MULTILINE))
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{child.name}" for child in node.body if hasattr(child, "name")}
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def named_links(page: Path) -> list[tuple[str, Path]]:
    """Links such as [`name`](module.py): a name, and where it must be defined."""
    found = re.findall(r"\[`([\w.]+)`\]\(([^)]+\.(?:py|sql))\)", page.read_text())
    return [(name, page.parent / target) for name, target in found if name != "sameluck"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [ROOT / "docs" / "architecture.md", *RECIPE_PAGES], ids=lambda page: page.name
)
def test_a_linked_file_defines_the_linked_name(page):
    links = named_links(page)
    assert links
    assert [(name, path.name) for name, path in links if name not in names_defined(path)] == []


def test_the_layers_of_the_architecture_are_the_import_contract():
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    (contract,) = [
        entry for entry in tools["importlinter"]["contracts"] if entry["type"] == "layers"
    ]
    picture, *_ = blocks(ROOT / "docs" / "architecture.md", "text")
    assert [re.split("  +", line)[0] for line in picture.splitlines()] == contract["layers"]


# The glossary


GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
LISTED = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|$", GLOSSARY, re.MULTILINE))


def test_a_reward_switches_files_as_often_as_the_architecture_says():
    page = (ROOT / "docs" / "architecture.md").read_text()
    (most,) = re.findall(r"switches files at most (\d+) times", page)
    counting = script("count_file_switches")
    switches = counting.count_switches(counting.calls_of_reward())
    # Python 3.12 calls no function for a comprehension.
    assert int(most) - 3 <= switches <= int(most)


def test_the_glossary_lists_the_public_classes_and_no_others():
    """Policies and environments are on pages of their own."""
    registered = {*sl.POLICIES.values(), *sl.ENVIRONMENTS.values()}
    public = {name: getattr(sl, name) for name in sl.__all__}
    assert LISTED.keys() == {
        name
        for name, value in public.items()
        if isinstance(value, type) and value not in registered
    }


@pytest.mark.parametrize("name", LISTED)
def test_the_glossary_says_what_a_class_is_in_one_sentence(name):
    assert re.fullmatch(r"[A-Z0-9][^|]{5,}\.", LISTED[name])


def test_the_words_of_the_glossary_name_public_classes():
    words, _ = GLOSSARY.split("## Public classes")
    assert set(re.findall(r"`([A-Z]\w+)`", words)) <= LISTED.keys()


# The recipes of CONTRIBUTING.md and docs/extending.md


RECIPES = dict(
    re.match(r"# (\S+\.py)\n(.*)", block, re.DOTALL).groups()
    for page in RECIPE_PAGES
    for block in blocks(page, "python")
)
USE_OF_THE_RECIPES = """
import numpy as np

import sameluck as sl
from sameluck import cli, randomness
from sameluck.adapters.toy_bandits import toybandits
from sameluck.inference.win_share import win_share
from sameluck.reporting.pull_plots import draw_pull_shares
from shared_noise import SharedNoise
from sameluck.live.diagnostics.outliers import outliers
from sameluck.service.app import create_app

experiment = sl.Experiment(
    policies={"winner": "play_the_winner(success=3)"}, arms=["a", "b"], horizon=20, replications=2
)
sl.trace(experiment, "gamma(3, 2)", guard=True)
assert outliers(np.array([0, 1, 1]), np.array([0.0, 9.0, 1.0]), ["a", "b"]).verdict == "watch"
with sl.open("sqlite://", clock=sl.VirtualClock()) as store:
    names = [check.name for check in store.start("shop", experiment).diagnostics()]
    assert "/v1/experiments/{name}/arms" in create_app(store).openapi()["paths"]
assert "outliers" in names
with open("shop.toml", "w") as file:
    file.write(experiment.to_toml())
assert cli.run(["arms", "shop.toml", "--json"]) == 0


class Toy:
    def __init__(self, seed):
        self.turns = 0

    def next_arm(self, arms):
        return self.turns % arms

    def learn(self, arm, reward):
        self.turns += 1


policies = {"toy": sl.External("toy"), "uniform": sl.Uniform()}
compared = sl.Experiment(policies=policies, arms=2, horizon=20, replications=5, design=SharedNoise())
makers = {"toy": toybandits(Toy)}
runs = sl.simulate(compared, "bernoulli(0.7, 0.3)", checkpoints=[10, 20], makers=makers)
assert (runs.pulls[:, 0, -1] == 10).all()
assert (runs.interactions == [20, 40]).all()
assert 0 <= win_share(runs, "toy", "uniform").low < win_share(runs, "toy", "uniform").high <= 1
sl.plots.save(draw_pull_shares(runs, 0), "pulls.svg")
print(sl.__file__)
"""


def run_python(*arguments, folder, **variables):
    """Run Python in a folder with further environment variables; what it printed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        check=False,
        cwd=folder,
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_recipes_work_in_a_copy_of_the_package(tmp_path):
    """One file each; a command is also listed."""
    source, cache = tmp_path / "src", tmp_path / "cache"
    shutil.copytree(SOURCE, source / "sameluck")
    for path, code in RECIPES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(code)
    commands = source / "sameluck" / "cli" / "command_list.py"
    first = '    "demo": "compare_commands",\n'
    commands.write_text(commands.read_text().replace(first, f'    "arms": "arms",\n{first}'))
    variables = {"PYTHONPATH": source, "SAMELUCK_CACHE_DIR": cache}
    assert str(source) in run_python("-c", USE_OF_THE_RECIPES, folder=tmp_path, **variables)


@pytest.mark.slow
def test_the_database_of_the_recipes_keeps_the_contract(tmp_path):
    """Some of it: the whole would take as long as for a database of ours."""
    (path,) = (path for path in RECIPES if path.startswith("tests/"))
    (tmp_path / "test_it.py").write_text(RECIPES[path])
    options = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-k", "value or unit"]
    path = os.pathsep.join([str(SOURCE.parent), str(ROOT / "tests" / "live")])
    printed = run_python("-m", "pytest", *options, "test_it.py", folder=tmp_path, PYTHONPATH=path)
    assert int(re.search(r"(\d+) passed", printed)[1]) > 5
