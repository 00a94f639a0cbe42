"""Write the list of classes of docs/glossary.md: each public class, its module, the first line of its docstring."""

import ast
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "sameluck"
PAGE = ROOT / "docs" / "glossary.md"
MARK = "## Classes\n"
INTRODUCTION = """
Every public class, its module in `sameluck` and the first line of its docstring. The classes for users are in
`sameluck` itself (`sl.Experiment`). `make docs` writes this list.
"""


def public_classes() -> Iterator[tuple[str, str, str]]:
    """Module, name and summary of every class without a leading underscore."""
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield module, node.name, (ast.get_docstring(node) or "").split("\n")[0]


def package_of(entry: tuple[str, str, str]) -> str:
    """The package of a class, or nothing for a module of `sameluck` itself."""
    module = entry[0]
    if (SOURCE / Path(*module.split("."))).is_dir():
        return module
    return module.rpartition(".")[0]


def page() -> str:
    """The page with the list of today."""
    words, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    parts = [words + MARK + INTRODUCTION]
    for package, entries in groupby(sorted(public_classes(), key=package_of), package_of):
        rows = [f"| `{name}` | `{module}` | {summary} |\n" for module, name, summary in entries]
        title = f"`{package}`" if package else "Modules of `sameluck`"
        parts.append(f"### {title}\n\n| class | module | meaning |\n|---|---|---|\n{''.join(rows)}")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
