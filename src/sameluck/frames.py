"""`Frames`: results as DataFrames and Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sameluck.errors import optional


class Frames:
    """Results that are records: as a pandas or polars DataFrame, or as an Arrow table."""

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
        return optional("polars", "data").DataFrame(self._columns())

    def to_arrow(self) -> Any:
        """The records as an Arrow table. Needs `sameluck[data]`."""
        return optional("pyarrow", "data").table(self._columns())
