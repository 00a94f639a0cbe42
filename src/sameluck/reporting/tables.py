"""Tables: of formatted cells as HTML, text and LaTeX, of values as CSV."""

from __future__ import annotations

import csv
import html
import io
import shutil
import sys
import textwrap
from collections.abc import Sequence
from functools import partial


def html_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, label: str = "A table", id: str = ""
) -> str:
    """An HTML table of already formatted cells, in a box that scrolls sideways, also by the keyboard."""
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in header)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    box = f'class="scroll" tabindex="0" role="region" aria-label="{html.escape(label)}"'
    name = f' id="{html.escape(id)}"' if id else ""
    return (
        f"<div {box}{name}><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def notebook(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], sentences: Sequence[str]
) -> str:
    """A title, a table and sentences as HTML."""
    first, *rest = (f"<p>{html.escape(text)}</p>" for text in (title, *sentences))
    return f"{first}{html_table(header, rows)}{''.join(rest)}"


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for a terminal: the first column left-aligned, the others right-aligned.

    One that is wider than the terminal goes on below, with its first column again.
    """
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    parts: list[list[int]] = []
    for column in range(1, len(widths)):
        room = terminal_width() - widths[0] - sum(2 + widths[one] for one in (parts or [[]])[-1])
        if not parts or room < 2 + widths[column]:
            parts.append([])
        parts[-1].append(column)
    return "\n\n".join(_part(lines, widths, [0, *columns]) for columns in parts or [[]])


def _part(lines: Sequence[Sequence[str]], widths: Sequence[int], columns: Sequence[int]) -> str:
    return "\n".join(
        "  ".join(
            line[column].rjust(widths[column]) if column else line[column].ljust(widths[column])
            for column in columns
        ).rstrip()
        for line in lines
    )


def terminal_width() -> int:
    """The columns of the terminal, or of the variable COLUMNS; as many as one likes if neither is known."""
    return shutil.get_terminal_size((0, 0)).columns or sys.maxsize


def csv_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of values as CSV, in full precision."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def wrapped(text: str, first: str = "", later: str = "") -> str:
    """A paragraph for a terminal, in lines of at most 100 characters; `first` and `later` begin its lines."""
    width = max(20, min(100, terminal_width()))
    fill = partial(textwrap.fill, width=width, break_long_words=False, break_on_hyphens=False)
    return fill(text, initial_indent=first, subsequent_indent=later)


def latex_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as a LaTeX tabular with booktabs rules."""
    begin = rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}"
    head, *body = (
        " & ".join(cell.translate(_LATEX) for cell in line) + r" \\" for line in (header, *rows)
    )
    end = [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join([begin, r"\toprule", head, r"\midrule", *body, *end])


_NAMED = {"|": "bar", "\\": "backslash", "~": "asciitilde", "^": "asciicircum"}
_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {c: f"${c}$" for c in "<>"}
    | {c: f"\\text{name}{{}}" for c, name in _NAMED.items()}
)
