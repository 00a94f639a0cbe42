"""The check of a theorem: tests of measured numbers against what the theorem states, and the section with them.

The tests of one theorem together raise a false alarm with probability about `ALARM`, which is shared equally among
them. A bound on a standardised mean relies on the normal law, which with some hundred replications is correct to a
small factor even that far out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import kolmogorov, ndtri

from sameluck.arrays import Floats, Ints
from sameluck.paper.parts import (
    Estimate,
    Part,
    Record,
    ReportFigure,
    Section,
    Settings,
    Simulations,
    Table,
)
from sameluck.runs import Runs

ALARM = 1e-6
MOST_ROWS = 12


class TestResult(NamedTuple):
    """The result of one test."""

    quantity: str
    case: str  # which of several with the same quantity, such as the arm
    measured: float
    error: float | None  # Monte Carlo standard error; None if the number is exact
    relation: str  # measured = expected, measured <= expected, measured >= expected
    expected: float
    z: float | None
    far: float | None  # the z from which it fails
    passes: bool


PendingTest = Callable[[int], TestResult]  # a function of the number of tests that share `ALARM`
PendingTests = Iterator[PendingTest]


def equal(quantity: str, measured: Estimate, expected: float, case: str = "") -> PendingTest:
    """The measured mean is the expected number."""
    return partial(_z_test, (quantity, case), measured, "=", expected)


def at_most(quantity: str, measured: Estimate, limit: float, case: str = "") -> PendingTest:
    """The measured mean is not above the limit."""
    return partial(_z_test, (quantity, case), measured, "<=", limit)


def _z_test(
    names: tuple[str, str], measured: Estimate, relation: str, expected: float, tests: int
) -> TestResult:
    z = Estimate(measured.value - expected, measured.error).z
    sides = 2 if relation == "=" else 1
    far = float(-ndtri(ALARM / tests / sides))
    passes = (abs(z) if sides == 2 else z) <= far
    return TestResult(*names, *measured, relation, expected, z, far, passes)


def never(quantity: str, count: int, case: str = "") -> PendingTest:
    """An event that is impossible did not occur."""
    return lambda _: TestResult(quantity, case, count, None, "=", 0, None, None, count == 0)


def same_law(
    quantity: str, one: Floats | Ints, other: Floats | Ints, case: str = ""
) -> PendingTest:
    """Two independent samples have the same law: Kolmogorov and Smirnov's test, conservative if there are ties."""
    values = np.unique(np.concatenate([one, other]))
    steps = [np.searchsorted(np.sort(s), values, side="right") / len(s) for s in (one, other)]
    size = len(one) * len(other) / (len(one) + len(other))
    p_value = float(kolmogorov(math.sqrt(size) * float(np.abs(steps[0] - steps[1]).max())))
    return partial(_p_value_test, f"{quantity}, p-value", case, p_value)


def _p_value_test(quantity: str, case: str, p_value: float, tests: int) -> TestResult:
    least = ALARM / tests
    return TestResult(quantity, case, p_value, None, ">=", least, None, None, p_value >= least)


def check(statement: str, setting: str, pending: Sequence[PendingTest], **more: object) -> Record:
    """The result of a theorem's part: its statement, where it was checked, every test, and whether all pass."""
    tests = [evaluate(len(pending)) for evaluate in pending]
    return {
        "statement": statement,
        "setting": setting,
        "budget": ALARM,
        "looks": [one._asdict() for one in tests],
        "passes": all(one.passes for one in tests),
        **more,
    }


def theorem(
    name: str,
    title: str,
    statement: str,
    setting: str,
    simulations: Callable[[Settings], Simulations] = lambda _: {},
) -> Callable[[Callable[[Settings, Mapping[str, Runs]], PendingTests]], Part]:
    """A part from the function that yields its tests; `setting` is formatted with the settings."""

    def decorate(tests: Callable[[Settings, Mapping[str, Runs]], PendingTests]) -> Part:
        def analyse(settings: Settings, runs: Mapping[str, Runs]) -> Record:
            where = setting.format(**settings._asdict())
            return check(statement, where, list(tests(settings, runs)))

        return Part(name, title, simulations, analyse, sections)

    return decorate


def summary(checks: Mapping[str, Record]) -> Section:
    """One row per theorem; `checks` has its title as the key."""
    rows = []
    for title, result in checks.items():
        nearest = min(result["looks"], key=_margin)
        outcome = "holds" if result["passes"] else "FAILS"
        rows.append((title, len(result["looks"]), nearest["z"], nearest["far"], outcome))
    return Section(
        "The theorems, checked",
        "The tests of one statement together raise a false alarm about once in a million seeds. z is that of the "
        "test nearest to its limit; exact tests and tests by p-value have none.",
        Table("theorems", ("statement", "tests", "nearest z", "limit", "outcome"), rows),
    )


def sections(part: Part, result: Record, figure: ReportFigure | None = None) -> list[Section]:
    """The tests of one theorem; if there are many, for each quantity the one nearest to its limit."""
    tests = result["looks"]
    few = tests if len(tests) <= MOST_ROWS else _nearest_of_each_quantity(tests)
    fields = ("quantity", "case", "measured", "error", "relation", "expected", "z")
    rows = [(*(one[field] for field in fields), "yes" if one["passes"] else "NO") for one in few]
    header = ("quantity", "case", "measured", "error", "", "expected", "z", "holds")
    text = f"{result['statement']} Checked on {result['setting']}."
    if len(few) < len(tests):
        text += (
            f" Of {len(tests)} tests, the table has the one nearest to its limit for each quantity."
        )
    table = Table(f"theorem-{part.name}", header, rows)
    return [Section(part.title, text, table, figure, brief=False)]


def _nearest_of_each_quantity(tests: Sequence[Record]) -> list[Record]:
    rows = []
    for quantity in dict.fromkeys(one["quantity"] for one in tests):
        alike = [one for one in tests if one["quantity"] == quantity]
        nearest = min(alike, key=_margin)
        many = f"{nearest['case']} (of {len(alike)})" if len(alike) > 1 else nearest["case"]
        rows.append({**nearest, "case": many})
    return rows


def _margin(test: Record) -> float:
    """How far a test is from failing, in standard errors."""
    if test["z"] is None:
        return math.inf if test["passes"] else -math.inf
    return float(test["far"] - (abs(test["z"]) if test["relation"] == "=" else test["z"]))
