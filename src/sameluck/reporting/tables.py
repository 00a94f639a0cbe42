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

NARROWEST = 12  # columns of a name that is cut


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


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], index: int = 1) -> str:
    """A table for a terminal: the first column left-aligned, the others right-aligned.

    One that is wider than the terminal goes on below, with its first columns again: as many as tell rows apart
    (`index`). Their cells are cut in the middle where that is needed, and headers are broken before a bracket.
    """
    lines = [list(header), *(list(row) for row in rows)]
    if _total(_widths(lines)) > terminal_width():
        broken = [cell.partition(" (") for cell in header]
        above, below = [cell[0] for cell in broken], ["".join(cell[1:]).strip() for cell in broken]
        lines[:1] = [above, below] if any(below) else [above]
        lines = _shortened(lines, index)
    widths = _widths(lines)
    parts: list[list[int]] = []
    for column in range(index, len(widths)):
        together = [*range(index), *(parts or [[]])[-1], column]
        if not parts or _total([widths[one] for one in together]) > terminal_width():
            parts.append([])
        parts[-1].append(column)
    return "\n\n".join(_part(lines, widths, [*range(index), *columns]) for columns in parts or [[]])


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*lines, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _shortened(lines: Sequence[Sequence[str]], index: int) -> list[list[str]]:
    """The lines with the first columns so narrow that the widest of the others fits beside them."""
    widths = _widths(lines)
    first, widest = widths[:index], max(widths[index:], default=0)
    while _total([*first, widest]) > terminal_width() and max(first) > NARROWEST:
        first[first.index(max(first))] -= 1
    return [
        [*(_cut(cell, width) for cell, width in zip(line, first, strict=False)), *line[index:]]
        for line in lines
    ]


def _cut(cell: str, width: int) -> str:
    """The beginning and the end of a cell that is too long: names of policies often differ in the end."""
    if len(cell) <= width:
        return cell
    return f"{cell[: (width - 1) // 2]}..{cell[len(cell) - (width - 2) // 2 :]}"


def _part(lines: Sequence[Sequence[str]], widths: Sequence[int], columns: Sequence[int]) -> str:
    texts = (
        "  ".join(
            line[column].rjust(widths[column]) if column else line[column].ljust(widths[column])
            for column in columns
        ).rstrip()
        for line in lines
    )
    return "\n".join(text for text in texts if text)  # no header here is broken


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
