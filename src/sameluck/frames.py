"""`Frames`: results as DataFrames, Arrow tables, xarray Datasets and notebook tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any

import numpy as np

from sameluck.errors import optional

SHOWN_RECORDS = 8  # in a notebook


class Frames:
    """Results with records, as a pandas or polars DataFrame, an Arrow table or an xarray Dataset."""

    _index: tuple[str, ...] = ()  # columns that identify a record

    def to_dicts(self) -> Sequence[Mapping[str, object]]:
        """Return the records."""
        raise NotImplementedError

    def _records(self) -> list[dict[str, Any]]:
        """Return the records of arrays in `_columns`, as plain values."""
        lists = {name: np.asarray(column).tolist() for name, column in self._columns().items()}
        return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]

    def _columns(self) -> Mapping[str, Sequence[object]]:
        records = self.to_dicts()
        names = records[0] if records else ()
        return {name: [record[name] for record in records] for name in names}

    def to_pandas(self) -> Any:
        """Return the records as a pandas DataFrame. Needs `sameluck[data]`."""
        return optional("pandas", "data").DataFrame(self._columns())

    def to_polars(self) -> Any:
        """Return the records as a polars DataFrame. Needs `sameluck[data]`."""
        # Not strict, because a column of whole numbers becomes a column of floats if infinity follows.
        return optional("polars", "data").DataFrame(self._columns(), strict=False)

    def to_arrow(self) -> Any:
        """Return the records as an Arrow table. Needs `sameluck[data]`."""
        return optional("pyarrow", "data").table(self._columns())

    def to_xarray(self) -> Any:
        """Return the records as an xarray Dataset with an axis per identifying column. Needs `sameluck[data]`."""
        optional("xarray", "data")
        return self.to_pandas().set_index(list(self._index)).to_xarray()

    def _repr_html_(self) -> str:
        """Return the text form and the first records as a table, for notebooks."""
        columns = self._columns()
        count = len(next(iter(columns.values()), ()))
        rows = islice(zip(*columns.values(), strict=True), SHOWN_RECORDS)
        body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
        shown = f"<p>{SHOWN_RECORDS} of {count:,} records; to_pandas() has all.</p>"
        more = shown if count > SHOWN_RECORDS else ""
        head = f"<thead><tr>{_cells('th', columns)}</tr></thead>"
        return f"<pre>{escape(str(self))}</pre><table>{head}<tbody>{body}</tbody></table>{more}"


def _cells(tag: str, values: Iterable[object]) -> str:
    texts = (f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)
