"""`Frames`: results as DataFrames, Arrow tables and xarray Datasets, and as they look in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any

from sameluck.errors import optional

FIRST = 8  # records that a notebook shows


class Frames:
    """Results that are records: as a pandas or polars DataFrame, an Arrow table or an xarray Dataset."""

    _index: tuple[str, ...] = ()  # the columns that tell records apart

    def to_dicts(self) -> Sequence[Mapping[str, object]]:
        """The records."""
        raise NotImplementedError

    def _columns(self) -> Mapping[str, Sequence[object]]:
        records = self.to_dicts()
        names = records[0] if records else ()
        return {name: [one[name] for one in records] for name in names}

    def to_pandas(self) -> Any:
        """The records as a pandas DataFrame. Needs `sameluck[data]`."""
        return optional("pandas", "data").DataFrame(self._columns())

    def to_polars(self) -> Any:
        """The records as a polars DataFrame. Needs `sameluck[data]`."""
        # Not strict: a column of whole numbers may have infinity further down, and is then one of floats.
        return optional("polars", "data").DataFrame(self._columns(), strict=False)

    def to_arrow(self) -> Any:
        """The records as an Arrow table. Needs `sameluck[data]`."""
        return optional("pyarrow", "data").table(self._columns())

    def to_xarray(self) -> Any:
        """The records as an xarray Dataset, an axis per column that tells them apart. Needs `sameluck[data]`."""
        optional("xarray", "data")
        return self.to_pandas().set_index(list(self._index)).to_xarray()

    def _repr_html_(self) -> str:
        """For notebooks: the text form, and the first records as a table."""
        columns = self._columns()
        count = len(next(iter(columns.values()), ()))
        rows = islice(zip(*columns.values(), strict=True), FIRST)
        body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
        more = f"<p>{FIRST} of {count:,} records; to_pandas() has all.</p>" if count > FIRST else ""
        head = f"<thead><tr>{_cells('th', columns)}</tr></thead>"
        return f"<pre>{escape(str(self))}</pre><table>{head}<tbody>{body}</tbody></table>{more}"


def _cells(tag: str, values: Iterable[object]) -> str:
    texts = (f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)
