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

from sameluck.reporting.wording import listed

NARROWEST, WIDEST = 30, 100  # characters of a line of prose
UNLIMITED = 10_000


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


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for a terminal: the first column left-aligned, the others right-aligned."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def narrow_text_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[int]
) -> str:
    """A table that is as wide as the terminal at most: columns are left out in this order, and named below it."""
    kept, left_out = list(range(len(header))), list(optional)
    missing: list[str] = []
    while True:
        text = text_table([header[at] for at in kept], [[row[at] for at in kept] for row in rows])
        if not left_out or max(map(len, text.splitlines())) <= terminal_width():
            note = f"\n{wrapped(f'Not shown: {listed(missing)}.')}" if missing else ""
            return f"{text}{note}"
        kept.remove(left_out[0])
        missing.append(header[left_out.pop(0)])


def terminal_width() -> int:
    """The columns of the terminal that is printed to; as many as one likes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED


def csv_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of values as CSV, in full precision."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def wrapped(text: str, first: str = "", later: str = "") -> str:
    """A paragraph for a terminal, in lines of at most 100 characters, or as many as the terminal has.

    `first` and `later` begin its lines.
    """
    width = max(NARROWEST, min(WIDEST, terminal_width()))
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
