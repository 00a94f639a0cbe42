"""Folder of the report: HTML page, Markdown page, figures, tables, data and `results.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from sameluck.files import make_folder, to_json, write_whole
from sameluck.paper import published, theorem_tests
from sameluck.paper.chapters import Cell, Chapter, Record, ReportTable, Section, Settings
from sameluck.randomness import streams
from sameluck.reporting import drawing, tables
from sameluck.reporting.pages import page as pages

TITLE = "The paper, reproduced"
SCHEMA = 1

CONVENTIONS = (
    "UCB1 takes the logarithm of the number of plays so far (log(t - 1) in period t), as Auer, Cesa-Bianchi and "
    "Fischer do. The paper's formula prints log t, but its Table 1 is reproduced at T = 10 only with log(t - 1).",
    "Every policy first plays each arm once, in order, also Thompson sampling (`first_plays=1`), and these rewards "
    "enter the posterior. Table 2 is reproduced at T = 10 only with this convention.",
    "Ties go to the arm with the lowest index. Epsilon-greedy explores among all arms.",
    "The published T = 100 entry of Table 2 is lower than under any convention we tried, but within the sampling "
    "error of its 10,000 runs.",
    "Var(N_2)/T of Gaussian Thompson sampling does not keep growing in our runs: it peaks early and falls, while its "
    "Monte Carlo error grows.",
    '"An asymptotic slope of about 1.09" fits interactions / T at T = 10,000 with exploration among all arms. It '
    "also fits the rise from T = 5,000 to 10,000 with exploration among the other arms. The data do not decide.",
)

DIRECTIONS = Section(
    "Directions that the paper names",
    "For contextual bandits, the paper asks whether rewards can be replayed between similar contexts, by clusters or "
    "kernels, and at what bias, because equal contexts are rare. For reinforcement learning, it asks whether a "
    "coupling like replay improves the estimate at all. The paper leaves both open. "
    "sameluck does not replay between different contexts. It replays the k-th reward of a level and arm, the reward "
    "of the same user, or the k-th outcome of a state and action. There replay is exact; docs/contexts.md has the "
    "proof and measures the gain.",
)


def summarise(results: Mapping[str, Record], settings: Settings) -> Record:
    """Return the content of results.json: all numbers, their published counterparts, and whether they agree."""
    matches = []
    for name, result in results.items():
        matches += [{"part": name, **match} for match in result.get("published", [])]
    failing = [name for name, result in results.items() if not result.get("passes", True)]
    return {
        "schema": SCHEMA,
        "sameluck": version("sameluck"),
        "stream_version": streams.VERSION,
        "settings": settings._asdict(),
        "ok": all(match["meets"] for match in matches) and not failing,
        "far": published.MAX_Z,
        "published": matches,
        "failing": failing,
        "parts": dict(results),
    }


def verdict(summary: Record) -> str:
    matches = summary["published"]
    passes = [chapter["passes"] for chapter in summary["parts"].values() if "passes" in chapter]
    sentences = []
    if matches:
        met, evidence = sum(row["meets"] for row in matches), [row["kind"] for row in matches]
        counts = [
            f"{text}: {evidence.count(key)}"
            for key, text in published.EVIDENCE.items()
            if key in evidence
        ]
        sentences.append(
            f"{met} of {len(matches)} published numbers are within {published.MAX_Z:g} standard errors "
            f"({', '.join(counts)})."
        )
    if passes:
        sentences.append(f"{sum(passes)} of {len(passes)} checks of theorems hold.")
    differing = [
        f"{row['part']}, {row['name']} (z = {row['z']:.1f})" for row in matches if not row["meets"]
    ]
    if failing := [*differing, *summary["failing"]]:
        sentences.append(f"Not met: {'; '.join(failing)}.")
    return " ".join(sentences)


def collect_sections(chapters: Sequence[Chapter], results: Mapping[str, Record]) -> list[Section]:
    """Return the sections of all chapters, with a summary before the first theorem."""
    shown = {chapter.title: results[chapter.name] for chapter in chapters}
    checked = {title: result for title, result in shown.items() if "passes" in result}
    sections: list[Section] = []
    for chapter in chapters:
        if chapter.title == next(iter(checked), None):
            sections.append(theorem_tests.summary(checked))
        sections += chapter.sections(chapter, results[chapter.name])
    return [*sections, DIRECTIONS]


def write(folder: Path, summary: Record, sections: Sequence[Section], *, complete: bool) -> None:
    """Write everything but the cached chapters; `results.json` is written last, as the mark of a complete folder."""
    for name in ("figures", "tables", "data"):
        make_folder(folder / name)
    pictures = {}
    for section in sections:
        if table := section.table:
            path = folder / "tables" / table.name
            latex = tables.latex_table(table.header, formatted_rows(table))
            write_whole(path.with_suffix(".csv"), _csv(table))
            write_whole(path.with_suffix(".tex"), latex.encode())
        if figure := section.figure:
            drawn, path = figure.draw(), folder / "figures" / figure.name
            svg, pdf = (drawing.to_bytes(drawn, ending) for ending in (".svg", ".pdf"))
            write_whole(path.with_suffix(".svg"), svg)
            write_whole(path.with_suffix(".pdf"), pdf)
            write_whole(folder / "data" / f"{figure.name}.csv", _csv(figure.data))
            pictures[figure.name] = drawing.svg_element(svg)
    about = _about(summary, complete=complete)
    write_whole(folder / "report.html", as_html(summary, about, sections, pictures).encode())
    write_whole(folder / "paper.md", as_markdown(summary, about, sections).encode())
    write_whole(folder / "results.json", (to_json(summary) + "\n").encode())


def _csv(table: ReportTable) -> bytes:
    return tables.csv_table(table.header, table.rows).encode()


def formatted_cell(cell: Cell, decimals: int = 2) -> str:
    """Format a value with thousands separators, a small number with two significant digits."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        if 0 < abs(cell) < 10.0 ** (1 - decimals):
            return f"{cell:.2g}"
        return f"{cell:,.{decimals if abs(cell) < 100_000 else 0}f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def formatted_rows(table: ReportTable) -> list[list[str]]:
    return [[formatted_cell(cell, table.decimals) for cell in row] for row in table.rows]


def as_markdown_table(table: ReportTable) -> str:
    marks = ["---", *["---:"] * (len(table.header) - 1)]
    lines = [table.header, marks, *formatted_rows(table)]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines
    )


def as_text(summary: Record, sections: Sequence[Section]) -> str:
    blocks = [
        f"{section.title}\n\n{tables.text_table(section.table.header, formatted_rows(section.table))}"
        for section in sections
        if section.table is not None and section.brief
    ]
    return "\n\n".join([*blocks, verdict(summary)])


def _about(summary: Record, *, complete: bool) -> str:
    settings = summary["settings"]
    scope = "All tables, theorems and data figures" if complete else "Parts"
    return (
        f'{scope} of "Design Experiments to Compare Multi-armed Bandit Algorithms", recomputed with '
        f"{settings['replications']:,} replications (seed {settings['seed']}) and compared with the published "
        "numbers."
    )


def as_html(
    summary: Record, about: str, sections: Sequence[Section], pictures: Mapping[str, drawing.Svg]
) -> str:
    cards = [pages.Card("Summary", f"{about} {verdict(summary)}")]
    for section in sections:
        table, figure = section.table, section.figure
        header, rows = (table.header, formatted_rows(table)) if table else ((), [])
        picture = pictures[figure.name] if figure else None
        cards.append(pages.Card(section.title, section.text, header, rows, picture))
    cards.append(pages.Card("Conventions", "", ("",), [[text] for text in CONVENTIONS]))
    footer = f"Made with sameluck {summary['sameluck']}; the same seed gives the same bits."
    return pages.render(TITLE, cards, footer)


def as_markdown(summary: Record, about: str, sections: Sequence[Section]) -> str:
    generated = "`sameluck paper` writes this page."
    blocks = [f"# {TITLE}", about, generated, f"**{verdict(summary)}**"]
    for section in sections:
        blocks += [f"## {section.title}", section.text]
        if section.figure is not None:
            blocks.append(f"![{section.figure.alt}](figures/{section.figure.name}.svg)")
        if section.table is not None:
            blocks.append(as_markdown_table(section.table))
    blocks += ["## Conventions", "\n".join(f"* {text}" for text in CONVENTIONS), _FIGURES_SECTION]
    return "\n\n".join(block for block in blocks if block) + "\n"


_FIGURES_SECTION = """## The same figures for your own replication

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
