"""A log in place of an environment: `log.csv:arm,reward`, its path and its columns of arms and rewards."""

from __future__ import annotations

import csv
import re

from sameluck.errors import Invalid, shown

_TEXT_FORM = re.compile(r"\s*\w*\s*(\(.*)?", re.DOTALL)  # a name, with or without parameters
_LOG = re.compile(r"(?P<path>.+?\.(?:csv|jsonl|ndjson|parquet))(?::(?P<columns>.*))?", re.I)


def is_log(text: str) -> bool:
    """Whether it is the path of a log, with or without its columns, rather than the text form of an environment."""
    return _LOG.fullmatch(text) is not None or _TEXT_FORM.fullmatch(text) is None


def log_columns(text: str) -> tuple[str, str, str]:
    """The path and the columns of arms and rewards, which are written as in CSV; or `Invalid`."""
    path, _, columns = text.partition(":")
    if log := _LOG.fullmatch(text):
        path, columns = log["path"], log["columns"] or ""
    names = [name.strip() for name in next(csv.reader([columns], skipinitialspace=True), [])]
    if len(names) != 2 or "" in names:
        raise Invalid(
            f"{shown(text)} is neither an environment, such as bernoulli(0.7, 0.3), nor a log with its columns of "
            'arms and rewards, such as log.csv:arm,reward or log.csv:arm,"paid, net"'
        )
    return path, names[0], names[1]
