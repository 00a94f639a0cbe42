"""Part of `peers.py`: the picture of the README, as SVG in the colours of the reports."""

from __future__ import annotations

import math
from html import escape

PANELS = ("UCB1", "Thompson sampling")
ORDER = ("sameluck", "NumPy", "river", "SMPyBandits", "rlberry", "MABWiser")
NAMES = {"NumPy": "NumPy, 1,000 at once"}
WIDTH, LEFT, GAP, TOP, ROW = 720, 190, 34, 62, 26
STYLE = """
text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif;fill:#131820}
.title{font-weight:650}.axis{font-size:12px;fill:#5f6a79}.grid{stroke:#dde2e8}.ground{fill:#fff}
.ours{fill:#00735c}.theirs{fill:#7f8996}.us{font-weight:650;fill:#00735c}
@media (prefers-color-scheme:dark){text{fill:#e9edf2}.axis{fill:#929dab}.grid{stroke:#2b333d}.ground{fill:#151a21}
.ours{fill:#3fcba6}.theirs{fill:#76818f}.us{fill:#3fcba6}}
"""


def picture(record):
    """Dots on a logarithmic axis, one row for each program, one panel for each of two policies."""
    jobs = {title: record["jobs"][title] for title in PANELS}
    rows = [name for name in ORDER if any(name in job for job in jobs.values())]
    speeds = [one["best"] for job in jobs.values() for one in job.values()]
    low, high = math.floor(math.log10(min(speeds))), math.ceil(math.log10(max(speeds)))
    height = TOP + ROW * len(rows) + 34
    width = (WIDTH - LEFT - GAP * len(PANELS)) / len(PANELS)
    marks = [_row(name, row) for row, name in enumerate(rows)]
    for column, (title, job) in enumerate(jobs.items()):
        left = LEFT + column * (width + GAP)
        scale = Scale(left, width, low, high)
        marks += _panel(title, job, rows, scale)
    finding = _finding(jobs)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(finding)}">\n<style>{STYLE}</style>\n'
        f'<rect class="ground" width="{WIDTH}" height="{height}" rx="10"/>\n'
        f'<text class="axis" x="16" y="24">Policy-steps a second, one thread, five arms (logarithmic)</text>\n'
        + "\n".join(marks)
        + "\n</svg>\n"
    )


class Scale:
    """Where a speed is on the axis of a panel."""

    def __init__(self, left, width, low, high):
        self.left, self.width, self.low, self.high = left, width, low, high

    def __call__(self, speed):
        share = (math.log10(speed) - self.low) / (self.high - self.low)
        return self.left + share * self.width


def _row(name, row):
    kind = ' class="us"' if name == "sameluck" else ""
    label = escape(NAMES.get(name, name))
    return (
        f'<text{kind} x="{LEFT - 14}" y="{TOP + ROW * row + 17}" text-anchor="end">{label}</text>'
    )


def _panel(title, job, rows, scale):
    bottom = TOP + ROW * len(rows)
    marks = [f'<text class="title" x="{scale.left:.0f}" y="{TOP - 12}">{escape(title)}</text>']
    for power in range(scale.low, scale.high + 1):
        x = f"{scale(10.0**power):.1f}"
        marks.append(f'<line class="grid" x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}"/>')
        if (power - scale.low) % 2 == 0:
            word = _short(10.0**power)
            marks.append(
                f'<text class="axis" x="{x}" y="{bottom + 18}" text-anchor="middle">{word}</text>'
            )
    for row, name in enumerate(rows):
        if name in job:
            marks += _dot(name, job[name]["best"], TOP + ROW * row + ROW / 2, scale)
    return marks


def _dot(name, speed, y, scale):
    x, ours = scale(speed), name == "sameluck"
    kind, side = ("us", "end") if ours else ("axis", "start")
    shift = -11 if ours else 11
    return [
        f'<circle class="{"ours" if ours else "theirs"}" cx="{x:.1f}" cy="{y:.1f}" r="{6 if ours else 5}"/>',
        f'<text class="{kind}" x="{x + shift:.1f}" y="{y + 4:.1f}" text-anchor="{side}">{_short(speed)}</text>',
    ]


def _short(speed):
    """A speed in two digits: 37 k, 120 M."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if speed >= size:
            return f"{float(f'{speed / size:.2g}'):g}{letter}"
    return f"{float(f'{speed:.2g}'):g}"


def _finding(jobs):
    parts = []
    for title, job in jobs.items():
        others = ", ".join(
            f"{NAMES.get(name, name)} {_short(job[name]['best'])}"
            for name in ORDER[1:]
            if name in job
        )
        parts.append(f"{title}: sameluck {_short(job['sameluck']['best'])}, {others}")
    return "Policy-steps a second. " + "; ".join(parts)
