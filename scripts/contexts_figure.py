"""Draw docs/contexts.svg: the effect of one policy per level against another, with own and with shared users.

`python scripts/contexts_figure.py` simulates the example of docs/contexts.md under two designs, in a few seconds.
"""

from pathlib import Path

import sameluck as sl
from sameluck.reporting import plots

FIGURE = Path(__file__).parent.parent / "docs" / "contexts.svg"
SEGMENTS = sl.ByLevel(
    [sl.Bernoulli([0.6, 0.5, 0.4]), sl.Bernoulli([0.3, 0.45, 0.4]), sl.Bernoulli([0.5, 0.4, 0.7])],
    frequencies=[0.5, 0.3, 0.2],
)
EXPERIMENT = sl.Experiment(
    policies={"ucb": sl.PerLevel(sl.UCB1(0.5)), "thompson": sl.PerLevel(sl.ThompsonBernoulli())},
    horizon=2_000,
    replications=100,
    seed=3,
)
DESIGNS = {"naive": "users of one's own", "replay": "stacks by level and arm"}


def draw() -> plots.Figure:
    """Draw one panel for each design, with one scale."""
    with plots.panels((11, 4.2), 1, 2) as (figure, (row,)):
        for axes, (design, title) in zip(row, DESIGNS.items(), strict=True):
            runs = sl.simulate(
                EXPERIMENT.replace(design=design), SEGMENTS, checkpoints=range(50, 2_001, 50)
            )
            sl.compare(runs, check=False).plot(ax=axes)
            users = runs.interactions[:, -1].mean()
            axes.set_title(f"{title}: {users:,.0f} users per replication")
            axes.set_ylim(-12, 12)
    return figure


if __name__ == "__main__":
    plots.save(draw(), FIGURE)
