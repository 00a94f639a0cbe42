"""The paper reproduced: every table, figure and theorem computed anew and held against what was published.

published     what the paper prints
parts         what a part is: a plan of simulations, and what is found in them
examples      the three examples
illustration  the picture with three arms and ten periods
theorems, asymptotics   the statements, checked by `checks`, with `literal` (Algorithm 2) and `stacks`
beyond        what the paper does not try
running       runs parts, keeps what is finished, takes it up again
exhibits, verdicts   findings as tables (`tables`) and figures with a sentence each (`exhibit`)
writing       the folder: HTML, Markdown, SVG and PDF, CSV and LaTeX, JSON
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from sameluck.errors import Interrupted, optional
from sameluck.paper import exhibits, running, writing
from sameluck.paper.running import Progress


class Reproduction(NamedTuple):
    """What `sameluck paper` shows."""

    result: dict[str, Any]  # as in results.json
    text: str

    @property
    def ok(self) -> bool:
        """Whether every published number was met and every check of a theorem holds."""
        return bool(self.result["ok"])


def reproduce(
    *,
    replications: int = 10_000,
    seed: int = 7,
    only: str | None = None,
    out: str | Path = "paper-report",
    progress: Progress = lambda what, done, total: None,  # noqa: ARG005
) -> Reproduction:
    """Run the parts that are not yet on disk, and write the whole folder.

    Args:
        replications: Of every simulation; the paper has 10,000.
        seed: Same seed, same bits.
        only: Names of parts or groups of them, separated by commas; all if not given.
        out: The folder.
        progress: Called as `progress(what, done, total)`, in decisions.
    """
    settings = running.checked_settings(replications, seed)
    parts = running.chosen(only)
    optional("matplotlib", "plots")
    shelf = running.Shelf(Path(out), settings)
    shelf.open()
    try:
        found = running.run(parts, shelf, progress)
        result, shown = writing.results(found, settings), exhibits.arrange(found)
        writing.write_all(Path(out), result, shown)
    except KeyboardInterrupt:
        done = shelf.finished(parts)
        raise Interrupted(_how_to_go_on(out, done, len(parts))) from None
    finally:
        shelf.close()
    return Reproduction(result, writing.as_text(result, shown))


def _how_to_go_on(out: str | Path, done: list[str], many: int) -> str:
    if not done:
        return "interrupted before the first part was finished; nothing was written"
    return (
        f"interrupted; {len(done)} of {many} parts are finished and kept in {str(Path(out) / 'parts')!r}; "
        "run the same command again to go on from there"
    )
