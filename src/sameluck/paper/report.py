"""The folder: an HTML page, a Markdown page, figures, tables, data and `results.json`, each written whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from sameluck.files import make_folder, to_json, write_whole
from sameluck.paper import checks, published
from sameluck.paper.parts import Cell, Part, Record, Section, Settings, Table
from sameluck.randomness import streams
from sameluck.reporting import plots, tables
from sameluck.reporting.pages import page as pages

TITLE = "The paper, reproduced"
SCHEMA = 1

CONVENTIONS = (
    "UCB1 takes the logarithm of the number of plays made so far (log(t - 1) in period t), as Auer, Cesa-Bianchi and "
    "Fischer do; the paper's formula prints log t, but its Table 1 is reproduced at T = 10 only with log(t - 1).",
    "Every policy first plays each arm once, in order, Thompson sampling too (`first_plays=1`), and those rewards "
    "enter the posterior: Table 2 is reproduced at T = 10 only with this convention.",
    "Ties go to the arm with the lowest index. Epsilon-greedy explores among all arms.",
    "The published T = 100 entry of Table 2 is lower than under any convention we tried, but within the sampling "
    "error of its 10,000 runs.",
    "Var(N_2)/T of Gaussian Thompson sampling does not keep growing in our runs: it peaks early and falls, while its "
    "Monte Carlo error grows.",
    '"An asymptotic slope of about 1.09" fits interactions / T at T = 10,000 with exploration among all arms, and as '
    "well the rise from T = 5,000 to 10,000 with exploration among the others; the data do not decide between them.",
)

DIRECTIONS = Section(
    "Directions that the paper names",
    "For contextual bandits, the paper asks whether rewards can be replayed between similar contexts, by clusters or "
    "kernels, and at what bias, because equal contexts are rare; for reinforcement learning, whether a coupling like "
    "replay improves the estimate at all. Both are open, and sameluck offers neither: it replays a reward only for "
    "the same arm of a bandit without contexts, where replay is exact.",
)


def summarise(results: Mapping[str, Record], settings: Settings) -> Record:
    """The content of results.json: every number, its published counterpart if there is one, and whether all agree."""
    matches = [
        {"part": name, **one}
        for name, result in results.items()
        for one in result.get("published", [])
    ]
    failing = [name for name, result in results.items() if not result.get("passes", True)]
    return {
        "schema": SCHEMA,
        "sameluck": version("sameluck"),
        "stream_version": streams.VERSION,
        "settings": settings._asdict(),
        "ok": all(one["meets"] for one in matches) and not failing,
        "far": published.FAR,
        "published": matches,
        "failing": failing,
        "parts": dict(results),
    }


def verdict(summary: Record) -> str:
    """Whether the paper was reproduced, in a sentence."""
    matches = summary["published"]
    passes = [part["passes"] for part in summary["parts"].values() if "passes" in part]
    sentences = []
    if matches:
        met, kinds = sum(one["meets"] for one in matches), [one["kind"] for one in matches]
        counts = [f"{text}: {kinds.count(k)}" for k, text in published.KINDS.items() if k in kinds]
        sentences.append(
            f"{met} of {len(matches)} published numbers are within {published.FAR:g} standard errors "
            f"({', '.join(counts)})."
        )
    if passes:
        sentences.append(f"{sum(passes)} of {len(passes)} checks of theorems hold.")
    differing = [
        f"{one['part']}, {one['name']} (z = {one['z']:.1f})" for one in matches if not one["meets"]
    ]
    if failing := [*differing, *summary["failing"]]:
        sentences.append(f"Not met: {'; '.join(failing)}.")
    return " ".join(sentences)


def collect_sections(parts: Sequence[Part], results: Mapping[str, Record]) -> list[Section]:
    """The sections of every part, with a summary before the first theorem."""
    checked = {part.title: results[part.name] for part in parts if "passes" in results[part.name]}
    sections: list[Section] = []
    for part in parts:
        if part.title == next(iter(checked), None):
            sections.append(checks.summary(checked))
        sections += part.sections(part, results[part.name])
    return [*sections, DIRECTIONS]


def write(folder: Path, summary: Record, sections: Sequence[Section], *, complete: bool) -> None:
    """Write everything but the cached parts; `results.json` is last, so that if it is there, the rest is."""
    for name in ("figures", "tables", "data"):
        make_folder(folder / name)
    pictures = {}
    for one in sections:
        if table := one.table:
            path = folder / "tables" / table.name
            latex = tables.latex_table(table.header, formatted_rows(table))
            write_whole(path.with_suffix(".csv"), _csv(table))
            write_whole(path.with_suffix(".tex"), latex.encode())
        if figure := one.figure:
            drawing, path = figure.draw(), folder / "figures" / figure.name
            svg, pdf = (plots.to_bytes(drawing, ending) for ending in (".svg", ".pdf"))
            write_whole(path.with_suffix(".svg"), svg)
            write_whole(path.with_suffix(".pdf"), pdf)
            write_whole(folder / "data" / f"{figure.name}.csv", _csv(figure.data))
            pictures[figure.name] = plots.svg_element(svg)
    about = _about(summary, complete=complete)
    write_whole(folder / "report.html", as_html(summary, about, sections, pictures).encode())
    write_whole(folder / "paper.md", as_markdown(summary, about, sections).encode())
    write_whole(folder / "results.json", (to_json(summary) + "\n").encode())


def _csv(table: Table) -> bytes:
    return tables.csv_table(table.header, table.rows).encode()


def formatted_cell(cell: Cell, decimals: int = 2) -> str:
    """A value with thousands separators; a small number with two significant digits."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        if 0 < abs(cell) < 10.0 ** (1 - decimals):
            return f"{cell:.2g}"
        return f"{cell:,.{decimals if abs(cell) < 100_000 else 0}f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def formatted_rows(table: Table) -> list[list[str]]:
    """The rows as text."""
    return [[formatted_cell(cell, table.decimals) for cell in row] for row in table.rows]


def as_markdown_table(table: Table) -> str:
    """The table as Markdown."""
    marks = ["---", *["---:"] * (len(table.header) - 1)]
    lines = [table.header, marks, *formatted_rows(table)]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines
    )


def as_text(summary: Record, sections: Sequence[Section]) -> str:
    """The report for a terminal."""
    parts = [
        f"{one.title}\n\n{tables.text_table(one.table.header, formatted_rows(one.table))}"
        for one in sections
        if one.table is not None and one.brief
    ]
    return "\n\n".join([*parts, verdict(summary)])


def _about(summary: Record, *, complete: bool) -> str:
    settings = summary["settings"]
    scope = "Every table, every theorem and every figure of data" if complete else "Parts"
    return (
        f'{scope} of "Design Experiments to Compare Multi-armed Bandit Algorithms", recomputed with '
        f"{settings['replications']:,} replications (seed {settings['seed']}) and compared with the published "
        "numbers."
    )


def as_html(
    summary: Record, about: str, sections: Sequence[Section], pictures: Mapping[str, plots.Svg]
) -> str:
    """The report as one self-contained page."""
    cards = [pages.Card("Summary", f"{about} {verdict(summary)}")]
    for one in sections:
        header, rows = (one.table.header, formatted_rows(one.table)) if one.table else ((), [])
        picture = pictures[one.figure.name] if one.figure else None
        cards.append(pages.Card(one.title, one.text, header, rows, picture))
    cards.append(pages.Card("Conventions", "", ("",), [[text] for text in CONVENTIONS]))
    footer = f"Made with sameluck {summary['sameluck']}; the same seed gives the same bits."
    return pages.render(TITLE, cards, footer)


def as_markdown(summary: Record, about: str, sections: Sequence[Section]) -> str:
    """The report as Markdown with links to the figures."""
    generated = "This page is written by `sameluck paper`."
    blocks = [f"# {TITLE}", about, generated, f"**{verdict(summary)}**"]
    for one in sections:
        blocks += [f"## {one.title}", one.text]
        if one.figure is not None:
            blocks.append(f"![{one.figure.alt}](figures/{one.figure.name}.svg)")
        if one.table is not None:
            blocks.append(as_markdown_table(one.table))
    blocks += ["## Conventions", "\n".join(f"* {text}" for text in CONVENTIONS), _OWN_FIGURES]
    return "\n\n".join(block for block in blocks if block) + "\n"


_OWN_FIGURES = """## The same figures for your own replication

The functions that draw the illustration take any small traced replication, with any number of policies:

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
