"""Draw docs/regret.svg: the pseudo-regret of every policy beside the lower bound of Lai and Robbins.

`python scripts/regret_figure.py` simulates each policy at its defaults for 10,000 periods, 400 times, on two
Bernoulli bandits that papers use, and takes about a minute.
"""

import math
from pathlib import Path

import numpy as np

import sameluck as sl
from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.policies.base import POLICIES, usable_contexts
from sameluck.policies.registry import as_policy
from sameluck.reporting import plots

FIGURE = Path(__file__).parent.parent / "docs" / "regret.svg"
HORIZON, REPLICATIONS, POINTS = 10_000, 400, 25
BANDITS = {
    "two arms: 0.9, 0.8": (0.9, 0.8),
    "ten arms: 0.1, and three of each 0.05, 0.02, 0.01": (
        0.1,
        *3 * (0.05,),
        *3 * (0.02,),
        *3 * (0.01,),
    ),
}
OPTIMAL = ("KLUCB", "IMED", "BayesUCB", "ThompsonBernoulli")  # asymptotically, on Bernoulli arms
EXCLUDED = ("Always", "Batched", "External")  # one arm, and other policies' rules; contexts neither
BOUND, LOWER_LIMIT = "Lai and Robbins", 1.0
LABEL_DISTANCE = 0.036  # in heights of the axes


def lower_bound(means: tuple[float, ...]) -> float:
    """Return the limit of regret / log t (Lai and Robbins, 1985): the sum of gap / KL(mean, best)."""
    best = max(means)
    return sum(
        (best - mean)
        / (mean * math.log(mean / best) + (1 - mean) * math.log((1 - mean) / (1 - best)))
        for mean in means
        if mean < best
    )


def mean_regrets(means: tuple[float, ...], checkpoints: list[int]) -> dict[str, Floats]:
    """Return each policy's mean pseudo-regret at each checkpoint, sorted by the value at the end."""
    classes = [
        item
        for item in POLICIES.values()
        if item.__module__.startswith("sameluck.")
        and item.__name__ not in EXCLUDED
        and not usable_contexts(as_policy(text_forms.example(item), 2))
    ]
    experiment = sl.Experiment(
        policies={item.__name__: text_forms.example(item) for item in classes},
        horizon=HORIZON,
        replications=REPLICATIONS,
        seed=1985,
    )
    runs = sl.simulate(experiment, sl.Bernoulli(means), checkpoints=checkpoints)
    values = sl.compare(runs, metric="regret", simultaneous="none").values
    curves = {
        name: np.array([v.value for v in values if v.policy == name]) for name in runs.policies
    }
    return dict(sorted(curves.items(), key=lambda item: float(item[1][-1])))


def draw() -> plots.Figure:
    """Draw two panels with a line for each policy, asymptotically optimal policies in colour."""
    checkpoints = sorted({round(x) for x in np.geomspace(10, HORIZON, POINTS)})
    with plots.panels((11, 5.8), 1, 2) as (figure, (row,)):
        for axes, (title, means) in zip(row, BANDITS.items(), strict=True):
            curves = mean_regrets(means, checkpoints)
            for name, curve in curves.items():
                index = OPTIMAL.index(name) if name in OPTIMAL else None
                style = (
                    {"color": "0.72", "lw": 0.9}
                    if index is None
                    else {"color": plots.colour(index), "lw": 2}
                )
                axes.plot(checkpoints, curve, **style)
            bound = lower_bound(means) * np.log(checkpoints)
            axes.plot(checkpoints, bound, "--", color="black", lw=1.4)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlim(10, HORIZON)
            axes.set_ylim(LOWER_LIMIT, 1_000)
            ends = {name: float(curve[-1]) for name, curve in curves.items()}
            name_ends(axes, {**ends, BOUND: float(bound[-1])})
            axes.set_title(title)
            axes.set_xlabel("period")
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.yaxis.set_major_formatter("{x:,.0f}")
        row[0].set_ylabel(f"pseudo-regret, mean of {REPLICATIONS} replications")
    return figure


def name_ends(axes: plots.Axes, ends: dict[str, float]) -> None:
    """Write names beside the ends of the lines, moved apart if they would overlap."""
    low, high = (math.log(end) for end in axes.get_ylim())
    names = sorted(ends, key=lambda name: ends[name])
    heights = [(math.log(ends[name]) - low) / (high - low) for name in names]
    positions = list(heights)
    for index in range(1, len(positions)):
        positions[index] = max(positions[index], positions[index - 1] + LABEL_DISTANCE)
    positions[-1] = min(positions[-1], 1.0)
    for index in reversed(range(len(positions) - 1)):
        positions[index] = min(positions[index], positions[index + 1] - LABEL_DISTANCE)
    for name, height, position in zip(names, heights, positions, strict=True):
        is_bound = name == BOUND
        colour = plots.colour(OPTIMAL.index(name)) if name in OPTIMAL else "0.35"
        axes.annotate(
            f"{name} {ends[name]:.0f}",
            (1.0, height),
            xytext=(1.09, position),
            xycoords="axes fraction",
            fontsize=7.5,
            color="black" if is_bound else colour,
            weight="bold" if is_bound or name in OPTIMAL else "normal",
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": "0.8",
                "lw": 0.5,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


if __name__ == "__main__":
    plots.save(draw(), FIGURE)
