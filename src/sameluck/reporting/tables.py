"""Tables of formatted cells as HTML, text and LaTeX, and tables of values as CSV."""

from __future__ import annotations

import csv
import html
import io
import shutil
import sys
import textwrap
from collections.abc import Sequence
from functools import partial

MIN_NAME_WIDTH = 12  # characters of a shortened name


def html_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, label: str = "A table", id: str = ""
) -> str:
    """Return an HTML table of formatted cells, in a box that scrolls sideways, also by the keyboard."""
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
    heading, *paragraphs = (f"<p>{html.escape(text)}</p>" for text in (title, *sentences))
    return f"{heading}{html_table(header, rows)}{''.join(paragraphs)}"


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], index: int = 1) -> str:
    """Return a table for a terminal, the first column left-aligned and the others right-aligned.

    A table wider than the terminal continues below, with its first `index` columns, which identify a row, repeated.
    Their cells are shortened in the middle where necessary, and headers are broken before a bracket.
    """
    lines = [list(header), *(list(row) for row in rows)]
    if _total(_widths(lines)) > terminal_width():
        broken = [cell.partition(" (") for cell in header]
        above, below = [cell[0] for cell in broken], ["".join(cell[1:]).strip() for cell in broken]
        lines[:1] = [above, below] if any(below) else [above]
        lines = _shortened(lines, index)
    widths = _widths(lines)
    blocks: list[list[int]] = []
    for column in range(index, len(widths)):
        candidate = [*range(index), *(blocks or [[]])[-1], column]
        if not blocks or _total([widths[number] for number in candidate]) > terminal_width():
            blocks.append([])
        blocks[-1].append(column)
    texts = (_block(lines, widths, [*range(index), *columns]) for columns in blocks or [[]])
    return "\n\n".join(texts)


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*lines, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _shortened(lines: Sequence[Sequence[str]], index: int) -> list[list[str]]:
    """Narrow the first columns until the widest other column fits beside them."""
    widths = _widths(lines)
    first, widest = widths[:index], max(widths[index:], default=0)
    while _total([*first, widest]) > terminal_width() and max(first) > MIN_NAME_WIDTH:
        first[first.index(max(first))] -= 1
    return [
        [*(_cut(cell, width) for cell, width in zip(line, first, strict=False)), *line[index:]]
        for line in lines
    ]


def _cut(cell: str, width: int) -> str:
    """Keep both ends of a long cell, because names of policies often differ at the end."""
    if len(cell) <= width:
        return cell
    return f"{cell[: (width - 1) // 2]}..{cell[len(cell) - (width - 2) // 2 :]}"


def _block(lines: Sequence[Sequence[str]], widths: Sequence[int], columns: Sequence[int]) -> str:
    texts = (
        "  ".join(
            line[column].rjust(widths[column]) if column else line[column].ljust(widths[column])
            for column in columns
        ).rstrip()
        for line in lines
    )
    return "\n".join(text for text in texts if text)  # the second header line may be empty


def terminal_width() -> int:
    """Return the columns of the terminal, or of the variable COLUMNS; unlimited if neither is known."""
    return shutil.get_terminal_size((0, 0)).columns or sys.maxsize


def csv_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table of values as CSV, in full precision."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def wrapped(text: str, first: str = "", later: str = "") -> str:
    """Return a paragraph for a terminal, in lines of at most 100 characters; `first` and `later` begin its lines."""
    width = max(20, min(100, terminal_width()))
    fill = partial(textwrap.fill, width=width, break_long_words=False, break_on_hyphens=False)
    return fill(text, initial_indent=first, subsequent_indent=later)


def latex_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as a LaTeX tabular with booktabs rules."""
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
