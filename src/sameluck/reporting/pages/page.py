"""Reports: self-contained HTML pages of cards that look as the pages of the service do. No network, no script."""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import NamedTuple

from sameluck.errors import Invalid
from sameluck.files import write_whole
from sameluck.reporting.pages.markup import LOGO, cautions, stylesheet
from sameluck.reporting.tables import html_table


class Card(NamedTuple):
    """One section of a page; its empty fields are left out."""

    title: str
    sentence: str = ""
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    figure: str = ""  # HTML: an SVG, a chart of `markup`, a leader board
    code: str = ""
    notes: Sequence[str] = ()  # cautions
    facts: Sequence[tuple[str, str]] = ()
    folded: tuple[str, str] = ("", "")  # a title, and HTML that is shown on request


class Answer(NamedTuple):
    """The first section of a page: what was found."""

    chip: str
    is_decided: bool
    sentence: str  # HTML
    detail: str = ""
    numbers: Sequence[tuple[str, str, str]] = ()  # what, how many, of what


_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title - sameluck</title>
<style>
$style
</style>
</head>
<body class="report">
<a class="skip" href="#main">Skip to content</a>
<header class="top"><div><span class="brand">$logo sameluck</span></div></header>
<main id="main">
<div class="head"><div><h1>$title</h1><p class="small muted">$about</p></div></div>
$answer
$cards
</main>
<footer class="foot">$footer</footer>
</body>
</html>
""")


def render(
    title: str, cards: Sequence[Card], footer: str, *, about: str = "", answer: Answer | None = None
) -> str:
    """The page as text."""
    return _PAGE.substitute(
        title=html.escape(title),
        about=html.escape(about),
        style=_style(),
        logo=LOGO,
        answer=_answer(answer) if answer else "",
        cards="\n".join(_card(card, number) for number, card in enumerate(cards)),
        footer=html.escape(footer),
    )


def write(path: str | Path, page: str) -> None:
    """Write a page, whole or not at all."""
    target = Path(path)
    if not target.parent.is_dir():
        raise Invalid(f"cannot write {str(path)!r}: no folder {str(target.parent)!r}")
    write_whole(target, page.encode())


@cache
def _style() -> str:
    own = files("sameluck.reporting.pages").joinpath("report.css").read_text(encoding="utf-8")
    return f"{stylesheet()}\n{own}"


def _answer(answer: Answer) -> str:
    kind = " decided" if answer.is_decided else ""
    chip = f'<p><span class="chip{" win" if answer.is_decided else ""}">{html.escape(answer.chip)}</span></p>'
    numbers = "".join(
        f"<div><dt>{html.escape(what)}</dt><dd>{html.escape(value)}<small>{html.escape(more)}</small></dd></div>"
        for what, value, more in answer.numbers
    )
    return (
        f'<section class="card answer{kind}" aria-labelledby="answer">{chip}'
        f'<h2 id="answer" class="say">{answer.sentence}</h2>'
        f'<p class="muted">{html.escape(answer.detail)}</p>'
        + f'<dl class="numbers">{numbers}</dl>' * bool(numbers)
        + "</section>"
    )


def _card(card: Card, number: int) -> str:
    title = html.escape(card.title)
    parts = [f'<header><h2 id="card{number}">{title}</h2>']
    if card.sentence:
        parts.append(f"<p>{html.escape(card.sentence)}</p>")
    parts.append("</header>")
    if card.notes:
        parts.append(cautions(card.notes))
    if card.figure:
        parts.append(_figure(card))
    if card.rows:
        parts.append(html_table(card.header, card.rows, label=f"{card.title}, as a table"))
    if card.facts:
        pairs = "".join(
            f"<div><dt>{html.escape(term)}</dt><dd>{html.escape(fact)}</dd></div>"
            for term, fact in card.facts
        )
        parts.append(f'<dl class="meta">{pairs}</dl>')
    if card.code:
        parts.append(code_block(card.code, f"{card.title}: as text"))
    what, text = card.folded
    if text:
        summary = f"<summary>{html.escape(what)}</summary>"
        parts.append(f'<details class="tab">{summary}{text}</details>')
    return f'<section class="card" aria-labelledby="card{number}">{"".join(parts)}</section>'


def _figure(card: Card) -> str:
    if not card.figure.lstrip().startswith("<svg"):
        return card.figure
    label = html.escape(f"{card.title}, as a figure")
    return (
        f'<div class="figure" tabindex="0" role="region" aria-label="{label}">{card.figure}</div>'
    )


def code_block(text: str, label: str) -> str:
    """Text as it is typed, in a box that scrolls."""
    return f'<pre tabindex="0" role="region" aria-label="{html.escape(label)}">{html.escape(text)}</pre>'
