"""Write docs/policies.md: rule, reference and parameters of every policy, and equivalents in other packages."""

import inspect
import re
import textwrap
from pathlib import Path

from sameluck import text_forms
from sameluck.errors import Invalid
from sameluck.policies.base import (
    POLICIES,
    Policy,
    is_randomised,
    usable_contexts,
)
from sameluck.policies.batched import Batched
from sameluck.policies.registry import as_policy

PAGE = Path(__file__).parent.parent / "docs" / "policies.md"
OTHER_PACKAGES = Path(__file__).parent / "other_packages.md"
ARMS = 3
INTRODUCTION = """# Policies

Every policy of sameluck with its exact rule, reference and parameters. `sl.KLUCB(c=3)` and its text form
`klucb(c=3)` are the same policy; text forms ignore case, `-` and `_`. `sameluck policies` lists them, and `make docs`
writes this page from the docstrings. The tests compare each policy, period by period on the same rewards, with its
rule written a second time in [tests/literal_rules.py](../tests/literal_rules.py).

Conventions, where books and packages differ:

* Ties go to the lowest arm.
* If a rule says "each arm once in index order", these plays are the first periods. Otherwise there are no forced
  plays, and the mean of an arm not yet played is 0.
* The time t in a confidence bound is the number of plays so far: the bound of period t + 1 contains log(t).
* The horizon T in a rule is the experiment's horizon, also at earlier checkpoints.
* The variance in a confidence bound divides by the number of rewards, not by one less.
* Bounds and posteriors have a scale; `compare` adds a caution if the rewards have another scale.

*Randomised* policies use random numbers. Policies marked *in batches* work within `Batched`, which refuses a policy
that learns from each single reward.

"""
REGRET = """
## Regret on Bernoulli arms

![Regret of every policy beside the bound of Lai and Robbins](regret.svg)

The figure shows the mean [pseudo-regret](statistics.md#metrics) of every policy at its defaults, with its value at
the end. It has 10,000 periods and 400 replications, on the two arms 0.9 and 0.8 and on ten arms (Garivier and Cappe,
2011). The dashed line is log(t) times the sum over arms of gap / KL(mean, best mean). If a policy's regret is
subpolynomial on every bandit, regret / log(t) cannot stay below this sum (Lai and Robbins, 1985). The policies in
colour reach it asymptotically. The bound says nothing about a single horizon, so a curve may lie below the line; its
growth must approach the line's. A policy without colour need not be poor. Some policies assume rewards of another
scale or distribution, some discount old rewards because arms may change, and some are designed for adversarial
rewards. `python scripts/regret_figure.py` draws the figure.

"""


def overview(policy_class: type) -> str:
    """Return the row of a policy in the table."""
    name, policy = policy_class.__name__, as_policy(text_forms.example(policy_class), ARMS)
    cells = [
        f"[`{name}`](#{name.lower()})",
        f"`{text_forms.write(policy, brief=True)}`",
        mark(is_randomised(policy, ARMS)),
        mark(may_be_batched(policy)),
        " or ".join(usable_contexts(policy, ARMS)),
    ]
    return f"| {' | '.join(cells)} |\n"


def mark(holds: bool) -> str:  # noqa: FBT001
    return "yes" if holds else ""


def may_be_batched(policy: Policy) -> bool:
    """Return whether `Batched` accepts a policy."""
    try:
        Batched(policy, 2).check(ARMS)
    except Invalid:
        return False
    return True


def section(policy_class: type) -> str:
    """Return the rule of a policy, and a table of its parameters."""
    rule, _, arguments = (inspect.getdoc(policy_class) or "").partition("\nArgs:\n")
    fields: tuple[str, ...] = policy_class._fields  # type: ignore[attr-defined]  # a NamedTuple
    meanings = dict(
        re.findall(r"^(\w+): (.*(?:\n +.*)*)", textwrap.dedent(arguments), re.MULTILINE)
    )
    text = f"## `{policy_class.__name__}`\n\n{rule.strip()}\n\n"
    if fields:
        defaults = policy_class._field_defaults  # type: ignore[attr-defined]
        rows = [[f"`{field}`", str(defaults.get(field, "required"))] for field in fields]
        header = ["parameter", "default"]
        if meanings:
            header.append("meaning")
            rows = [
                [*row, " ".join(meanings[field].split())]
                for row, field in zip(rows, fields, strict=True)
            ]
        lines = [header, ["---"] * len(header), *rows]
        text += "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"
    return text


def page() -> str:
    """Return the page for the current policies."""
    classes = [item for item in POLICIES.values() if item.__module__.startswith("sameluck.")]
    blocks = [
        INTRODUCTION,
        "| policy | text form | randomised | in batches | needs users with |\n",
        "|---|---|---|---|---|\n",
        *map(overview, classes),
        REGRET,
        OTHER_PACKAGES.read_text(encoding="utf-8"),
        "\n",
        *map(section, classes),
    ]
    return "".join(blocks).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
