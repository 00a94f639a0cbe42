"""The folder: an HTML page, a Markdown page, figures, tables, data and `results.json`, each whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sameluck.errors import Invalid
from sameluck.files import to_json, write_whole
from sameluck.paper.examples import FAR
from sameluck.paper.exhibit import Exhibit
from sameluck.paper.parts import Findings, Settings
from sameluck.paper.running import PARTS
from sameluck.paper.tables import Table, as_csv, as_latex, as_markdown_table, shown_rows
from sameluck.randomness import streams
from sameluck.reporting import pages, plots, tables

TITLE = "The paper, reproduced"
SCHEMA = 1

CONVENTIONS = (
    "UCB1 takes the logarithm of the number of plays made so far (log(t - 1) in period t), as Auer, Cesa-Bianchi and "
    "Fischer do; the paper's formula prints log t, but its Table 1 is met at T = 10 only this way.",
    "Every policy first plays each arm once, in order, Thompson sampling too (`first_plays=1`), and those rewards "
    "enter the posterior: Table 2 is met at T = 10 only this way.",
    "Ties go to the arm with the lowest index. Epsilon-greedy explores among all arms.",
    "The published T = 100 entry of Table 2 is lower than any convention we tried gives, though within what its "
    "10,000 runs allow.",
    "Var(N_2)/T of Gaussian Thompson sampling does not keep growing in our runs: it peaks early and falls, while its "
    "Monte Carlo error grows.",
    '"About 1.09" is interactions / T at T = 10,000 with exploration among all arms; a fitted line gives less.',
)


def results(found: Mapping[str, Findings], settings: Settings) -> dict[str, Any]:
    """Every number, its published counterpart where there is one, and whether all is well."""
    matches = [
        {"part": name, **one} for name, part in found.items() for one in part.get("published", [])
    ]
    failing = [name for name, part in found.items() if not part.get("passes", True)]
    far = [one for one in matches if not one["meets"]]
    return {
        "schema": SCHEMA,
        "sameluck": version("sameluck"),
        "stream_version": streams.VERSION,
        "settings": settings._asdict(),
        "ok": not far and not failing,
        "far": FAR,
        "published": matches,
        "failing": failing,
        "parts": dict(found),
    }


def verdict(result: Mapping[str, Any]) -> str:
    """Whether the paper was met, in a sentence."""
    matches, parts = result["published"], result["parts"]
    checks = [part for part in parts.values() if "passes" in part]
    sentences = []
    if matches:
        met = sum(one["meets"] for one in matches)
        sentences.append(
            f"{met} of {len(matches)} published numbers are within {FAR:g} standard errors."
        )
    if checks:
        held = sum(part["passes"] for part in checks)
        sentences.append(f"{held} of {len(checks)} checks of theorems hold.")
    off = [
        f"{one['part']}, {one['name']} (z = {one['z']:.1f})" for one in matches if not one["meets"]
    ]
    wrong = [*off, *result["failing"]]
    return " ".join([*sentences, f"Not met: {'; '.join(wrong)}." if wrong else ""]).strip()


def write_all(folder: Path, result: Mapping[str, Any], shown: Sequence[Exhibit]) -> None:
    """Write everything but the parts; `results.json` comes last, so that where it is, the rest is."""
    for name in ("figures", "tables", "data"):
        _make(folder / name)
    pictures = {}
    for one in shown:
        if one.table is not None:
            _write_table(folder / "tables", one.table)
        if one.figure is not None:
            drawn = one.figure.draw()
            svg = plots.to_bytes(drawn, ".svg")
            write_whole(folder / "figures" / f"{one.figure.name}.svg", svg)
            write_whole(
                folder / "figures" / f"{one.figure.name}.pdf", plots.to_bytes(drawn, ".pdf")
            )
            write_whole(
                folder / "data" / f"{one.figure.name}.csv", as_csv(one.figure.data).encode()
            )
            pictures[one.figure.name] = plots.svg_element(svg)
    write_whole(folder / "report.html", as_html(result, shown, pictures).encode())
    write_whole(folder / "paper.md", as_markdown(result, shown).encode())
    write_whole(folder / "results.json", (to_json(result) + "\n").encode())


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise Invalid(f"cannot make the folder {str(folder)!r}: {error.strerror}") from None


def _write_table(folder: Path, table: Table) -> None:
    write_whole(folder / f"{table.name}.csv", as_csv(table).encode())
    write_whole(folder / f"{table.name}.tex", as_latex(table).encode())


def as_text(result: Mapping[str, Any], shown: Sequence[Exhibit]) -> str:
    """What the terminal shows."""
    parts = [
        f"{one.title}\n\n{tables.text_table(one.table.header, shown_rows(one.table))}"
        for one in shown
        if one.table is not None and one.brief
    ]
    return "\n\n".join([*parts, verdict(result)])


def _about(result: Mapping[str, Any]) -> str:
    settings = result["settings"]
    scope = "Every table, figure and theorem" if len(result["parts"]) == len(PARTS) else "Parts"
    return (
        f'{scope} of "Design Experiments to Compare Multi-armed Bandit Algorithms", computed anew with '
        f"{settings['replications']:,} replications (seed {settings['seed']}) and held against what was published."
    )


def as_html(
    result: Mapping[str, Any], shown: Sequence[Exhibit], pictures: Mapping[str, str]
) -> str:
    """One page with everything in it."""
    cards = [pages.Card("Summary", f"{_about(result)} {verdict(result)}")]
    for one in shown:
        header, rows = (one.table.header, shown_rows(one.table)) if one.table else ((), [])
        picture = pictures[one.figure.name] if one.figure else ""
        cards.append(pages.Card(one.title, one.text, header, rows, picture))
    cards.append(pages.Card("What had to be settled", "", ("",), [[text] for text in CONVENTIONS]))
    footer = f"Made with sameluck {result['sameluck']}; the same seed gives the same bits."
    return pages.render(TITLE, cards, footer)


def as_markdown(result: Mapping[str, Any], shown: Sequence[Exhibit]) -> str:
    """The same for a documentation folder; figures are linked."""
    blocks = [
        f"# {TITLE}",
        _about(result),
        "This page is written by `sameluck paper`.",
        f"**{verdict(result)}**",
    ]
    for one in shown:
        blocks += [f"## {one.title}", one.text]
        if one.figure is not None:
            blocks.append(f"![{one.figure.alt}](figures/{one.figure.name}.svg)")
        if one.table is not None:
            blocks.append(as_markdown_table(one.table))
    blocks += ["## What had to be settled", "\n".join(f"* {text}" for text in CONVENTIONS), _OWN]
    return "\n\n".join(block for block in blocks if block) + "\n"


_OWN = """## The same pictures of your own replication

The functions that drew the illustration take any small traced replication, of any number of policies:

```python
import sameluck as sl
from sameluck.reporting import plots

experiment = sl.Experiment(
    policies={"ucb": sl.UCB1(), "thompson": sl.ThompsonBernoulli(), "greedy": sl.EpsilonGreedy()},
    arms=3,
    horizon=12,
    replications=1,
)
trace = sl.trace(experiment, sl.Bernoulli([0.6, 0.5, 0.4]))
plots.save(plots.draw_trajectories(trace), "trajectories.svg")
plots.save(plots.draw_stacks(trace), "stacks.svg")
```"""
