"""Files that tools read (hooks, workflow, templates, citation) are valid and agree with pyproject.toml."""

import ast
import re
import runpy
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINNED = dict(
    re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
)
YAML = [
    ROOT / "CITATION.cff",
    ROOT / ".pre-commit-config.yaml",
    *sorted((ROOT / ".github").rglob("*.yml")),
]
CLAIMED = [
    classifier.split(" :: ")[-1]
    for classifier in PROJECT["classifiers"]
    if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", classifier)
]


def parsed(path):
    return yaml.safe_load((ROOT / path).read_text())


def workflow():
    return parsed(".github/workflows/tests.yml")


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_it_is_a_yaml_mapping(path):
    assert isinstance(parsed(path), dict)


@pytest.mark.parametrize("job", workflow()["jobs"])
def test_the_workflow_tests_the_versions_of_python_that_are_claimed(job):
    assert workflow()["jobs"][job]["strategy"]["matrix"]["python"] == CLAIMED
    assert PROJECT["requires-python"] == f">={CLAIMED[0]}"


def commands_of(job):
    return [step["run"] for step in workflow()["jobs"][job]["steps"] if "run" in step]


def test_the_workflow_runs_what_a_contributor_runs():
    assert commands_of("linux") == ["make test"]
    assert {"windows-latest", "macos-latest"} == {
        *workflow()["jobs"]["elsewhere"]["strategy"]["matrix"]["system"]
    }
    assert "python .github/smoke.py" in commands_of("elsewhere")


@pytest.mark.slow
def test_the_smoke_test_of_the_workflow_passes(capsys):
    runpy.run_path(str(ROOT / ".github" / "smoke.py"))
    assert "thompson" in capsys.readouterr().out


def test_the_hooks_are_the_pinned_tools():
    (repository,) = parsed(".pre-commit-config.yaml")["repos"]
    tools = set()
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        path, *_ = hook["entry"].split()
        assert path.startswith(".venv/bin/")
        tools.add(Path(path).name)
    wanted = (ROOT / "requirements-dev.txt").read_text().split()
    assert tools == {"ruff", "mypy"} <= {*wanted} & {*PINNED}


def test_every_development_requirement_is_pinned():
    pinned = {name.lower() for name in PINNED}
    assert {*(ROOT / "requirements-dev.txt").read_text().split()} <= pinned


def test_the_citation_is_complete():
    """It has the fields that CFF 1.2.0 requires, and the authors and the licence of pyproject.toml."""
    citation = parsed("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]
    (paper,) = citation["references"]
    assert {"type", "title", "authors"} <= paper.keys()
    assert all({"family-names", "given-names"} <= author.keys() for author in paper["authors"])
    assert paper["title"] in (ROOT / "docs" / "paper.md").read_text()


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_an_issue_template_has_what_github_requires(name):
    template = parsed(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert template["name"]
    assert template["description"]
    fields = [field for field in template["body"] if field["type"] != "markdown"]
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


FORBIDDEN = {"pickle", "marshal", "shelve", "eval", "exec"}


def names_used(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (child.name.partition(".")[0] for child in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


@pytest.mark.slow
def test_the_package_neither_unpickles_nor_evaluates():
    """As SECURITY.md promises.

    What `machine_code` reads is code that is run in any case.
    """
    sources = sorted((ROOT / "src").rglob("*.py"))
    assert {path.name: found for path in sources if (found := FORBIDDEN & {*names_used(path)})} == {
        "machine_code.py": {"pickle"},
    }


# How the source reads

SOURCES = sorted((ROOT / "src").rglob("*.py"))
PRONOUN_LIKE = {
    *("one", "some", "each", "every", "place", "places", "kind", "kinds", "what", "known", "found"),
    *("own", "many", "others", "rest", "most", "few", "those", "these", "said", "given", "told"),
    *("wanted", "part", "parts"),
}
MAX_PRONOUNS = 2.0  # per 1,000 lines
WEAK_OPENINGS = {"The", "Of", "By", "As", "That", "Those", "What", "Whether", "To", "How"}
MAX_WEAK_SHARE = 0.03
MAX_MODULES = 14


def nodes_of_the_source():
    return ((path, node) for path in SOURCES for node in ast.walk(ast.parse(path.read_text())))


@pytest.mark.slow
def test_names_are_nouns():
    """A loop variable is `policy` or `arm`, not `one`; a class argument is `policy_class`, not `kind`."""
    bound = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, node in nodes_of_the_source()
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and node.id in PRONOUN_LIKE
        )
        or (isinstance(node, ast.arg) and node.arg in PRONOUN_LIKE)
    ]
    lines = sum(path.read_text().count("\n") for path in SOURCES)
    assert 1_000 * len(bound) / lines < MAX_PRONOUNS, bound


@pytest.mark.slow
def test_docstrings_open_with_a_verb_or_a_noun():
    """A function's docstring says "Return", "Raise" or "Write"."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    opened = {
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}": text.split()[0].strip("`:,;.")
        for path, node in nodes_of_the_source()
        if isinstance(node, documented) and (text := ast.get_docstring(node))
    }
    weak = [where for where, word in opened.items() if word in WEAK_OPENINGS]
    assert len(weak) / len(opened) < MAX_WEAK_SHARE, weak


def test_a_package_has_few_modules():
    rooms = Counter(path.parent for path in SOURCES if path.stem not in ("__init__", "__main__"))
    assert {
        str(room.relative_to(ROOT)): size for room, size in rooms.items() if size > MAX_MODULES
    } == {}


def test_few_rules_of_the_linter_are_waived():
    waivers = [path for path in SOURCES for _ in re.findall("# noqa", path.read_text())]
    assert len(waivers) < 40, waivers
