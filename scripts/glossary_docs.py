"""Write the list of public classes in docs/glossary.md."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import sameluck as sl

PAGE = Path(__file__).parent.parent / "docs" / "glossary.md"
MARK = "## Public classes\n"
INTRODUCTION = """
The classes of `sameluck` itself (`sl.Experiment`), grouped by the package that defines them. `make docs` writes this
list from the docstrings. Policies have [their own page](policies.md), environments are in the [guide](guide.md).
"""
LISTED_ELSEWHERE = {*sl.POLICIES.values(), *sl.ENVIRONMENTS.values()}


def public_classes() -> Iterator[tuple[str, str, str]]:
    """Yield the package, the name and the docstring's first line of each public class."""
    for name in sl.__all__:
        value = getattr(sl, name)
        if isinstance(value, type) and value not in LISTED_ELSEWHERE:
            yield value.__module__.split(".")[1], name, (value.__doc__ or "").strip().split("\n")[0]


def page() -> str:
    """Return the page: its words as they are, its classes as the package has them today."""
    words, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    sections = [words + MARK + INTRODUCTION]
    for package, classes in groupby(sorted(public_classes()), key=lambda row: row[0]):
        rows = "".join(f"| `{name}` | {summary} |\n" for _, name, summary in classes)
        sections.append(f"### `sameluck.{package}`\n\n| class | meaning |\n|---|---|\n{rows}")
    return "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
