"""What became of the theorems: a summary, then every number of every check."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sameluck.paper.exhibit import TITLES, Exhibit, Figure, line_figure
from sameluck.paper.parts import Findings
from sameluck.paper.tables import Table
from sameluck.reporting import plots

MOST_ROWS = 12


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
    one = min(looks, key=_room)
    return one["z"], one["far"]


def _theorem(name: str, found: Findings) -> Exhibit:
    looks = found["looks"]
    shown = looks if len(looks) <= MOST_ROWS else _worst_of_each(looks)
    fields = ("quantity", "case", "measured", "error", "relation", "expected", "z")
    rows = [(*(one[field] for field in fields), "yes" if one["passes"] else "NO") for one in shown]
    header = ("quantity", "case", "measured", "error", "", "expected", "z", "holds")
    text = f"{found['statement']} Tried on {found['setting']}."
    if len(shown) < len(looks):
        text += f" Of {len(looks)} looks, the one nearest to its limit is shown for each quantity."
    figure = _FIGURES[name](found) if name in _FIGURES else None
    return Exhibit(TITLES[name], text, Table(f"theorem-{name}", header, rows), figure, brief=False)


def _worst_of_each(looks: Sequence[Findings]) -> list[Findings]:
    """Of looks at the same quantity in many cases, the one nearest to its limit."""
    chosen = []
    for quantity in dict.fromkeys(one["quantity"] for one in looks):
        alike = [one for one in looks if one["quantity"] == quantity]
        worst = min(alike, key=_room)
        more = f"{worst['case']} (of {len(alike)})" if len(alike) > 1 else worst["case"]
        chosen.append({**worst, "case": more})
    return chosen


def _room(look: Findings) -> float:
    """How far a look is from failing, in standard errors."""
    if look["z"] is None:
        return math.inf if look["passes"] else -math.inf
    return float(look["far"] - (abs(look["z"]) if look["relation"] == "=" else look["z"]))


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
