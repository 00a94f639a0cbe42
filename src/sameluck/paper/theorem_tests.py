"""Check of a theorem: tests of measured numbers against the theorem's statement, and the section that shows them.

The tests of one theorem together raise a false alarm with probability about `FALSE_ALARM`, shared equally among them.
The bound on a standardised mean relies on the normal distribution, which with some hundred replications is correct to
a small factor even that far out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import kolmogorov, ndtri

from sameluck.arrays import Floats, Ints
from sameluck.paper.chapters import (
    Chapter,
    Estimate,
    Record,
    ReportFigure,
    ReportTable,
    Section,
    Settings,
    Simulations,
)
from sameluck.runs import Runs

FALSE_ALARM = 1e-6
MAX_ROWS = 12


class TestResult(NamedTuple):
    quantity: str
    case: str  # distinguishes tests of the same quantity, such as the arm
    measured: float
    error: float | None  # Monte Carlo standard error; None if the number is exact
    relation: str  # measured = expected, measured <= expected, measured >= expected
    expected: float
    z: float | None
    far: float | None  # the z from which the test fails
    passes: bool


PendingTest = Callable[[int], TestResult]  # of the number of tests that share `FALSE_ALARM`
PendingTests = Iterator[PendingTest]


def equal(quantity: str, measured: Estimate, expected: float, case: str = "") -> PendingTest:
    """Return a test that the measured mean is the expected number."""
    return partial(_z_test, (quantity, case), measured, "=", expected)


def at_most(quantity: str, measured: Estimate, limit: float, case: str = "") -> PendingTest:
    """Return a test that the measured mean is not above the limit."""
    return partial(_z_test, (quantity, case), measured, "<=", limit)


def _z_test(
    names: tuple[str, str], measured: Estimate, relation: str, expected: float, tests: int
) -> TestResult:
    z = Estimate(measured.value - expected, measured.error).z
    sides = 2 if relation == "=" else 1
    far = float(-ndtri(FALSE_ALARM / tests / sides))
    passes = (abs(z) if sides == 2 else z) <= far
    return TestResult(*names, *measured, relation, expected, z, far, passes)


def never(quantity: str, count: int, case: str = "") -> PendingTest:
    """Return a test that an impossible event did not occur."""
    return lambda _: TestResult(quantity, case, count, None, "=", 0, None, None, count == 0)


def same_distribution(
    quantity: str, first: Floats | Ints, second: Floats | Ints, case: str = ""
) -> PendingTest:
    """Return a Kolmogorov-Smirnov test that two independent samples have one distribution, conservative with ties."""
    values = np.unique(np.concatenate([first, second]))
    steps = [np.searchsorted(np.sort(s), values, side="right") / len(s) for s in (first, second)]
    size = len(first) * len(second) / (len(first) + len(second))
    p_value = float(kolmogorov(math.sqrt(size) * float(np.abs(steps[0] - steps[1]).max())))

    def evaluate(tests: int) -> TestResult:
        numbers = p_value, None, ">=", FALSE_ALARM / tests, None, None
        return TestResult(f"{quantity}, p-value", case, *numbers, p_value >= FALSE_ALARM / tests)

    return evaluate


def check(statement: str, setting: str, pending: Sequence[PendingTest], **more: object) -> Record:
    """Return the result of a theorem's chapter: its statement, the setting of the check, and all tests."""
    tests = [evaluate(len(pending)) for evaluate in pending]
    return {
        "statement": statement,
        "setting": setting,
        "budget": FALSE_ALARM,
        "looks": [test._asdict() for test in tests],
        "passes": all(test.passes for test in tests),
        **more,
    }


def theorem(
    name: str,
    title: str,
    statement: str,
    setting: str,
    simulations: Callable[[Settings], Simulations] = lambda _: {},
) -> Callable[[Callable[[Settings, Mapping[str, Runs]], PendingTests]], Chapter]:
    """Make a chapter from the function that yields its tests; `setting` is formatted with the settings."""

    def decorate(tests: Callable[[Settings, Mapping[str, Runs]], PendingTests]) -> Chapter:
        def analyse(settings: Settings, runs: Mapping[str, Runs]) -> Record:
            checked_on = setting.format(**settings._asdict())
            return check(statement, checked_on, list(tests(settings, runs)))

        return Chapter(name, title, simulations, analyse, sections)

    return decorate


def summary(checks: Mapping[str, Record]) -> Section:
    """Return the table of all theorems; the keys of `checks` are their titles."""
    rows = []
    for title, result in checks.items():
        nearest = min(result["looks"], key=_margin)
        outcome = "holds" if result["passes"] else "FAILS"
        rows.append((title, len(result["looks"]), nearest["z"], nearest["far"], outcome))
    return Section(
        "The theorems, checked",
        "The tests of one statement together raise a false alarm about once in a million seeds. The z shown belongs "
        "to the test nearest to its limit; exact tests and tests by p-value have no z.",
        ReportTable("theorems", ("statement", "tests", "nearest z", "limit", "outcome"), rows),
    )


def sections(chapter: Chapter, result: Record, figure: ReportFigure | None = None) -> list[Section]:
    """Return the tests of one theorem; if there are many, the test nearest to its limit for each quantity."""
    tests = result["looks"]
    shown = tests if len(tests) <= MAX_ROWS else _nearest_of_each_quantity(tests)
    fields = ("quantity", "case", "measured", "error", "relation", "expected", "z")
    rows = [
        (*(test[field] for field in fields), "yes" if test["passes"] else "NO") for test in shown
    ]
    header = ("quantity", "case", "measured", "error", "", "expected", "z", "holds")
    text = f"{result['statement']} Checked on {result['setting']}."
    if len(shown) < len(tests):
        text += f" Of {len(tests)} tests, the table shows the test nearest to its limit for each quantity."
    table = ReportTable(f"theorem-{chapter.name}", header, rows)
    return [Section(chapter.title, text, table, figure, brief=False)]


def _nearest_of_each_quantity(tests: Sequence[Record]) -> list[Record]:
    rows = []
    for quantity in dict.fromkeys(test["quantity"] for test in tests):
        group = [test for test in tests if test["quantity"] == quantity]
        nearest = min(group, key=_margin)
        case = f"{nearest['case']} (of {len(group)})" if len(group) > 1 else nearest["case"]
        rows.append({**nearest, "case": case})
    return rows


def _margin(test: Record) -> float:
    """Return the distance of a test from failing, in standard errors."""
    if test["z"] is None:
        return math.inf if test["passes"] else -math.inf
    return float(test["far"] - (abs(test["z"]) if test["relation"] == "=" else test["z"]))
