"""Mixins for results that show themselves: the only module of inference that reaches `sameluck.reporting`.

A result class names its module of `sameluck.reporting` in `_presentation`. That module makes titles, sentences,
tables, figures and pages from the result alone. It is imported when a result is first shown, because estimates do
not need it.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from sameluck.reporting.drawing import Axes, Figure
    from sameluck.reporting.pages.page import Card

__all__ = ["Axes", "Card", "Displayed", "DisplayedOnPages", "Figure", "reporting", "written"]


def reporting(module: str) -> ModuleType:
    return import_module(f"sameluck.reporting.{module}")


class Displayed:
    """Mixin for results with a title, a verdict, cautions, a table and a figure.

    The module `_presentation` has the functions `title`, `verdict`, `cautions`, `text`, `notebook` (each takes the
    result) and `figure` (which takes the result and matplotlib axes or None).
    """

    _presentation: ClassVar[str]

    @cached_property
    def title(self) -> str:
        """Subject of the result, on one line."""
        return str(reporting(self._presentation).title(self))

    @cached_property
    def verdict(self) -> str:
        """Result in sentences."""
        return str(reporting(self._presentation).verdict(self))

    @cached_property
    def cautions(self) -> tuple[str, ...]:
        """Sentences to read before relying on the result."""
        return tuple(reporting(self._presentation).cautions(self))

    def __str__(self) -> str:
        return str(reporting(self._presentation).text(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return str(reporting(self._presentation).notebook(self))

    def plot(self, path: str | Path | None = None, *, ax: Axes | None = None) -> Figure:
        """Draw the result with matplotlib; write the figure to `path`, or draw on the axes `ax`."""
        figure: Figure = reporting(self._presentation).figure(self, ax)
        return reporting("drawing").saved(figure, path)


class DisplayedOnPages(Displayed):
    """Mixin for results with a LaTeX table and an HTML page.

    The module `_presentation` also has the functions `latex` and `page`.
    """

    def to_latex(self) -> str:
        """Return the printed table as a LaTeX tabular (booktabs)."""
        return str(reporting(self._presentation).latex(self))

    def to_html(self, path: str | Path | None = None) -> str:
        """Return a self-contained page; also write it to `path` if given."""
        return written(reporting(self._presentation).page(self), path)


def written(page: str, path: str | Path | None) -> str:
    """Return the page; also write it to `path` if given."""
    if path is not None:
        reporting("pages.page").write(path, page)
    return page
