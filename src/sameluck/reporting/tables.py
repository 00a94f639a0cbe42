"""Tables of formatted cells: for a terminal, a page, a manuscript."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table of already formatted cells."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same table for a terminal: first column to the left, numbers to the right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def wrapped(text: str) -> str:
    """A paragraph for a terminal."""
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def latex_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same table as a LaTeX tabular with booktabs rules."""
    lines = [f"{' & '.join(map(_latex, line))} \\\\" for line in (header, *rows)]
    columns = "l" + "r" * (len(header) - 1)
    body = "\n".join(lines[1:])
    return (
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{lines[0]}\n\\midrule\n{body}\n"
        "\\bottomrule\n\\end{tabular}\n"
    )


def _latex(text: str) -> str:
    special = {
        "<": "$<$",
        ">": "$>$",
        "|": r"\textbar{}",
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in text)
