"""Style, colours and files of figures; the same figure gives the same file."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from sameluck.errors import Invalid, optional, shown
from sameluck.files import write_whole

FORMATS = (".svg", ".pdf", ".png")

# Okabe and Ito's colours, which colour-blind readers can distinguish; dashes distinguish lines in black and white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D")

_STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "sameluck",
}
_METADATA = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # no dates: equal bytes

_PIXELS = 100  # per inch in a notebook, where a file has 160 for sharp text

Axes: TypeAlias = Any  # matplotlib's, which is imported only when something is drawn


class Svg(str):
    """SVG of a figure, which a page shows as it is."""

    __slots__ = ()


class Figure(Protocol):
    def __getattr__(self, name: str) -> Any: ...


@contextmanager
def drawing(
    size: tuple[float, float], title: str, ax: Axes | None = None
) -> Iterator[tuple[Figure, Axes]]:
    """Yield an empty figure and its axes in the common style, or the axes `ax` and their figure unchanged."""
    if ax is not None:
        if not hasattr(ax, "figure") or not hasattr(ax, "set_title"):
            raise Invalid(f"ax must be the Axes of a matplotlib figure, got {shown(ax)}")
        ax.set_title(title)
        yield ax.figure, ax
        return
    with panels(size, 1, 1) as (figure, ((axes,),)):
        axes.set_title(title)
        yield figure, axes


@contextmanager
def panels(
    size: tuple[float, float], rows: int, columns: int
) -> Iterator[tuple[Figure, Sequence[Sequence[Axes]]]]:
    """Yield an empty figure and rows of axes in the common style."""
    with optional("matplotlib", "plots").rc_context(_STYLE):
        figure = optional("matplotlib.figure", "plots").Figure(figsize=size, layout="constrained")
        figure._repr_png_ = partial(_notebook_png, figure)
        yield figure, figure.subplots(rows, columns, squeeze=False)


def _notebook_png(figure: Figure) -> tuple[bytes, dict[str, int]]:
    # Jupyter shows a figure of matplotlib only after pyplot has been used; this method shows it always.
    width, height = figure.get_size_inches()
    size = {"width": round(_PIXELS * width), "height": round(_PIXELS * height)}
    return to_bytes(figure, ".png"), size


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def dash(index: int) -> str:
    return DASHES[index % len(DASHES)]


def checked_path(path: str | Path) -> Path:
    """Return the path, or raise `Invalid` if no figure can be written there; nothing is written."""
    target = Path(path)
    if target.suffix not in FORMATS:
        raise Invalid(f"cannot plot to {str(path)!r}: its ending must be {', '.join(FORMATS)}")
    if not target.parent.is_dir():
        raise Invalid(f"cannot write {str(path)!r}: no folder {str(target.parent)!r}")
    return target


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as SVG, PDF or PNG, by the file's ending; the same figure gives the same bytes."""
    target = checked_path(path)
    write_whole(target, to_bytes(figure, target.suffix))
    return target


def saved(figure: Figure, path: str | Path | None) -> Figure:
    """Return the figure; also write it to `path` if given."""
    if path is not None:
        save(figure, path)
    return figure


def to_bytes(figure: Figure, ending: str) -> bytes:
    """Return the content of a figure's file: `.svg`, `.pdf` or `.png`."""
    content = io.BytesIO()
    with optional("matplotlib", "plots").rc_context(_STYLE):
        figure.savefig(content, format=ending[1:], metadata=_METADATA.get(ending), dpi=160)
    return content.getvalue()


def to_svg(figure: Figure) -> Svg:
    return svg_element(to_bytes(figure, ".svg"))


def svg_element(content: bytes) -> Svg:
    """Return the SVG of a file without its XML prolog."""
    text = content.decode()
    return Svg(text.partition("<!DOCTYPE")[2].partition(">")[2] or text)
