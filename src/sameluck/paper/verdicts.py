"""What became of the theorems: a summary, then every number of every check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sameluck import plots
from sameluck.paper.exhibit import TITLES, Exhibit, Figure, line_figure
from sameluck.paper.parts import Findings
from sameluck.paper.tables import Table


def theorem_exhibits(checked: Mapping[str, Findings]) -> list[Exhibit]:
    """The summary and one exhibit for each check."""
    rows = [
        (TITLES[name], len(found["looks"]), *_nearest(found["looks"]), _word(found))
        for name, found in checked.items()
    ]
    summary = Exhibit(
        "The theorems, checked",
        "A check looks at several numbers and raises a false alarm about once in a million seeds. z is the one "
        "that comes nearest to its limit; exact checks and tests by p-value have none.",
        Table("theorems", ("statement", "looks", "nearest z", "limit", "outcome"), rows),
    )
    return [summary, *(_theorem(name, found) for name, found in checked.items())]


def _word(found: Findings) -> str:
    return "holds" if found["passes"] else "FAILS"


def _nearest(looks: Sequence[Findings]) -> tuple[float | None, float | None]:
    """The z that comes nearest to its limit, and the limit."""
    rated = [
        (abs(one["z"]) if one["relation"] == "=" else one["z"], one["far"])
        for one in looks
        if one["z"] is not None
    ]
    return max(rated, key=lambda pair: pair[0] - pair[1], default=(None, None))


def _theorem(name: str, found: Findings) -> Exhibit:
    fields = ("quantity", "measured", "error", "relation", "expected", "z")
    rows = [
        (*(one[field] for field in fields), "yes" if one["passes"] else "NO")
        for one in found["looks"]
    ]
    header = ("quantity", "measured", "standard error", "", "expected", "z", "holds")
    figure = _FIGURES[name](found) if name in _FIGURES else None
    text = f"{found['statement']} Tried on {found['setting']}."
    return Exhibit(TITLES[name], text, Table(f"theorem-{name}", header, rows), figure, brief=False)


def _variance_figure(found: Findings) -> Figure:
    how = {"logarithmic": True, "limit": found["limit"]}
    return line_figure(
        "theorem-variance", _rate_lines(found), "Variance over T", "variance / T", **how
    )


def _ucb_figure(found: Findings) -> Figure:
    quantity = "Var(pulls of arm 2) / (log T)^2"
    return line_figure("theorem-ucb", _rate_lines(found), quantity, quantity, logarithmic=True)


def _rate_lines(found: Findings) -> list[plots.Line]:
    return [
        plots.Line(
            label, *(tuple(one[field] for one in many) for field in ("horizon", "value", "error"))
        )
        for label, many in found["curves"].items()
    ]


_FIGURES = {"variance": _variance_figure, "ucb": _ucb_figure}
