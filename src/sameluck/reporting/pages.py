"""Self-contained HTML pages of cards: no network, no JavaScript."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import NamedTuple

from sameluck.errors import Invalid
from sameluck.files import write_whole
from sameluck.reporting.tables import html_table


class Card(NamedTuple):
    """One section of a page; its empty fields are left out."""

    title: str
    sentence: str = ""
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    figure: str = ""  # SVG
    code: str = ""
    notes: Sequence[str] = ()


_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; background: #f6f7f9; margin: 0; }
main { max-width: 66rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.6rem; margin: .5rem 0 1rem; }
h2 { font-size: 1.1rem; margin: 0 0 .5rem; }
section { background: #fff; border: 1px solid #dde1e6; border-radius: 8px; padding: 1rem 1.25rem; margin: 0 0 1rem; }
p { margin: 0 0 .75rem; }
.lead { font-size: 1.1rem; }
.note { border-left: 3px solid #e69f00; padding-left: .6rem; font-size: .95rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { text-align: right; padding: .3rem .75rem; border-bottom: 1px solid #e6e9ed; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th { color: #57606a; font-weight: 600; }
svg { display: block; max-width: 100%; height: auto; margin: 0 auto .75rem; }
pre { background: #f6f7f9; padding: .75rem; border-radius: 6px; overflow-x: auto; font-size: .85rem; margin: 0; }
footer { color: #57606a; font-size: .85rem; }
@media print { body { background: #fff; } section { break-inside: avoid; border: 0; padding: 0; } }
</style>
</head>
<body><main>
<h1>$title</h1>
$cards
<footer>$footer</footer>
</main></body>
</html>
""")


def render(title: str, cards: Sequence[Card], footer: str) -> str:
    """The page as text."""
    return _PAGE.substitute(
        title=html.escape(title),
        cards="\n".join(_card(card) for card in cards),
        footer=html.escape(footer),
    )


def write(path: str | Path, page: str) -> None:
    """Write a page, whole or not at all."""
    target = Path(path)
    if not target.parent.is_dir():
        raise Invalid(f"cannot write {str(path)!r}: no folder {str(target.parent)!r}")
    write_whole(target, page.encode())


def _card(card: Card) -> str:
    parts = [f"<h2>{html.escape(card.title)}</h2>"]
    if card.sentence:
        parts.append(f'<p class="lead">{html.escape(card.sentence)}</p>')
    parts += [f'<p class="note">Caution: {html.escape(note)}</p>' for note in card.notes]
    if card.figure:
        parts.append(card.figure)
    if card.rows:
        parts.append(html_table(card.header, card.rows))
    if card.code:
        parts.append(f"<pre>{html.escape(card.code)}</pre>")
    return f"<section>{''.join(parts)}</section>"
