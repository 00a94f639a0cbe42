"""Jinja templates of pages: one environment for reports, and one more for the dashboard, which adds its templates.

Jinja is imported when a page is made: estimates, printing and notebooks do not need it.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING

from sameluck.errors import optional

if TYPE_CHECKING:
    from jinja2 import Environment, Template

PACKAGE = "sameluck.reporting.pages"


@cache
def environment(*packages: str) -> Environment:
    """Return the templates of this package and of further packages; every value is escaped."""
    jinja2 = optional("jinja2", "plots")
    loaders = [jinja2.PackageLoader(package) for package in (PACKAGE, *packages)]
    result: Environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    result.filters["thousands"] = "{:,}".format
    result.filters["class_name"] = lambda value: type(value).__name__
    result.globals["version"] = version("sameluck")
    return result


def template(name: str) -> Template:
    return environment().get_template(name)


@cache
def stylesheet() -> str:
    return files(PACKAGE).joinpath("sameluck.css").read_text(encoding="utf-8")
