"""One table, four forms: for a terminal or page, a spreadsheet, a manuscript, a page of documentation."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Cell: TypeAlias = str | float | int | bool | None


class Table(NamedTuple):
    """Values for a terminal, a page, a spreadsheet and a manuscript."""

    name: str  # of its files
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    decimals: int = 2


def shown_cell(cell: Cell, decimals: int = 2) -> str:
    """A value as a reader wants it: thousands apart, and two digits of what is small."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        if 0 < abs(cell) < 10.0 ** (1 - decimals):
            return f"{cell:.2g}"
        return f"{cell:,.{decimals if abs(cell) < 100_000 else 0}f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def shown_rows(table: Table) -> list[list[str]]:
    """The rows as text."""
    return [[shown_cell(cell, table.decimals) for cell in row] for row in table.rows]


def as_csv(table: Table) -> str:
    """Full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.header)
    writer.writerows(
        [cell.strip() if isinstance(cell, str) else cell for cell in row] for row in table.rows
    )
    return text.getvalue()


_LATEX = str.maketrans(
    {
        "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "^": r"\textasciicircum{}", "|": r"\textbar{}",
        "<": r"$<$", ">": r"$>$",
    }
)  # fmt: skip


def as_latex(table: Table) -> str:
    """A `tabular` to be input into a manuscript."""
    lines = [table.header, *shown_rows(table)]
    body = [" & ".join(cell.strip().translate(_LATEX) for cell in line) + r" \\" for line in lines]
    columns = "l" + "r" * (len(table.header) - 1)
    start, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
    return "\n".join([start, r"\hline", body[0], r"\hline", *body[1:], r"\hline", end, ""])


def as_markdown_table(table: Table) -> str:
    """For a page of documentation."""
    marks = ["---", *["---:"] * (len(table.header) - 1)]
    lines = [list(table.header), marks, *shown_rows(table)]
    return "\n".join(
        f"| {' | '.join(cell.strip().replace('|', '&#124;') for cell in line)} |" for line in lines
    )
