"""Reading a production log of one policy: which arm each user got and what it paid, in order.

`read_log` takes a CSV, JSON Lines or Parquet file, a pandas or polars DataFrame, or records (mappings). It keeps what
can be used and says of every other row what is wrong with it; `refuse_problems` makes an error of that.
"""

from __future__ import annotations

from sameluck.live.logs.rows import Log, Problem, read_log, refuse_problems
from sameluck.live.logs.sources import Columns

__all__ = ["Columns", "Log", "Problem", "read_log", "refuse_problems"]
