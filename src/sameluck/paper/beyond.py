"""Beyond the paper: two policies of one family, where sharing their coins as well as their rewards pays."""

from __future__ import annotations

from collections.abc import Mapping

from sameluck.design import Naive, Replay
from sameluck.paper.examples import (
    EXAMPLE_2,
    EXAMPLE_3,
    HORIZON,
    Example,
    design_record,
    experiment,
)
from sameluck.paper.parts import Findings, Part, Plan, Settings, Simulation
from sameluck.policies.epsilon_greedy import EpsilonGreedy
from sameluck.policies.thompson import ThompsonBernoulli
from sameluck.runs import Runs

FAMILY_DESIGNS = {
    "naive": Naive(),
    "replay": Replay(),
    "replay, shared noise": Replay(share_noise=True),
}

FAMILIES = (
    Example(
        "thompson",
        "Thompson sampling with Beta(1, 1) and Beta(2, 2) priors on example 2's coins",
        {
            "thompson(1, 1)": ThompsonBernoulli(1.0, 1.0, 1),
            "thompson(2, 2)": ThompsonBernoulli(2.0, 2.0, 1),
        },
        EXAMPLE_2.environment,
    ),
    Example(
        "epsilon_greedy",
        "Epsilon-greedy with epsilon 0.1 and 0.05 on example 3's arms",
        {"epsilon_greedy(0.1)": EpsilonGreedy(0.1), "epsilon_greedy(0.05)": EpsilonGreedy(0.05)},
        EXAMPLE_3.environment,
    ),
)


def _plan(settings: Settings) -> Plan:
    return {
        f"{family.name}: {label}": Simulation(
            experiment(family, settings).replace(design=design), family.environment, (HORIZON,)
        )
        for family in FAMILIES
        for label, design in FAMILY_DESIGNS.items()
    }


def _find(settings: Settings, runs: Mapping[str, Runs]) -> Findings:  # noqa: ARG001
    return {
        "families": [
            {
                "title": family.title,
                "designs": [
                    design_record(
                        label, runs[f"{family.name}: {label}"], runs[f"{family.name}: naive"]
                    )
                    for label in FAMILY_DESIGNS
                ],
            }
            for family in FAMILIES
        ]
    }


PARTS = (Part("beyond", "Beyond the paper: two policies of one family", _plan, _find),)
