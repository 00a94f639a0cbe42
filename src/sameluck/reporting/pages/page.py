"""Reports: self-contained HTML pages of cards in the style of the dashboard. No network, no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from sameluck.errors import Invalid
from sameluck.files import write_whole
from sameluck.reporting.drawing import Svg
from sameluck.reporting.pages.charts import Chart, StripPlot, Table
from sameluck.reporting.pages.leader_board import LeaderBoard
from sameluck.reporting.pages.rendering import stylesheet, template

CardFigure: TypeAlias = Chart | LeaderBoard | StripPlot | Svg


class Code(NamedTuple):
    """Text as it is typed, and a label for readers who do not see it."""

    text: str
    label: str


class Folded(NamedTuple):
    title: str
    content: Table | Code


class Card(NamedTuple):
    """One section of a page; its empty fields are left out."""

    title: str
    sentence: str = ""
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    figure: CardFigure | None = None
    code: str = ""
    notes: Sequence[str] = ()  # cautions
    facts: Sequence[tuple[str, str]] = ()
    folded: Folded | None = None

    @property
    def table(self) -> Table:
        return Table(self.header, self.rows, f"{self.title}, as a table")


class EarnedMore(NamedTuple):
    """Sentence that one policy earned more than another, with the colours of their names."""

    winner: str
    loser: str
    amount: str
    periods: int
    colours: Mapping[str, int]


class Answer(NamedTuple):
    chip: str
    is_decided: bool
    sentence: str | EarnedMore
    detail: str = ""
    numbers: Sequence[tuple[str, str, str]] = ()  # term, number, explanation


def render(
    title: str, cards: Sequence[Card], footer: str, *, about: str = "", answer: Answer | None = None
) -> str:
    return template("report.html").render(
        title=title, about=about, style=stylesheet(), answer=answer, cards=cards, footer=footer
    )


def write(path: str | Path, page: str) -> None:
    target = Path(path)
    if not target.parent.is_dir():
        raise Invalid(f"cannot write {str(path)!r}: no folder {str(target.parent)!r}")
    write_whole(target, page.encode())
